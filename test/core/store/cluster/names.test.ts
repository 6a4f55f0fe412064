// Routes, kept answers and claims that several gateways share in a real PostgreSQL.
import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import type { KeptAnswer } from '../../../../core/store/answers.ts'
import { ClaimBook } from '../../../../core/store/cluster/answers/claim-book.ts'
import { Shelf } from '../../../../core/store/cluster/answers/shelf.ts'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { RouteBook } from '../../../../core/store/cluster/routes/route-book.ts'
import type { Route } from '../../../../core/store/routes.ts'
import { DatabaseProxy } from '../../../kit/database-proxy.ts'
import { PostgresProxy } from '../../../kit/postgres-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'

const skip = postgresMissing
const digest = (text: string): Buffer => hash('sha256', text, 'buffer')
const owner = { tenant: 'acme', project: 'web' }

const route = (id: string, more: Partial<Route> = {}): Route => ({
  ...owner,
  id,
  kind: 'response',
  channel: 'openai',
  account: 'a1',
  model: 'gpt-5',
  tokens: null,
  ...more
})

const answer = (body: Buffer | undefined): KeptAnswer => ({
  asked: digest('asked'),
  status: 200,
  type: 'text/plain',
  headers: {},
  streamed: false,
  body
})

async function connected(t: Test, url: string, listenUrl = url): Promise<Database> {
  const database = await Database.open({ url, listenUrl })
  t.teardown(() => database.close())
  return database
}

t.test('routes', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  let now = 1_000_000
  const proxy = await PostgresProxy.start(t, server)
  const one = new RouteBook(await connected(t, proxy.url(url), url), 1000, () => now)
  const other = new RouteBook(await connected(t, url), 1000, () => now)

  await t.test('one that was put is found at once here, and then by all', async (t) => {
    const put = one.put([route('a'), route('a', { account: 'a2' }), route('\0\ud800', { tokens: 7 })])
    t.match(await one.find(owner, 'a'), { account: 'a2' })
    await put
    t.match(await other.find(owner, 'a'), { account: 'a2' })
    t.match(await other.find(owner, '\0\ud800'), { tokens: 7 })
    const removed = one.remove(owner, 'a')
    t.equal(await one.find(owner, 'a'), undefined)
    await removed
    t.equal(await other.find(owner, 'a'), undefined)
  })

  await t.test('of changes of one route in a moment the last counts', async (t) => {
    await Promise.all([one.put([route('b')]), one.remove(owner, 'b'), one.put([route('b', { model: 'last' })])])
    t.match(await other.find(owner, 'b'), { model: 'last' })
    await Promise.all([one.put([route('b')]), one.remove(owner, 'b')])
    t.equal(await other.find(owner, 'b'), undefined)
  })

  await t.test('a lost answer costs nothing', async (t) => {
    proxy.loseAnswerTo('sluice.route')
    await one.put([route('c')])
    t.equal(proxy.lost, 1)
    t.match(await other.find(owner, 'c'), { id: 'c' })
  })

  await t.test('two gateways that write the same routes in other orders do not stop each other', async (t) => {
    const ids = Array.from({ length: 300 }, (_, i) => `r${i}`)
    for (let round = 0; round < 10; round++)
      await Promise.all([one.put(ids.map((id) => route(id))), other.put(ids.toReversed().map((id) => route(id)))])
    t.match(await one.find(owner, 'r150'), { id: 'r150' })
  })

  await t.test('one that is too old is not found, and deleted', async (t) => {
    now += 1000
    t.equal(await other.find(owner, 'c'), undefined)
    while (await one.sweep());
    t.same(await server.sql('select id from sluice.route', url), [])
  })
})

t.test('answers', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  let now = 1_000_000
  const proxy = await PostgresProxy.start(t, server)
  const bounds = { age: 1000, size: 10_000 }
  const one = new Shelf(await connected(t, proxy.url(url), url), bounds, () => now)
  const other = new Shelf(await connected(t, url), bounds, () => now)

  await t.test('what one gateway answered another gives again, also after a lost answer', async (t) => {
    proxy.loseAnswerTo('sluice.answer')
    await one.put(digest('a'), 'acme', answer(Buffer.from('said')))
    t.equal(proxy.lost, 1)
    t.equal(String((await other.find(digest('a')))!.body), 'said')
    await Promise.all([1, 2, 3].map((i) => one.put(digest('a'), 'acme', answer(Buffer.from(`said ${i}`)))))
    t.equal(String((await other.find(digest('a')))!.body), 'said 3')
  })

  await t.test('too many are deleted from whoever has most, and too old ones from all', async (t) => {
    now++
    await Promise.all(
      Array.from({ length: 150 }, (_, i) => one.put(digest(`many ${i}`), 'greedy', answer(Buffer.alloc(100))))
    )
    while (await other.sweep());
    t.ok(await one.find(digest('a')), 'that of another tenant stays')
    const rows = await server.sql('select sum(bytes)::int as bytes from sluice.answer', url)
    t.ok(rows[0].bytes <= 10_000, `${rows[0].bytes} bytes`)
    now += 1001
    t.equal(await one.find(digest('a')), undefined)
    while (await one.sweep());
    t.same(await server.sql('select id from sluice.answer', url), [])
  })

  await t.test('while the database is away nobody is told that there was no answer', async (t) => {
    await server.stop()
    await t.rejects(one.find(digest('a')), { code: 'billing_unavailable' })
    await server.resume()
    await eventually(async () => (await one.find(digest('a')).catch(() => 'away')) === undefined, 10_000)
  })
})

