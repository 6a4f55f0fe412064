// What a file of the console is once it can be sent: its bytes, and the same compressed.
import { createHash } from 'node:crypto'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

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

/** Makes an asset. It compresses, which takes milliseconds for 100 kB. `quality` is that of Brotli, up to 11. */
export function assetOf(type: string, body: Uint8Array, quality = 5): Asset {
  const params = { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_SIZE_HINT]: body.length }
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
  return { type, etag, body, br: brotliCompressSync(body, { params }), gz: gzipSync(body, { level: 9 }) }
}

/** The types of files by the end of their names. */
export const types = {
  module: 'text/javascript; charset=utf-8',
  style: 'text/css; charset=utf-8',
  picture: 'image/svg+xml',
  page: 'text/html; charset=utf-8'
} as const
