// The records of workers on their way into the journal: who waits is told when the frame with them is on disk, or that
// the disk fails, and each record is written once.
import t from 'tap'
import type { Test } from 'tap'
import { entryColumns, holdColumns } from '../../../../core/store/embedded/rows/batch.ts'
import type { Batch } from '../../../../core/store/embedded/rows/batch.ts'
import { RowIds } from '../../../../core/store/embedded/rows/row-ids.ts'
import { Draft } from '../../../../core/store/embedded/writer/draft.ts'
import { unavailable } from '../../../../core/store/embedded/writer/unavailable.ts'
import { Arena } from '../../../../core/store/shared/arena/arena.ts'
import { Desk } from '../../../../core/store/shared/desk/desk.ts'
import { RecordReader } from '../../../../core/store/shared/records/record-reader.ts'
import { createBell, createRing, Rings } from '../../../../core/store/shared/records/ring.ts'
import { Seats } from '../../../../core/store/shared/arena/seats.ts'
import { eventually } from '../../../kit/probe.ts'
import { noon, reserve, scope, used } from '../embedded/sample.ts'

/** Who waits for a ring keeps no loop running; a gateway has listeners that do. */
const running = setInterval(() => {}, 1000)
t.teardown(() => clearInterval(running))

const scopes = [scope('tenant', 'acme', 1000n), scope('key', 'laptop', 500n)]

/** A journal whose frames are on disk when the test says so. */
class SlowJournal {
  draft = new Draft()
  full = false
  readonly #rowIds = new RowIds(0)
  #number = 0

  wake(): void {}

  /** Sends the draft. The frame is on disk when the returned draft is resolved. */
  send(): { draft: Draft; batch: Batch } {
    const draft = this.draft
    this.draft = new Draft()
    return { draft, batch: draft.seal(++this.#number, noon, this.#rowIds) }
  }
}

/** Workers whose records the test reads. */
function office(t: Test, workers: number): { journal: SlowJournal; reader: RecordReader; desks: readonly Desk[] } {
  const arena = Arena.create({ seats: workers + 1, sets: 2, cells: 64 })
  const [seats, bell, journal] = [new Seats(arena), createBell(), new SlowJournal()]
  const reader = new RecordReader(new Rings(bell), journal, [])
  t.teardown(() => reader.close())
  const desks = Array.from({ length: workers }, () => {
    const [seat, ring] = [seats.give(), createRing(2 ** 16)]
    reader.add(seat, ring)
    return new Desk({ arena: arena.buffer, seat, ring, bell, deferred: false, prices: [] }, () => noon)
  })
  return { journal, reader, desks }
}

/** Holds and settles. Says what became of who waits. */
function serve({ ledger }: Desk, output: number): { heard: string | undefined; settled: Promise<void> } {
  const hold = reserve(ledger, scopes, 100n)
  const settled = hold.settle({ usage: used(output), amount: BigInt(output), source: 'upstream', channel: 'openai' })
  const told: ReturnType<typeof serve> = { heard: undefined, settled }
  settled.then(
    () => (told.heard = 'kept'),
    (error) => (told.heard = error.code)
  )
  return told
}

const ends = ({ entries }: Batch): unknown[] => entries.filter((_, at) => at % entryColumns.length === 5)
const turns = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20))

/** Reads until so many records are in the draft. */
async function readOf({ journal, reader }: { journal: SlowJournal; reader: RecordReader }, ops: number): Promise<void> {
  await eventually(() => {
    reader.read()
    return journal.draft.ops >= ops
  })
}

