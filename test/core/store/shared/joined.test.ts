// What workers have of one store besides what they decide: what one has written the others find, documents follow, and
// what a worker leaves that ends is given back.
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import type { Test } from 'tap'
import type { Scope } from '../../../../core/catalogue/caller.ts'
import type { GatewayError } from '../../../../core/errors.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import { changeOf, documentKind } from '../../../../core/store/documents.ts'
import { verify } from '../../../../core/store/embedded/care/verify/verify.ts'
import type { BudgetReached } from '../../../../core/store/ledger.ts'
import { mostSecrets } from '../../../../core/store/secrets.ts'
import { joinStore } from '../../../../core/store/shared/desk/join.ts'
import type { Seated } from '../../../../core/store/shared/desk/seat-store.ts'
import type { Attendant } from '../../../../core/store/shared/desk/seat-works.ts'
import { openWorkerStore } from '../../../../core/store/shared/worker-store.ts'
import type { Place, WorkerStore } from '../../../../core/store/shared/worker-store.ts'
import type { Errand, Work } from '../../../../core/store/works.ts'
import { eventually } from '../../../kit/probe.ts'
import { noon, query, record, reserve, scope, settle, used, work } from '../embedded/sample.ts'
import { answered, answerId, atOnce, owner } from './joining.ts'
import type { Joining } from './joining.ts'
import { scopes, sets, slots } from './serving.ts'

t.setTimeout(600_000)

const now = (): number => noon
const kind = documentKind<{ name: string }>('thing')

/** A gateway has listeners that keep its loop running. */
const running = setInterval(() => {}, 1000)
t.teardown(() => clearInterval(running))

type Joined = Seated & Place

/** A store with workers in this thread. The books are verified when it is closed. */
async function storeOf(
  t: Test,
  count: number
): Promise<{ workers: WorkerStore; joined: readonly Joined[]; file: string; close: () => Promise<void> }> {
  const file = join(t.testdir(), 'sluice.db')
  const workers = await openWorkerStore({ file, durability: 'process', now }, { seats: 4, sets: 64, cells: 1024 })
  const joined: Joined[] = []
  for (let i = 0; i < count; i++) joined.push(await another(workers))
  const close = async (): Promise<void> => {
    for (const { store } of joined) await store.close()
    await workers.store.close()
    t.same(verify(file), [])
  }
  return { workers, joined, file, close }
}

async function another(workers: WorkerStore): Promise<Joined> {
  const place = workers.give()
  return { ...place, ...(await joinStore(place, now)) }
}

/** The thread of a worker has ended. */
function gone(workers: WorkerStore, { seat, port }: Place): Promise<number> {
  port.close()
  return workers.leave(seat)
}

function threadOf(t: Test, given: Omit<Joining, 'place'>, place: Place): Worker {
  const worker = new Worker(new URL('joining.ts', import.meta.url), {
    workerData: { ...given, place },
    transferList: [place.port]
  })
  worker.on('error', (error) => t.error(error))
  t.teardown(() => worker.terminate())
  return worker
}

const ignore = (): void => {}
const attendant = (serve: Attendant['serve']): Attendant => ({ serve, tell: async () => undefined })

t.test('a change of documents is acknowledged when all workers have it, whoever makes it', async (t) => {
  const { workers, joined, close } = await storeOf(t, 2)
  const [one, two] = joined as [Joined, Joined]
  const everybody = [workers, one, two].map(({ store: { documents } }) => documents)
  const heard: string[] = []
  two.store.documents.watch((changes) => heard.push(...changes.map(({ id }) => id)))
  for (const [at, documents] of everybody.entries()) {
    await documents.change([changeOf(kind, `thing ${at}`, { name: `made by ${at}` })], { action: 'made' })
    for (const other of everybody) t.same(other.find(kind, `thing ${at}`), { name: `made by ${at}` })
  }
  const late = await another(workers)
  t.equal(late.store.documents.all(kind).length, 3, 'who joins later has what there is')
  const done = workers.store.documents.change([changeOf(kind, 'thing 0', null)])
  t.equal(workers.store.documents.find(kind, 'thing 0'), undefined)
  await done
  for (const { store } of [one, two, late]) t.equal(store.documents.find(kind, 'thing 0'), undefined)
  t.same(heard, ['thing 0', 'thing 1', 'thing 2', 'thing 0'])
  t.same(
    (await late.store.documents.audit({ limit: 9 })).map(({ seq }) => seq),
    [3, 2, 1]
  )
  await late.store.close()
  await close()
})

