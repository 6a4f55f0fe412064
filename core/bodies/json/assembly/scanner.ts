// Checks that a text is one JSON object and records where its members are. Written in AssemblyScript; ../README.md says
// why.
import { beginMember, beginSaid, beginText, dropKey, endNumber, endText, look, media, near, said, takeKey } from './said'
import { escape, Escape, high, openString, passString, plain, quote } from './string'

// The state of a scan is in the exported globals and in the stack: a caller that saves both can run another scan
// meanwhile.
export { kind, media, near, opaque, said } from './said'
export { escape, high, plain, spelling } from './string'

// Addresses in memory, besides those of string.ts. There is memory behind every stretch, so that 16 bytes can be loaded
// from any place.
const results: usize = 0
const stack: usize = 32
const table: usize = 1024
const input: usize = 16 * 1024
/** Bytes of the stretch before that lie before the input area. */
const kept: usize = 32
const watched: usize = 98 * 1024

/** How many members fit into the table. */
const capacity: i32 = 512
const memberBytes: i32 = 28

/** How deeply containers may be nested inside the value of a member. */
const maxDepth: i32 = 512

const enum Status { done, more, full, failed }

/**
 * What comes next. Up to `nothing`, white space may come before it. From `string` on, the place is inside of a token.
 */
const enum State { object, firstKey, key, colon, value, firstItem, comma, nothing, string, number, word, ended }

/** The part of a number that the last byte belonged to. */
const enum Part { minus, zero, whole, point, fraction, mark, sign, exponent }

/** Why the text was refused, in the order of the messages in ../scan.ts. */
const enum Reason {
  object, key, colon, value, comma, commaInObject, commaInArray, surplus, depth, fraction, exponent, open, escape, control
}

export let state: State = State.object
/** How many containers are open, and whether the innermost is an object. */
export let depth: i32 = 0
export let inObject: bool = false

/** The stretch being scanned: in the input area, or in a body that lies in this memory. */
export let at: usize = input
export let end: usize = input
/** What to subtract from an address to get an offset in the text. */
export let origin: i32 = 0

/** Whether the present string is a key. */
export let isKey: bool = false
/** The part of the present number. */
export let part: Part = Part.minus
/** The bytes that the present word still needs, the next one lowest. */
export let letters: u32 = 0
/**
 * Where the present key, number or word began, as an address. It is before the input area when it began in an earlier
 * stretch.
 */
export let tokenStart: usize = 0

/** Whether any string has bytes beyond ASCII. */
export let anyHigh: bool = false
/** The watches of which a key, at any depth, may be one of the names. */
export let mentioned: i32 = 0
export let objectStart: i32 = 0
export let members: i32 = 0
export let keyStart: i32 = 0
export let keyEnd: i32 = 0
export let plainKey: bool = false
export let valueStart: i32 = 0
export let reason: Reason = Reason.object
export let failedAt: i32 = 0

/** Begins a text whose first stretch is at an address. `last`: it is the only stretch. */
export function begin(address: usize, length: i32, last: bool): Status {
  state = State.object
  depth = 0
  anyHigh = false
  mentioned = 0
  beginSaid()
  origin = <i32>address
  at = address
  end = address + length
  return resume(last)
}

/** Continues with the next stretch. Its address follows the one before, or is the input area again. */
export function proceed(address: usize, length: i32, last: bool): Status {
  origin -= <i32>(end - address)
  tokenStart -= end - address
  at = address
  end = address + length
  return resume(last)
}

/** Continues after the table was full and the caller has read it. */
export function resume(last: bool): Status {
  members = 0
  let status = run()
  if (status == Status.more && last) status = finish()
  store<i32>(results, members)
  store<i32>(results, objectStart, 4)
  store<i32>(results, i32(!anyHigh), 8)
  store<i32>(results, reason, 12)
  store<i32>(results, failedAt, 16)
  store<i32>(results, mentioned, 20)
  return status
}

function run(): Status {
  // Globals are in memory, so what every byte needs is kept in locals.
  const limit = end
  let next = at
  let now = state
  while (next < limit) {
    if (now <= State.nothing) {
      const byte = load<u8>(next)
      if (isSpace(byte)) {
        next++
        continue
      }
      switch (now) {
        case State.object:
          if (byte != 0x7b) return refuse(Reason.object, next)
          objectStart = placeOf(next)
          now = open(true)
          break
        case State.firstKey:
        case State.key:
          if (byte == quote) {
            if (depth == 1) keyStart = placeOf(next)
            tokenStart = next
            now = beginString(true)
          } else if (byte == 0x7d && now == State.firstKey) now = close()
          else return refuse(Reason.key, next)
          break
        case State.colon:
          if (byte != 0x3a) return refuse(Reason.colon, next)
          now = State.value
          break
        case State.firstItem:
        case State.value:
          if (depth == 1) valueStart = placeOf(next)
          if (byte == quote) now = beginString(false)
          else if (byte == 0x7b || byte == 0x5b) {
            if (depth > maxDepth) return refuse(Reason.depth, next)
            now = open(byte == 0x7b)
          } else if (byte == 0x5d && now == State.firstItem) now = close()
          else if (beginNumber(byte)) now = State.number
          else if (beginWord(byte)) now = State.word
          else return refuse(Reason.value, next)
          tokenStart = next
          break
        case State.comma:
          if (byte == 0x2c) now = inObject ? State.key : State.value
          else if (byte == (inObject ? 0x7d : 0x5d)) now = close()
          else return refuse(commaReason(), next)
          break
        default:
          return refuse(Reason.surplus, next)
      }
      next++
      if (now <= State.nothing) continue
    }

    let isPlain = false
    if (now == State.string) {
      if (near > 0) look(next, limit)
      next = passString(next, limit)
      if (next == limit) break
      if (escape == Escape.broken) return refuse(Reason.escape, next)
      if (load<u8>(next) != quote) return refuse(Reason.control, next)
      next++
      anyHigh = anyHigh || high
      if (isKey) {
        now = State.colon
        mention(next)
        if (depth > 1) continue
        beginMember()
        keyEnd = placeOf(next)
        plainKey = plain
        continue
      }
      endText(<i32>(next - tokenStart) - 2)
      isPlain = plain
    } else if (now == State.number) {
      next = passNumber(next, limit)
      if (next == limit) break
      if (!isWhole()) return refuse(numberReason(), tokenStart)
      endNumber()
    } else if (now == State.word) {
      next = passWord(next, limit)
      if (letters != 0) {
        if (next == limit) break
        return refuse(Reason.value, tokenStart)
      }
      dropKey()
    }

    now = State.comma
    if (depth > 1) continue
    addMember(placeOf(next), isPlain)
    if (members == capacity) {
      at = next
      state = now
      return Status.full
    }
  }
  at = next
  state = now
  return Status.more
}

