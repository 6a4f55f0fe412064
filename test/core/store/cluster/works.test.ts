// Work that several gateways share in a real PostgreSQL: one goes on with it, and another when that one is gone.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { WorkList } from '../../../../core/store/cluster/works/work-list.ts'
import type { Work } from '../../../../core/store/works.ts'
import type { Logger } from '../../../../core/telling/log.ts'
import { DatabaseProxy } from '../../../kit/database-proxy.ts'
import { PostgresProxy } from '../../../kit/postgres-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'
import { noon, work } from '../embedded/sample.ts'

const skip = postgresMissing
const owner = { tenant: 'acme', project: 'web' }
const done = { status: 'succeeded', ended: noon, expires: noon + 1e9 } as const

/** A gateway with its own connections; `taken` has what it took over. */
async function node(
  t: Test,
  url: string,
  lease?: number,
  log?: Logger
): Promise<{ list: WorkList; taken: Work[]; cut(): Promise<void> }> {
  const database = await Database.open({ url })
  const list = await WorkList.open(database, () => noon, { ...(lease !== undefined && { lease }), log })
  const taken: Work[] = []
  list.onTaken = (work) => void taken.push(work)
  t.teardown(async () => {
    await list.close()
    await database.close()
  })
  return { list, taken, cut: () => database.close() }
}

/** Of a gateway that does not notice that its lease has ended. */
const longLease = 600_000
/** Of one that takes over soon. */
const shortLease = 4000

const end = `update sluice.work set until = clock_timestamp() - interval '1 second' where open`

t.test('work belongs to who began it, and is found by all', { skip }, async (t) => {
  const url = await (await sharedPostgres()).book()
  const [one, other] = await Promise.all([node(t, url), node(t, url)])
  await one.list.put(work('a'))
  t.match(await other.list.find(owner, 'a'), { status: 'queued' })
  t.equal(other.list.current(owner, 'a'), undefined)
  await eventually(() => other.list.running === 1 && other.list.runningOf('acme') === 1, 10_000)
  t.same([one.list.running, other.list.open().length], [1, 0])
  await t.rejects(other.list.put(work('a', done)), { code: 'task_under_way' })
  t.match(await one.list.find(owner, 'a'), { status: 'queued' })
  await one.list.put(work('a', done))
  t.match(await other.list.find(owner, 'a'), { status: 'succeeded' })
  t.same(other.taken, [])
})

t.test(
  'when a lease has ended another gateway goes on, and what the one before writes is refused',
  { skip },
  async (t) => {
    const server = await sharedPostgres()
    const url = await server.book()
    const one = await node(t, url, longLease)
    await one.list.put(work('a', { status: 'in_progress', progress: 40 }))
    const other = await node(t, url, shortLease)
    // As if it had been stopped for longer than its lease. It does not know.
    await server.sql(`update sluice.work set until = clock_timestamp() - interval '1 second'`, url)
    await eventually(() => other.taken.length === 1, 20_000)
    t.match(other.taken, [{ id: 'a', progress: 40 }])
    t.match(other.list.current(owner, 'a'), { progress: 40 })
    await t.rejects(one.list.put(work('a', done)), { code: 'task_under_way' })
    t.equal(one.list.current(owner, 'a'), undefined)
    t.match(await one.list.find(owner, 'a'), { status: 'in_progress' })
    await other.list.put(work('a', done))
    t.match(await one.list.find(owner, 'a'), { status: 'succeeded' })
  }
)

t.test(
  'work that is taken over is seen here when what belongs to it is here, and its lease is renewed until then',
  { skip },
  async (t) => {
    const server = await sharedPostgres()
    const url = await server.book()
    const one = await node(t, url, longLease)
    await one.list.put(work('a'))
    const told: string[] = []
    const tell = (message: string): void => void told.push(message)
    const log: Logger = { debug: tell, info: tell, warn: tell, error: tell, child: () => log }
    const other = await node(t, url, shortLease, log)
    let tries = 0
    let open = false
    other.list.bring = async () => {
      tries++
      if (!open) throw new Error('not yet')
    }
    await server.sql(end, url)
    await eventually(() => tries > 1, 20_000)
    const lease = async (): Promise<Date> => (await server.sql('select until from sluice.work', url))[0].until
    const first = await lease()
    await eventually(async () => (await lease()) > first, 20_000)
    t.equal(other.list.current(owner, 'a'), undefined)
    t.same([other.list.open(), other.taken], [[], []])
    t.same([other.list.running, other.list.runningOf('acme')], [1, 1], 'it has a place meanwhile')
    t.same(
      told,
      ['what belongs to work that was taken over cannot be brought here, so the work waits'],
      'it is told once, however often it is tried'
    )
    t.match(other.list.delay, { count: 1, error: 'not yet' })
    open = true
    await eventually(() => other.taken.length === 1, 20_000)
    t.match(other.list.current(owner, 'a'), { status: 'queued' })
    t.same(told.slice(1), ['what belongs to work that was taken over is here again'])
    t.equal(other.list.delay, undefined)
    t.equal(other.list.running, 1)
    await other.list.put(work('a', done))
    t.match(await one.list.find(owner, 'a'), { status: 'succeeded' })
  }
)

