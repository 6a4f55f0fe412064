// Counts the objects in a list at the top of a JSON object that comes in runs and is never held as a whole.

const quote = 0x22
const backslash = 0x5c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d
const colon = 0x3a
const comma = 0x2c

/** A key that is longer, escapes included, is not looked at. */
const longestKey = 64
/** The depth of what stands in the outermost object, and of what stands in a list of it. */
const memberDepth = 1
const elementDepth = 2
/** And of what stands in an object of it. */
const insideDepth = 3

/** A member of an object, and once more with its value where that is a short text. */
type Told = (member: string, value: string | undefined) => void

/**
 * One for each body. Follows strings and brackets, and believes the body to be JSON otherwise: whether it is, somebody
 * else has to say. A long string costs the search for its end.
 */
export class ListCount {
  readonly #name: string
  #objects = 0
  #depth = 0
  #inString = false
  /** The run before ended within an escape. */
  #escaping = false
  /** The string that is being read is a key, or may be one: what has come of it. */
  #text: string | undefined
  /** The last string at the top. */
  #key = ''
  #inList = false
  /** Of an object in the list: the last string, which may be a key, and the key whose value follows. */
  #word = ''
  #member: string | undefined
  readonly #tell: Told | undefined

  /** `name`: of the list; `tell`: is told what its objects have. */
  constructor(name: string, tell?: Told) {
    this.#name = name
    this.#tell = tell
  }

  /** Objects that have begun by now. */
  get objects(): number {
    return this.#objects
  }

  /** The next bytes. */
  see(run: Buffer): void {
    let at = 0
    while (at < run.length) at = this.#inString ? this.#string(run, at) : this.#structure(run, at)
  }

  /** Up to the beginning of the next string; where that is. */
  #structure(run: Buffer, from: number): number {
    let at = from
    for (; at < run.length; at++) {
      const byte = run[at]!
      if (byte === quote) {
        this.#inString = true
        this.#text = this.#depth === memberDepth || this.#inside ? '' : undefined
        return at + 1
      }
      if (byte === openBrace || byte === openBracket) this.#enter(byte)
      else if (byte === closeBrace || byte === closeBracket) {
        if (--this.#depth === memberDepth) this.#inList = false
      } else if (byte === comma || byte === colon) this.#between(byte)
    }
    return at
  }

  /** In an object of the list, which somebody is told of. */
  get #inside(): boolean {
    return this.#inList && this.#depth === insideDepth && this.#tell !== undefined
  }

  #between(byte: number): void {
    if (!this.#inside) return
    this.#member = byte === colon ? this.#word : undefined
    if (this.#member !== undefined) this.#tell!(this.#member, undefined)
  }

  #enter(bracket: number): void {
    if (this.#depth === memberDepth) this.#inList = bracket === openBracket && this.#key === this.#name
    else if (this.#depth === elementDepth && this.#inList && bracket === openBrace) {
      this.#objects++
      this.#member = undefined
    }
    this.#depth++
  }

  /** Up to the end of the string, or of the run; where what follows begins. */
  #string(run: Buffer, from: number): number {
    let at = from
    if (this.#escaping) {
      this.#escaping = false
      at++
    }
    for (let end = run.indexOf(quote, at); ; end = run.indexOf(quote, end + 1)) {
      const stop = end === -1 ? run.length : end
      let escapes = 0
      while (stop - escapes > at && run[stop - escapes - 1] === backslash) escapes++
      const escaped = escapes % 2 === 1
      if (end !== -1 && escaped) continue
      this.#keep(run, from, stop)
      if (end === -1) {
        this.#escaping = escaped
        return run.length
      }
      this.#inString = false
      if (this.#depth === memberDepth) this.#key = this.#text === undefined ? '' : spelledOut(this.#text)
      else if (this.#inside) this.#said(this.#text === undefined ? '' : spelledOut(this.#text))
      return end + 1
    }
  }

  #keep(run: Buffer, from: number, to: number): void {
    if (this.#text === undefined) return
    const text = this.#text + run.toString('latin1', from, Math.min(to, from + longestKey + 1))
    this.#text = text.length > longestKey ? undefined : text
  }

  #said(word: string): void {
    if (this.#member === undefined) this.#word = word
    else this.#tell!(this.#member, word)
  }
}

/** What a key says that is written with escapes. */
function spelledOut(text: string): string {
  if (!text.includes('\\')) return text
  try {
    return JSON.parse(`"${text}"`) as string
  } catch {
    return text
  }
}
