// Finds the items of an input that stand there by their id alone, without parsing it, and in slices: an input may be large.
import { inTurns } from '../../bodies/turns.ts'
import type { Work } from '../../bodies/turns.ts'

/** Steps between two looks at the clock. */
const stride = 1024
/** Bytes of a name or a short text, as it is written with escapes. */
const longestText = 6 * 512

const quote = 0x22
const backslash = 0x5c

/** What is known of the item that is being read. */
interface Item {
  type: string | undefined
  id: string | undefined
  /** It says something itself. */
  full: boolean
}

/** Ids of the items in a JSON array that has been checked; a promise where it is large. */
export function itemReferences(input: Buffer): readonly string[] | Promise<readonly string[]> {
  return inTurns(new ItemScan(input))
}

/** One input. The upstream may be told a reference by its type, or by nothing but an id. */
export class ItemScan implements Work<readonly string[]> {
  readonly #bytes: Buffer
  readonly #ids = new Set<string>()
  #at = 0
  #depth = 0
  #item: Item | undefined
  /** Of the member whose value comes; undefined where a name comes. */
  #name: string | undefined
  /** Where the text began that is being passed over; undefined outside of one. */
  #text: number | undefined

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  advance(until: number): readonly string[] | undefined {
    for (let step = 1; this.#at < this.#bytes.length; step++) {
      if (step % stride === 0 && performance.now() >= until) return undefined
      if (this.#text === undefined) this.#structure(this.#bytes[this.#at]!)
      else this.#inText(this.#text)
    }
    return [...this.#ids]
  }

  #structure(byte: number): void {
    const at = this.#at++
    switch (byte) {
      case quote:
        this.#text = at
        return
      case 0x7b:
        if (++this.#depth === 2) this.#item = { type: undefined, id: undefined, full: false }
        this.#name = this.#depth === 2 ? undefined : this.#name
        return
      case 0x5b:
        this.#depth++
        return
      case 0x7d: case 0x5d:
        if (this.#depth-- === 2) this.#close()
        return
      case 0x2c:
        if (this.#depth === 2) this.#name = undefined
        return
      default:
    }
  }

  /** Goes to the next quote, which ends the text unless it is escaped. */
  #inText(from: number): void {
    const bytes = this.#bytes
    const end = bytes.indexOf(quote, this.#at)
    this.#at = end + 1
    let escapes = 0
    while (bytes[end - 1 - escapes] === backslash) escapes++
    if (escapes % 2 === 1) return
    this.#text = undefined
    if (this.#depth !== 2 || !this.#item) return
    const text = end - from <= longestText ? (JSON.parse(bytes.toString('utf8', from, end + 1)) as string) : undefined
    if (this.#name === undefined) this.#see((this.#name = text ?? ''))
    else if (this.#name === 'type') this.#item.type = text ?? ''
    else if (this.#name === 'id') this.#item.id = text ?? ''
  }

  /** Whatever has a role or a content says something. */
  #see(name: string): void {
    if (name === 'role' || name === 'content') this.#item!.full = true
  }

  #close(): void {
    const item = this.#item
    this.#item = undefined
    if (item?.id !== undefined && (item.type === 'item_reference' || (item.type === undefined && !item.full))) this.#ids.add(item.id)
  }
}
