// Looks at the top level of a JSON object without parsing what lies below: where each member's value begins and ends.
import { GatewayError } from './errors.ts'
import { QuoteFinder } from './quotes.ts'

/** A member's place in the bytes. */
export interface Member {
  /** Of the opening quote of its key. */
  keyStart: number
  valueStart: number
  /** Exclusive. */
  valueEnd: number
}

/** Why bytes are no usable JSON object; the message names the byte offset. */
export class LensError extends Error {
  override readonly name = 'LensError'
}

/** Containers inside containers; deeper bodies are refused (stacks of parsers behind us are finite). */
export const maxDepth = 512

/** A number of so many digits is exact however it is put together. */
const exactDigits = 15
/** What stands between the quotes of a string is the string. */
const spellsItself = /^[ !#-[\]-~]*$/
/** As much of a body is made text of: all of a small one, and of most others what decides where they go. */
const textBytes = 4 * 1024
const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b

/**
 * The members of one JSON object in `bytes`, found in one pass over the structure; values are neither parsed nor copied.
 * Structure is checked to the end (brackets, commas, colons, literals, numbers), so that a body which two parsers could
 * read differently is refused here: duplicate keys, also when one is spelled with escapes, are an error.
 * String contents are skipped, not checked; the caller checks that the whole is UTF-8.
 */
export class Lens {
  readonly bytes: Buffer
  readonly members: ReadonlyMap<string, Member>
  /** Of the opening brace. */
  readonly start: number

  /** @throws LensError when the bytes are not exactly one JSON object, white space around it allowed */
  constructor(bytes: Buffer) {
    this.bytes = bytes
    const scan = new Scan(bytes)
    this.members = scan.object()
    this.start = scan.start
  }

  has(key: string): boolean {
    return this.members.has(key)
  }

  /** The value's bytes as they stand, a view. */
  slice(key: string): Buffer | undefined {
    const member = this.members.get(key)
    return member && this.bytes.subarray(member.valueStart, member.valueEnd)
  }

  /**
   * The value parsed; undefined when absent.
   * @throws GatewayError `invalid_json` for what only a parser sees: a line break or an unknown escape in a string
   */
  json(key: string): unknown {
    const member = this.members.get(key)
    return member && this.#parse(key, member)
  }

  /**
   * The value when it is a string; undefined when absent or of another type.
   * @throws GatewayError as {@link json} does
   */
  string(key: string): string | undefined {
    const member = this.members.get(key)
    if (!member || this.bytes[member.valueStart] !== quote) return undefined
    const text = this.bytes.toString('latin1', member.valueStart + 1, member.valueEnd - 1)
    return spellsItself.test(text) ? text : (this.#parse(key, member) as string)
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

  #parse(key: string, { valueStart, valueEnd }: Member): unknown {
    try {
      return JSON.parse(this.bytes.toString('utf8', valueStart, valueEnd))
    } catch {
      throw new GatewayError('invalid_json', `The value of \`${key.slice(0, 64)}\` in the request body is not valid JSON.`, { param: key.slice(0, 64) })
    }
  }
}

/** One pass. A class, so that position and bytes are fields and not closure variables. */
class Scan {
  readonly #bytes: Buffer
  #at = 0
  start = 0
  /** The beginning of the bytes, a character a byte: of a string of V8's, keys are cut and quotes found in much less time than of a buffer. */
  readonly #text: string
  /** The string passed last is short and spells itself: no escapes, nothing beyond ASCII. */
  #plain = false
  #quotes: QuoteFinder | undefined

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#text = bytes.toString('latin1', 0, textBytes)
  }

  object(): Map<string, Member> {
    this.#space()
    this.start = this.#at
    if (this.#byte(this.#at) !== openBrace) this.#fail('a JSON object must begin with {')
    const members = new Map<string, Member>()
    this.#at++
    this.#space()
    if (this.#byte(this.#at) === closeBrace) this.#at++
    else {
      for (;;) {
        const keyStart = this.#at
        const key = this.#key()
        const valueStart = this.#at
        this.#value()
        const valueEnd = this.#at
        if (members.has(key)) this.#fail(`the key ${JSON.stringify(key.slice(0, 64))} appears twice`, keyStart)
        members.set(key, { keyStart, valueStart, valueEnd })
        this.#space()
        const byte = this.#byte(this.#at++)
        if (byte === closeBrace) break
        if (byte !== comma) this.#fail('expected , or } after a value', this.#at - 1)
        this.#space()
      }
    }
    this.#space()
    if (this.#at !== this.#bytes.length) this.#fail('expected nothing after the object')
    return members
  }

  /** The byte at a position; 0 behind the end. */
  #byte(at: number): number {
    return at < this.#text.length ? this.#text.charCodeAt(at) : (this.#bytes[at] ?? 0)
  }

  /** A key and its colon; leaves the position at the value. */
  #key(): string {
    const from = this.#at
    if (this.#byte(from) !== quote) this.#fail('expected a key in double quotes')
    this.#string()
    const key = this.#plain && this.#at <= this.#text.length ? this.#text.slice(from + 1, this.#at - 1) : this.#spelled(from)
    this.#colon()
    return key
  }

  #spelled(from: number): string {
    const key = this.#bytes.toString('utf8', from + 1, this.#at - 1)
    if (!key.includes('\\')) return key
    try {
      return JSON.parse(`"${key}"`) as string
    } catch {
      return this.#fail('a key has an invalid escape', from)
    }
  }

  #colon(): void {
    this.#space()
    if (this.#byte(this.#at) !== colon) this.#fail('expected : after a key')
    this.#at++
    this.#space()
  }

  /** Skips one value of any depth without recursion. */
  #value(): void {
    const first = this.#byte(this.#at)
    if (first === quote) return this.#string()
    if (first !== openBrace && first !== openBracket) return this.#literal()
    const closers: number[] = []
    for (;;) {
      const byte = this.#byte(this.#at)
      if (byte === openBrace || byte === openBracket) {
        if (closers.length >= maxDepth) this.#fail(`nested deeper than ${maxDepth}`)
        this.#at++
        this.#space()
        const closer = byte + 2
        if (this.#byte(this.#at) === closer) this.#at++
        else {
          closers.push(closer)
          if (closer === closeBrace) this.#nestedKey()
          continue
        }
      } else if (byte === quote) this.#string()
      else this.#literal()

      for (;;) {
        const closer = closers.at(-1)
        if (closer === undefined) return
        this.#space()
        const next = this.#byte(this.#at++)
        if (next === comma) {
          this.#space()
          if (closer === closeBrace) this.#nestedKey()
          break
        }
        if (next !== closer) this.#fail(`expected , or ${String.fromCharCode(closer)}`, this.#at - 1)
        closers.pop()
      }
    }
  }

  #nestedKey(): void {
    if (this.#byte(this.#at) !== quote) this.#fail('expected a key in double quotes')
    this.#string()
    this.#colon()
  }

  /** From the opening quote to behind the closing one. */
  #string(): void {
    let at = this.#at + 1
    this.#plain = true
    // Most strings are short: a call into native search costs more than looking at the first bytes here.
    const near = Math.min(at + 24, this.#bytes.length)
    for (; at < near; at++) {
      const byte = this.#byte(at)
      if (byte === quote) {
        this.#at = at + 1
        return
      }
      if (byte === backslash) at++
      if (byte === backslash || byte >= 0x80) this.#plain = false
    }
    this.#plain = false
    const end = at < this.#text.length ? this.#text.indexOf('"', at) : -1
    if (end !== -1 && !this.#escaped(end)) this.#at = end + 1
    else this.#at = this.#closingQuote(end === -1 ? at : end + 1) + 1
  }

  /** Whether the quote at a position has a backslash of its own before it. */
  #escaped(at: number): boolean {
    let before = at
    while (this.#bytes[before - 1] === backslash) before--
    return (at - before) % 2 === 1
  }

  /** The end of a string that holds quotes, as prose and code do: one every line or so. */
  #closingQuote(from: number): number {
    this.#quotes ??= new QuoteFinder(this.#bytes)
    let at = this.#quotes.next(from)
    while (at !== -1 && this.#escaped(at)) at = this.#quotes.next(at + 1)
    return at === -1 ? this.#fail('a string does not end', this.#bytes.length) : at
  }

  /** A number, true, false or null. */
  #literal(): void {
    const from = this.#at
    const first = this.#byte(from)
    if (first === 0x74) return this.#word('true')
    if (first === 0x66) return this.#word('false')
    if (first === 0x6e) return this.#word('null')
    if (first === 0x2d) this.#at++
    if (this.#byte(this.#at) === 0x30) this.#at++
    else if (!this.#digits()) this.#fail('expected a value', from)
    if (this.#byte(this.#at) === 0x2e) {
      this.#at++
      if (!this.#digits()) this.#fail('a number has no digits after its point', from)
    }
    const exponent = this.#byte(this.#at)
    if (exponent === 0x65 || exponent === 0x45) {
      this.#at++
      const sign = this.#byte(this.#at)
      if (sign === 0x2b || sign === 0x2d) this.#at++
      if (!this.#digits()) this.#fail('a number has no digits in its exponent', from)
    }
  }

  #digits(): boolean {
    const from = this.#at
    for (;;) {
      const byte = this.#byte(this.#at)
      if (byte < 0x30 || byte > 0x39) return this.#at > from
      this.#at++
    }
  }

  #word(word: string): void {
    for (let i = 0; i < word.length; i++) {
      if (this.#byte(this.#at + i) !== word.charCodeAt(i)) this.#fail('expected a value')
    }
    this.#at += word.length
  }

  #space(): void {
    for (;;) {
      const byte = this.#byte(this.#at)
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return
      this.#at++
    }
  }

  #fail(what: string, at = this.#at): never {
    throw new LensError(at >= this.#bytes.length ? `${what}: the body ends at byte ${this.#bytes.length}` : `${what} (byte ${at})`)
  }
}