/** Ends the text here. */
function finish(): Status {
  switch (state) {
    case State.nothing: return Status.done
    case State.object: return refuse(Reason.object, at)
    case State.firstKey:
    case State.key: return refuse(Reason.key, at)
    case State.colon: return refuse(Reason.colon, at)
    case State.comma: return refuse(commaReason(), at)
    case State.string: return refuse(Reason.open, at)
    case State.number: return isWhole() ? refuse(commaReason(), at) : refuse(numberReason(), tokenStart)
    case State.word: return refuse(Reason.value, tokenStart)
    default: return refuse(Reason.value, at)
  }
}

function open(object: bool): State {
  store<u8>(stack + depth, u8(inObject))
  depth++
  inObject = object
  return object ? State.firstKey : State.firstItem
}

function close(): State {
  depth--
  inObject = load<u8>(stack + depth) != 0
  dropKey()
  return depth == 0 ? State.nothing : State.ended
}

function addMember(valueEnd: i32, isPlain: bool): void {
  const member = table + members * memberBytes
  store<i32>(member, keyStart)
  store<i32>(member, keyEnd, 4)
  store<i32>(member, valueStart, 8)
  store<i32>(member, valueEnd, 12)
  store<i32>(member, i32(plainKey) | (i32(isPlain) << 1), 16)
  store<i32>(member, said, 20)
  store<i32>(member, media, 24)
  members++
}

/**
 * Notes which watches the key that has just ended may be in, and what kind of strings it has. One that is not plainly
 * written may be in all.
 */
function mention(after: usize): void {
  if (!plain || tokenStart < input - kept) {
    mentioned = -1
    return dropKey()
  }
  const name = tokenStart + 1
  const length = <i32>(after - name) - 1
  const place = placeOfName(name, length)
  mentioned |= i32(load<u8>(watched + place))
  takeKey(name, length, place)
}

/** The place of a name in the tables of names, whatever its case. ../scan.ts computes the same. */
@inline
function placeOfName(name: usize, length: i32): usize {
  const middle = load<u8>(name + (length >> 1)) | 0x20
  const last = load<u8>(name + length - 1) | 0x20
  return (length * 17 + i32(middle) * 31 + i32(last)) & 0x3ff
}

function beginString(key: bool): State {
  isKey = key
  openString()
  if (!key) beginText()
  return State.string
}

function beginNumber(first: u8): bool {
  part = first == 0x2d ? Part.minus : first == 0x30 ? Part.zero : Part.whole
  return first == 0x2d || isDigit(first)
}

/** Returns the place of the first byte that is not part of the number. */
function passNumber(next: usize, limit: usize): usize {
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
  part = now
  return next
}

/** Whether the number may end here. */
function isWhole(): bool {
  return part == Part.zero || part == Part.whole || part == Part.fraction || part == Part.exponent
}

function numberReason(): Reason {
  return part == Part.minus ? Reason.value : part == Part.point ? Reason.fraction : Reason.exponent
}

function beginWord(first: u8): bool {
  // The bytes after the first letter, in reverse: rue, alse, ull.
  letters = first == 0x74 ? 0x657572 : first == 0x66 ? 0x65736c61 : first == 0x6e ? 0x6c6c75 : 0
  return letters != 0
}

/** Returns the place of the first byte that does not continue the word. */
function passWord(next: usize, limit: usize): usize {
  while (letters != 0 && next < limit && load<u8>(next) == <u8>letters) {
    letters >>= 8
    next++
  }
  return next
}

function commaReason(): Reason {
  return depth == 1 ? Reason.comma : inObject ? Reason.commaInObject : Reason.commaInArray
}

function refuse(why: Reason, where: usize): Status {
  reason = why
  failedAt = placeOf(where)
  return Status.failed
}

/** The offset in the text of an address. */
@inline
function placeOf(address: usize): i32 {
  return <i32>address - origin
}

@inline
function isDigit(byte: u8): bool {
  return <u8>(byte - 0x30) < 10
}

@inline
function isSpace(byte: u8): bool {
  return byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09
}
