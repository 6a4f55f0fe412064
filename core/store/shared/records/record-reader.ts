// The supervisor's end of all rings: what workers sent goes into the journal's next frame, and is acknowledged when
// that is on disk.
import { Sums } from '../../embedded/balance/sums.ts'
import { decodeBatch } from '../../embedded/log/frame.ts'
import type { Batch } from '../../embedded/rows/batch.ts'
import type { Draft, Drafts } from '../../embedded/writer/draft.ts'
import type { Rings } from './ring.ts'
import { SeatRecords } from './seat-records.ts'

/** The rows of a record that others look up, or hear of. */
export type Kept = Pick<Batch, 'answers' | 'routes' | 'works' | 'records'>

/** How often workers are told whether the journal takes new requests, in milliseconds. */
const pause = 100

/** Brings the records of all rings to the writer of the journal. */
export class RecordReader {
  /** Called with rows of a seat's record that are on disk, before the thread of the seat hears of it. */
  onKept: (seat: number, rows: Kept) => void = () => {}
  /** Called by {@link RecordReader.list} with each balance, and its limit where that has changed. */
  onListed: (scope: string, window: string, limit?: bigint | null) => void = () => {}
  /** The prices that are in the journal or in a draft for it, as JSON by version. */
  readonly prices: Map<string, string>
  /** Told of each price that comes first from here. */
  onPrice: (version: string, json: string) => void = () => {}
  readonly #rings: Rings
  readonly #journal: Pick<Drafts, 'draft' | 'full' | 'wake'>
  readonly #seats = new Map<number, SeatRecords>()
  readonly #telling: NodeJS.Timeout
  /** What balances have changed since they were last written. */
  #sums = new Sums()
  /** Limits that changed, and the moves without which a rolling budget has no row for its limit. */
  #limits: Pick<Batch, 'moves' | 'limits'> = { moves: [], limits: [] }
  /** Whether something of these was not listed. */
  #unlisted = false
  #kept: Promise<void> = Promise.resolve()
  #closed = false

  /** `prices`: those that are stored. */
  constructor(
    rings: Rings,
    journal: Pick<Drafts, 'draft' | 'full' | 'wake'>,
    prices: Iterable<readonly [version: string, json: string]>
  ) {
    this.#rings = rings
    this.#journal = journal
    this.prices = new Map(prices)
    this.#telling = setInterval(() => this.#tell(), pause).unref()
  }

  /** Resolves when everything that was read until now is on disk. */
  get kept(): Promise<void> {
    return this.#kept
  }

  /** Reads the ring of a seat from now on. */
  add(seat: number, ring: SharedArrayBuffer): SeatRecords {
    const records = new SeatRecords()
    this.#rings.add(seat, ring)
    this.#seats.set(seat, records)
    return records
  }

  /** What the records of each seat have said. */
  get seats(): ReadonlyMap<number, SeatRecords> {
    return this.#seats
  }

  /** Reads what a thread that has ended had written, and forgets its ring. Returns what its records have said. */
  remove(seat: number): SeatRecords {
    this.read()
    const records = this.#seats.get(seat)
    if (!records) throw new Error(`nobody reads the records of seat ${seat}`)
    this.#rings.remove(seat)
    this.#seats.delete(seat)
    return records
  }

  /** Reads records as they come, until it is closed. It keeps no event loop running. */
  async run(): Promise<void> {
    while (!this.#closed) {
      this.read()
      await this.#rings.rung()
    }
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#telling)
  }

  /** Puts what is in the rings into the draft of the journal. */
  read(): void {
    const { records, acknowledge } = this.#rings.take()
    if (records.size === 0) return
    const { draft } = this.#journal
    const told: [seat: number, rows: Kept][] = []
    for (const [seat, found] of records) {
      const [bytes, ...others] = found
      if (others.length > 0) throw new Error(`the worker of seat ${seat} sent a record before another was acknowledged`)
      const record = decodeBatch(Buffer.from(bytes!.buffer, bytes!.byteOffset, bytes!.length), undefined)
      record.prices = this.#learn(record.prices)
      const { answers, routes, works, records: requests } = record
      if (answers.length + routes.length + works.length + requests.length > 0) told.push([seat, record])
      this.#unlisted = true
      this.#limits.moves = this.#limits.moves.concat(record.moves)
      this.#limits.limits = this.#limits.limits.concat(record.limits)
      draft.join(
        this.#seats.get(seat)!.add(record, bytes!.length, ({ scopes, time, posted, pending }) => {
          this.#unlisted = true
          this.#sums.add(scopes, time, posted, pending)
        })
      )
    }
    this.#kept = this.#keep(draft, told, acknowledge)
    this.#journal.wake()
  }

  /** Tells of the balances that records have changed since it was last called. */
  list(): void {
    if (!this.#unlisted) return
    this.#unlisted = false
    for (const { scope, window } of this.#sums) this.onListed(scope, window)
    const { limits } = this.#limits
    for (let at = 0; at < limits.length; at += 3) {
      const [limit, scope, window] = limits.slice(at, at + 3) as [bigint | null, string, string]
      this.onListed(scope, window, limit)
    }
  }

  /** Adds the changes of all balances to a batch, so that the balances on disk are those after it. */
  balance(batch: Batch): void {
    this.list()
    batch.balanced = true
    batch.moves = batch.moves.concat(this.#sums.moves(), this.#limits.moves)
    batch.limits = batch.limits.concat(this.#limits.limits)
    this.#sums = new Sums()
    this.#limits = { moves: [], limits: [] }
  }

  /** Returns the prices that are new. */
  #learn(prices: readonly string[]): string[] {
    const found: string[] = []
    for (let i = 0; i < prices.length; i += 2) {
      const [version, json] = [prices[i]!, prices[i + 1]!]
      if (this.prices.has(version)) continue
      this.prices.set(version, json)
      this.onPrice(version, json)
      found.push(version, json)
    }
    return found
  }

  async #keep(draft: Draft, told: readonly [number, Kept][], acknowledge: () => void): Promise<void> {
    for (;;) {
      try {
        await draft.durable
        break
      } catch {
        // The draft is still written when the disk has healed. Only those who wait for it are told.
        this.#tell()
        this.#rings.disappoint()
      }
    }
    this.#tell()
    for (const [seat, rows] of told) this.onKept(seat, rows)
    acknowledge()
  }

  #tell(): void {
    this.#rings.refuse(this.#journal.full)
  }
}
