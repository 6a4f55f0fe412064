// Opens the store of a gateway of many workers: the supervisor's own services, and seats for the threads of workers.
import { holdOf } from '../embedded/recovery/folded-leftovers.ts'
import { openStore } from '../embedded/store.ts'
import type { Accounting, LedgerParts, OwnStore, StoreOptions } from '../embedded/store.ts'
import { silentLog } from '../../telling/log.ts'
import { Arena } from './arena.ts'
import type { ArenaSizes } from './arena.ts'
import { bringHome } from './departure.ts'
import { Desk } from './desk.ts'
import type { Place } from './desk.ts'
import { RecordReader } from './record-reader.ts'
import { createBell, createRing, Rings } from './ring.ts'
import type { SeatRecords } from './seat-records.ts'
import { Seats, supervisor } from './seats.ts'

/** The bytes of a worker's ring: some hundred requests. What finds no room waits with the worker. */
const usualRing = 2 ** 20

/** A store that workers share, as the supervisor has it. */
export interface WorkerStore extends OwnStore {
  /**
   * Gives a seat to a worker that is about to be started: it makes a {@link Desk} of it. `ring`: bytes of its ring.
   * @throws Error when all seats are taken
   */
  give(ring?: number): Place
  /** Brings home what the worker of a seat has left, whose thread has ended. Returns how many holds were ended. */
  leave(seat: number): Promise<number>
}

/**
 * Opens a store for workers. `sizes`: how much the shared memory is for, the supervisor's seat included.
 * @throws Error as {@link openStore} does
 */
export async function openWorkerStore(options: StoreOptions, sizes: ArenaSizes): Promise<WorkerStore> {
  let office: Office | undefined
  const store = await openStore({ ...options, ledger: (parts) => (office = new Office(parts, sizes)) })
  const { seats, reader, records, drafts, ledger } = office!
  const { requests } = store
  const supervision = { seats, reader, records, ledger, drafts, requests, log: options.log ?? silentLog }
  return {
    ...store,
    give: (ring) => office!.give(ring),
    leave: (seat) => bringHome(seat, supervision)
  }
}

/** The accounting of the supervisor: what it decides itself, and what workers send. It ends when all have left. */
class Office implements Accounting {
  readonly seats: Seats
  readonly reader: RecordReader
  /** What the supervisor's own records have said. */
  readonly records: SeatRecords
  readonly #desk: Desk
  readonly #bell = createBell()
  readonly #shared: Pick<Place, 'arena' | 'bell' | 'since' | 'deferred'>

  constructor({ writer, snapshot, reader, troubles, now, kept, deferred }: LedgerParts, sizes: ArenaSizes) {
    const arena = Arena.create(sizes)
    this.#shared = { arena: arena.buffer, bell: this.#bell, since: snapshot.since, deferred }
    this.seats = new Seats(arena)
    const prices = snapshot.prices.map(({ version, json }) => [version as string, json as string] as const)
    this.reader = new RecordReader(new Rings(this.#bell), writer, prices)
    writer.onBalance = (batch) => this.reader.balance(batch)
    const ring = createRing(usualRing)
    this.records = this.reader.add(supervisor, ring)
    for (const row of snapshot.open) this.records.adopt(holdOf(row), Number(row['id']))
    const stored = { ...snapshot, kept, reader, troubles, follow: () => writer.flushed() }
    this.#desk = new Desk({ ...this.#shared, seat: supervisor, ring }, now, stored, this.seats.own)
    void this.reader.run()
  }

  get ledger(): Desk['ledger'] {
    return this.#desk.ledger
  }

  get drafts(): Desk['drafts'] {
    return this.#desk.drafts
  }

  give(bytes = usualRing): Place {
    const ring = createRing(bytes)
    const seat = this.seats.give()
    this.reader.add(seat, ring)
    return { ...this.#shared, seat, ring }
  }

  async close(): Promise<void> {
    await this.drafts.flushed()
    this.reader.close()
  }
}
