// Checks that a text is one JSON object and notes where its members lie. AssemblyScript; what it is for stands in ../README.md.
import { escape, Escape, high, openString, passString, plain, quote } from './string'

// Places in memory, beside those of string.ts. Behind the input is room, so that 16 bytes may be looked at from anywhere in it.
const results: usize = 0
const stack: usize = 32
const table: usize = 1024
const input: usize = 16 * 1024

/** As many members fit into the table. */
const capacity: i32 = 512
const memberBytes: i32 = 20

/** Containers inside the value of a member. */
const maxDepth: i32 = 512

const enum Status { done, more, full, failed }

/** What comes next: after white space as far as `nothing`, and inside a token behind it. */
const enum State { object, firstKey, key, colon, value, firstItem, comma, nothing, string, number, word, refused }

/** The part of a number that its last byte belonged to. */
const enum Part { minus, zero, whole, point, fraction, mark, sign, exponent }

/** What the text was refused for, in the order of the messages in ../scan.ts. */
const enum Reason {
  object, key, colon, value, comma, commaInObject, commaInArray, surplus, depth, fraction, exponent, open, escape, control
}

let state: State = State.object
/** Containers around the place, and whether the innermost is an object. */
let depth: i32 = 0
let inObject: bool = false

/** The stretch. */
let at: usize = input
let end: usize = input
/** What is subtracted from a place in memory to make it one in the text. */
let origin: i32 = 0

/** The string is a key. */
let isKey: bool = false
/** Of a number. */
let part: Part = Part.minus
/** Of a word: its bytes still to come, the next one lowest. */
let letters: u32 = 0
/** Of a number or a word. */
let tokenStart: i32 = 0

/** Bytes beyond ASCII in any string. */
let anyHigh: bool = false
let objectStart: i32 = 0
let members: i32 = 0
let keyStart: i32 = 0
let keyEnd: i32 = 0
let plainKey: bool = false
let valueStart: i32 = 0
let reason: Reason = Reason.object
let failedAt: i32 = 0

/** Begins with the first stretch of a text. `last`: there is no other. */
export function begin(length: i32, last: bool): Status {
  state = State.object
  depth = 0
  anyHigh = false
  origin = <i32>input
  end = input
  return proceed(length, last)
}

/** Goes on with the next stretch. */
export function proceed(length: i32, last: bool): Status {
  origin -= <i32>(end - input)
  at = input
  end = input + length
  return resume(last)
}

/** Goes on when the table was full and has been read. */
export function resume(last: bool): Status {
  members = 0
  let status = run()
  if (status == Status.more && last) status = finish()
  store<i32>(results, members)
  store<i32>(results, objectStart, 4)
  store<i32>(results, i32(!anyHigh), 8)
  store<i32>(results, reason, 12)
  store<i32>(results, failedAt, 16)
  return status
}

function run(): Status {
  while (at < end) {
    const byte = load<u8>(at)
    if (isSpace(byte) && state <= State.nothing) {
      at++
      continue
    }
    switch (state) {
      case State.object:
        if (byte != 0x7b) fail(Reason.object)
        else {
          objectStart = place()
          open(true)
        }
        break
      case State.firstKey:
      case State.key:
        if (byte == 0x7d && state == State.firstKey) close()
        else if (byte == quote) {
          if (depth == 1) keyStart = place()
          beginString(true)
        } else fail(Reason.key)
        break
      case State.colon:
        if (byte != 0x3a) fail(Reason.colon)
        else {
          state = State.value
          at++
        }
        break
      case State.firstItem:
      case State.value:
        if (byte == 0x5d && state == State.firstItem) {
          close()
          break
        }
        if (depth == 1) valueStart = place()
        if (byte == quote) beginString(false)
        else if (byte == 0x7b || byte == 0x5b) {
          if (depth > maxDepth) fail(Reason.depth)
          else open(byte == 0x7b)
        } else if (byte == 0x2d || isDigit(byte)) beginNumber(byte)
        else beginWord(byte)
        break
      case State.comma:
        if (byte == 0x2c) {
          state = inObject ? State.key : State.value
          at++
        } else if (byte == (inObject ? 0x7d : 0x5d)) close()
        else fail(commaReason())
        break
      case State.string:
        string()
        break
      case State.number:
        number()
        break
      case State.word:
        word()
        break
      default:
        fail(Reason.surplus)
    }
    if (members == capacity) return Status.full
  }
  return state == State.refused ? Status.failed : Status.more
}

