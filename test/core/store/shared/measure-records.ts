// Prints what a request costs on its way into a frame: by the draft of one process, and by a worker's record.
// `node test/core/store/shared/measure-records.ts`
import { Book } from '../../../../core/store/embedded/book/book.ts'
import { FrameEncoder } from '../../../../core/store/embedded/log/frame.ts'
import type { Batch } from '../../../../core/store/embedded/rows/batch.ts'
import { RowIds } from '../../../../core/store/embedded/rows/row-ids.ts'
import { Draft } from '../../../../core/store/embedded/writer/draft.ts'
import type { Drafts } from '../../../../core/store/embedded/writer/draft.ts'
import { Arena } from '../../../../core/store/shared/arena/arena.ts'
import { Desk } from '../../../../core/store/shared/desk/desk.ts'
import { RecordReader } from '../../../../core/store/shared/records/record-reader.ts'
import { createBell, createRing, Rings } from '../../../../core/store/shared/records/ring.ts'
import { Seats } from '../../../../core/store/shared/arena/seats.ts'
import type { Ledger } from '../../../../core/store/ledger.ts'
import { noon, reserve, scope, used } from '../embedded/sample.ts'

/** How many requests are in a frame, and how many frames are made. */
const [requests, frames] = [32, 1500]
const scopes = (['tenant', 'project', 'member', 'key'] as const).map((kind) => scope(kind, 'acme', 10n ** 18n))
const now = (): number => noon

/** Makes frames of drafts, which it does not write. */
class Frames implements Drafts {
  draft = new Draft()
  readonly full = false
  readonly keepsUp = true
  readonly #encoder = new FrameEncoder('0011223344556677')
  readonly #rowIds = new RowIds(0)
  #number = 0

  admit(): Draft {
    return this.draft
  }

  wake(): void {}
  wakeSoon(): void {}
  wakeLater(): void {}
  flushed = (): Promise<boolean> => Promise.resolve(true)

  /** Makes a frame of the draft, and says that it is on disk. */
  make(balance: (batch: Batch) => void): Draft {
    const { draft } = this
    this.draft = new Draft()
    const batch = draft.seal(++this.#number, noon, this.#rowIds)
    balance(batch)
    this.#encoder.encode(batch)
    draft.resolve()
    return draft
  }
}

/** Holds and settles for each request of a frame. Resolves when all are told. */
function serve(ledger: Ledger): Promise<unknown> {
  return Promise.all(
    Array.from({ length: requests }, () =>
      reserve(ledger, scopes, 40n).settle({ usage: used(3), amount: 3n, source: 'upstream', channel: 'openai' })
    )
  )
}

/** The CPU time of this process for a request, in microseconds. */
async function cost(frame: () => Promise<unknown>): Promise<number> {
  for (let i = 0; i < frames / 5; i++) await frame()
  const before = process.cpuUsage()
  for (let i = 0; i < frames; i++) await frame()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / (frames * requests)
}

async function alone(): Promise<number> {
  const made = new Frames()
  const stored = { since: 0, balances: [], prices: [], open: [], parts: [] }
  const reader = { ask: () => Promise.reject(new Error('nobody reads')) }
  const book = new Book(made, stored, reader, { begin() {}, over() {} }, now)
  return cost(async () => {
    const told = serve(book)
    book.forget(made.make((batch) => book.balance(batch)).ended)
    await told
  })
}

async function byWorker(): Promise<{ both: number; supervisor: number }> {
  const made = new Frames()
  const arena = Arena.create({ seats: 2, sets: 2, cells: 64 })
  const [seat, ring, bell] = [new Seats(arena).give(), createRing(2 ** 20), createBell()]
  const reader = new RecordReader(new Rings(bell), made, [])
  reader.add(seat, ring)
  const { ledger } = new Desk({ arena: arena.buffer, seat, ring, bell, deferred: false, prices: [] }, now)
  let own = 0
  const both = await cost(async () => {
    const told = serve(ledger)
    await new Promise((resolve) => setImmediate(resolve))
    const before = process.cpuUsage()
    reader.read()
    made.make((batch) => reader.balance(batch))
    const { user, system } = process.cpuUsage(before)
    own += user + system
    await told
  })
  reader.close()
  // The frames before the measurement count here too.
  return { both, supervisor: own / (1.2 * frames * requests) }
}

const [process1, workers] = [await alone(), await byWorker()]
console.log(`| A request of ${requests} in a frame, hold and end | µs of CPU |\n|---|---|`)
console.log(`| one process: draft and frame | ${process1.toFixed(1)} |`)
console.log(`| with a worker: draft, record, ring, draft and frame | ${workers.both.toFixed(1)} |`)
console.log(`| of these the supervisor: record, draft and frame | ${workers.supervisor.toFixed(1)} |`)
