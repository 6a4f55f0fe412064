// Passes over the bytes of strings, most of them many at a time.

export const quote: u8 = 0x22
const backslash: u8 = 0x5c

/** Where in an escape a string stands; the numbers between are of hexadecimal digits that it still has to have. */
export enum Escape { outside, digits = 4, behindBackslash, broken }

export let escape: Escape = Escape.outside
/** The string has no escapes and nothing beyond ASCII, and is short. */
export let plain: bool = true
/** It has bytes beyond ASCII. */
export let high: bool = false

/** Before the first byte of a string. */
export function openString(): void {
  escape = Escape.outside
  plain = true
  high = false
}

/**
 * Goes on in a string: returns the place of the quote that ends it, of what may not stand there, or `limit`. An escape
 * that is broken may have begun in the stretch before.
 */
export function passString(next: usize, limit: usize): usize {
  while (next < limit) {
    if (escape != Escape.outside) {
      const taken = escape == Escape.behindBackslash ? 1 : 6 - escape
      takeEscape(load<u8>(next))
      if (escape == Escape.broken) return next - taken
      next++
      continue
    }
    const bytes = v128.load(next)
    const ahead = min(ctz(i8x16.bitmask(stops(bytes)) | 0x10000), <i32>(limit - next))
    if ((i8x16.bitmask(bytes) & ((1 << ahead) - 1)) != 0) high = true
    next += ahead
    if (ahead == 16) {
      if (next + 64 <= limit) {
        next = skip(next, limit)
        plain = false
      }
    } else if (next < limit) {
      if (load<u8>(next) != backslash) {
        if (high) plain = false
        return next
      }
      plain = false
      // Where text is written in escapes, one follows the other.
      while (next + 6 <= limit && load<u8>(next) == backslash) {
        const length = escapeLength(next)
        if (length == 0) {
          escape = Escape.broken
          return next
        }
        next += length
      }
      if (next < limit && load<u8>(next) == backslash) {
        escape = Escape.behindBackslash
        next++
      }
    }
  }
  return limit
}

/** Takes the next byte of an escape, in which the stretch may end. */
function takeEscape(byte: u8): void {
  if (escape <= Escape.digits) escape = isHex(byte) ? escape - 1 : Escape.broken
  else if (byte == 0x75) escape = Escape.digits
  else escape = isEscape(byte) ? Escape.outside : Escape.broken
}

/** Quotes, backslashes and control characters. */
@inline
function stops(bytes: v128): v128 {
  return v128.or(
    v128.or(i8x16.eq(bytes, i8x16.splat(quote)), i8x16.eq(bytes, i8x16.splat(backslash))),
    i8x16.le_u(bytes, i8x16.splat(0x1f))
  )
}

/** Of the escape that begins here, 0 when it is none. */
@inline
function escapeLength(start: usize): usize {
  const byte = load<u8>(start, 1)
  if (byte != 0x75) return isEscape(byte) ? 2 : 0
  return isHex(load<u8>(start, 2)) & isHex(load<u8>(start, 3)) & isHex(load<u8>(start, 4)) & isHex(load<u8>(start, 5)) ? 6 : 0
}

/** What skip() compares with: from memory, as a constant would be made anew for every use. */
const comparands: usize = memory.data<u8>([quote, backslash, 0x6e, 0x74, 0x1f])

/**
 * Passes over 64 bytes at a time, and in the last of them as far as to what stops a string there: not the escapes \n,
 * \t and \". A quote is escaped by the byte before it, as a backslash behind another one is not passed over.
 */
function skip(next: usize, limit: usize): usize {
  const quotes = v128.load_splat<u8>(comparands)
  const backslashes = v128.load_splat<u8>(comparands, 1)
  const breaks = v128.load_splat<u8>(comparands, 2)
  const tabs = v128.load_splat<u8>(comparands, 3)
  const controls = v128.load_splat<u8>(comparands, 4)
  while (next + 64 <= limit) {
    const a = v128.load(next)
    const b = v128.load(next, 16)
    const c = v128.load(next, 32)
    const d = v128.load(next, 48)
    const ofA = unusual(a, v128.load(next - 1), quotes, backslashes, breaks, tabs)
    const ofB = unusual(b, v128.load(next + 15), quotes, backslashes, breaks, tabs)
    const ofC = unusual(c, v128.load(next + 31), quotes, backslashes, breaks, tabs)
    const ofD = unusual(d, v128.load(next + 47), quotes, backslashes, breaks, tabs)
    // Signed, bytes beyond ASCII are below control characters.
    const lowest = i8x16.min_s(i8x16.min_s(a, b), i8x16.min_s(c, d))
    let any = v128.or(v128.or(ofA, ofB), v128.or(ofC, ofD))
    if (v128.any_true(i8x16.le_s(lowest, controls))) {
      if (i8x16.bitmask(lowest) != 0) high = true
      any = v128.or(any, i8x16.le_u(i8x16.min_u(i8x16.min_u(a, b), i8x16.min_u(c, d)), controls))
    }
    if (v128.any_true(any)) {
      const found = maskOf(ofA, a, controls) | (maskOf(ofB, b, controls) << 16) | (maskOf(ofC, c, controls) << 32) | (maskOf(ofD, d, controls) << 48)
      next += <usize>ctz(found)
      break
    }
    next += 64
  }
  return load<u8>(next - 1) == backslash ? next - 1 : next
}

/** Quotes that no backslash stands before, and of what a backslash stands before all but quotes, n and t. */
@inline
function unusual(bytes: v128, before: v128, quotes: v128, backslashes: v128, breaks: v128, tabs: v128): v128 {
  const isLetter = v128.or(i8x16.eq(bytes, breaks), i8x16.eq(bytes, tabs))
  return v128.andnot(v128.xor(i8x16.eq(bytes, quotes), i8x16.eq(before, backslashes)), isLetter)
}

@inline
function maskOf(found: v128, bytes: v128, controls: v128): i64 {
  return <i64>i8x16.bitmask(v128.or(found, i8x16.le_u(bytes, controls)))
}

@inline
function isHex(byte: u8): bool {
  return (<u8>(byte - 0x30) < 10) | (<u8>((byte | 0x20) - 0x61) < 6)
}

/** What may stand alone behind a backslash. */
@inline
function isEscape(byte: u8): bool {
  switch (byte) {
    case quote: case backslash: case 0x2f: case 0x62: case 0x66: case 0x6e: case 0x72: case 0x74: return true
    default: return false
  }
}