t.test('a worker that does not acknowledge a change hangs, and the change waits until it has gone', async (t) => {
  const { workers, joined, close } = await storeOf(t, 1)
  const place = workers.give()
  const made = new SharedArrayBuffer(8)
  const thread = threadOf(t, { name: 'hung', made, hangs: true }, place)
  await eventually(() => new Uint8Array(made)[0] === 1)
  let over = false
  const changed = workers.store.documents.change([changeOf(kind, 'key', { name: 'revoked' })]).then(() => (over = true))
  await eventually(() => joined[0]!.store.documents.find(kind, 'key') !== undefined)
  t.same(workers.hanging(), [], 'it has some time')
  await eventually(() => workers.hanging().length > 0)
  t.same(workers.hanging(), [place.seat])
  t.equal(over, false)
  await thread.terminate()
  await workers.leave(place.seat)
  await changed
  t.same(workers.hanging(), [])
  await close()
})

t.test('what one thread has written is found by all others once it is durable', async (t) => {
  const { workers, joined, close } = await storeOf(t, 2)
  const all = [...joined, workers]
  for (const [at, { store }] of all.entries()) {
    const route = {
      ...owner,
      id: `resp_${at}`,
      kind: 'response',
      channel: 'one',
      account: 'a',
      model: 'gpt-5'
    } as const
    await store.routes.put([route])
    await store.answers.put(answerId(`answer ${at}`), 'acme', answered)
    await store.works.keepResult(work(`film ${at}`), Buffer.from('a film'))
    await store.works.put(work(`film ${at}`, { status: 'succeeded', ended: noon, expires: noon + 1e9, bytes: 100 }))
    store.requests.append(record({ request_id: `request ${at}` }))
    for (const other of all) {
      t.match(await other.store.routes.find(owner, `resp_${at}`), route)
      t.match(await other.store.answers.find(answerId(`answer ${at}`)), answered)
      t.match(await other.store.works.find(owner, `film ${at}`), { status: 'succeeded' })
      t.equal(String(await other.store.works.result(work(`film ${at}`))), 'a film')
      t.equal(await other.store.works.find({ tenant: 'rival', project: 'web' }, `film ${at}`), undefined)
    }
    t.equal((await store.requests.find(`request ${at}`))?.record.request_id, `request ${at}`)
    await eventually(() => all.every(({ store: { works } }) => works.room.of('acme') === 100 * (at + 1)))
  }
  const [one, two] = all as [Joined, Joined]
  t.equal(
    (await two.store.works.list({ ...owner, kind: 'video', after: undefined, limit: 9, newestFirst: true })).page
      .length,
    3
  )
  await two.store.works.forget((await two.store.works.find(owner, 'film 0'))!)
  t.equal(await one.store.works.find(owner, 'film 0'), undefined)
  t.equal(await one.store.works.result(work('film 0')), undefined)
  await eventually(() => all.every(({ store: { works } }) => works.room.of('acme') === 200))
  await one.store.routes.remove(owner, 'resp_1')
  for (const { store } of all) t.equal(await store.routes.find(owner, 'resp_1'), undefined)
  await close()
})

