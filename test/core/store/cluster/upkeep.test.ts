// A gateway whose own clock is wrong deletes nothing of what all share, and keeps what it writes for as long as others.
import { hash } from 'node:crypto'
import t from 'tap'
import type { Test } from 'tap'
import { databaseTime } from '../../../../core/store/cluster/database/clock.ts'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { openSharedBook } from '../../../../core/store/cluster/shared-book.ts'
import type { SharedBook } from '../../../../core/store/cluster/shared-book.ts'
import type { Route } from '../../../../core/store/routes.ts'
import { steadyNow } from '../../../../core/watchdog/steady-time.ts'
import { settableClock } from '../../../kit/database-clock.ts'
import { DatabaseProxy } from '../../../kit/database-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'
import { record, work } from '../embedded/sample.ts'

const skip = postgresMissing
const [hour, day] = [3_600_000, 86_400_000]
const owner = { tenant: 'acme', project: 'web' }
const route: Route = {
  ...owner,
  id: 'mine',
  kind: 'response',
  channel: 'openai',
  account: 'a1',
  model: 'gpt-5',
  tokens: null
}
const bounds = {
  routeAge: hour,
  answers: { age: hour, size: 2 ** 30 },
  requests: { age: 30 * day, size: 2 ** 30 }
}
const id = hash('sha256', 'asked', 'buffer')
const answer = { asked: id, status: 200, type: 'text/plain', headers: {}, streamed: false, body: undefined }
const [trueOrigin, trueDate] = [performance.timeOrigin, Date.now]

/** Sets the clock of this process: as it was at its start, and as it is. */
function setClock(origin: number, now: number): void {
  Object.defineProperty(performance, 'timeOrigin', { value: trueOrigin + origin, configurable: true })
  Date.now = () => trueDate() + now
}

/** A book whose upkeep looks all the time. `looks`: how often it has. */
async function attended(t: Test, url: string): Promise<{ book: SharedBook; looks(): number }> {
  const proxy = await DatabaseProxy.start(t, (await sharedPostgres()).socket)
  let looks = 0
  proxy.loses = (sent) => {
    if (sent.includes(`select ${databaseTime} as now`)) looks++
    return false
  }
  const book = await open(t, proxy.url(url), 30)
  return { book, looks: () => looks }
}

async function open(t: Test, url: string, upkeepEvery?: number): Promise<SharedBook> {
  const database = await Database.open({ url })
  const book = await openSharedBook(database, bounds, { ...(upkeepEvery !== undefined && { upkeepEvery }) })
  t.teardown(async () => {
    await book.close()
    await database.close()
  })
  return book
}

/** Writes one of everything that is kept for a while. */
async function fill({ routes, answers, requests, works }: SharedBook): Promise<void> {
  await routes.put([route])
  await answers.put(id, 'acme', answer)
  requests.append(record({ request_id: 'r1', time: new Date(trueDate()).toISOString() }))
  await requests.idle()
  await works.put(work('w', { status: 'succeeded', ended: steadyNow(), expires: steadyNow() + hour }))
}

async function sweep({ routes, answers, requests, works }: SharedBook): Promise<void> {
  for (const one of [routes, answers, requests]) while (await one.sweep());
  for (const one of await works.expired(10)) await works.forget(one)
}

/** What a gateway finds of what {@link fill} has written. */
async function found({ routes, answers, requests, works }: SharedBook): Promise<boolean[]> {
  const all = await Promise.all([
    routes.find(owner, 'mine'),
    answers.find(id),
    requests.find('r1'),
    works.find(owner, 'w')
  ])
  return all.map((one) => one !== undefined)
}

const all = [true, true, true, true]

for (const origin of [100 * day, -100 * day])
  t.test(`whose clock was ${origin / day} days ahead when it started goes by the database`, { skip }, async (t) => {
    t.teardown(() => setClock(0, 0))
    const url = await (await sharedPostgres()).book()
    setClock(0, 0)
    const right = await open(t, url)
    await fill(right)
    setClock(origin, 0)
    const wrong = await open(t, url)
    t.same(await found(wrong), all)
    await sweep(wrong)
    t.same(await found(right), all)
    await wrong.routes.put([{ ...route, id: 'of the wrong one' }])
    await fill(wrong)
    const ends = (await (
      await sharedPostgres()
    ).sql(
      `select (expires - extract(epoch from clock_timestamp()) * 1000)::float8 as ms from sluice.route
       union all select (expires - extract(epoch from clock_timestamp()) * 1000)::float8 from sluice.work
       union all select (time - extract(epoch from clock_timestamp()) * 1000)::float8 + ${hour} from sluice.answer`,
      url
    )) as { ms: number }[]
    t.equal(ends.length, 4)
    for (const { ms } of ends) t.ok(ms > hour / 2 && ms <= hour + 60_000, `${ms} ms`)
  })

for (const now of [100 * day, -100 * day, 120_000])
  t.test(`whose clock is ${now / 1000} s ahead deletes nothing until it is right`, { skip }, async (t) => {
    t.teardown(() => setClock(0, 0))
    const server = await sharedPostgres()
    const url = await server.book()
    setClock(now, now)
    const { book, looks } = await attended(t, url)
    await server.sql(
      `insert into sluice.route values ('acme', 'web', 'over', 'response', 'openai', 'a1', 'm', null, 5)`,
      url
    )
    await book.works.put(work('over', { status: 'succeeded', ended: 5, expires: 5 }))
    await eventually(() => looks() > 10)
    t.same(await book.works.expired(10), [])
    t.equal((await server.sql('select from sluice.route', url)).length, 1)
    setClock(0, 0)
    await eventually(async () => (await server.sql('select from sluice.route', url)).length === 0)
    await eventually(async () => (await book.works.expired(10)).length === 1)
  })

t.test('a clock of the database that is set ahead by days ends nothing', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const set = await settableClock(url)
  const { book, looks } = await attended(t, url)
  await fill(book)
  await set(100 * day)
  const before = looks()
  await eventually(() => looks() > before + 10)
  t.same(await found(book), all)
  t.equal((await server.sql('select from sluice.route', url)).length, 1)
})
