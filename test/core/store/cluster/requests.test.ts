// The request log and the traffic that several gateways share in a real PostgreSQL, held against the embedded store.
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { Logbook } from '../../../../core/store/cluster/requests/logbook.ts'
import { recoveredRecord } from '../../../../core/store/embedded/recovery/recovery.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { RequestQuery, RequestRecord } from '../../../../core/store/requests.ts'
import { passedOf, Traffic, trafficSpans } from '../../../../core/store/traffic.ts'
import type { TrafficPoint, TrafficQuery } from '../../../../core/store/traffic.ts'
import { logFolder, moneyBook, moneyNode } from '../../../kit/cluster-money.ts'
import { PostgresProxy } from '../../../kit/postgres-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'
import { noon, record, scope, used } from '../embedded/sample.ts'
import { charge, hold } from './money/oracle.ts'

const skip = postgresMissing
const day = 86_400_000
const bounds = { age: 30 * day, size: 2 ** 40 }
const now = (): number => noon

async function logbook(t: Test, url: string, listenUrl = url, keep = bounds, clock = now): Promise<Logbook> {
  const database = await Database.open({ url, listenUrl })
  const log = new Logbook(database, keep, clock)
  t.teardown(async () => {
    await log.close()
    await database.close()
  })
  return log
}

/** A random number below a limit, from a seed. */
function chance(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

function records(pick: (below: number) => number): RequestRecord[] {
  const one = <T>(...of: T[]): T => of[pick(of.length)]!
  return Array.from({ length: 400 }, (_, i) => {
    const status = one(200, 200, 200, 404, 429, 502)
    const channel = one('east', 'west', null)
    return record({
      request_id: `r${String(i).padStart(3, '0')}`,
      time: new Date(noon - 2 * day + i * 300_000).toISOString(),
      tenant: one('acme', 'rival', null),
      project: one('web', 'app', null),
      member: one('ann', null),
      key: one('k1', 'k2', 'k3'),
      model: one('gpt-5', 'small', 'odd\u001fname', 'with\0nul'),
      endpoint: one('chat', 'responses'),
      channel,
      status,
      error_code: status < 400 ? null : one('model_not_found', 'upstream_timeout_idle', 'no_available_channel'),
      outcome: status < 400 ? 'completed' : one('rejected', 'failed', 'aborted'),
      cost_nano: String(pick(5000)),
      duration_ms: pick(3000),
      first_byte_ms: pick(2) ? pick(900) : null,
      attempts: Array.from({ length: pick(3) }, () => ({ channel: one('east', 'west', 'third'), duration_ms: 1 })),
      ...(pick(2) ? { tags: { team: one('a', 'b'), 'env=x': one('prod', 'test') } } : {})
    })
  })
}

function query(pick: (below: number) => number): Omit<RequestQuery, 'limit'> {
  const some = <T>(name: string, ...of: T[]): Record<string, T> =>
    pick(6) === 0 ? { [name]: of[pick(of.length)]! } : {}
  const texts = (): object => ({
    ...some('tenant', 'acme', 'rival', 'nobody'),
    ...some('project', 'web', 'app'),
    ...some('member', 'ann'),
    ...some('key', 'k1', 'k9'),
    ...some('model', 'gpt-5', 'odd\u001fname'),
    ...some('endpoint', 'chat'),
    ...some('channel', 'east', 'third'),
    ...some('code', 'model_not_found'),
    ...some('outcome', 'completed', 'failed'),
    ...some('tag', 'team', 'team=a', 'env=x', 'env=x=prod', 'tea')
  })
  const from = noon - 2 * day + pick(400) * 300_000
  return {
    ...texts(),
    ...(pick(3) === 0 && { not: { ...texts(), ...some('status', { from: 500 }, { from: 404, to: 429 }) } }),
    ...some('request_id', 'r100', 'none'),
    ...some('time', { from }, { to: from }, { from, to: from + day / 4 }),
    ...some('status', { from: 400 }, { to: 299 }, { from: 404, to: 404 }),
    ...some('cost', { from: '2500' }, { to: '1000' }),
    ...some('duration', { from: 1500 }, { from: 100, to: 500 })
  }
}

async function all(
  log: Pick<Logbook, 'list'>,
  query: Omit<RequestQuery, 'limit'>,
  limit: number
): Promise<RequestRecord[]> {
  const found: RequestRecord[] = []
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page: Awaited<ReturnType<Logbook['list']>> = await log.list({ ...query, limit, ...(cursor && { cursor }) })
    found.push(...page.data)
    cursor = page.next
  }
  return found
}

