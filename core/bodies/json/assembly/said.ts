// Counts what the strings and numbers of a member say, for estimates: bytes of text, and pictures, sounds and files.
import { Escape, escape, quote, spelling } from './string'

/** What the strings under a key are. ../kinds.ts says which keys are of which kind. */
const enum Kind { text, silent, media, result }

/** By the place of a name: the number of its entry, or 0. An entry is a name of up to 16 bytes, its length and kind. */
const places: usize = 96 * 1024
const entries: usize = 97 * 1024
const entryBytes: usize = 32
const longestName: i32 = 16

/** Bytes of a string that show whether it is text, and of one that may be something else. */
const nearBytes: i32 = 256
const resultBytes: i32 = 1024
/** The bytes that a number counts as: lists of numbers are lists of tokens. */
const numberBytes: i32 = 4

/** The present member: bytes of text, escapes as the characters that they stand for; and pictures, sounds and files. */
export let said: i32 = 0
export let media: i32 = 0
/** Of the latest key, until the first value after it has ended: a string, a number, a word or a container. */
export let kind: Kind = Kind.text
/** How many bytes of the present string are still to be looked at, and whether none so far shows that it is text. */
export let near: i32 = 0
export let opaque: bool = false

/** A text begins. */
export function beginSaid(): void {
  beginMember()
  near = 0
}

/** A member of the outermost object begins. */
export function beginMember(): void {
  said = 0
  media = 0
  kind = Kind.text
}

/** A key has ended. `place`: of its name among the places of names. */
export function takeKey(name: usize, length: i32, place: usize): void {
  kind = Kind.text
  const number = load<u8>(places + place)
  if (number == 0) return
  const entry = entries + number * entryBytes
  if (load<u8>(entry, longestName) != length) return
  const wanted = (1 << length) - 1
  const same = i8x16.bitmask(i8x16.eq(v128.load(name), v128.load(entry)))
  if ((same & wanted) == wanted) kind = load<u8>(entry, longestName + 1)
}

/** What strings come is not known by a key: its value has ended, or not every byte of it is plainly there. */
export function dropKey(): void {
  kind = Kind.text
}

/** A string that is a value begins. */
export function beginText(): void {
  opaque = kind >= Kind.media
  near = opaque ? nearBytes : 0
}

/**
 * Looks at the bytes near the beginning of a string for what neither base64 nor an address has: a space, a quote, or a
 * byte beyond ASCII.
 */
export function look(next: usize, limit: usize): void {
  let behind = escape == Escape.behindBackslash
  for (; near > 0 && next < limit; near--, next++) {
    const byte = load<u8>(next)
    if (byte == 0x20 || byte >= 0x80 || (behind && byte == quote)) opaque = false
    if (!opaque || (byte == quote && !behind)) near = 1
    behind = byte == 0x5c && !behind
  }
}

/** A string that is a value has ended. `length`: as it is written, without its quotes. */
export function endText(length: i32): void {
  if (opaque && (kind == Kind.media || length >= resultBytes)) media++
  else if (kind != Kind.silent) said += length - spelling
  dropKey()
}

/** A number has ended. */
export function endNumber(): void {
  said += numberBytes
  dropKey()
}
