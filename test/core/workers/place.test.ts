// The store of a gateway of workers that hands over: nothing of what workers have put is lost. When it is taken back,
// as the next process is gone, what those had taken that have ended is given back.
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import type { Going } from '../../../core/handover/opened.ts'
import { Line } from '../../../core/store/distant/line.ts'
import type { KeptHold } from '../../../core/store/embedded/book/book.ts'
import { SecretBook } from '../../../core/store/embedded/book/secret-book.ts'
import { Arena } from '../../../core/store/shared/arena/arena.ts'
import { Seats } from '../../../core/store/shared/arena/seats.ts'
import { Desk } from '../../../core/store/shared/desk/desk.ts'
import { joinStore } from '../../../core/store/shared/desk/join.ts'
import { storeAt } from '../../../core/store/shared/desk/seat-store.ts'
import type { Source } from '../../../core/store/shared/desk/seat-store.ts'
import { createBell, createRing, RingReader } from '../../../core/store/shared/records/ring.ts'
import { openWorkerStore } from '../../../core/store/shared/worker-store.ts'
import type { WorkerStore } from '../../../core/store/shared/worker-store.ts'
import { silentLog } from '../../../core/telling/log.ts'
import { Place } from '../../../core/workers/place.ts'
import type { Threads } from '../../../core/workers/place.ts'
import { WorkerCustody } from '../../../core/workers/worker-custody.ts'
import { MemoryDocuments } from '../../kit/documents.ts'
import { ports, servicesOf } from '../../kit/hand-over.ts'
import { eventually } from '../../kit/probe.ts'
import { reserve, scope } from '../store/embedded/sample.ts'
import { sets, slots } from '../store/shared/serving.ts'

/** A gateway has listeners that keep its loop running. */
const running = setInterval(() => {}, 1000)
t.teardown(() => clearInterval(running))

const scopes = [scope('tenant', 'acme', 10n ** 12n)]
const name = 'the name of an answer'

/**
 * Hands over with a worker that holds a slot, a hold and a claim, and takes back. `ends`: the worker ends before it is
 * asked what it goes on with, or while the store is opened.
 */
async function takenBack(t: Test, ends: 'before' | 'meanwhile' | undefined): Promise<Place> {
  const file = join(t.testdir(), 'sluice.db')
  const open = (kept: readonly KeptHold[] = []): Promise<WorkerStore> =>
    openWorkerStore({ file, durability: 'process', kept }, { seats: 2, sets: 64, cells: 64 })
  const first = await open()
  let goesOn = true
  const reopen = async (kept: readonly KeptHold[]): Promise<WorkerStore> => {
    const opened = await open(kept)
    if (ends === 'meanwhile') goesOn = false
    return opened
  }
  const place = new Place(first, reopen, undefined)
  const given = first.give()
  const seated = await joinStore(given)
  const custody = new WorkerCustody(seated)
  const decision = seated.limits.decide(sets, 10)
  t.equal(decision.admitted, true)
  reserve(seated.store.ledger, scopes, 50n, { time: Date.now() })
  t.equal(await seated.claims.take(name, Buffer.from('asked')), undefined)
  const background = { start() {}, close() {}, attendFor() {}, takeUp() {} }
  const [here] = ports()
  const line = new Line(here)
  place.threads = {
    async leave(line) {
      const left = await custody.leave(line, 1, background, [])
      return [{ ...left, thread: 1, claims: first.claimsOf(given.seat), shared: [] }]
    },
    async unsettled() {
      if (ends === 'before') goesOn = false
      return new Map(goesOn ? [[1, custody.unsettled]] : [])
    },
    goesOn: () => goesOn,
    renew() {}
  } satisfies Threads
  await place.leave(line, background, [])
  const going = { services: servicesOf(place), background, log: silentLog } as unknown as Going
  await place.reclaim(line, going)
  t.teardown(async () => {
    await seated.store.close()
    await place.close()
  })
  return place
}

/** What is left to others: slots, what is pending, and the claim. */
async function leftBy(place: Place): Promise<{ slots: number; pending: bigint; claimed: boolean }> {
  let free = 0
  while ((await place.limits.decide(sets, 10)).admitted) free++
  const [balance] = await place.store.ledger.balances()
  return { slots: free, pending: balance?.pending ?? 0n, claimed: (await place.claims.look(name)) !== undefined }
}

t.test('of a worker that goes on all stays taken', async (t) => {
  t.match(await leftBy(await takenBack(t, undefined)), { slots: slots - 1, claimed: true })
})
for (const ends of ['before', 'meanwhile'] as const)
  t.test(`what a worker had is given back that ends ${ends} it`, async (t) => {
    t.match(await leftBy(await takenBack(t, ends)), { slots, pending: 0n, claimed: false })
  })

t.test('a worker that hands over waits for a journal that is behind, which takes nothing new', async (t) => {
  const arena = Arena.create({ seats: 2, sets: 2, cells: 64 })
  const [bell, ring] = [createBell(), createRing(2 ** 16)]
  const seat = new Seats(arena).give()
  const desk = new Desk({ arena: arena.buffer, seat, ring, bell, deferred: false, prices: [] }, Date.now)
  const documents = new MemoryDocuments()
  const secrets = new SecretBook(documents, Date.now)
  const source = { documents, secrets, works: {}, flush: async () => {} } as unknown as Source
  const seated = storeAt(desk, source, { routeAge: 1e9, lasting: Date.now })
  const hold = reserve(seated.store.ledger, scopes, 50n, { time: Date.now() })
  const journal = new RingReader(ring)
  journal.refuse(true)
  const custody = new WorkerCustody({ ...seated, follow() {} })
  const ended = hold.void()
  let left = false
  const leaving = custody.leave({ ask: () => new Promise(() => {}), tell() {} }, 1, { close() {} }, [])
  void leaving.then(() => (left = true))
  const taken: Uint8Array[] = []
  await eventually(() => taken.push(...journal.take()) > 0)
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(left, false)
  journal.acknowledge(journal.position)
  await Promise.all([ended, leaving])
})