t.test('open work goes on in the thread that began it, which others ask', async (t) => {
  const { workers, joined, close } = await storeOf(t, 2)
  const [one, two] = joined as [Joined, Joined]
  const served: [who: number, what: Errand, id: string][] = []
  for (const [who, seated] of [one, two, workers].entries())
    seated.follow(
      ignore,
      attendant(async (work, what) => {
        served.push([who, what, work.id])
        return { ...work, progress: 50 }
      })
    )
  await one.store.works.put(work('film'))
  await workers.store.works.put(work('own'))
  await eventually(() => [one, two, workers].every(({ store: { works } }) => works.running === 2))
  t.same(
    [one, two, workers].map(({ store: { works } }) => works.runningOf('acme')),
    [2, 2, 2]
  )
  const film = (await two.store.works.find(owner, 'film'))!
  t.equal(one.store.works.errand(film, 'refresh'), undefined, 'it is its own')
  t.match(await two.store.works.errand(film, 'refresh'), { progress: 50 })
  t.match(await workers.store.works.errand(film, 'cancel'), { progress: 50 })
  t.match(await one.store.works.errand(work('own'), 'stop'), { progress: 50 })
  t.same(served, [
    [0, 'refresh', 'film'],
    [0, 'cancel', 'film'],
    [2, 'stop', 'own']
  ])
  one.store.works.note(work('film', { progress: 70 }))
  await one.store.works.put(work('film', { status: 'failed', ended: noon, expires: noon + 1e9 }))
  t.equal(await two.store.works.errand(film, 'refresh'), undefined, 'it has ended')
  t.match(await two.store.works.find(owner, 'film'), { status: 'failed' })
  await eventually(() => [one, two, workers].every(({ store: { works } }) => works.running === 1))
  await close()
})

t.test('all threads together begin no more work than may be open', async (t) => {
  const { workers, joined, close } = await storeOf(t, 2)
  const bounds = { open: 10, of_tenant: 10 }
  const begun = await Promise.all(
    Array.from({ length: 60 }, async (_, at) => {
      const { works } = [...joined, workers][at % 3]!.store
      if (await works.places.take(`request ${at}`, 'acme', bounds)) return 0
      const film = work(`film ${at}`, { requestId: `request ${at}` })
      works.note(film)
      works.places.leave(film.requestId)
      await works.put(film)
      return 1
    })
  )
  t.equal(
    begun.reduce<number>((sum, one) => sum + one, 0),
    10
  )
  const take = async ({ store }: Joined, id: string): Promise<unknown> =>
    store.works.places.take(id, 'rival', { open: 11, of_tenant: 1 })
  await eventually(async () => (await take(joined[0]!, 'left')) === undefined)
  t.equal(await take(joined[1]!, 'one too many'), 'open')
  await gone(workers, joined[0]!)
  t.equal(await take(joined[1]!, 'in its place'), undefined)
  await close()
})

t.test('a name is free when the answer to what was done under it can be found', async (t) => {
  const { workers, joined, close } = await storeOf(t, 2)
  const [one, two] = joined as [Joined, Joined]
  t.equal(await one.claims.take('name', answered.asked), undefined)
  t.same(await two.claims.look('name'), answered.asked)
  t.same(await workers.claims.take('name', answered.asked), answered.asked)
  one.claims.leave('name')
  const put = one.store.answers.put(answerId('name'), 'acme', answered)
  while (await two.claims.take('name', answered.asked)) await new Promise((resolve) => setImmediate(resolve))
  t.match(await two.store.answers.find(answerId('name')), answered)
  await put
  two.claims.leave('name')
  await eventually(async () => (await one.claims.take('name', answered.asked)) === undefined)
  await close()
})

t.test('client secrets of a key are counted over all workers', async (t) => {
  const { joined, close } = await storeOf(t, 2)
  const [one, two] = joined as [Joined, Joined]
  const secret = (at: number): Parameters<typeof one.secrets.put>[0] => ({
    sha256: Buffer.from(String(at).padEnd(32, '.')),
    issuer: Buffer.alloc(32),
    model: 'gpt-5',
    expires: noon + 60_000,
    budget: 100n
  })
  const each = (who: Joined, from: number): Promise<boolean>[] =>
    Array.from({ length: mostSecrets / 2 }, (_, at) => who.secrets.put(secret(from + at)))
  const put = await Promise.all([...each(one, 0), ...each(two, mostSecrets / 2)])
  t.equal(put.filter((kept) => kept).length, mostSecrets)
  t.equal(await one.secrets.put(secret(mostSecrets)), false)
  const { sha256 } = secret(1)
  t.match(await two.secrets.find(sha256), { model: 'gpt-5', budget: 100n })
  t.equal(await two.secrets.hold(sha256, 'turn', 80n), undefined)
  t.same(await one.secrets.hold(sha256, 'another', 30n), { posted: 0n, pending: 80n })
  two.secrets.end(sha256, 'turn', 10n)
  await eventually(async () => (await one.secrets.spent(sha256)).posted === 10n)
  await close()
})

