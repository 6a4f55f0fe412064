// The draft of the next batch: collects the operations of the main thread until the batch is written.
import { emptyBatch } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import type { Gathering, Hold } from '../balance/hold.ts'
import type { RowIds } from '../rows/row-ids.ts'
import type { Value } from '../files/sqlite.ts'

/** The rows of one change of documents. */
export interface ChangeRows {
  readonly documents: readonly Value[]
  readonly audit: readonly Value[]
  /** Whether it is withdrawn when those who wait are told that the disk fails. */
  readonly revocable: boolean
}

/** Where a book puts its operations, and has them made durable. */
export interface Drafts {
  /** The current draft, for operations of requests that were admitted before. Call `wake` after adding to it. */
  readonly draft: Draft
  /** Whether new requests are refused. */
  readonly full: boolean
  /** Whether what is added to the draft will be on disk within moments, as far as can be known. */
  readonly keepsUp: boolean
  /**
   * The current draft, for new requests.
   * @throws GatewayError `billing_unavailable` while the disk fails, or too much waits for it
   */
  admit(): Draft
  /** Sends the draft at once, as somebody waits for it. */
  wake(): void
  /** Sends the draft within some milliseconds. */
  wakeSoon(): void
  /** Sends the draft within about a quarter of a second. */
  wakeLater(): void
  /** Resolves with true when everything queued until now is where the readers find it; with false on failure. */
  flushed(): Promise<boolean>
}

/** What another thread has gathered, and joins a draft. */
export interface Joined {
  /** The number of its operations, and of its bytes. */
  readonly ops: number
  readonly bytes: number
  /** Writes its rows to a batch. Runs once, after every {@link Hold.writeEnd} of the batch. */
  write(batch: Batch, rowIds: RowIds): void
}

/** New requests are refused while a draft has more operations, or bytes, than this. */
const limit = { ops: 20_000, bytes: 64 * 1024 * 1024 }

/**
 * How long operations that nobody waits for are delayed, in milliseconds, to be written together with others. It is
 * short, so that a crash loses hardly more.
 */
export const company = 5
/** How long the disk may take for a batch, in milliseconds, until it does not keep up. */
export const lag = 100

/** The assumed memory of an operation, in bytes, besides its text. */
const opBytes = 512

/**
 * Collects operations, and becomes a batch once. The rows of holds are made at that moment, so that a hold which has
 * already ended is never written as open.
 */
export class Draft implements Gathering {
  readonly opened: Hold[] = []
  readonly touched: Hold[] = []
  readonly detached: Hold[] = []
  readonly ended: Hold[] = []
  readonly prices: string[] = []
  readonly records: Value[] = []
  /** Changes of documents, and entries of the audit log. */
  changes: ChangeRows[] = []
  readonly answers: Value[] = []
  readonly routes: Value[] = []
  readonly works: Value[] = []
  readonly #joined: Joined[] = []
  /** The number of operations, and the approximate number of bytes, collected. */
  ops = 0
  bytes = 0
  #durable: PromiseWithResolvers<void> | undefined

  /** Counts an operation. `text` is its number of characters. */
  count(text = 0): void {
    this.ops++
    this.bytes += opBytes + text
  }

  /** Whether so much waits in it that new requests are refused. */
  get full(): boolean {
    return this.ops >= limit.ops || this.bytes >= limit.bytes
  }

  /** Adds what another thread has gathered. */
  join(joined: Joined): void {
    this.#joined.push(joined)
    this.ops += joined.ops
    this.bytes += joined.bytes
  }

  get durable(): Promise<void> {
    if (!this.#durable) {
      this.#durable = Promise.withResolvers<void>()
      // The rejection still reaches those who wait. Without this handler it would end the process when nobody waits.
      this.#durable.promise.catch(() => {})
    }
    return this.#durable.promise
  }

  /** Resolves when the batch is on disk, however long that takes. */
  async kept(): Promise<void> {
    for (;;) {
      try {
        return await this.durable
      } catch {
        // Those who wait were told, and the batch is still to be written.
      }
    }
  }

  /** Tells those who wait that the batch is on disk. */
  resolve(): void {
    this.#durable?.resolve()
  }

  /**
   * Rejects the promise of those who wait, as the batch is not on disk yet. It is still written, without the changes
   * that can be withdrawn; `durable` is a new promise from then on. Returns whether there were such changes. `batch`:
   * the one that was made of the draft, if any.
   */
  disappoint(error: Error, batch?: Batch): boolean {
    const kept = this.changes.filter(({ revocable }) => !revocable)
    const withdrawn = kept.length < this.changes.length
    this.changes = kept
    if (batch) this.#writeChanges(batch)
    this.#durable?.reject(error)
    this.#durable = undefined
    return withdrawn
  }

  /** Writes the changes of documents to a batch, in the place of those that it had. */
  #writeChanges(batch: Batch): void {
    batch.documents = this.changes.flatMap(({ documents }) => documents)
    batch.audit = this.changes.flatMap(({ audit }) => audit)
  }

  /**
   * Makes the batch. Holds that nobody waits for move to the draft `next`, if one is given and they began after `young`
   * (by performance.now()): most of them end before they need a row.
   */
  seal(number: number, written: number, rowIds: RowIds, next?: Draft, young = Infinity): Batch {
    const batch = emptyBatch(number, written)
    batch.prices = this.prices
    batch.records = this.records
    this.#writeChanges(batch)
    batch.answers = this.answers
    batch.routes = this.routes
    batch.works = this.works
    for (const hold of this.touched) hold.writeTouch(batch)
    for (const hold of this.ended) hold.writeEnd(batch, rowIds)
    for (const joined of this.#joined) joined.write(batch, rowIds)
    for (const hold of this.opened) {
      if (next && hold.moveTo(next, young)) this.#hand(hold, next)
      else if (hold.lasts) hold.writeOpen(batch, rowIds)
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
