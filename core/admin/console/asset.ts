// What a file of the console is once it can be sent: its bytes, and the same compressed.
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

const brotlied = promisify(brotliCompress)
const gzipped = promisify(gzip)

/** A file as browsers get it. */
export interface Asset {
  readonly type: string
  /** Strong, in quotes. */
  readonly etag: string
  /** Whether its name changes with its content, so that browsers may keep it. */
  readonly lasting?: boolean
  readonly body: Uint8Array
  readonly br: Uint8Array
  readonly gz: Uint8Array
}

/** Makes an asset. It is compressed beside the loop of the data path. `quality` is that of Brotli, up to 11. */
export async function assetOf(type: string, body: Uint8Array, quality = 5): Promise<Asset> {
  const params = { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_SIZE_HINT]: body.length }
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
  const [br, gz] = await Promise.all([brotlied(body, { params }), gzipped(body, { level: 9 })])
  return { type, etag, body, br, gz }
}

/** What follows the question mark in an address whose content never changes. */
export function versionOf({ etag }: Asset): string {
  return `v=${etag.slice(1, 9)}`
}

/** The types of files by the end of their names. */
export const types = {
  module: 'text/javascript; charset=utf-8',
  style: 'text/css; charset=utf-8',
  picture: 'image/svg+xml',
  page: 'text/html; charset=utf-8'
} as const
