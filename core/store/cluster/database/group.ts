// Writes what comes at the same time in one statement, and the next while that is under way in the next one.
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseFault } from './fault.ts'

/** How long something is tried while the database cannot be reached, in milliseconds; after that its writer is told. */
const tryFor = 5000
/** The most that may wait by default. */
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
  /**
   * For how many milliseconds more is waited for before a statement, when nobody waits for what there is. Default: 0,
   * which is the rest of the tick.
   */
  gathers?: number
  /** Whether what cannot be written is kept until the database is there again. Default: its writer is told. */
  lasting?: boolean
  /** The most that may wait. Default: 20,000. */
  room?: number
}

/** The most bytes of one statement, unless it is a single item. */
const mostBytes = 4 * 1024 * 1024

/** What waits to be written by one process. Items are written in their order. */
export class Group<Item> {
  readonly #options: GroupOptions<Item>
  #waiting: Waiting<Item>[] = []
  #writing: Promise<void> | undefined
  #closing = false
  /** What was added last, which is written after everything else. */
  #last: Promise<unknown> = Promise.resolve()
  /** Whether somebody waits for what there is, and what ends the waiting for more then. */
  #hurried = false
  #goOn: (() => void) | undefined
  /** Resolves when a statement fails. */
  #failure = Promise.withResolvers<void>()
  /** Whether the last statement failed. */
  failing = false

  constructor(options: GroupOptions<Item>) {
    this.#options = options
  }

  /**
   * Resolves when an item is committed. What is added in the same tick of the event loop is in one statement with it.
   * @throws DatabaseFault rejects with it
   */
  add(item: Item): Promise<void> {
    if (this.#waiting.length >= (this.#options.room ?? mostWaiting))
      return Promise.reject(new DatabaseFault('busy', 'too much waits to be written to PostgreSQL'))
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#waiting.push({ item, resolve, reject })
    this.#last = promise.catch(() => {})
    if (this.#waiting.length >= this.#options.most) this.#goOn?.()
    this.#writing ??= this.#write()
    return promise
  }

  /** Resolves when what was added until now is written or given up; at the next failure, where it is kept. */
  async idle(): Promise<void> {
    this.#hurry()
    await (this.#options.lasting ? Promise.race([this.#last, this.#failure.promise]) : this.#last)
  }

  /** Writes what waits, if the database is there. Nothing may be added after it. */
  async close(): Promise<void> {
    this.#closing = true
    this.#hurry()
    await this.#writing
  }

  async #write(): Promise<void> {
    await Promise.resolve()
    while (this.#waiting.length > 0) {
      await this.#gather()
      await this.#settle(this.#next())
    }
    this.#hurried = false
    this.#writing = undefined
  }

  /** Waits for more. */
  async #gather(): Promise<void> {
    const { gathers = 0, most } = this.#options
    if (gathers === 0 || this.#hurried || this.#closing || this.#waiting.length >= most) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, gathers)
    this.#goOn = resolve
    await promise
    clearTimeout(timer)
    this.#goOn = undefined
  }

  #hurry(): void {
    this.#hurried = this.#writing !== undefined
    this.#goOn?.()
  }

  /** Writes some. Of several that the database refuses for what is in them, only those are refused that it refuses. */
  async #settle(some: readonly Waiting<Item>[]): Promise<void> {
    try {
      await this.#try(some.map(({ item }) => item))
      for (const { resolve } of some) resolve()
    } catch (error) {
      if (some.length > 1 && error instanceof DatabaseFault && error.ofContent) {
        const half = some.length >> 1
        await this.#settle(some.slice(0, half))
        await this.#settle(some.slice(half))
      } else for (const { reject } of some) reject(error)
    }
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
        await this.#options.write(items)
        this.failing = false
        return
      } catch (error) {
        if (!(error instanceof DatabaseFault) || error.ofContent) throw error
        this.failing = true
        this.#failure.resolve()
        this.#failure = Promise.withResolvers()
        const { lasting = false } = this.#options
        const soon = (error.unknown || error.conflict) && performance.now() < until
        const kept = lasting && (error.away || error.conflict) && !this.#closing
        const again = kept || (soon && !(lasting && error.away))
        if (!again) throw error
        await sleep(Math.random() * 50)
      }
    }
  }
}