t.test('the supervisor lists the balances and limits that workers have made', async (t) => {
  const { workers, joined, close } = await storeOf(t, 2)
  const [one, two] = joined as [Joined, Joined]
  const { ledger } = workers.store
  const key = { ...scope('key', 'laptop'), budgets: [{ limit: 700n, per: '7d' as const }] }
  const spend = async ({ store }: Joined, requestId: string, limit: bigint): Promise<void> => {
    const hold = reserve(store.ledger, [scope('tenant', 'acme', limit, 'month'), key], 50n, { requestId })
    await hold.durable
    const ended = hold.settle({ usage: used(30), amount: 30n, source: 'upstream', channel: 'openai' })
    store.requests.append(record({ request_id: requestId, usage: used(30), cost_nano: '30' }))
    await ended
  }
  t.same(await ledger.scopes(), [])
  await spend(one, 'first', 1000n)
  t.same([...(await ledger.scopes())].sort(), ['key:laptop', 'tenant:acme'])
  const month = async (): Promise<unknown> =>
    (await ledger.balances({ scope: 'tenant:acme' })).find(({ window }) => window === '2026-11')
  t.match(await month(), { limit: 1000n, posted: 30n, pending: 0n })
  await spend(two, 'second', 2000n)
  t.match(await month(), { limit: 2000n, posted: 60n })
  t.match(
    (await ledger.balances()).filter(({ window }) => window === '7d'),
    [{ scope: 'key:laptop', limit: 700n, posted: 60n, pending: 0n }]
  )
  await close()
})

t.test('a worker that needs older balances has them read', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const budget = (per: '7d' | '85d'): Scope => ({ ...scope('key', 'laptop'), budgets: [{ limit: 100n, per }] })
  const before = noon - 80 * 86_400_000
  const first = await openStore({ file, durability: 'process', now: () => before })
  await settle(first, reserve(first.ledger, [budget('7d')], 50n, { time: before }), 30)
  await first.close()
  const workers = await openWorkerStore({ file, durability: 'process', now }, { seats: 3, sets: 64, cells: 1024 })
  const [one, two] = [await another(workers), await another(workers)]
  const scopes = [budget('85d')]
  t.throws(() => reserve(one.store.ledger, scopes, 71n), { code: 'billing_unavailable' })
  const refused = ({ store }: Joined): string | undefined => {
    try {
      reserve(store.ledger, scopes, 71n)
      return undefined
    } catch (error) {
      return (error as GatewayError).code
    }
  }
  await eventually(() => refused(one) === 'quota_key_exceeded')
  t.equal(refused(two), 'quota_key_exceeded', 'what one has read all have')
  await settle(two.store, reserve(two.store.ledger, scopes, 70n), 70)
  for (const { store } of [one, two, workers]) await store.close()
  t.same(verify(file), [])
})

t.test('a threshold that workers reach is told once', async (t) => {
  const { workers, joined, close } = await storeOf(t, 2)
  const told: BudgetReached[] = []
  workers.store.ledger.watch({
    told: () => told.at(-1)?.threshold ?? 0,
    scope: () => undefined,
    reached: (reached) => told.push(reached) > 0
  })
  const budget = { ...scope('tenant', 'acme'), budgets: [{ limit: 100n, per: 'month' as const, alerts: [50, 80] }] }
  for (const [at, amount] of [60n, 30n].entries())
    for (const { store } of joined) {
      const hold = reserve(store.ledger, [budget], 1n, { requestId: `request ${store === joined[0]!.store} ${at}` })
      const output = Number(amount) / 2
      const ended = hold.settle({ usage: used(output), amount: amount / 2n, source: 'upstream', channel: 'openai' })
      store.requests.append(record({ request_id: hold.requestId, usage: used(output), cost_nano: String(output) }))
      await ended
    }
  await eventually(() => told.length === 2)
  t.match(told, [{ threshold: 50 }, { threshold: 80 }])
  await close()
})