t.test('while the disk is slow each worker is told of its own records, when their frame is on disk', async (t) => {
  const { journal, reader, desks } = office(t, 2)
  const [one, two] = desks as [Desk, Desk]
  const first = serve(one, 7)
  await readOf({ journal, reader }, 2)
  const early = journal.send()
  const second = serve(two, 8)
  const third = serve(one, 9)
  await readOf({ journal, reader }, 2)
  await turns()
  reader.read()
  const late = journal.send()
  t.same([ends(early.batch), ends(late.batch)], [[7n], [8n]], 'one record of a worker is under way at a time')
  t.same([first.heard, second.heard, third.heard], [undefined, undefined, undefined])
  early.draft.resolve()
  await first.settled
  t.same([second.heard, third.heard], [undefined, undefined])
  await readOf({ journal, reader }, 2)
  const last = journal.send()
  t.same(ends(last.batch), [9n])
  late.draft.resolve()
  await second.settled
  t.equal(third.heard, undefined)
  let all = false
  void reader.kept.then(() => (all = true))
  await turns()
  t.notOk(all)
  last.draft.resolve()
  await third.settled
  await reader.kept
})

t.test('a disk that fails is told to all who wait, and what they did is written once it has healed', async (t) => {
  const { journal, reader, desks } = office(t, 2)
  const [one, two] = desks as [Desk, Desk]
  const first = serve(one, 7)
  await readOf({ journal, reader }, 2)
  const frame = journal.send()
  const behind = serve(one, 8)
  const other = serve(two, 9)
  await readOf({ journal, reader }, 2)
  journal.full = true
  const error = unavailable('no space left on device')
  frame.draft.disappoint(error)
  journal.draft.disappoint(error)
  for (const { settled } of [first, behind, other]) await t.rejects(settled, { code: 'billing_unavailable' })
  t.throws(() => reserve(two.ledger, scopes, 1n), { code: 'billing_unavailable' }, 'nothing new is admitted')
  t.notOk(one.drafts.keepsUp)
  // Whoever comes to wait while it lasts is told at the next try.
  const again = two.drafts.flushed()
  frame.draft.disappoint(error)
  journal.draft.disappoint(error)
  t.equal(await again, false)
  journal.full = false
  frame.draft.resolve()
  await readOf({ journal, reader }, 4)
  const healed = journal.send()
  healed.draft.resolve()
  t.same([...ends(frame.batch), ...ends(healed.batch)].sort(), [7n, 8n, 9n], 'each once')
  await reader.kept
  const later = serve(one, 1)
  await readOf({ journal, reader }, 2)
  journal.send().draft.resolve()
  await later.settled
  t.same(
    one.ledger.balances({ scope: 'key:laptop' }).map(({ posted, pending }) => [posted, pending]),
    [[25n, 0n]]
  )
})

t.test('rows of holds have ids of their own in the journal, whatever ids workers give them', async (t) => {
  const { journal, reader, desks } = office(t, 2)
  const opened: unknown[][] = []
  const pass = async (ops: number): Promise<Batch> => {
    await readOf({ journal, reader }, ops)
    const { batch, draft } = journal.send()
    draft.resolve()
    await reader.kept
    const { opened: rows } = batch
    for (let i = 0; i < rows.length; i += holdColumns.length) opened.push([rows[i], rows[i + 1]])
    return batch
  }
  const holds = desks.map(({ ledger }, at) => reserve(ledger, scopes, 10n, { requestId: `first ${at}` }))
  const durable = holds.map((hold) => hold.durable)
  await pass(4)
  await Promise.all(durable)
  t.same(opened.map(([id]) => id).sort(), [1, 2])
  const idOf = (name: string): unknown => opened.find(([, request]) => request === name)![0]
  // The next hold of the second worker takes the row of the one that ends in the same record.
  holds[0]!.dispatched('openai')
  const detached = holds[0]!.detach(noon + 1000)
  const ended = holds[1]!.void()
  const next = reserve(desks[1]!.ledger, scopes, 10n, { requestId: 'second 1' }).durable
  const batch = await pass(4)
  await Promise.all([detached, ended, next])
  t.same(batch.leased, [noon + 1000, idOf('first 0')])
  t.equal(batch.touched.at(-1), idOf('first 0'))
  t.equal(idOf('second 1'), idOf('first 1'))
  t.same(batch.closed, [], 'no row is left to be deleted')
  t.same(batch.prices, [], 'a price is written once, whichever worker has it')
})