t.test('a search finds what the embedded store finds, and so do counts and traffic', { skip }, async (t) => {
  const url = await (await sharedPostgres()).book()
  const [one, other] = await Promise.all([logbook(t, url), logbook(t, url)])
  const store = await openStore({ file: join(t.testdir(), 'sluice.db'), durability: 'process', now })
  t.teardown(() => store.close())
  const pick = chance(7)
  for (const [i, made] of records(pick).entries()) {
    store.requests.append(made)
    ;[one, other][i % 2]!.append(made)
  }
  await Promise.all([one.idle(), other.idle()])
  let found = 0
  for (let i = 0; i < 100; i++) {
    const asked = query(pick)
    const expected = (await all(store.requests, asked, 1000)).map(({ request_id: id }) => id)
    const got = (await all(one, asked, 1 + pick(60))).map(({ request_id: id }) => id)
    if (!t.same(got, expected, JSON.stringify(asked))) break
    found += got.length
  }
  t.ok(found > 1000, `${found} records were found`)
  t.same(await one.find('r123'), { ...(await store.requests.find('r123')), written: (await one.find('r123'))!.written })
  t.equal(await one.find('r123', 'nobody'), undefined)

  const to = noon
  for (const asked of [
    { time: { to } },
    { tenant: 'acme', time: { from: noon - day, to } },
    { not: { code: 'model_not_found' }, time: { to } }
  ])
    t.same(await other.totals({ ...asked, limit: 1 }, 24), await store.requests.totals({ ...asked, limit: 1 }, 24))

  const whole = (span: 'minute' | 'hour'): TrafficQuery => {
    const width = trafficSpans[span]
    return { span, from: Math.floor((noon - 2 * day) / width), to: Math.ceil(to / width), every: 7 }
  }
  const summed = (points: TrafficPoint[]): unknown => points.map(({ number, sums }) => [number, comparable(sums)])
  for (const where of [
    {},
    { tenant: 'acme' },
    { tenant: 'rival', model: 'small' },
    { model: 'gpt-5', channel: 'east' },
    { channel: 'west' }
  ])
    for (const span of ['minute', 'hour'] as const) {
      const expected = summed(await store.traffic({ ...whole(span), ...where }))
      t.same(summed(await one.traffic({ ...whole(span), ...where })), expected, JSON.stringify(where))
      t.ok((expected as unknown[]).length > 0)
    }
})

/** Sums whose codes are in one order. */
function comparable(sums: TrafficPoint['sums']): unknown {
  return { ...sums, codes: sums.codes === '' ? {} : JSON.parse(sums.codes) }
}

t.test('a record that is logged twice, or whose answer is lost, is there once and counts once', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const proxy = await PostgresProxy.start(t, server)
  const [one, other] = [await logbook(t, proxy.url(url), url), await logbook(t, url)]
  const made = Array.from({ length: 20 }, (_, i) =>
    record({ request_id: `r${i}`, time: new Date(noon + i).toISOString() })
  )
  for (const [i, each] of made.entries()) {
    if (i % 5 === 2) proxy.loseAnswerTo('commit')
    if (i % 5 === 4) proxy.loseAnswerTo('insert into sluice.request')
    one.append(each)
    if (i % 3 === 0) other.append(each)
    if (i % 4 === 0) one.append(each)
    if (i % 2) await one.idle()
    await eventually(async () => (await one.list({ limit: 100 }).catch(() => undefined))?.data.length === i + 1, 10_000)
  }
  t.ok(proxy.lost > 4, `${proxy.lost} answers were lost`)
  const traffic = async (): Promise<number> =>
    (await other.traffic({ span: 'hour', from: 0, to: 1e7, every: 1e7 }))[0]!.sums.requests
  await Promise.all([one.idle(), other.idle()])
  t.equal((await other.list({ limit: 100 })).data.length, 20)
  t.equal(await traffic(), 20)
  const expected = new Traffic()
  for (const each of made) expected.add(passedOf(each))
  const [point] = await other.traffic({ span: 'minute', from: 0, to: 1e9, every: 1e9 })
  t.same(comparable(point!.sums), comparable(expected.stored))
})

