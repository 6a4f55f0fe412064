// What a worker leaves that ends at any moment: nothing that was acknowledged is lost, nothing is doubled, and what it
// held comes back.
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import type { Test } from 'tap'
import { verify } from '../../../../core/store/embedded/care/verify/verify.ts'
import type { Reservation } from '../../../../core/store/ledger.ts'
import { sharedNow } from '../../../../core/store/shared/arena/clock.ts'
import { Desk } from '../../../../core/store/shared/desk/desk.ts'
import type { DeskPlace } from '../../../../core/store/shared/desk/desk.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import { WorkerLimits } from '../../../../core/store/shared/arena/limits.ts'
import { createBell } from '../../../../core/store/shared/records/ring.ts'
import { openWorkerStore } from '../../../../core/store/shared/worker-store.ts'
import type { Place, WorkerStore } from '../../../../core/store/shared/worker-store.ts'
import type { Store } from '../../../../core/store/store.ts'
import { eventually } from '../../../kit/probe.ts'
import { forms } from '../embedded/forms.ts'
import type { Form } from '../embedded/forms.ts'
import { noon, query, record, reserve, used } from '../embedded/sample.ts'
import { admitted, chargeOf, finished, scopes, sets, slots } from './serving.ts'
import type { Serving } from './serving.ts'

t.setTimeout(600_000)

const now = (): number => noon

/** Who waits for a ring keeps no loop running; a gateway has listeners that do. */
const running = setInterval(() => {}, 1000)
t.teardown(() => clearInterval(running))

const sizes = { seats: 3, sets: 64, cells: 1024 }

async function storeOf(t: Test, form: Form = forms.log): Promise<{ workers: WorkerStore; store: Store; file: string }> {
  const file = join(t.testdir(), 'sluice.db')
  const workers = await openWorkerStore({ file, durability: 'process', now, ...form.options }, sizes)
  return { workers, store: workers.store, file }
}

/** A worker in this thread. */
function deskOn(workers: WorkerStore, more: Partial<DeskPlace> = {}, ring?: number): { desk: Desk } & Place {
  const place = workers.give(ring)
  return { ...place, desk: new Desk({ ...place, ...more }, now) }
}

/** The thread of a worker has ended. */
function gone(workers: WorkerStore, { seat, port }: Pick<Place, 'seat' | 'port'>): Promise<number> {
  port.close()
  return workers.leave(seat)
}

/** The entries of a request in the journal, when the store is flushed. */
function endsOf(file: string, requestId: string): unknown[] {
  return query(file, `SELECT part, kind, amount, source FROM journal WHERE request_id = '${requestId}' ORDER BY seq`)
}

/** The next turn of the loop, when a draft that is waited for is in the ring. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

function settle(hold: Reservation, output: number): Promise<void> {
  return hold.settle({ usage: used(output), amount: BigInt(output), source: 'upstream', channel: 'openai' })
}

function settleWithRecord(desk: Desk, hold: Reservation, output: number): Promise<void> {
  const settled = settle(hold, output)
  desk.requests.append(
    record({ request_id: hold.requestId, usage: used(output), cost_nano: String(output), cost_usd: '0' })
  )
  return settled
}

/** What a worker does before it ends, and what is in the journal then. A hold is 50, of 10 tokens of input at 2. */
const moments: Readonly<Record<string, { run(desk: Desk, id: string): Promise<unknown>; ends: readonly object[] }>> = {
  'a hold is in no record': {
    run: async ({ ledger }, requestId) => void reserve(ledger, scopes, 50n, { requestId }),
    ends: []
  },
  'the record of a hold was not read': {
    async run({ ledger }, requestId) {
      void reserve(ledger, scopes, 50n, { requestId }).durable
      await turn()
    },
    ends: [{ kind: 'void', amount: 0n }]
  },
  'its client has seen something': {
    async run({ ledger, drafts }, requestId) {
      const hold = reserve(ledger, scopes, 50n, { requestId })
      await hold.durable
      hold.dispatched('openai')
      hold.delivered(7)
      await drafts.flushed()
    },
    ends: [{ kind: 'settle', amount: 27n, source: 'recovered' }]
  },
  'an end is in no record': {
    async run(desk, requestId) {
      const hold = reserve(desk.ledger, scopes, 50n, { requestId })
      hold.dispatched('openai')
      await hold.durable
      void settleWithRecord(desk, hold, 9)
    },
    ends: [{ kind: 'settle', amount: 20n, source: 'recovered' }]
  },
  'the record of an end was not read': {
    async run(desk, requestId) {
      const hold = reserve(desk.ledger, scopes, 50n, { requestId })
      await hold.durable
      void settleWithRecord(desk, hold, 9)
      await turn()
    },
    ends: [{ kind: 'settle', amount: 9n, source: 'upstream' }]
  },
  'an end was acknowledged': {
    async run(desk, requestId) {
      await settleWithRecord(desk, reserve(desk.ledger, scopes, 50n, { requestId }), 9)
    },
    ends: [{ kind: 'settle', amount: 9n, source: 'upstream' }]
  },
  'a session has parts that ended, and one that goes on': {
    async run({ ledger, drafts }, requestId) {
      reserve(ledger, scopes, 0n, { requestId })
      const parts = ['1', '2'].map((part) => reserve(ledger, scopes, 50n, { requestId, part }))
      for (const part of parts) part.dispatched('openai')
      await Promise.all(parts.map(({ durable }) => durable))
      await settle(parts[0]!, 9)
      await drafts.flushed()
    },
    ends: [
      { part: '1', kind: 'settle', amount: 9n, source: 'upstream' },
      { part: '2', kind: 'settle', amount: 20n, source: 'recovered' },
      { part: '', kind: 'void', amount: 0n }
    ]
  }
}

