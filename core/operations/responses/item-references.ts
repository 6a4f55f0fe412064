// Finds items in a list of them, such as those that stand in an input by their id alone, without parsing it, and in
// slices: a list may be large.
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
  from: number
  type: string | undefined
  id: string | undefined
  /** It says something itself. */
  full: boolean
}

/** An object in the list. */
export interface FoundItem {
  readonly id: string | undefined
  /** Its place among the objects of the list. */
  readonly place: number
  /** Where it stands in the bytes. */
  readonly from: number
  readonly to: number
  /** It stands for another one, by its id: that may be told by its type, or by nothing but an id. */
  readonly reference: boolean
}

/**
 * Those items of a JSON array that has been checked of which `wants` is true, at most `most`; a promise where it is
 * large.
 */
export function findItems(
  list: Buffer,
  wants: (item: FoundItem) => boolean,
  most = Infinity
): readonly FoundItem[] | Promise<readonly FoundItem[]> {
  return inTurns(new ItemScan(list, wants, most))
}

/** One list. */
export class ItemScan implements Work<readonly FoundItem[]> {
  readonly #bytes: Buffer
  readonly #wants: (item: FoundItem) => boolean
  readonly #most: number
  readonly #found: FoundItem[] = []
  #place = 0
  #at = 0
  #depth = 0
  #item: Item | undefined
  /** Of the member whose value comes; undefined where a name comes. */
  #name: string | undefined
  /** Where the text began that is being passed over; undefined outside of one. */
  #text: number | undefined

  constructor(bytes: Buffer, wants: (item: FoundItem) => boolean, most = Infinity) {
    this.#bytes = bytes
    this.#wants = wants
    this.#most = most
  }

  advance(until: number): readonly FoundItem[] | undefined {
    for (let step = 1; this.#at < this.#bytes.length && this.#found.length < this.#most; step++) {
      if (step % stride === 0 && performance.now() >= until) return undefined
      if (this.#text === undefined) this.#structure(this.#bytes[this.#at]!)
      else this.#inText(this.#text)
    }
    return this.#found
  }

  #structure(byte: number): void {
    const at = this.#at++
    switch (byte) {
      case quote:
        this.#text = at
        return
      case 0x7b:
        if (++this.#depth === 2) this.#item = { from: at, type: undefined, id: undefined, full: false }
        this.#name = this.#depth === 2 ? undefined : this.#name
        return
      case 0x5b:
        this.#depth++
        return
      case 0x7d:
      case 0x5d:
        if (this.#depth-- === 2) this.#close(at + 1)
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

  #close(to: number): void {
    const item = this.#item
    this.#item = undefined
    if (!item) return
    const { id, from, type, full } = item
    const reference = id !== undefined && (type === 'item_reference' || (type === undefined && !full))
    const found = { id, place: this.#place++, from, to, reference }
    if (this.#wants(found)) this.#found.push(found)
  }
}
