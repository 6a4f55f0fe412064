// Writes what comes at the same time in one statement, and the next while that is under way in the next one.
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseFault } from './fault.ts'

/** How long something is tried while the database cannot be reached, in milliseconds; after that its writer is told. */
const tryFor = 5000
/** The most that may wait. */
const mostWaiting = 20_000

interface Waiting<Item> {
  readonly item: Item
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** How items are written. */
export interface GroupOptions<Item> {
  /** Writes some. It may be done again when an answer was lost, so doing it twice must be like doing it once. */
  write(items: readonly Item[]): Promise<unknown>
  /** The most of one statement. */
  most: number
  /** Its bytes, where they count: a statement has some megabytes of them. */
  bytesOf?(item: Item): number
}

/** The most bytes of one statement, unless it is a single item. */
const mostBytes = 4 * 1024 * 1024

/** What waits to be written by one process. Items are written in their order. */
export class Group<Item> {
  readonly #options: GroupOptions<Item>
  #waiting: Waiting<Item>[] = []
  #writing: Promise<void> | undefined

  constructor(options: GroupOptions<Item>) {
    this.#options = options
  }

  /**
   * Resolves when an item is committed. What is added in the same tick of the event loop is in one statement with it.
   * @throws DatabaseFault rejects with it
   */
  add(item: Item): Promise<void> {
    if (this.#waiting.length >= mostWaiting)
      return Promise.reject(new DatabaseFault('busy', 'too much waits to be written to PostgreSQL'))
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject })
      this.#writing ??= this.#write()
    })
  }

  /** Resolves when nothing waits any more. */
  async idle(): Promise<void> {
    while (this.#writing) await this.#writing
  }

  async #write(): Promise<void> {
    await Promise.resolve()
    while (this.#waiting.length > 0) {
      const some = this.#next()
      try {
        await this.#try(some.map(({ item }) => item))
        for (const { resolve } of some) resolve()
      } catch (error) {
        for (const { reject } of some) reject(error)
      }
    }
    this.#writing = undefined
  }

  #next(): Waiting<Item>[] {
    const { most, bytesOf = () => 0 } = this.#options
    let bytes = 0
    let count = 0
    for (const { item } of this.#waiting) {
      bytes += bytesOf(item)
      if (count === most || (count > 0 && bytes > mostBytes)) break
      count++
    }
    return this.#waiting.splice(0, count)
  }

  async #try(items: readonly Item[]): Promise<void> {
    for (const until = performance.now() + tryFor; ;) {
      try {
        return void (await this.#options.write(items))
      } catch (error) {
        const again = error instanceof DatabaseFault && (error.unknown || error.conflict)
        if (!again || performance.now() > until) throw error
        await sleep(Math.random() * 50)
      }
    }
  }
}
