// A store that workers share: the supervisor's side, and the book of a worker in whichever thread.
import { Book } from '../../core/store/embedded/book/book.ts'
import type { BalanceReader } from '../../core/store/embedded/book/purses.ts'
import { Troubles } from '../../core/store/embedded/files/troubles.ts'
import { Reader } from '../../core/store/embedded/reader/reader.ts'
import { recordValues } from '../../core/store/embedded/rows/batch.ts'
import { RowIds } from '../../core/store/embedded/rows/row-ids.ts'
import type { Snapshot } from '../../core/store/embedded/writer/snapshot.ts'
import { Writer } from '../../core/store/embedded/writer/writer.ts'
import { Arena } from '../../core/store/shared/arena.ts'
import { WorkerCells } from '../../core/store/shared/cells.ts'
import { bringHome } from '../../core/store/shared/departure.ts'
import type { Supervision } from '../../core/store/shared/departure.ts'
import { RecordReader } from '../../core/store/shared/record-reader.ts'
import { RecordWriter } from '../../core/store/shared/record-writer.ts'
import { createBell, createRing, Rings, RingWriter } from '../../core/store/shared/ring.ts'
import { Seat } from '../../core/store/shared/seat.ts'
import { Seats, supervisor } from '../../core/store/shared/seats.ts'
import type { RequestLog } from '../../core/store/requests.ts'
import { silentLog } from '../../core/telling/log.ts'

/** What a worker is given with its seat. */
export interface Place {
  readonly seat: number
  readonly ring: SharedArrayBuffer
  readonly bell: SharedArrayBuffer
  /** From when on, in Unix milliseconds, balances are in the shared memory. */
  readonly since: number
}

/** The book of one seat, and what writes its records. */
export interface Desk {
  readonly book: Book
  readonly writer: RecordWriter
  /** Records of requests go with the ends that they tell of. */
  readonly requests: Pick<RequestLog, 'append'>
}

type Stored = Pick<Snapshot, 'since' | 'balances' | 'prices' | 'open' | 'lastHold'>

/** The book of a seat. `reader`: reads older balances; a worker without one refuses what needs them. */
export function deskOf(
  seat: Seat,
  { ring, bell, since }: Omit<Place, 'seat'>,
  now: () => number,
  stored: Stored = { since, balances: [], prices: [], open: [], lastHold: 0 },
  reader: BalanceReader = { ask: () => Promise.reject(new Error('nobody reads')) }
): Desk {
  const writer = new RecordWriter(new RingWriter(ring, bell), new RowIds(stored.lastHold), now)
  const troubles = { begin() {}, over() {} }
  const book = new Book(writer, stored, reader, troubles, now, [], false, new WorkerCells(seat, since))
  writer.onEnded = (ended) => book.forget(ended)
  writer.onBalance = (batch) => book.balance(batch)
  const requests: Desk['requests'] = {
    append(record) {
      writer.draft.records.push(...recordValues(record))
      writer.draft.count()
      writer.wakeSoon()
    }
  }
  return { book, writer, requests }
}

/** The supervisor's side of a store that workers share. */
export class WorkerStore {
  readonly arena: Arena
  readonly supervision: Supervision
  readonly writer: Writer
  readonly #reader: Reader
  readonly #since: number
  readonly #bell = createBell()
  readonly #running: NodeJS.Timeout

  private constructor(writer: Writer, reader: Reader, snapshot: Snapshot, workers: number, now: () => number) {
    this.writer = writer
    this.#reader = reader
    this.#since = snapshot.since
    this.arena = Arena.create({ seats: workers + 1, sets: 64, cells: 1024 })
    const seats = new Seats(this.arena)
    const prices = snapshot.prices.map(({ version, json }) => [version as string, json as string] as const)
    const records = new RecordReader(new Rings(this.#bell), writer, prices)
    writer.onBalance = (batch) => records.balance(batch)
    const ring = createRing(2 ** 20)
    const own = records.add(supervisor, ring)
    const older: BalanceReader = {
      ask: async (question) => {
        await writer.flushed()
        return reader.ask(question)
      }
    }
    const desk = deskOf(seats.own, { ring, bell: this.#bell, since: snapshot.since }, now, snapshot, older)
    this.supervision = { seats, reader: records, records: own, ...desk, log: silentLog }
    void records.run()
    // A gateway has servers that keep it running.
    this.#running = setInterval(() => {}, 1000)
  }

  /** Opens the store of a file without open holds. `workers`: how many there can be. */
  static async open(file: string, workers: number, now: () => number): Promise<WorkerStore> {
    const troubles = new Troubles(silentLog, file)
    const { writer, snapshot } = await Writer.open(
      { file, durability: 'process', segments: undefined, keeping: undefined, kept: [] },
      troubles,
      now,
      false
    )
    return new WorkerStore(writer, new Reader(file), snapshot, workers, now)
  }

  /** Gives a seat to a worker that is about to be started. `bytes`: the size of its ring. */
  give(bytes = 2 ** 20): Place {
    const { seats, reader } = this.supervision
    const place = { seat: seats.give(), ring: createRing(bytes), bell: this.#bell, since: this.#since }
    reader.add(place.seat, place.ring)
    return place
  }

  /** Brings home what the worker of a seat has left, which has gone. Returns how many holds were ended. */
  leave(seat: number): Promise<number> {
    return bringHome(seat, this.supervision)
  }

  /** Resolves when everything that was sent is in the database. */
  async flush(): Promise<void> {
    await this.supervision.writer.flushed()
    await this.writer.flushed()
  }

  async close(): Promise<void> {
    await this.flush()
    this.supervision.reader.close()
    clearInterval(this.#running)
    await this.#reader.close()
    await this.writer.close()
  }
}
