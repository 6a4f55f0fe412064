// Counts the objects in a top-level list of a JSON object that comes in runs, without keeping it.

const quote = 0x22
const backslash = 0x5c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d
const colon = 0x3a
const comma = 0x2c

/** The longest key that is read, escapes included. */
const longestKey = 64
/** The depth of members of the outermost object, and of elements of their lists. */
const memberDepth = 1
const elementDepth = 2
/** The depth of members of such an element. */
const insideDepth = 3

/** Called with the name of each member of an element, and again with its value if that is a short text. */
type Told = (member: string, value: string | undefined) => void

/**
 * Counts in one body. It follows strings and brackets, and otherwise assumes valid JSON: the caller has to check that.
 * Long strings are searched only for their ends.
 */
export class ListCount {
  readonly #name: string
  #objects = 0
  #depth = 0
  #inString = false
  /** Whether the last run ended inside an escape. */
  #escaping = false
  /** What has come of the present string, when it may be a key. */
  #text: string | undefined
  /** The last string at the top level. */
  #key = ''
  #inList = false
  /** In an element of the list: the last string, and the key whose value follows. */
  #word = ''
  #member: string | undefined
  readonly #tell: Told | undefined

  /** `name`: of the list. `tell`: called with the members of its objects. */
  constructor(name: string, tell?: Told) {
    this.#name = name
    this.#tell = tell
  }

  /** How many objects of the list have begun. */
  get objects(): number {
    return this.#objects
  }

  /** Takes the next bytes. */
  see(run: Buffer): void {
    let at = 0
    while (at < run.length) at = this.#inString ? this.#string(run, at) : this.#structure(run, at)
  }

  /** Reads up to the beginning of the next string, and returns where that is. */
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

  /** Whether the place is in an object of the list, with somebody to tell. */
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

  /** Reads up to the end of the string or of the run, and returns the place after it. */
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

/** A key that may have escapes, decoded. */
function spelledOut(text: string): string {
  if (!text.includes('\\')) return text
  try {
    return JSON.parse(`"${text}"`) as string
  } catch {
    return text
  }
}