t.test('what a worker had claimed and begun is given back when it has gone', async (t) => {
  const { workers, joined, close } = await storeOf(t, 2)
  const [one, two] = joined as [Joined, Joined]
  const taken: Work[] = []
  workers.follow(
    (work) => taken.push(work),
    attendant(async (work) => ({ ...work, progress: 20 }))
  )
  await one.claims.take('name', answered.asked)
  const hold = reserve(one.store.ledger, scopes, 50n, { requestId: 'request of film' })
  hold.dispatched('openai')
  await Promise.all([hold.detach(noon + 1000), one.store.works.put(work('film'))])
  // Its thread is not there any more to be told.
  void Promise.resolve(one.claims.take('on its way', answered.asked)).catch(ignore)
  one.store.works.note(work('never kept'))
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(await gone(workers, one), 0)
  t.same(
    taken.map(({ id }) => id),
    ['film']
  )
  t.match(workers.store.works.current(owner, 'film'), { status: 'queued' })
  t.equal(workers.store.ledger.detached('request of film')?.amount, 50n)
  t.equal(workers.store.works.running, 1)
  t.match(await two.store.works.errand(work('film'), 'refresh'), { progress: 20 }, 'the supervisor is asked')
  for (const name of ['name', 'on its way']) t.equal(await two.claims.take(name, answered.asked), undefined)
  t.equal(two.store.works.running, 1)
  await Promise.all([
    workers.store.ledger.detached('request of film')!.void(),
    workers.store.works.put(work('film', { status: 'failed', ended: noon, expires: noon + 1e9 }))
  ])
  await eventually(() => two.store.works.running === 0)
  await close()
})

t.test('a seat is given again only when all of the worker before has been brought home', async (t) => {
  const { workers, joined, close } = await storeOf(t, 1)
  const [{ seat, port }] = joined as [Joined]
  // Its thread has ended, and some of what it asked for is still under way.
  const left = workers.leave(seat)
  await new Promise((resolve) => setTimeout(resolve, 50))
  const other = await another(workers)
  t.not(other.seat, seat)
  port.close()
  await left
  const next = await another(workers)
  t.equal(next.seat, seat)
  for (const { store } of [other, next]) await store.close()
  await close()
})

t.test('threads that are ended anywhere leave no claim, slot or hold, and all that somebody was told of', async (t) => {
  const { workers, joined, file, close } = await storeOf(t, 1)
  const [stays] = joined as [Joined]
  const taken = new Set<string>()
  workers.follow(
    ({ id }) => taken.add(id),
    attendant(async (work) => work)
  )
  const made = new Map<string, Uint8Array>()
  for (let round = 0; round < 6; round++) {
    const place = workers.give()
    const name = `worker ${round}`
    const told = new Uint8Array(new SharedArrayBuffer(3000))
    made.set(name, told)
    const thread = threadOf(t, { name, made: told.buffer as SharedArrayBuffer }, place)
    const enough = Math.floor(Math.random() * 60)
    await eventually(() => told.filter((one) => one === 1).length >= enough)
    await thread.terminate()
    await workers.leave(place.seat)
  }
  let things = 0
  for (const [name, told] of made)
    for (const [at, one] of told.entries()) {
      if (at > told.lastIndexOf(1) + atOnce) break
      const id = `${name} ${at}`
      t.equal(await stays.claims.take(`claim of ${id}`, answered.asked), undefined)
      if (one === 0) continue
      things++
      if (at % 3 === 0) t.ok(taken.has(id) && workers.store.works.current(owner, id), id)
      else if (at % 3 === 1) t.ok(await stays.store.answers.find(answerId(id)), id)
      else t.ok(await stays.store.routes.find(owner, id), id)
    }
  t.ok(things > 0, `${things} things were told of`)
  await workers.store.flush()
  const open = workers.store.works.open().map(({ requestId }) => requestId)
  t.same(
    query(file, 'SELECT request_id FROM reservation')
      .map((row) => row['request_id'])
      .sort(),
    [...open].sort(),
    'what is held is for work that goes on'
  )
  t.equal(stays.store.works.running, open.length)
  let free = 0
  while (stays.limits.decide(sets, 1).admitted) free++
  t.equal(free, slots)
  await Promise.all(
    workers.store.works.open().map(async (work) => {
      const hold = workers.store.ledger.detached(work.requestId)!
      const put = workers.store.works.put({ ...work, status: 'failed', ended: noon, expires: noon + 1e9 })
      await Promise.all([hold.void(), put])
    })
  )
  await close()
})
