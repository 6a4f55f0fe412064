// Looks at the top level of a JSON object without parsing the values: finds where each one begins and ends.
import { nameAt } from './json/names.ts'
import { parse } from './parse.ts'
import { LensError, scan, Scanning, Watch } from './json/scan.ts'
import type { Member } from './json/scan.ts'
import { inTurns } from './turns.ts'

export { hasEscapedKey, parseStrictly } from './parse.ts'
export { LensError, maxDepth, maxKeyBytes, maxMembers, Watch } from './json/scan.ts'
export type { Member } from './json/scan.ts'

/** The types of JSON values. */
export type JsonType = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null'

/** A number with at most this many digits is exact when it is built digit by digit. */
const exactDigits = 15
/** The longest number that is read, in bytes, sign, point and exponent included. */
const mostDigits = 400
const quote = 0x22

/**
 * The members of one JSON object in `bytes`, found in one pass. Values are neither parsed nor copied. Everything is
 * checked, also inside strings, so that a body which two parsers could read differently is refused here: a duplicate
 * key is an error, even when one of the two is spelled with escapes. The caller has to check that the bytes are UTF-8,
 * unless {@link isAscii}.
 */
export class Lens {
  readonly bytes: Buffer
  readonly members: ReadonlyMap<string, Member>
  /** The offset of the opening brace. */
  readonly start: number
  /** Whether all bytes are ASCII. */
  readonly isAscii: boolean
  /**
   * Keys with other characters than small letters, digits, `_`, `-` and `.`: another reader may take them for other
   * keys.
   */
  readonly oddKeys: readonly string[]
  readonly #mentioned: number

  /**
   * `found`: the scan of these bytes, when there has been one.
   * @throws LensError when the bytes are not exactly one JSON object, white space around it allowed
   */
  constructor(bytes: Buffer, found = scan(bytes)) {
    this.bytes = bytes
    this.members = found.members
    this.start = found.start
    this.isAscii = found.isAscii
    this.oddKeys = found.oddKeys
    this.#mentioned = found.mentioned
  }

  /**
   * Whether one of the names of a watch may be a key somewhere in the object, at any depth and in any case. False: none
   * of them is.
   */
  mayMention(watch: Watch): boolean {
    // Another copy of this code, which a plugin may bring, has watches of its own.
    return (this.#mentioned & watch.bit) !== 0 || !(watch instanceof Watch)
  }

  has(key: string): boolean {
    return this.members.has(key)
  }

  /** A view of the value's bytes; undefined when absent. */
  slice(key: string): Buffer | undefined {
    const member = this.members.get(key)
    return member && this.bytes.subarray(member.valueStart, member.valueEnd)
  }

  /** The type of the value; undefined when absent. */
  type(key: string): JsonType | undefined {
    const member = this.members.get(key)
    return member && typeOf(this.bytes[member.valueStart]!)
  }

  /**
   * A lens on a value that is an object; undefined when it is absent or of another type.
   * @throws LensError as the constructor
   */
  inside(key: string): Lens | undefined {
    return this.type(key) === 'object' ? new Lens(this.slice(key)!) : undefined
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
    return member.plain
      ? nameAt(this.bytes, member.valueStart + 1, member.valueEnd - 1).text
      : (this.#parse(member) as string)
  }

  /** False when absent or null; undefined when it is neither true nor false. */
  flag(key: string): boolean | undefined {
    const member = this.members.get(key)
    if (!member) return false
    const first = this.bytes[member.valueStart]
    return first === 0x74 ? true : first === 0x66 || first === 0x6e ? false : undefined
  }

  /**
   * How many bytes the value takes as it is written; 0 when absent. Ask this before reading a value of unbounded size.
   */
  size(key: string): number {
    const member = this.members.get(key)
    return member ? member.valueEnd - member.valueStart : 0
  }

  /** The value when it is a number; `NaN` when it has more digits than any sensible number. */
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
    if (first !== 0x2d && (first < 0x30 || first > 0x39)) return undefined
    return valueEnd - valueStart > mostDigits ? NaN : Number(this.bytes.toString('latin1', valueStart, valueEnd))
  }

  #parse({ valueStart, valueEnd }: Member): unknown {
    return parse(this.bytes.toString('utf8', valueStart, valueEnd))
  }
}

/** The largest object that is scanned at once, in bytes. */
const atOnceBytes = 64 * 1024

/** A lens on these bytes. Large ones are scanned in turns with other work. Null where the constructor would throw. */
export function lensInTurns(bytes: Buffer): Lens | null | Promise<Lens | null> {
  if (bytes.length <= atOnceBytes) return lensOf(bytes)
  try {
    const found = inTurns(new Scanning(bytes))
    return found instanceof Promise ? found.then((scan) => new Lens(bytes, scan), unseen) : new Lens(bytes, found)
  } catch (error) {
    return unseen(error)
  }
}

/** A lens on these bytes; null where the constructor would throw. */
export function lensOf(bytes: Buffer): Lens | null {
  try {
    return new Lens(bytes)
  } catch (error) {
    return unseen(error)
  }
}

function unseen(error: unknown): null {
  if (error instanceof LensError) return null
  throw error
}

/** The type that the first byte of a valid value tells. */
function typeOf(first: number): JsonType {
  switch (first) {
    case 0x7b:
      return 'object'
    case 0x5b:
      return 'array'
    case quote:
      return 'string'
    case 0x6e:
      return 'null'
    case 0x74:
    case 0x66:
      return 'boolean'
    default:
      return 'number'
  }
}
