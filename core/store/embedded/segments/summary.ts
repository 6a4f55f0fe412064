// What the footer of a volume says of its frames: gathered while they are folded, and again when a volume is checked.
import { Sums } from '../balance/sums.ts'
import { entryColumns } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import type { Value } from '../files/sqlite.ts'
import { entryWidth } from '../journal/journal.ts'
import type { Place } from './chain.ts'
import type { SegmentHead } from './segment-head.ts'

const [kindColumn, scopesColumn, amountColumn, timeColumn] = (['kind', 'scopes', 'amount', 'ts_ms'] as const).map(
  (name) => entryColumns.indexOf(name)
) as [number, number, number, number]

/** The batches of one segment, the last one included. Hashes are hexadecimal, times Unix milliseconds. */
export interface Contents extends SegmentHead {
  readonly last: number
  /** The journal row before the first one and the last one, with their hashes; likewise of the audit log. */
  readonly seqBefore: number
  readonly hashBefore: string
  readonly seq: number
  readonly hash: string
  readonly auditsBefore: number
  readonly auditHashBefore: string
  readonly audits: number
  readonly auditHash: string
  /** When the last batch was written, and the earliest and the latest time of a journal row; 0 where there is none. */
  readonly written: number
  readonly oldest: number
  readonly newest: number
}

/** Gathers what the frames of one segment add up to. */
export class Summary {
  readonly #charged = new Sums()
  readonly #head: SegmentHead
  readonly #before: Readonly<Place>
  #after: Readonly<Place>
  #oldest = Infinity
  #newest = 0

  /** `before` is the place in front of the first frame. */
  constructor(head: SegmentHead, before: Readonly<Place>) {
    this.#head = head
    this.#before = this.#after = { ...before }
  }

  /** Adds a batch, behind which the fold is at `after`. */
  add({ entries }: Batch, after: Readonly<Place>): void {
    this.#after = { ...after }
    for (let i = 0; i < entries.length; i += entryWidth) {
      const time = entries[i + timeColumn] as number
      if (time < this.#oldest) this.#oldest = time
      if (time > this.#newest) this.#newest = time
      if (entries[i + kindColumn] === 'cost') continue
      this.#charged.add(entries[i + scopesColumn] as string, time, entries[i + amountColumn] as bigint, 0n)
    }
  }

  /** What was charged, as rows of scope, window and amount in an order that follows from them. */
  get charges(): Value[] {
    return [...this.#charged]
      .sort((one, other) => compare(one.scope, other.scope) || compare(one.window, other.window))
      .flatMap(({ scope, window, posted }) => [scope, window, posted])
  }

  /** What was added. */
  get contents(): Contents {
    const [before, after] = [this.#before, this.#after]
    return {
      ...this.#head,
      last: after.batch,
      seqBefore: before.seq,
      hashBefore: before.hash,
      seq: after.seq,
      hash: after.hash,
      auditsBefore: before.audits,
      auditHashBefore: before.auditHash,
      audits: after.audits,
      auditHash: after.auditHash,
      written: after.written,
      oldest: this.#newest === 0 ? 0 : this.#oldest,
      newest: this.#newest
    }
  }
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}
