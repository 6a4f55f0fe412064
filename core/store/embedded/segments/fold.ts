// The fold: takes batches one after the other, and holds what a start needs to go on behind them.
import { Sums } from '../balance/sums.ts'
import { documentColumns, entryColumns, holdColumns, workColumns } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import { entryWidth } from '../journal/journal.ts'
import type { Value } from '../files/sqlite.ts'
import { daysOf } from '../../window.ts'
import { Chain } from './chain.ts'
import type { Place, Start } from './chain.ts'
import { heldBy, nameOf, OpenHolds } from './holds.ts'
import type { OpenHold } from './holds.ts'

const at = Object.fromEntries(entryColumns.map((name, i) => [name, i])) as Record<(typeof entryColumns)[number], number>
const [openColumn, jsonColumn] = [workColumns.indexOf('open'), workColumns.indexOf('json')]

/**
 * The state of a store after a batch. What it says of money follows from holds and entries alone, so that it is the
 * same wherever the fold began.
 */
export class Fold {
  readonly balances = new Sums()
  readonly holds = new OpenHolds()
  /** Prices as JSON, by version. */
  readonly prices = new Map<string, string>()
  /** Documents by kind and id, in the order in which they were first put: the values of {@link documentColumns}. */
  readonly documents = new Map<string, Value[]>()
  /** Open work by owner and id: the values of {@link workColumns}. */
  readonly works = new Map<string, Value[]>()
  /** The counted bytes of ended work that is kept, by tenant, owner and id. */
  readonly room = new Map<string, number>()
  /** The names that ended since the checkpoint before the last one, and since the last one. */
  #before = new Set<string>()
  #since = new Set<string>()
  readonly #chain: Chain

  constructor(place?: Readonly<Place>) {
    this.#chain = new Chain(place)
  }

  get place(): Readonly<Place> {
    return this.#chain.place
  }

  /** The names that ended since the last checkpoint. */
  get ended(): ReadonlySet<string> {
    return this.#since
  }

  /** Restores the names that ended before a checkpoint, since the one before. */
  restore(ended: Iterable<string>): void {
    this.#before = new Set(ended)
  }

  /** Notes that a checkpoint was made: ends before the one before it are forgotten. */
  marked(): void {
    this.#before = this.#since
    this.#since = new Set()
  }

  /**
   * Adds the next batch.
   * @throws Error when it is not the next one, or ends what has ended, or opens what is open; the
   *   state is of no use then
   */
  add(batch: Batch, start: Start): void {
    const { history } = this.place
    this.#chain.add(batch, start)
    try {
      if (start.history !== history) this.holds.forgetParts()
      for (let i = 0; i < batch.prices.length; i += 2)
        if (!this.prices.has(batch.prices[i]!)) this.prices.set(batch.prices[i]!, batch.prices[i + 1]!)
      this.#limits(batch)
      // Holds end before others take over their ids.
      this.holds.touch(batch.touched)
      this.#journal(batch.entries)
      this.#open(batch.opened)
      this.holds.lease(batch.leased)
      this.#documents(batch.documents)
      this.#works(batch.works)
    } catch (error) {
      throw new Error(`batch ${batch.number} cannot follow what is before it: ${(error as Error).message}`, {
        cause: error
      })
    }
  }

  /** Rolling budgets have a row with nothing but a limit, which says which hours a start needs. */
  #limits({ moves, limits }: Batch): void {
    for (let i = 0; i < moves.length; i += 4)
      if (daysOf(moves[i + 1] as string) !== undefined) this.balances.of(moves[i] as string, moves[i + 1] as string)
    for (let i = 0; i < limits.length; i += 3)
      this.balances.of(limits[i + 1] as string, limits[i + 2] as string).limit =
        (limits[i] as bigint | null) ?? undefined
  }

  #journal(entries: Batch['entries']): void {
    for (let i = 0; i < entries.length; i += entryWidth) {
      const [scopes, time] = [entries[i + at.scopes] as string, entries[i + at.ts_ms] as number]
      const held = entries[i + at.class] === 'terminal' ? this.#end(entries, i) : 0n
      const charged = entries[i + at.kind] === 'cost' ? 0n : (entries[i + at.amount] as bigint)
      this.balances.add(scopes, time, charged, -held)
    }
  }

  /** Ends what an entry ends. Returns what was held for it, in the same scopes and at the same time. */
  #end(entries: Batch['entries'], i: number): bigint {
    const name = nameOf(entries[i + at.request_id] as string, entries[i + at.part] as string)
    const { size } = this.#since
    if (this.#since.add(name).size === size || this.#before.has(name)) throw new Error(`${name} has ended already`)
    const hold = this.holds.end(entries, i)
    if (!hold) return 0n
    const { scopes, time, amount } = heldBy(hold)
    if (scopes === entries[i + at.scopes] && time === entries[i + at.ts_ms]) return amount
    throw new Error(`${name} ends in other scopes, or at another time, than it is held`)
  }

  #open(opened: Batch['opened']): void {
    const { boot } = this.place
    for (let i = 0; i < opened.length; i += holdColumns.length)
      this.hold({ row: opened.slice(i, i + holdColumns.length), boot, lease: null })
  }

  #documents(documents: Batch['documents']): void {
    for (let i = 0; i < documents.length; i += documentColumns.length)
      this.putDocument(documents.slice(i, i + documentColumns.length))
  }

  #works(works: Batch['works']): void {
    for (let i = 0; i < works.length; i += workColumns.length) this.putWork(works.slice(i, i + workColumns.length))
  }

  /** Keeps a document; one without JSON is deleted. The values are those of {@link documentColumns}. */
  putDocument(row: Value[]): void {
    const name = row.slice(0, -1).join('\0')
    if (row.at(-1) === null) this.documents.delete(name)
    else this.documents.set(name, row)
  }

  /** Keeps a piece of work; one without JSON is deleted. The values are those of {@link workColumns}. */
  putWork(row: Value[]): void {
    const name = row.slice(0, 3).join('\0')
    this.works.delete(name)
    this.room.delete(name)
    const json = row[jsonColumn]
    if (json === null) return
    if (row[openColumn] === 1) return void this.works.set(name, row)
    const { bytes } = JSON.parse(json as string) as { bytes?: number }
    if (bytes !== undefined) this.room.set(name, bytes)
  }

  /** Opens a hold, whose amount counts from now on. */
  hold(hold: OpenHold): void {
    this.holds.open(hold)
    const { scopes, time, amount } = heldBy(hold)
    this.balances.add(scopes, time, 0n, amount)
  }
}
