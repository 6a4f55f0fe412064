// The accounting of a supervisor: what it decides itself, and what workers send.
import type { BalanceReader } from '../embedded/book/purses.ts'
import { holdOf } from '../embedded/recovery/folded-leftovers.ts'
import type { Accounting, LedgerParts } from '../embedded/store.ts'
import { Arena } from './arena/arena.ts'
import { horizonOf } from './arena/cells.ts'
import type { ArenaSizes } from './arena/arena.ts'
import { Desk } from './desk/desk.ts'
import type { DeskPlace } from './desk/desk.ts'
import { Forgetting } from './forgetting.ts'
import { RecordReader } from './records/record-reader.ts'
import { createBell, createRing, Rings } from './records/ring.ts'
import type { SeatRecords } from './records/seat-records.ts'
import { Seats, supervisor } from './arena/seats.ts'

/** The bytes of a ring: some hundred requests. What finds no room waits with the worker. */
const usualRing = 2 ** 20

/** It ends when all workers have left. */
export class Office implements Accounting {
  readonly seats: Seats
  readonly reader: RecordReader
  readonly desk: Desk
  /** Reads balances that are not in the shared memory. */
  readonly older: BalanceReader
  /** What the supervisor's own records have said. */
  readonly records: SeatRecords
  /** Forgets balances that nobody needs any more. */
  readonly forgetting: Forgetting
  readonly #bell = createBell()
  readonly #shared: Pick<DeskPlace, 'arena' | 'bell' | 'deferred'>

  constructor({ writer, snapshot, reader, troubles, now, kept, deferred }: LedgerParts, sizes: ArenaSizes) {
    // A gateway that ran out of room has some when it starts again.
    const arena = Arena.create({ ...sizes, cells: Math.max(sizes.cells, 2 * snapshot.balances.length) })
    const oldest = snapshot.open.reduce((oldest, row) => Math.min(oldest, Number(row['ts_ms'])), now())
    arena.begin(Math.max(snapshot.since, horizonOf(oldest)))
    this.#shared = { arena: arena.buffer, bell: this.#bell, deferred }
    this.seats = new Seats(arena)
    this.older = reader
    const prices = snapshot.prices.map(({ version, json }) => [version as string, json as string] as const)
    this.reader = new RecordReader(new Rings(this.#bell), writer, prices)
    writer.onBalance = (batch) => this.reader.balance(batch)
    const ring = createRing(usualRing)
    this.records = this.reader.add(supervisor, ring)
    for (const row of snapshot.open) this.records.adopt(holdOf(row), Number(row['id']))
    const stored = { ...snapshot, kept, reader, troubles, follow: () => writer.flushed() }
    const place = { ...this.#shared, seat: supervisor, ring, prices: [] }
    this.desk = new Desk(place, now, stored, this.seats.own)
    // Operators are shown what a request cost at which price, whichever worker charged it.
    this.reader.onPrice = (version, json) => this.desk.ledger.know(version, json)
    const { cells } = this.desk
    cells.onListed = () => this.reader.list()
    this.reader.onListed = (scope, window, limit) => cells.learn(scope, window, limit)
    this.forgetting = new Forgetting({ seats: this.seats, reader: this.reader, troubles, now })
    void this.reader.run()
  }

  get ledger(): Desk['ledger'] {
    return this.desk.ledger
  }

  get drafts(): Desk['drafts'] {
    return this.desk.drafts
  }

  /**
   * Gives a seat to a worker that is about to be started, but none of those that are `leaving`. `bytes`: of its ring.
   * @throws Error when all seats are taken
   */
  give(leaving: ReadonlySet<number>, bytes = usualRing): DeskPlace {
    const ring = createRing(bytes)
    const seat = this.seats.give(leaving)
    this.reader.add(seat, ring)
    return { ...this.#shared, seat, ring, prices: [...this.reader.prices] }
  }

  async close(): Promise<void> {
    await this.drafts.flushed()
    this.reader.close()
  }
}
