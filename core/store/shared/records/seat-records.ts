// What the records of one seat have said: its open holds, and what it changed of balances. So it is known of a worker
// that has gone what it left open, and what of its changes nobody has heard of.
import { Sums } from '../../embedded/balance/sums.ts'
import type { Sum } from '../../embedded/balance/sums.ts'
import { entryColumns, holdColumns, touchColumns } from '../../embedded/rows/batch.ts'
import type { Batch } from '../../embedded/rows/batch.ts'
import type { RowIds } from '../../embedded/rows/row-ids.ts'
import { heldBy, OpenHolds } from '../../embedded/segments/holds.ts'
import type { OpenHold } from '../../embedded/segments/holds.ts'
import type { Joined } from '../../embedded/writer/draft.ts'
import type { Published } from '../arena/balance-rows.ts'

const entryAt = Object.fromEntries(entryColumns.map((name, i) => [name, i])) as Record<
  (typeof entryColumns)[number],
  number
>
const [entryWidth, holdWidth, touchWidth] = [entryColumns.length, holdColumns.length, touchColumns.length]

/** What a row of a record changes of balances: scopes and time as in the journal, amounts in nano-dollars. */
export interface Change {
  readonly scopes: string
  readonly time: number
  readonly posted: bigint
  readonly pending: bigint
}

/** Rows that go into the journal as they came, whichever thread they are from. */
const plain = ['prices', 'entries', 'records', 'documents', 'audit', 'answers', 'routes', 'works'] as const

/** The records of one seat, from when it is given to a thread until it is left. */
export class SeatRecords {
  /** The holds that are open by the records. Their rows have the ids that the thread gave them. */
  readonly open = new OpenHolds()
  readonly #sums = new Sums()
  /** The ids of rows in the journal, by those that the thread gave them. */
  readonly #ids = new Map<number, number>()

  /** What the thread has published of each balance, and was not settled. */
  published(): readonly Published[] {
    return [...this.#sums].map(publishedOf)
  }

  /**
   * Settles what the thread has published of windows that ended by a time (Unix milliseconds): it is forgotten here
   * when `act` says that it is settled. Returns whether all of it is.
   */
  settle(time: number, act: (published: Published) => boolean): boolean {
    for (const sum of this.#sums.over(time)) {
      if (!act(publishedOf(sum))) return false
      this.#sums.delete(sum)
    }
    return true
  }

  /** Takes over an open hold whose row another thread wrote. `id` is that of the row; `hold` has the thread's own. */
  adopt(hold: OpenHold, id: number): void {
    this.open.open(hold)
    this.#ids.set(hold.row[0] as number, id)
  }

  /** The id of an open hold's row in the journal; undefined until it is in a batch. */
  idOf(hold: OpenHold): number | undefined {
    return this.#ids.get(hold.row[0] as number)
  }

  /**
   * Reads a record of so many bytes. Returns what joins the draft of the journal. `written` is called with each change
   * of balances when it is in a batch.
   */
  add(record: Batch, bytes: number, written: (change: Change) => void): Joined {
    const changes = this.#fold(record)
    for (const { scopes, time, posted, pending } of changes) this.#sums.add(scopes, time, posted, pending)
    return {
      ops: 1 + record.entries.length / entryWidth + record.opened.length / holdWidth,
      bytes,
      write: (batch, rowIds) => {
        this.#write(record, batch, rowIds)
        for (const change of changes) written(change)
      }
    }
  }

  /** Brings the open holds up to a record. Returns what it changes of balances. */
  #fold(record: Batch): Change[] {
    const changes: Change[] = []
    const { entries, opened } = record
    // Holds end before others take over their ids.
    this.open.touch(record.touched)
    for (let i = 0; i < entries.length; i += entryWidth) {
      const [scopes, time] = [entries[i + entryAt.scopes] as string, entries[i + entryAt.ts_ms] as number]
      const ended = entries[i + entryAt.class] === 'terminal' ? this.open.end(entries, i) : undefined
      const posted = entries[i + entryAt.kind] === 'cost' ? 0n : (entries[i + entryAt.amount] as bigint)
      const pending = ended ? -heldBy(ended).amount : 0n
      if (posted !== 0n || pending !== 0n) changes.push({ scopes, time, posted, pending })
    }
    for (let i = 0; i < opened.length; i += holdWidth) {
      const hold = { row: opened.slice(i, i + holdWidth), boot: 0, lease: null }
      this.open.open(hold)
      const { scopes, time, amount } = heldBy(hold)
      changes.push({ scopes, time, posted: 0n, pending: amount })
    }
    this.open.lease(record.leased)
    return changes
  }

  /** Writes the rows of a record to a batch of the journal, those of holds with the ids that they have there. */
  #write(record: Batch, batch: Batch, rowIds: RowIds): void {
    for (const name of plain) {
      const into = batch[name] as unknown[]
      for (const value of record[name]) into.push(value)
    }
    for (let i = 0; i < record.touched.length; i += touchWidth) {
      const row = record.touched.slice(i, i + touchWidth)
      row[touchWidth - 1] = this.#idOf(row[touchWidth - 1] as number)
      batch.touched.push(...row)
    }
    for (const own of record.closed) {
      rowIds.give(this.#idOf(own))
      this.#ids.delete(own)
    }
    for (let i = 0; i < record.opened.length; i += holdWidth) {
      const row = record.opened.slice(i, i + holdWidth)
      const own = row[0] as number
      // A hold that takes the id of one that ended in the same record takes its row too.
      const id = this.#ids.get(own) ?? rowIds.take()
      this.#ids.set(own, id)
      row[0] = id
      batch.opened.push(...row)
    }
    for (let i = 0; i < record.leased.length; i += 2)
      batch.leased.push(record.leased[i]!, this.#idOf(record.leased[i + 1]!))
  }

  #idOf(own: number): number {
    const id = this.#ids.get(own)
    if (id === undefined) throw new Error(`a record tells of row ${own}, which no record has opened`)
    return id
  }
}

function publishedOf({ scope, window, posted, pending }: Sum): Published {
  return { scope, window, posted, used: posted + pending }
}
