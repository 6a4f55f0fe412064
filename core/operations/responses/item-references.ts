// Finds items in a JSON list, such as those in an input that are only an id. It does not parse the list, and works in
// slices, as a list may be large.
import { folded } from '../../bodies/lookalike.ts'
import { inTurns } from '../../bodies/turns.ts'
import { Walk } from '../../bodies/walk.ts'

/** The longest name or short text that is read, in bytes, with every character escaped. */
const longestText = 6 * 512

/** The first letter of `null`. */
const letterN = 0x6e

/** Members that describe an item and are not its content. */
const labels: ReadonlySet<string> = new Set(['type', 'id', 'role', 'status', 'phase', 'object'])
/**
 * By type, the members that hold an item's content. When an item has none of them, an upstream that keeps the item
 * reads the content there (https://platform.openai.com/docs/api-reference/responses/create, `input`).
 */
const contents: ReadonlyMap<string, readonly string[]> = new Map([
  ['message', ['content']],
  ['reasoning', ['encrypted_content', 'content']],
  ['image_generation_call', ['result']]
])
const allContents: ReadonlySet<string> = new Set([...contents.values()].flat())

/** What is known of the item that is being read. */
interface Item {
  from: number
  type: string | undefined
  id: string | undefined
  /** Whether it has a non-empty member that is not a label, and which of those members may hold its content. */
  says: boolean
  readonly contents: Set<string>
  /** Whether it has a role or a content, even an empty one. */
  message: boolean
  /** Which of `type` and `id` have been seen. */
  readonly named: Set<string>
  odd: string | undefined
}

/** An object in the list. */
export interface FoundItem {
  readonly id: string | undefined
  /** Its index among the objects of the list. */
  readonly place: number
  /** Its range in the bytes of the list. */
  readonly from: number
  readonly to: number
  /**
   * Whether it only stands for another item: by its type, or as it has nothing but labels, or neither type, role nor
   * content.
   */
  readonly reference: boolean
  /**
   * Whether it holds only a part of the item with its id, such as a summary of reasoning. An upstream reads the rest
   * where it keeps the item.
   */
  readonly partial: boolean
  /** The name of a member that other readers may take for `type` or `id`: a duplicate, or one with other capitals. */
  readonly odd: string | undefined
}

/**
 * The first `most` items of a JSON array for which `wants` is true. The array must have been checked. A promise when
 * the work does not fit into this turn of the event loop.
 */
export function findItems(
  list: Buffer,
  wants: (item: FoundItem) => boolean,
  most = Infinity
): readonly FoundItem[] | Promise<readonly FoundItem[]> {
  return inTurns(new ItemScan(list, wants, most))
}

/** A scan of one list. */
export class ItemScan extends Walk<readonly FoundItem[]> {
  readonly #wants: (item: FoundItem) => boolean
  readonly #most: number
  readonly #found: FoundItem[] = []
  #place = 0
  #depth = 0
  #item: Item | undefined
  /** The name of the member whose value comes next; undefined where a name comes next. */
  #name: string | undefined
  /** The offset of the list or object that is the value of the present member. */
  #value = 0

  constructor(bytes: Buffer, wants: (item: FoundItem) => boolean, most = Infinity) {
    super(bytes)
    this.#wants = wants
    this.#most = most
  }

  protected get found(): readonly FoundItem[] {
    return this.#found
  }

  protected open(at: number, list: boolean): void {
    this.#depth++
    if (this.#depth === 2 && !list) this.#begin(at)
    else if (this.#depth === 3) this.#value = at
  }

  protected close(at: number): void {
    if (this.#depth === 3 && !isBlank(this.bytes, this.#value + 1, at)) this.#say()
    if (this.#depth-- === 2) this.#end(at + 1)
  }

  protected comma(): void {
    if (this.#depth === 2) this.#name = undefined
  }

  protected text(from: number, end: number): void {
    if (this.#depth !== 2 || !this.#item) return
    const { bytes } = this
    const text = end - from <= longestText ? (JSON.parse(bytes.toString('utf8', from, end + 1)) as string) : undefined
    if (this.#name === undefined) this.#see((this.#name = text ?? ''))
    else if (this.#name === 'type') this.#item.type = text ?? ''
    else if (this.#name === 'id') this.#item.id = text ?? ''
    else if (end - from > 1) this.#say()
  }

  /** `null` counts as no content. */
  protected scalar(first: number): void {
    if (this.#depth === 2 && first !== letterN) this.#say()
  }

  #begin(from: number): void {
    this.#name = undefined
    this.#item = {
      from,
      type: undefined,
      id: undefined,
      says: false,
      contents: new Set(),
      message: false,
      named: new Set(),
      odd: undefined
    }
  }

  #see(name: string): void {
    const item = this.#item!
    if (name === 'role' || name === 'content') item.message = true
    const taken = folded(name)
    if (taken !== 'type' && taken !== 'id') return
    if (taken !== name || item.named.has(name)) item.odd ??= name
    item.named.add(name)
  }

  /** Notes that the present member has a non-empty value. */
  #say(): void {
    const name = this.#name
    if (!this.#item || name === undefined || labels.has(name)) return
    this.#item.says = true
    if (allContents.has(name)) this.#item.contents.add(name)
  }

  #end(to: number): void {
    const item = this.#item
    this.#item = undefined
    if (!item) return
    const { id, from, type, says, message, odd } = item
    const stands = type === 'item_reference' || !says || (type === undefined && !message)
    const reference = id !== undefined && stands
    const own = contents.get(type ?? 'message')
    const partial = id !== undefined && !stands && own !== undefined && !own.some((name) => item.contents.has(name))
    const found = { id, place: this.#place++, from, to, reference, partial, odd }
    if (!this.#wants(found)) return
    this.#found.push(found)
    this.over = this.#found.length >= this.#most
  }
}

function isBlank(bytes: Buffer, from: number, to: number): boolean {
  let at = from
  while (at < to && bytes[at]! <= 0x20) at++
  return at === to
}
