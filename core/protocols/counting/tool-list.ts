// Looks through a list of tools by its structure, in steps: nothing of it is parsed but short words.

/** How many bytes or strings are passed between two looks at the clock. */
const steps = 4096
/** The longest name, and the longest value, that is read, in bytes as they are written. */
const longestWord = 512

const quote = 0x22
const backslash = 0x5c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d
const colon = 0x3a
const comma = 0x2c

/** A tool of a list. Names and types that are too long to be read are empty. */
export interface ListedTool {
  /** The names of its members. */
  readonly names: readonly string[]
  /** Its type; several when the member is repeated. */
  readonly types: readonly string[]
  /** Its member `max_uses`, if there is one, and where its value is in the list. */
  readonly uses: { readonly value: unknown; readonly from: number; readonly to: number } | undefined
  /** The offset of its closing brace in the list. */
  readonly end: number
}

/**
 * A search of a JSON list, which has to be valid. It can stop and go on, so that a long list takes turns with other
 * work. `tell` is called for each object of the list, in order, and `result` at the end.
 */
export class ToolSearch<T> {
  /** How many bytes there are. */
  readonly length: number
  readonly #list: Buffer
  readonly #tell: (tool: ListedTool) => void
  readonly #result: () => T
  #at = 0
  #depth = 0
  /** Where the content of the present string begins; -1 outside of strings. */
  #string = -1
  /** The last string of the present tool. */
  #word = [0, 0] as [from: number, to: number]
  #tool: { names: string[]; types: string[]; uses: ListedTool['uses'] } | undefined
  /** The member whose value follows, and where that begins. */
  #name: string | undefined
  #value = 0

  constructor(list: Buffer, tell: (tool: ListedTool) => void, result: () => T) {
    this.length = list.length
    this.#list = list
    this.#tell = tell
    this.#result = result
  }

  /** Goes on until the time `until` (`performance.now()`), at least for a moment. Undefined: there is more to do. */
  advance(until: number): T | undefined {
    do if (this.#run()) return this.#result()
    while (performance.now() < until)
    return undefined
  }

  /** Returns whether the end was reached. */
  #run(): boolean {
    const list = this.#list
    for (let step = 0; step < steps && this.#at < list.length; step++) {
      const at = this.#at
      if (this.#string >= 0) {
        this.#inside(at)
        continue
      }
      const byte = list[at]!
      this.#at++
      if (byte === quote) this.#string = at + 1
      else if (byte === openBrace || byte === openBracket) {
        if (++this.#depth === 2 && byte === openBrace) this.#tool = { names: [], types: [], uses: undefined }
      } else if (byte === closeBrace || byte === closeBracket) {
        if (this.#depth-- === 2) this.#close(at)
      } else if (this.#depth === 2 && this.#tool) {
        if (byte === colon) {
          this.#name = this.#read(...this.#word) as string
          this.#value = at + 1
        } else if (byte === comma) this.#member(at)
      }
    }
    return this.#at >= list.length
  }

  /** Goes to the next quote of a string, which is its end unless it is escaped. */
  #inside(from: number): void {
    const list = this.#list
    const found = list.indexOf(quote, from)
    const end = found === -1 ? list.length : found
    this.#at = end + 1
    let escapes = 0
    while (end - escapes > this.#string && list[end - escapes - 1] === backslash) escapes++
    if (escapes % 2 === 1) return
    this.#word = [this.#string - 1, end + 1]
    this.#string = -1
  }

  #member(end: number): void {
    const [tool, name] = [this.#tool!, this.#name]
    if (name === undefined) return
    this.#name = undefined
    tool.names.push(name)
    if (name === 'max_uses') tool.uses = { value: this.#read(this.#value, end), from: this.#value, to: end }
    if (name !== 'type') return
    const type = this.#read(this.#value, end)
    if (typeof type === 'string') tool.types.push(type)
  }

  #close(at: number): void {
    if (!this.#tool) return
    this.#member(at)
    this.#tell({ ...this.#tool, end: at })
    this.#tool = undefined
  }

  #read(from: number, to: number): unknown {
    return to - from > longestWord ? '' : JSON.parse(this.#list.toString('utf8', from, to))
  }
}