t.test('who was away while another ended its work changes nothing of it, opens or revives it', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const one = await node(t, url, longLease)
  const ids = ['put', 'result', 'open', 'gone']
  await Promise.all(ids.map((id) => one.list.put(work(id))))
  await one.list.keepResult(work('result'), Buffer.from('first'))
  const other = await node(t, url, shortLease)
  await server.sql(end, url)
  await eventually(() => other.taken.length === ids.length, 20_000)
  await other.list.keepResult(work('result'), Buffer.from('second'))
  await t.rejects(one.list.keepResult(work('result'), Buffer.from('third')), { code: 'task_under_way' })
  await Promise.all(ids.map((id) => other.list.put(work(id, done))))
  await other.list.forget(work('gone', done))
  await t.rejects(one.list.put(work('put', { ...done, status: 'failed' })), { code: 'task_under_way' })
  await t.rejects(one.list.put(work('open', { progress: 99 })), { code: 'task_under_way' })
  await t.rejects(one.list.put(work('gone', { progress: 99 })), { code: 'task_under_way' })
  for (const id of ['put', 'result', 'open'])
    t.match(await one.list.find(owner, id), { status: 'succeeded', progress: work(id, done).progress })
  t.equal(await one.list.find(owner, 'gone'), undefined)
  t.equal(String(await one.list.result(work('result'))), 'second')
  t.same(one.list.open(), [])
  // What has ended is anybody's to replace who has not lost it, such as a value that is stored again under its id.
  const third = await node(t, url)
  await third.list.put(work('put', { ...done, progress: 7 }))
  t.match(await other.list.find(owner, 'put'), { progress: 7 })
})

t.test('after an outage who is back first takes nothing from those who come later', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const proxies = [await DatabaseProxy.start(t, server.socket), await DatabaseProxy.start(t, server.socket)] as const
  const [first, late] = [await node(t, proxies[0].url(url)), await node(t, proxies[1].url(url))]
  await late.list.put(work('a'))
  for (const proxy of proxies) {
    proxy.stand()
    proxy.cut()
  }
  // As if it had been away for longer than a lease.
  await server.sql(end, url)
  proxies[0].goOn()
  await eventually(async () => (await first.list.find(owner, 'a').catch(() => undefined)) !== undefined, 20_000)
  await eventually(() => first.list.running === 1, 20_000)
  await sleep(3000)
  t.same(first.taken, [], 'it has looked several times')
  proxies[1].goOn()
  await eventually(
    async () => (await server.sql('select from sluice.work where until > clock_timestamp()', url)).length === 1,
    20_000
  )
  await late.list.put(work('a', done))
  t.match(await first.list.find(owner, 'a'), { status: 'succeeded' })
})

t.test('of many gateways one alone takes over each piece', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const first = await node(t, url, longLease)
  await Promise.all(Array.from({ length: 120 }, (_, i) => first.list.put(work(`w${i}`))))
  const others = await Promise.all([1, 2, 3].map(() => node(t, url, 6000)))
  await first.cut()
  await server.sql(end, url)
  await eventually(() => others.reduce((sum, { taken }) => sum + taken.length, 0) >= 120, 20_000)
  const all = others.flatMap(({ taken }) => taken.map(({ id }) => id))
  t.equal(all.length, 120)
  t.equal(new Set(all).size, 120)
})

t.test('a lease is renewed for as long as its gateway is there', { skip }, async (t) => {
  const url = await (await sharedPostgres()).book()
  const one = await node(t, url, 3000)
  const other = await node(t, url, 3000)
  await one.list.put(work('a'))
  const [{ until: first }] = (await (await sharedPostgres()).sql('select until from sluice.work', url)) as [
    { until: Date }
  ]
  await eventually(async () => {
    const [{ until }] = (await (await sharedPostgres()).sql('select until from sluice.work', url)) as [{ until: Date }]
    return until.getTime() - first.getTime() > 4000
  }, 20_000)
  t.same(other.taken, [])
  t.match(one.list.current(owner, 'a'), { id: 'a' })
})

