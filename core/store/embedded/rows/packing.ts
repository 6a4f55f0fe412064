// Packs rows of values into bytes, for the frames of the commit log.
import type { Value } from '../files/sqlite.ts'
import { readUuid, writeUuid } from './uuid.ts'

/**
 * The tag of a value: one byte that says how it is written. `same` stands for the value in the same column of the row
 * before, and `again` for the long text of a number, which counts those before it. `count` and `amount` are numbers and
 * bigints from 0 to 2^53 - 1, written behind their tag. Others take eight bytes each, in an aligned array before the
 * tags, and UUIDs take sixteen there. All other text is in one piece behind the tags, and the lengths of the texts are
 * among the tags.
 */
const tag = {
  same: 0,
  null: 1,
  number: 2,
  bigint: 3,
  text: 4,
  bytes: 5,
  again: 6,
  count: 7,
  amount: 8,
  uuid: 9
} as const

/** The least length of a text that is written once, however often it occurs. */
const longText = 16
const mostCount = BigInt(Number.MAX_SAFE_INTEGER)

/** The length of the head, which has the number of tags and the number of bytes of numbers. */
const headBytes = 8

/** The size of the buffers that are kept for the next use. A larger batch gets larger ones for once. */
const keptBytes = 256 * 1024

/** The buffers of a packer. They grow when needed. */
class Room {
  tags = new Uint8Array(keptBytes / 8)
  numbers = new Float64Array(keptBytes / 8)
  bigints = new BigInt64Array(this.numbers.buffer)
  bytes = new Uint8Array(this.numbers.buffer)
}

/** Collects rows and writes them as bytes. It can be used again and again. */
export class Packer {
  #room = new Room()
  #tags = 0
  #numbers = 0
  #texts: string[] = []
  /** The numbers of long texts. */
  readonly #long = new Map<string, number>()
  #length = 0

