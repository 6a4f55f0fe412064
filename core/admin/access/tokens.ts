// The tokens of operators: how they are made, written, and told from mistyped ones.
import { createHash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { base62 } from '../tenancy/base62.ts'

/** What a token begins with, so that it is recognised where it should not be. */
export const tokenPrefix = 'slu_adm_'

const form = /^slu_adm_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/

/** A token and what is kept of it. */
export interface NewToken {
  readonly token: string
  /** SHA-256 in hexadecimal. */
  readonly sha256: string
  /** Its first and last characters. */
  readonly hint: string
}

/** Makes a token: the prefix, 32 random bytes, and a checksum of both. */
export function newToken(): NewToken {
  const body = tokenPrefix + base62(randomBytes(32), 43)
  const token = body + checksum(body)
  return { token, sha256: digestOf(token), hint: `${token.slice(0, tokenPrefix.length + 4)}…${token.slice(-4)}` }
}

/** Whether a text is a token that was made by {@link newToken}, whoever made it; false when it was mistyped. */
export function isWhole(token: string): boolean {
  const [, body, sum] = form.exec(token) ?? []
  return body !== undefined && checksum(tokenPrefix + body) === sum
}

/** The hash by which a token is kept. 256 random bits need no slow one. */
export function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}

function checksum(text: string): string {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(crc32(text))
  return base62(bytes, 6)
}