for (const form of [forms.log, forms.journal])
  t.test(
    `${form.name}: a worker that has gone leaves what it published, and estimates of what it left open`,
    async (t) => {
      const { workers, store, file } = await storeOf(t, form)
      const stays = deskOn(workers)
      const left = (): bigint => stays.desk.ledger.affordable(scopes, noon)!
      for (const [moment, { run, ends }] of Object.entries(moments)) {
        const before = left()
        const { desk, ...place } = deskOn(workers)
        await run(desk, moment)
        const ended = await gone(workers, place)
        await store.flush()
        const found = endsOf(file, moment)
        t.match(found, ends, moment)
        t.equal(found.length, ends.length, `each once, where ${moment}`)
        t.equal(ended, ends.filter((end) => !('source' in end) || end.source !== 'upstream').length)
        const charged = ends.reduce((sum, end) => sum + (end as { amount: bigint }).amount, 0n)
        t.equal(before - left(), charged, 'what was held and not charged is there again')
      }
      await store.close()
      t.same(verify(file), [], 'records of requests say what all their parts cost')
    }
  )

t.test('a record counts when its last piece is in the ring, and not before', async (t) => {
  const { workers, store, file } = await storeOf(t)
  const stays = deskOn(workers)
  let [counted, pieces] = [0, 1]
  for (let whole = 0; whole <= pieces; whole++) {
    // Nobody looks into its ring while it lives, as it rings a bell of its own.
    const { desk, ...place } = deskOn(workers, { bell: createBell() }, 1024)
    new WorkerLimits(desk.seat, sharedNow).decide(sets, 10)
    void reserve(desk.ledger, scopes, 50n, { requestId: `request ${whole}`, model: 'long '.repeat(100) }).durable
    await turn()
    const ends = piecesOf(place.ring)
    pieces = ends.length
    new Int32Array(place.ring)[writtenWord] = whole === 0 ? 0 : ends[whole - 1]!
    counted += await gone(workers, place)
    await store.flush()
    t.equal(endsOf(file, `request ${whole}`).length, whole === pieces ? 1 : 0, `${whole} of ${pieces} pieces`)
    t.equal(stays.desk.ledger.affordable(scopes, noon), 10n ** 12n)
  }
  t.equal(counted, 1)
  t.ok(pieces > 1, `${pieces} pieces`)
  t.equal(freeSlots(new WorkerLimits(stays.desk.seat, sharedNow)), slots)
  await store.close()
  t.same(verify(file), [])
})

