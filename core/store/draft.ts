// The batch that is being gathered: whatever the main thread did since the last one left.
import { emptyBatch } from './batch.ts'
import type { Batch } from './batch.ts'
import type { Gathering, Hold } from './hold.ts'
import type { RowIds } from './row-ids.ts'
import type { Value } from './sqlite.ts'

/** Bytes that an operation is taken to hold beside its text. */
const opBytes = 512

/**
 * Collects operations; sealed once, when it leaves for the writer. Holds are written as they are at that moment, so one
 * that ended in the meantime was never open as far as the disk knows.
 */
export class Draft implements Gathering {
  readonly opened: Hold[] = []
  readonly touched: Hold[] = []
  readonly detached: Hold[] = []
  readonly ended: Hold[] = []
  readonly prices: string[] = []
  readonly records: Value[] = []
  readonly keys: Value[] = []
  readonly answers: Value[] = []
  readonly routes: Value[] = []
  readonly works: Value[] = []
  /** Operations and bytes gathered. */
  ops = 0
  bytes = 0
  #durable: PromiseWithResolvers<void> | undefined
  #since: number | undefined

  get since(): number {
    return (this.#since ??= performance.now())
  }

  /** Counts an operation with `text` characters. */
  count(text = 0): void {
    this.ops++
    this.bytes += opBytes + text
  }

  get durable(): Promise<void> {
    if (!this.#durable) {
      this.#durable = Promise.withResolvers<void>()
      // Whoever waits sees the rejection; nobody has to wait.
      this.#durable.promise.catch(() => {})
    }
    return this.#durable.promise
  }

  /** All of it is on disk. */
  resolve(): void {
    this.#durable?.resolve()
  }

  /** Tells those who wait that it is not on disk yet. It stays to be written; later waiters get a new promise. */
  disappoint(error: Error): void {
    this.#durable?.reject(error)
    this.#durable = undefined
  }

  /**
   * As the writer takes it. Holds that nobody waits for go over to `next`, when there is one and they began after
   * `young` (by performance.now()): most of them end before they need a row.
   */
  seal(number: number, written: number, rowIds: RowIds, next?: Draft, young = Infinity): Batch {
    const batch = emptyBatch(number, written)
    batch.prices = this.prices
    batch.records = this.records
    batch.keys = this.keys
    batch.answers = this.answers
    batch.routes = this.routes
    batch.works = this.works
    for (const hold of this.touched) hold.writeTouch(batch)
    for (const hold of this.ended) hold.writeEnd(batch, rowIds)
    for (const hold of this.opened) {
      if (next && hold.moveTo(next, young)) this.#hand(hold, next)
      else hold.writeOpen(batch, rowIds)
    }
    for (const hold of this.detached) hold.writeLease(batch)
    batch.closed = rowIds.abandoned()
    return batch
  }

  #hand(hold: Hold, next: Draft): void {
    next.opened.push(hold)
    next.count()
    this.ops--
    this.bytes -= opBytes
  }
}
