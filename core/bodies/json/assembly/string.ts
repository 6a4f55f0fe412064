// Skips the bytes of strings, usually many at a time.

export const quote: u8 = 0x22
const backslash: u8 = 0x5c

/** Where a string is within an escape. The values from 1 to 4 count the hexadecimal digits that must still come. */
export enum Escape { outside, digits = 4, behindBackslash, broken }

export let escape: Escape = Escape.outside
/** Whether the string has no escapes and no bytes beyond ASCII, and is short. */
export let plain: bool = true
/** Whether it has bytes beyond ASCII. */
export let high: bool = false
/** By how many bytes its escapes are longer than the characters that they stand for. */
export let spelling: i32 = 0
/** What an escape with four digits, of up to three bytes, and any other one add to it. */
const wideSpelling: i32 = 3
const shortSpelling: i32 = 1

/** Prepares for the first byte of a string. */
export function openString(): void {
  escape = Escape.outside
  plain = true
  high = false
  spelling = 0
}

/**
 * Continues in a string. Returns the place of its closing quote, of a byte that is not allowed, or `limit`. A broken
 * escape may have begun in the stretch before.
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
      // In text that consists of escapes, one follows the other.
      while (next + 6 <= limit && load<u8>(next) == backslash) {
        const length = escapeLength(next)
        if (length == 0) {
          escape = Escape.broken
          return next
        }
        spelling += length == 2 ? shortSpelling : wideSpelling
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

/** Takes the next byte of an escape that the end of a stretch has cut. */
function takeEscape(byte: u8): void {
  if (escape <= Escape.digits) escape = isHex(byte) ? escape - 1 : Escape.broken
  else if (byte == 0x75) {
    escape = Escape.digits
    spelling += wideSpelling
  } else {
    escape = isEscape(byte) ? Escape.outside : Escape.broken
    spelling += shortSpelling
  }
}

/** The bytes that are quotes, backslashes or control characters. */
@inline
function stops(bytes: v128): v128 {
  return v128.or(
    v128.or(i8x16.eq(bytes, i8x16.splat(quote)), i8x16.eq(bytes, i8x16.splat(backslash))),
    i8x16.le_u(bytes, i8x16.splat(0x1f))
  )
}

/** The length of the escape that begins here; 0 when it is not valid. */
@inline
function escapeLength(start: usize): usize {
  const byte = load<u8>(start, 1)
  if (byte != 0x75) return isEscape(byte) ? 2 : 0
  return isHex(load<u8>(start, 2)) & isHex(load<u8>(start, 3)) & isHex(load<u8>(start, 4)) & isHex(load<u8>(start, 5)) ? 6 : 0
}

/** The bytes that skip() compares with. They are loaded from memory, as constants would be built again for each use. */
const comparands: usize = memory.data<u8>([quote, backslash, 0x6e, 0x74, 0x1f])

/** Blocks of which the escapes are counted in bytes, at most four a block, before the counts are added up. */
const countedBlocks: i32 = 63

/**
 * Skips 64 bytes at a time, up to the first byte that needs attention. The escapes \n, \t and \" are skipped too, and
 * counted. A quote right after a backslash is escaped, because two backslashes in a row are never skipped.
 */
function skip(next: usize, limit: usize): usize {
  const quotes = v128.load_splat<u8>(comparands)
  const backslashes = v128.load_splat<u8>(comparands, 1)
  const breaks = v128.load_splat<u8>(comparands, 2)
  const tabs = v128.load_splat<u8>(comparands, 3)
  const controls = v128.load_splat<u8>(comparands, 4)
  let escapes = i8x16.splat(0)
  let blocks = 0
  while (next + 64 <= limit) {
    const a = v128.load(next)
    const b = v128.load(next, 16)
    const c = v128.load(next, 32)
    const d = v128.load(next, 48)
    const behindA = i8x16.eq(v128.load(next - 1), backslashes)
    const behindB = i8x16.eq(v128.load(next + 15), backslashes)
    const behindC = i8x16.eq(v128.load(next + 31), backslashes)
    const behindD = i8x16.eq(v128.load(next + 47), backslashes)
    const ofA = unusual(a, behindA, quotes, breaks, tabs)
    const ofB = unusual(b, behindB, quotes, breaks, tabs)
    const ofC = unusual(c, behindC, quotes, breaks, tabs)
    const ofD = unusual(d, behindD, quotes, breaks, tabs)
    // As signed numbers, bytes beyond ASCII are lower than control characters.
    const lowest = i8x16.min_s(i8x16.min_s(a, b), i8x16.min_s(c, d))
    let any = v128.or(v128.or(ofA, ofB), v128.or(ofC, ofD))
    if (v128.any_true(i8x16.le_s(lowest, controls))) {
      if (i8x16.bitmask(lowest) != 0) high = true
      any = v128.or(any, i8x16.le_u(i8x16.min_u(i8x16.min_u(a, b), i8x16.min_u(c, d)), controls))
    }
    if (v128.any_true(any)) {
      const found = maskOf(unlike(ofA, a, controls), unlike(ofB, b, controls), unlike(ofC, c, controls), unlike(ofD, d, controls))
      const passed = ctz(found)
      spelling += shortSpelling * <i32>popcnt(maskOf(behindA, behindB, behindC, behindD) & ((<i64>1 << passed) - 1))
      next += <usize>passed
      break
    }
    escapes = i8x16.sub(escapes, i8x16.add(i8x16.add(behindA, behindB), i8x16.add(behindC, behindD)))
    if (++blocks == countedBlocks) {
      spelling += shortSpelling * sum(escapes)
      escapes = i8x16.splat(0)
      blocks = 0
    }
    next += 64
  }
  spelling += shortSpelling * sum(escapes)
  return load<u8>(next - 1) == backslash ? next - 1 : next
}

/** Marks quotes without a backslash before them, and other bytes than quote, n and t with one. */
@inline
function unusual(bytes: v128, behind: v128, quotes: v128, breaks: v128, tabs: v128): v128 {
  const isLetter = v128.or(i8x16.eq(bytes, breaks), i8x16.eq(bytes, tabs))
  return v128.andnot(v128.xor(i8x16.eq(bytes, quotes), behind), isLetter)
}

@inline
function unlike(found: v128, bytes: v128, controls: v128): v128 {
  return v128.or(found, i8x16.le_u(bytes, controls))
}

@inline
function maskOf(a: v128, b: v128, c: v128, d: v128): i64 {
  return <i64>i8x16.bitmask(a) | (<i64>i8x16.bitmask(b) << 16) | (<i64>i8x16.bitmask(c) << 32) | (<i64>i8x16.bitmask(d) << 48)
}

/** The sum of sixteen bytes. */
@inline
function sum(counts: v128): i32 {
  const pairs = i32x4.extadd_pairwise_i16x8_u(i16x8.extadd_pairwise_i8x16_u(counts))
  return i32x4.extract_lane(pairs, 0) + i32x4.extract_lane(pairs, 1) + i32x4.extract_lane(pairs, 2) + i32x4.extract_lane(pairs, 3)
}

@inline
function isHex(byte: u8): bool {
  return (<u8>(byte - 0x30) < 10) | (<u8>((byte | 0x20) - 0x61) < 6)
}

/** Whether a letter is an escape by itself after a backslash. */
@inline
function isEscape(byte: u8): bool {
  switch (byte) {
    case quote: case backslash: case 0x2f: case 0x62: case 0x66: case 0x6e: case 0x72: case 0x74: return true
    default: return false
  }
}