t.test("a detached hold is the supervisor's when its worker has gone, and is ended once", async (t) => {
  const { workers, store, file } = await storeOf(t)
  const { desk, ...place } = deskOn(workers)
  // Nobody else knows what it is sold for, and what it costs.
  const sold = { version: 'video:1', perMillion: { output: 3_000_000n } }
  const own = { version: 'own:1', perMillion: { output: 2_000_000n } }
  const costs = new Map([['openai', own]])
  const hold = reserve(desk.ledger, scopes, 50n, { requestId: 'video', price: sold, costs })
  hold.dispatched('openai')
  await hold.detach(noon + 1000)
  // The supervisor has holds of its own meanwhile, which come and go.
  const { ledger } = store
  await settle(reserve(ledger, scopes, 5n, { requestId: 'own' }), 1)
  const other = reserve(ledger, scopes, 5n, { requestId: 'other' })
  await other.durable
  const leaving = gone(workers, place)
  const ending = settle(other, 2)
  t.equal(await leaving, 0, 'it goes on')
  await ending
  const taken = ledger.detached('video')!
  t.match([taken.amount, taken.price], [50n, sold])
  taken.delivered(3)
  await taken.settle({ usage: used(10), amount: 30n, source: 'upstream', channel: 'openai' })
  store.requests.append(record({ request_id: 'video', cost_nano: '30' }))
  await store.flush()
  t.match(query(file, "SELECT kind, amount, cost, cost_price FROM journal WHERE request_id = 'video'"), [
    { kind: 'settle', amount: 30n, cost: 20n, cost_price: 'own:1' }
  ])
  t.same(query(file, 'SELECT id FROM reservation'), [])
  t.equal(deskOn(workers).desk.ledger.affordable(scopes, noon), 10n ** 12n - 33n)
  for (const [id, cost] of Object.entries({ own: '1', other: '2' }))
    store.requests.append(record({ request_id: id, cost_nano: cost }))
  await store.close()
  t.same(verify(file), [])
})

t.test('a detached hold goes on when the gateway starts again, with workers or without', async (t) => {
  const { workers, store, file } = await storeOf(t)
  const { desk, ...place } = deskOn(workers)
  for (const requestId of ['one', 'two']) {
    const hold = reserve(desk.ledger, scopes, 50n, { requestId })
    hold.dispatched('openai')
    await hold.detach(noon + 1000)
  }
  await gone(workers, place)
  await store.close()
  const again = await openWorkerStore({ file, durability: 'process', now }, sizes)
  const worker = deskOn(again).desk
  t.equal(worker.ledger.affordable(scopes, noon), 10n ** 12n - 100n)
  await settle(reserve(worker.ledger, scopes, 50n, { requestId: 'three' }), 1)
  worker.requests.append(record({ request_id: 'three', cost_nano: '1' }))
  await worker.drafts.flushed()
  const first = again.store.ledger.detached('one')!
  first.delivered(7)
  await settle(first, 30)
  again.store.requests.append(record({ request_id: 'one', cost_nano: '30' }))
  t.equal(worker.ledger.affordable(scopes, noon), 10n ** 12n - 81n)
  await again.store.close()
  t.same(verify(file), [])
  const alone = await openStore({ file, durability: 'process', now })
  t.equal(alone.ledger.detached('one'), undefined)
  await settle(alone.ledger.detached('two')!, 20)
  alone.requests.append(record({ request_id: 'two', cost_nano: '20' }))
  t.equal(alone.ledger.affordable(scopes, noon), 10n ** 12n - 51n)
  await alone.close()
  t.same(verify(file), [])
})

