// Makes the secret of a key.
import { createHash, randomBytes } from 'node:crypto'
import { base62 } from './base62.ts'

/** A fresh secret with 256 bits of chance, and its SHA-256 in hexadecimal digits, which is all that is kept of it. */
export function newKeySecret(): { secret: string; sha256: string } {
  const secret = `sk-${base62(randomBytes(32), 43)}`
  return { secret, sha256: createHash('sha256').update(secret).digest('hex') }
}
