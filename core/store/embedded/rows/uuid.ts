// UUIDs as 16 bytes, where their text takes 36.
import type { Value } from '../files/sqlite.ts'

const uuidBytes = 16
const textLength = 36
/** Where the text has a dash, and the first digit of each byte. */
const dashes = [8, 13, 18, 23] as const
const digits = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34] as const
const dash = 45
/** The digits as texts have them, and their values by their codes; 16 for what is no digit. */
const codes = Buffer.from('0123456789abcdef')
const values = new Uint8Array(128).fill(16)
for (const [value, code] of codes.entries()) values[code] = value

const text = Buffer.alloc(textLength)

/** Writes the bytes of a UUID; returns false, having written anything, where it is none, or not in small letters. */
export function writeUuid(given: string, bytes: Uint8Array, at: number): boolean {
  if (given.length !== textLength) return false
  for (const place of dashes) if (given.charCodeAt(place) !== dash) return false
  for (let i = 0; i < uuidBytes; i++) {
    const place = digits[i]!
    const high = values[given.charCodeAt(place)] ?? 16
    const low = values[given.charCodeAt(place + 1)] ?? 16
    if (high > 15 || low > 15) return false
    bytes[at + i] = high * 16 + low
  }
  return true
}

/** Reads the text of a UUID. */
export function readUuid(bytes: Uint8Array, at: number): string {
  for (let i = 0; i < uuidBytes; i++) {
    const [byte, place] = [bytes[at + i]!, digits[i]!]
    text[place] = codes[byte >> 4]!
    text[place + 1] = codes[byte & 15]!
  }
  for (const place of dashes) text[place] = dash
  return text.toString('latin1')
}

/** An id as a column has it that takes both: as bytes where it is a UUID, else as it is. */
export function shortId(id: string): Value {
  const bytes = new Uint8Array(uuidBytes)
  return writeUuid(id, bytes, 0) ? bytes : id
}

/** What a column may have for an id: bind both where `request_id IN (?, ?)`. */
export function idForms(id: string): [Value, Value] {
  return [id, shortId(id)]
}

/** The text of an id, as a column has it. */
export function idIn(value: Value | undefined): string {
  return value instanceof Uint8Array && value.length === uuidBytes ? readUuid(value, 0) : String(value)
}