t.test('what workers did while the disk failed is written when it has healed, also of one that has gone', async (t) => {
  const { workers, store, file } = await storeOf(t)
  const [stays, goes] = [deskOn(workers), deskOn(workers)]
  const [first, second] = [stays, goes].map(({ desk }, at) =>
    reserve(desk.ledger, scopes, 50n, { requestId: `request ${at}` })
  ) as [Reservation, Reservation]
  await Promise.all([first.durable, second.durable])
  const { write } = fs
  const heal = (): void => {
    fs.write = write
    syncBuiltinESMExports()
  }
  t.teardown(heal)
  const failing = (...call: unknown[]): void =>
    void process.nextTick(call.at(-1) as (error: Error) => void, new Error('EIO: i/o error, write'))
  fs.write = failing as unknown as typeof write
  syncBuiltinESMExports()
  const told = settleWithRecord(stays.desk, first, 9)
  await t.rejects(told, { code: 'billing_unavailable' })
  await eventually(() => stays.desk.drafts.full)
  t.throws(() => reserve(goes.desk.ledger, scopes, 1n), { code: 'billing_unavailable' })
  let over = false
  const leaving = gone(workers, goes).then((ended) => {
    over = true
    return ended
  })
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.notOk(over, 'what it left cannot be written yet')
  heal()
  t.equal(await leaving, 1)
  await eventually(() => !stays.desk.drafts.full)
  await settleWithRecord(stays.desk, reserve(stays.desk.ledger, scopes, 50n, { requestId: 'request 2' }), 3)
  await store.flush()
  t.match(
    [0, 1, 2].flatMap((at) => endsOf(file, `request ${at}`)),
    [{ amount: 9n }, { kind: 'void', amount: 0n }, { amount: 3n }]
  )
  await store.close()
  t.same(verify(file), [])
})

t.test('threads that are ended anywhere lose nothing that their clients were told', async (t) => {
  const { workers, store, file } = await storeOf(t, forms.journal)
  const told = new Map<string, Uint8Array>()
  const start = (): { place: Place; worker: Worker; clients: Uint8Array } => {
    const place = workers.give()
    const name = `worker ${told.size}`
    const clients = new Uint8Array(new SharedArrayBuffer(4000))
    told.set(name, clients)
    const serving: Serving = { place, name, told: clients.buffer as SharedArrayBuffer }
    const worker = new Worker(new URL('serving.ts', import.meta.url), {
      workerData: serving,
      transferList: [place.port]
    })
    worker.on('error', (error) => t.error(error))
    t.teardown(() => worker.terminate())
    return { place, worker, clients }
  }
  const served = (clients: Uint8Array): number => clients.filter((one) => one === finished).length
  let estimated = 0
  const end = async ({ place, worker }: ReturnType<typeof start>): Promise<void> => {
    await worker.terminate()
    estimated += await workers.leave(place.seat)
  }
  const stays = start()
  for (let round = 0; round < 4; round++) {
    const one = start()
    const enough = 5 + Math.floor(Math.random() * 40)
    await eventually(() => served(one.clients) > enough)
    const before = served(stays.clients)
    await end(one)
    if (stays.clients.at(-1) === 0) await eventually(() => served(stays.clients) > before)
  }
  await end(stays)
  await store.flush()
  const ends = new Map(
    query(file, "SELECT request_id, amount, source FROM journal WHERE class = 'terminal'").map((row) => [
      row['request_id'] as string,
      row
    ])
  )
  let [clients, wrong] = [0, 0]
  for (const [name, all] of told)
    for (const [at, what] of all.entries()) {
      if (what === 0) continue
      clients++
      const found = ends.get(`${name} ${at}`)
      const charged = found?.['source'] === 'upstream' && found['amount'] === BigInt(chargeOf(at))
      if (what === admitted ? !found : !charged) wrong++
    }
  t.equal(wrong, 0, `of ${clients} clients`)
  t.ok(estimated > 0, `${estimated} were ended by estimate`)
  const { desk } = deskOn(workers)
  const spent = [...ends.values()].reduce((sum, { amount }) => sum + (amount as bigint), 0n)
  t.equal(desk.ledger.affordable(scopes, noon), 10n ** 12n - spent)
  t.equal(freeSlots(new WorkerLimits(desk.seat, sharedNow)), slots)
  t.same(query(file, 'SELECT id FROM reservation'), [])
  await store.close()
  t.same(verify(file), [], 'each end is there once')
})

/** How many requests are admitted until the slots are used up. */
function freeSlots(limits: WorkerLimits): number {
  let count = 0
  while (limits.decide(sets, 1).admitted) count++
  return count
}

/** The word of a ring that says how far it is written. */
const writtenWord = 2

/** Where the pieces of the first record in a ring end. */
function piecesOf(ring: SharedArrayBuffer): number[] {
  const words = new Int32Array(ring)
  const ends: number[] = []
  for (let at = 0; at < words[writtenWord]!; ends.push(at)) at += 1 + Math.ceil(words[16 + 2 * at]! / 8)
  return ends
}
