// Writes bytes as letters and digits, so that a double click selects the whole of a secret.

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Writes bytes with so many letters and digits: 43 for 32 bytes, 6 for 4. */
export function base62(bytes: Buffer, length: number): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`)
  let text = ''
  for (; text.length < length; rest /= 62n) text += alphabet[Number(rest % 62n)]
  return text
}