t.test('claims', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const proxy = await PostgresProxy.start(t, server)
  const databases = [await connected(t, proxy.url(url), url), await connected(t, url)]
  const lease = 6000
  const [one, other] = databases.map((database) => new ClaimBook(database, lease)) as [ClaimBook, ClaimBook]
  t.teardown(() => Promise.all([one.close(), other.close()]))

  await t.test('of all gateways one has a name, and the others are told for what', async (t) => {
    for (let round = 0; round < 10; round++) {
      const name = `race ${round}`
      const taken = await Promise.all([one.take(name, digest('one')), other.take(name, digest('other'))])
      t.equal(taken.filter((what) => what === undefined).length, 1)
      t.same(
        taken.find((what) => what),
        digest(taken[0] ? 'other' : 'one')
      )
    }
  })

  await t.test('a lost answer does not make a gateway refuse its own request', async (t) => {
    proxy.loseAnswerTo('sluice.claim')
    t.equal(await one.take('lost', digest('x')), undefined)
    t.equal(proxy.lost, 1)
    t.same(await other.take('lost', digest('y')), digest('x'))
    one.leave('lost')
    await eventually(async () => (await other.take('lost', digest('y'))) === undefined)
  })

  await t.test('after an outage who is back first takes no claim of those who come later', async (t) => {
    const first = new ClaimBook(databases[0]!, 600_000)
    t.teardown(() => first.close())
    const gone = new ClaimBook(databases[1]!, 600_000)
    t.equal(await gone.take('outage', digest('late')), undefined)
    await server.sql(`update sluice.claim set until = clock_timestamp() - interval '1 hour' where name = 'outage'`, url)
    t.same(await first.take('outage', digest('first')), digest('late'))
    t.same(await first.look('outage'), digest('late'))
    await gone.close()
  })

  await t.test('what a server lacks that took over is put back, while its gateway goes on', async (t) => {
    t.equal(await one.take('lacking', digest('one')), undefined)
    await server.sql(`delete from sluice.claim where name = 'lacking'`, url)
    await eventually(async () => (await other.look('lacking')) !== undefined, 20_000)
    t.same(await other.take('lacking', digest('other')), digest('one'))
    await server.sql(`delete from sluice.claim where name = 'lacking'`, url)
    t.same(await one.take('lacking', digest('again')), digest('one'), 'where it goes on, it is never lacking')
    one.leave('lacking')
    await eventually(async () => (await other.take('lacking', digest('other'))) === undefined)
    one.leave('lacking')
    await sleep(50)
    t.same(await one.look('lacking'), digest('other'))
    other.leave('lacking')
  })

  await t.test('after a failure claims are put back soon, and not when they would be renewed', async (t) => {
    const proxy = await DatabaseProxy.start(t, server.socket)
    const claims = new ClaimBook(await connected(t, proxy.url(url)), 600_000)
    t.teardown(() => claims.close())
    await claims.take('soon', digest('soon'))
    proxy.loses = (sent) => sent.includes('renewed as')
    await eventually(() => proxy.lost > 0)
    const { lost } = proxy
    await eventually(() => proxy.lost >= lost + 3, 8000)
  })

  await t.test('a claim stands while its gateway is there, and for its lease after that', async (t) => {
    const gone = new ClaimBook(databases[1]!, lease)
    await gone.take('gone', digest('gone'))
    await one.take('kept', digest('kept'))
    await gone.close()
    await eventually(async () => (await other.take('gone', digest('other'))) === undefined, 20_000)
    t.same(await other.take('kept', digest('other')), digest('kept'), 'it is renewed')
    gone.leave('gone')
    await sleep(50)
    t.same(await one.look('gone'), digest('other'), 'who lost a claim does not leave that of another')
  })
})