t.test('a gateway that ends gives its work up at once', { skip }, async (t) => {
  const url = await (await sharedPostgres()).book()
  const [one, other] = await Promise.all([node(t, url, 600_000), node(t, url, 600_000)])
  await one.list.put(work('a'))
  await one.list.close()
  await eventually(() => other.taken.length === 1, 10_000)
})

t.test('work whose answer is lost is written once, and by nobody else', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const proxy = await PostgresProxy.start(t, server)
  const database = await Database.open({ url: proxy.url(url), listenUrl: url })
  const list = await WorkList.open(database, () => noon)
  t.teardown(async () => {
    await list.close()
    await database.close()
  })
  proxy.loseAnswerTo('put_works')
  await list.put(work('a', { bytes: 500 }))
  proxy.loseAnswerTo('put_works')
  await list.put(work('a', { ...done, bytes: 700 }))
  t.equal(proxy.lost, 2)
  t.match(await list.find(owner, 'a'), { status: 'succeeded' })
  t.same(await server.sql('select tenant, bytes::int from sluice.work_room', url), [{ tenant: 'acme', bytes: 700 }])
})

t.test('connections that are cut cost no work', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const { list } = await node(t, url)
  let cutting = true
  t.teardown(() => void (cutting = false))
  const cuts = (async () => {
    for (; cutting; await sleep(20))
      await server.sql(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where application_name = 'sluice changes' and datname = current_database() and random() < 0.3`,
        url
      )
  })()
  for (let i = 0; i < 30; i++) {
    await list.put(work(`w${i}`))
    await list.put(work(`w${i}`, { ...done, bytes: 10 }))
  }
  cutting = false
  await cuts
  const { page } = await list.list({ ...owner, kind: 'video', after: undefined, limit: 100, newestFirst: false })
  t.equal(page.filter(({ status }) => status === 'succeeded').length, 30)
  t.same(await server.sql('select bytes::int from sluice.work_room', url), [{ bytes: 300 }])
})

t.test('results are whole for every gateway, count for all, and go with their work', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const [one, other] = await Promise.all([node(t, url), node(t, url)])
  const bytes = randomBytes(3 * 1024 * 1024 + 17)
  const kept = work('a', { ...done, bytes: bytes.length })
  await one.list.keepResult(kept, bytes)
  await one.list.put(kept)
  t.ok((await other.list.result(kept))?.equals(bytes))
  t.equal(one.list.room.of('acme'), bytes.length)
  await eventually(() => other.list.room.of('acme') === bytes.length, 10_000)
  t.same([other.list.room.total, other.list.room.largest], [bytes.length, 'acme'])
  t.match(await other.list.oldest('acme', 5), [{ id: 'a' }])
  await other.list.keepResult(kept, Buffer.alloc(0))
  t.equal((await one.list.result(kept))?.length, 0)
  await other.list.forget(kept)
  await one.list.forget(kept)
  t.equal(await one.list.result(kept), undefined)
  await eventually(() => one.list.room.total === 0 && other.list.room.total === 0, 10_000)
  await one.list.keepResult(work('orphan'), bytes)
  t.equal(await one.list.sweep(), 0, 'its work may come yet')
  await server.sql(`update sluice.work_result set made = made - interval '2 hours'`, url)
  t.equal(await one.list.sweep(), 1)
  t.same(await server.sql('select id from sluice.work_result', url), [])
})

t.test('what has expired is found by no client, and forgotten', { skip }, async (t) => {
  const { list } = await node(t, await (await sharedPostgres()).book())
  await list.put(work('a', { ...done, expires: noon }))
  await list.put(work('b', done))
  t.equal(await list.find(owner, 'a'), undefined)
  const expired = await list.expired(10)
  t.match(expired, [{ id: 'a' }])
  t.equal(expired.length, 1)
})

t.test('work that could not be begun is not open, and takes no place', { skip }, async (t) => {
  const server = await sharedPostgres()
  const { list } = await node(t, await server.book(5))
  await server.stop()
  await t.rejects(list.put(work('a')), { code: 'billing_unavailable' })
  await server.resume()
  t.same([list.open(), list.running, list.current(owner, 'a')], [[], 0, undefined])
})