t.test(
  'the record that others have written for an exchange gives way to its own, whoever is first, and counts once',
  { skip },
  async (t) => {
    const url = await (await sharedPostgres()).book()
    const [own, other] = [await logbook(t, url), await logbook(t, url)]
    const made = ['first', 'last', 'both'].map((id, i) =>
      record({
        request_id: id,
        time: new Date(noon + i).toISOString(),
        cost_nano: '700',
        channel: 'east',
        usage: used(7)
      })
    )
    const standIns = made.map(({ request_id: requestId, time }) => {
      const scopes = JSON.stringify({ 'tenant:acme': 'month', 'project:acme/web': 'total', 'key:laptop': 'total' })
      const who = { requestId, scopes, amount: 900n, model: 'gpt-5', priceVersion: 'p:1', channel: 'west' }
      const how = { endpoint: 'chat', clientProtocol: 'openai-chat', streamed: false, time: Date.parse(time) }
      return recoveredRecord({ ...who, ...how }, used(2), 200n)
    })
    // Those of older versions have no mark.
    delete standIns[1]!.recovered
    own.append(made[0]!)
    other.append(standIns[1]!)
    await Promise.all([own.idle(), other.idle()])
    t.match((await own.find('last'))!.record, { cost_nano: '200', status: 500, usage_source: 'recovered' })
    other.append(standIns[0]!)
    for (const one of [standIns[2]!, made[2]!]) other.append(one)
    for (const one of [made[1]!, record({ ...made[0]!, cost_nano: '1' })]) own.append(one)
    await Promise.all([own.idle(), other.idle()])
    t.same((await all(other, {}, 10)).reverse(), made)
    t.equal((await all(other, { channel: 'west' }, 10)).length, 0, 'nobody finds what it was before')
    const expected = new Traffic()
    for (const each of made) expected.add(passedOf(each))
    for (const where of [{}, { tenant: 'acme', model: 'gpt-5', channel: 'east' }]) {
      const [point] = await other.traffic({ span: 'minute', from: 0, to: 1e9, every: 1e9, ...where })
      t.same(comparable(point!.sums), comparable(expected.stored))
    }
  }
)

t.test('a record that is corrected counts once, with the time to its first byte', { skip }, async (t) => {
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const one = await hold(node.ledger, [scope('tenant', 'acme')], 10n)
  await one.settle(charge(3))
  await node.flush()
  const [log, other] = [await logbook(t, url), await logbook(t, url)]
  const own = { request_id: one.requestId, time: new Date(noon).toISOString(), first_byte_ms: 40 }
  log.append(record({ ...own, usage: used(5), usage_source: 'estimated', cost_nano: '5' }))
  await log.idle()
  other.corrected(one.requestId)
  await other.idle()
  t.match(await log.find(one.requestId), { record: { cost_nano: '3', first_byte_ms: 40, usage: used(3) } })
  const minute = Math.floor(noon / trafficSpans.minute)
  const [point] = await log.traffic({ span: 'minute', from: minute, to: minute + 1, every: 1 })
  const expected = new Traffic()
  expected.add(passedOf(record({ ...own, usage: used(3), cost_nano: '3', channel: 'openai' })))
  t.same(point!.sums, expected.stored)
})

t.test('what is logged while the server is away is there when it is back', { skip }, async (t) => {
  const server = await sharedPostgres()
  const log = await logbook(t, await server.book(5))
  log.append(record({ request_id: 'before', time: new Date(noon).toISOString() }))
  await log.idle()
  await server.stop()
  for (let i = 0; i < 50; i++) log.append(record({ request_id: `away ${i}`, time: new Date(noon + i).toISOString() }))
  await t.rejects(log.list({ limit: 100 }), { code: 'billing_unavailable' })
  await server.resume()
  await eventually(async () => (await log.list({ limit: 100 }).catch(() => undefined))?.data.length === 51, 20_000)
  t.equal(log.dropped, 0)
})

t.test('days are made ahead, and dropped when they are too old or too much', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  let time = noon
  const log = await logbook(t, url, url, { age: 3 * day, size: 2 ** 40 }, () => time)
  const days = async (): Promise<number[]> =>
    (await server.sql('select day from sluice.request_days()', url)).map((row) => row.day - Math.floor(noon / day))
  while (await log.sweep());
  t.same(await days(), [0, 1, 2])
  for (const ago of [0, 1, 2, 3, 5])
    log.append(record({ request_id: `${ago} days ago`, time: new Date(noon - ago * day).toISOString() }))
  await log.idle()
  t.same(await days(), [-3, -2, -1, 0, 1, 2])
  t.equal(log.dropped, 1, 'what is older than all that is kept')
  time += 2 * day
  while (await log.sweep());
  t.same(await days(), [-1, 0, 1, 2, 3, 4])
  t.same(
    (await log.list({ limit: 10 })).data.map(({ request_id: id }) => id),
    ['0 days ago', '1 days ago']
  )
  const small = await logbook(t, url, url, { age: 3 * day, size: 1 }, () => time)
  while (await small.sweep());
  t.same(await days(), [2, 3, 4], 'the present day stays')
})

t.test('a query that cannot be is refused', { skip }, async (t) => {
  const log = await logbook(t, await (await sharedPostgres()).book())
  for (const limit of [0, 1001, 1.5]) await t.rejects(log.list({ limit }), { code: 'invalid_field' })
  for (const cursor of ['', 'x', '12', `1'.a`])
    await t.rejects(log.list({ limit: 1, cursor }), { code: 'invalid_field' }, cursor)
})