/** The text ends here. */
function finish(): Status {
  if (state == State.number) endNumber()
  switch (state) {
    case State.nothing: return Status.done
    case State.refused: break
    case State.object:
      fail(Reason.object)
      break
    case State.firstKey:
    case State.key:
      fail(Reason.key)
      break
    case State.colon:
      fail(Reason.colon)
      break
    case State.comma:
      fail(commaReason())
      break
    case State.string:
      fail(Reason.open)
      break
    case State.word:
      fail(Reason.value, tokenStart)
      break
    default:
      fail(Reason.value)
  }
  return Status.failed
}

function open(object: bool): void {
  store<u8>(stack + depth, u8(inObject))
  depth++
  inObject = object
  state = object ? State.firstKey : State.firstItem
  at++
}

function close(): void {
  at++
  depth--
  inObject = load<u8>(stack + depth) != 0
  if (depth == 0) state = State.nothing
  else endValue(false)
}

function endValue(isPlain: bool): void {
  state = State.comma
  if (depth > 1) return
  const member = table + members * memberBytes
  store<i32>(member, keyStart)
  store<i32>(member, keyEnd, 4)
  store<i32>(member, valueStart, 8)
  store<i32>(member, place(), 12)
  store<i32>(member, i32(plainKey) | (i32(isPlain) << 1), 16)
  members++
}

function beginString(key: bool): void {
  isKey = key
  state = State.string
  at++
  openString()
  string()
}

/** As far as behind its closing quote. */
function string(): void {
  at = passString(at, end)
  if (at == end) return
  if (escape == Escape.broken) return fail(Reason.escape)
  if (load<u8>(at) != quote) return fail(Reason.control)
  at++
  anyHigh = anyHigh || high
  if (!isKey) return endValue(plain)
  state = State.colon
  if (depth > 1) return
  keyEnd = place()
  plainKey = plain
}

function beginNumber(first: u8): void {
  tokenStart = place()
  part = first == 0x2d ? Part.minus : first == 0x30 ? Part.zero : Part.whole
  state = State.number
  at++
  number()
}

/** As far as the first byte that is not of it. */
function number(): void {
  const limit = end
  let next = at
  let now = part
  for (; next < limit; next++) {
    const byte = load<u8>(next)
    if (isDigit(byte)) {
      if (now == Part.whole || now == Part.fraction || now == Part.exponent) continue
      if (now == Part.zero) break
      if (now == Part.minus) now = byte == 0x30 ? Part.zero : Part.whole
      else now = now == Part.point ? Part.fraction : Part.exponent
    } else if (byte == 0x2e && (now == Part.zero || now == Part.whole)) now = Part.point
    else if ((byte | 0x20) == 0x65 && (now == Part.zero || now == Part.whole || now == Part.fraction)) now = Part.mark
    else if ((byte == 0x2b || byte == 0x2d) && now == Part.mark) now = Part.sign
    else break
  }
  at = next
  part = now
  if (next < limit) endNumber()
}

function endNumber(): void {
  switch (part) {
    case Part.minus: return fail(Reason.value, tokenStart)
    case Part.point: return fail(Reason.fraction, tokenStart)
    case Part.mark:
    case Part.sign: return fail(Reason.exponent, tokenStart)
    default: endValue(false)
  }
}

function beginWord(first: u8): void {
  // The bytes behind the first, from the right to the left: rue, alse, ull.
  if (first == 0x74) letters = 0x657572
  else if (first == 0x66) letters = 0x65736c61
  else if (first == 0x6e) letters = 0x6c6c75
  else return fail(Reason.value)
  tokenStart = place()
  state = State.word
  at++
  word()
}

function word(): void {
  for (; at < end; at++) {
    if (load<u8>(at) != <u8>letters) return fail(Reason.value, tokenStart)
    letters >>= 8
    if (letters == 0) {
      at++
      return endValue(false)
    }
  }
}

function commaReason(): Reason {
  return depth == 1 ? Reason.comma : inObject ? Reason.commaInObject : Reason.commaInArray
}

function fail(why: Reason, where: i32 = place()): void {
  state = State.refused
  reason = why
  failedAt = where
  end = at
}

/** Of `at`, in the text. */
@inline
function place(): i32 {
  return <i32>at - origin
}

@inline
function isDigit(byte: u8): bool {
  return <u8>(byte - 0x30) < 10
}

@inline
function isSpace(byte: u8): bool {
  return byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09
}