  /** Adds rows of `width` values each. `values` must have a whole number of rows. */
  rows(values: readonly Value[], width: number): void {
    const { length } = values
    this.#fit(length)
    this.#tags = writeCount(this.#room.tags, this.#tags, length)
    const { tags, numbers, bigints, bytes } = this.#room
    const texts = this.#texts
    let at = this.#tags
    let number = this.#numbers
    for (let i = 0; i < length; i++) {
      const value = values[i]!
      if (i >= width && value === values[i - width]) tags[at++] = tag.same
      else if (typeof value === 'string') {
        const known = value.length < longText ? undefined : this.#long.get(value)
        if (known !== undefined) {
          tags[at++] = tag.again
          at = writeCount(tags, at, known)
          continue
        }
        if (value.length >= longText) this.#long.set(value, this.#long.size)
        if (writeUuid(value, bytes, number * 8)) {
          tags[at++] = tag.uuid
          number += 2
          continue
        }
        tags[at++] = tag.text
        at = writeCount(tags, at, value.length)
        texts.push(value)
        this.#length += value.length
      } else if (typeof value === 'number') {
        if (Number.isSafeInteger(value) && value >= 0 && !Object.is(value, -0)) {
          tags[at++] = tag.count
          at = writeCount(tags, at, value)
        } else {
          tags[at++] = tag.number
          numbers[number++] = value
        }
      } else if (typeof value === 'bigint') {
        if (value >= 0n && value <= mostCount) {
          tags[at++] = tag.amount
          at = writeCount(tags, at, Number(value))
        } else {
          tags[at++] = tag.bigint
          bigints[number++] = value
        }
      } else if (value === null) tags[at++] = tag.null
      else {
        tags[at++] = tag.bytes
        at = writeCount(tags, at, value.byteLength)
        texts.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('latin1'))
        this.#length += value.byteLength
      }
    }
    this.#tags = at
    this.#numbers = number
  }

  /** The most bytes that {@link Packer.write} can take. */
  get mostBytes(): number {
    return headBytes + this.#numbers * 8 + this.#tags + this.#length * 3
  }

  /** Writes all rows into `target` from `at` on, and empties the packer. Returns the end of what it wrote. */
  write(target: Buffer, at: number): number {
    const { tags, numbers } = this.#room
    const numberBytes = this.#numbers * 8
    target.writeUInt32BE(this.#tags, at)
    target.writeUInt32BE(numberBytes, at + 4)
    let end = at + headBytes
    target.set(new Uint8Array(numbers.buffer, 0, numberBytes), end)
    end += numberBytes
    target.set(tags.subarray(0, this.#tags), end)
    end += this.#tags
    end += target.write(this.#texts.join(''), end)
    if (tags.length > keptBytes || numbers.length > keptBytes) this.#room = new Room()
    this.#tags = this.#numbers = this.#length = 0
    this.#texts = []
    this.#long.clear()
    return end
  }

  #fit(values: number): void {
    // Each value takes a tag, and a count of at most eight bytes.
    const { tags, numbers } = this.#room
    if (this.#tags + values * 9 + 9 > tags.length) {
      const larger = new Uint8Array(2 * (this.#tags + values * 9 + 9))
      larger.set(tags)
      this.#room.tags = larger
    }
    // A UUID takes as much as two numbers.
    if (this.#numbers + 2 * values > numbers.length) {
      const larger = new Float64Array(2 * (this.#numbers + 2 * values))
      larger.set(numbers)
      this.#room.numbers = larger
      this.#room.bigints = new BigInt64Array(larger.buffer)
      this.#room.bytes = new Uint8Array(larger.buffer)
    }
  }
}

/** Writes a count in groups of seven bits, the lowest first. Returns the end of what it wrote. */
function writeCount(tags: Uint8Array, at: number, count: number): number {
  let end = at
  let rest = count
  for (; rest > 0x7fff_ffff; rest = Math.floor(rest / 128)) tags[end++] = (rest % 128) | 128
  for (; rest > 127; rest >>>= 7) tags[end++] = (rest & 127) | 128
  tags[end++] = rest
  return end
}

/** Reads the rows that a packer wrote, in the same order. */
export class Unpacker {
  readonly #bytes: Buffer
  readonly #text: string
  readonly #long: string[] = []
  /** Where the next number, the next tag and the next text are, and where the tags end. */
  #number = headBytes
  #tag: number
  #from = 0
  readonly #end: number

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#tag = headBytes + bytes.readUInt32BE(4)
    this.#end = this.#tag + bytes.readUInt32BE(0)
    this.#text = bytes.toString('utf8', this.#end)
  }

  /**
   * Reads the next rows; none at the end. Values equal to those in the last row of `before` become the same strings,
   * which are compared faster later.
   */
  next(width: number, before: readonly Value[] = []): Value[] {
    if (this.#tag >= this.#end) return []
    const length = this.#count()
    const values: Value[] = []
    for (let i = 0; i < length; i++) values.push(this.#value(values, i - width))
    const above = before.length - width
    if (above >= 0)
      for (let i = 0; i < width && i < length; i++) if (values[i] === before[above + i]) values[i] = before[above + i]!
    return values
  }

  #value(values: readonly Value[], above: number): Value {
    switch (this.#bytes[this.#tag++]) {
      case tag.same:
        return values[above]!
      case tag.null:
        return null
      case tag.number:
        this.#number += 8
        return this.#bytes.readDoubleLE(this.#number - 8)
      case tag.bigint:
        this.#number += 8
        return this.#bytes.readBigInt64LE(this.#number - 8)
      case tag.count:
        return this.#count()
      case tag.amount:
        return BigInt(this.#count())
      case tag.text: {
        const text = this.#slice()
        if (text.length >= longText) this.#long.push(text)
        return text
      }
      case tag.uuid: {
        const text = readUuid(this.#bytes, this.#number)
        this.#number += 16
        this.#long.push(text)
        return text
      }
      case tag.again:
        return this.#long[this.#count()]!
      default:
        return Buffer.from(this.#slice(), 'latin1')
    }
  }

  #slice(): string {
    const from = this.#from
    this.#from += this.#count()
    return this.#text.slice(from, this.#from)
  }

  #count(): number {
    let count = 0
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.#bytes[this.#tag++]!
      count |= (byte & 127) << shift
      if (byte < 128) return count
    }
    for (let unit = 2 ** 28; ; unit *= 128) {
      const byte = this.#bytes[this.#tag++]!
      count += (byte & 127) * unit
      if (byte < 128) return count
    }
  }
}
