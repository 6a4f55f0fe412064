// Looks at the top level of a JSON object without parsing what lies below: where each member's value begins and ends.
import { nameAt } from './json/names.ts'
import { scan } from './json/scan.ts'
import type { Member } from './json/scan.ts'

export { LensError, maxDepth } from './json/scan.ts'
export type { Member } from './json/scan.ts'

/** What a JSON value is. */
export type JsonType = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null'

/** A number of so many digits is exact however it is put together. */
const exactDigits = 15
const quote = 0x22

/**
 * The members of one JSON object in `bytes`, found in one pass; values are neither parsed nor copied. All of it is checked,
 * also inside strings, so that a body which two parsers could read differently is refused here: duplicate keys, also when
 * one is spelled with escapes, are an error. Only that it is UTF-8 is the caller's to check, unless {@link isAscii} says it.
 */
export class Lens {
  readonly bytes: Buffer
  readonly members: ReadonlyMap<string, Member>
  /** Of the opening brace. */
  readonly start: number
  /** No byte is beyond ASCII. */
  readonly isAscii: boolean

  /** @throws LensError when the bytes are not exactly one JSON object, white space around it allowed */
  constructor(bytes: Buffer) {
    const { members, start, isAscii } = scan(bytes)
    this.bytes = bytes
    this.members = members
    this.start = start
    this.isAscii = isAscii
  }

  has(key: string): boolean {
    return this.members.has(key)
  }

  /** The value's bytes as they stand, a view. */
  slice(key: string): Buffer | undefined {
    const member = this.members.get(key)
    return member && this.bytes.subarray(member.valueStart, member.valueEnd)
  }

  /** Of the value; undefined when absent. */
  type(key: string): JsonType | undefined {
    const member = this.members.get(key)
    return member && typeOf(this.bytes[member.valueStart]!)
  }

  /** The value parsed; undefined when absent. */
  json(key: string): unknown {
    const member = this.members.get(key)
    return member && this.#parse(member)
  }

  /** The value when it is a string; undefined when absent or of another type. */
  string(key: string): string | undefined {
    const member = this.members.get(key)
    if (!member || this.bytes[member.valueStart] !== quote) return undefined
    return member.plain ? nameAt(this.bytes, member.valueStart + 1, member.valueEnd - 1) : (this.#parse(member) as string)
  }

  /** True only for the literal `true`. */
  flag(key: string): boolean {
    const member = this.members.get(key)
    return member !== undefined && this.bytes[member.valueStart] === 0x74
  }

  /** The value when it is a number. */
  number(key: string): number | undefined {
    const member = this.members.get(key)
    if (!member) return undefined
    const { valueStart, valueEnd } = member
    let number = 0
    if (valueEnd - valueStart <= exactDigits) {
      let at = valueStart
      for (; at < valueEnd; at++) {
        const digit = this.bytes[at]! - 0x30
        if (digit < 0 || digit > 9) break
        number = number * 10 + digit
      }
      if (at === valueEnd) return number
    }
    const first = this.bytes[valueStart]!
    return first === 0x2d || (first >= 0x30 && first <= 0x39) ? Number(this.bytes.toString('latin1', valueStart, valueEnd)) : undefined
  }

  #parse({ valueStart, valueEnd }: Member): unknown {
    return JSON.parse(this.bytes.toString('utf8', valueStart, valueEnd))
  }
}

/** Told by its first byte, as it has been checked. */
function typeOf(first: number): JsonType {
  switch (first) {
    case 0x7b: return 'object'
    case 0x5b: return 'array'
    case quote: return 'string'
    case 0x6e: return 'null'
    case 0x74: case 0x66: return 'boolean'
    default: return 'number'
  }
}
