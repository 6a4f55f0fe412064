// Figures over time: equal to the request log however they are selected, over restarts, and as fast with a million
// requests as with one.
import { DatabaseSync } from 'node:sqlite'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import type { RequestRecord } from '../../../core/store/requests.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { Store } from '../../../core/store/store.ts'
import { queryTraffic } from '../../../core/store/embedded/database/traffic-table.ts'
import { trafficSpans } from '../../../core/store/traffic.ts'
import type { TrafficQuery } from '../../../core/store/traffic.ts'
import { ask } from '../../kit/client.ts'
import { gateway } from '../../kit/gateway.ts'
import { rewind } from '../store/embedded/earlier.ts'
import { eventually } from '../../kit/probe.ts'
import { leastUsed } from '../../kit/turns.ts'

const base = Date.parse('2026-11-20T10:00:00Z')
let made = 0

/** A record, at so many milliseconds behind {@link base}. */
function record(after: number, more: Partial<RequestRecord> = {}): RequestRecord {
  return {
    request_id: `req_${++made}`,
    time: new Date(base + after).toISOString(),
    tenant: 'acme',
    project: null,
    member: null,
    key: 'k',
    model: 'gpt',
    requested_model: null,
    endpoint: 'chat',
    client_protocol: 'openai',
    channel: 'one',
    channel_protocol: 'openai',
    status: 200,
    error_code: null,
    outcome: 'completed',
    streamed: true,
    usage: { input: 10, cached_input: 5, cache_write: 1, output: 7, reasoning: 0 },
    usage_source: 'upstream',
    cost_usd: '0.000001',
    cost_nano: '1000',
    price_version: null,
    reserved_nano: null,
    attempts: [{ channel: more.channel ?? 'one', duration_ms: 5 }],
    first_byte_ms: 100,
    duration_ms: 120,
    client_request_id: null,
    ...more
  } as RequestRecord
}

const file = (t: Test): string => join(t.testdir(), 'store.db')
const open = (path: string): Promise<Store> => openStore({ file: path, durability: 'process' })

function query(more: Partial<TrafficQuery> = {}): TrafficQuery {
  const from = base / trafficSpans.minute
  return { span: 'minute', from, to: from + 60, every: 60, ...more }
}

async function requestsOf(store: Store, more: Partial<TrafficQuery> = {}): Promise<number[]> {
  return (await store.traffic(query(more))).map(({ sums }) => sums.requests)
}

t.test('requests are summed by all that they can be selected by', async (t) => {
  const path = file(t)
  const store = await open(path)
  for (const one of [
    record(0),
    record(1000, { tenant: 'zeta' }),
    record(61_000, { channel: 'two', first_byte_ms: 1000 }),
    record(62_000, {
      model: 'other',
      channel: 'two',
      status: 502,
      error_code: 'upstream_timeout_idle',
      outcome: 'failed'
    }),
    record(63_000, {
      model: 'made up',
      channel: null,
      error_code: 'model_not_found',
      outcome: 'rejected',
      usage: null
    }),
    record(64_000, { tenant: null, channel: null, error_code: 'invalid_api_key', outcome: 'rejected', usage: null }),
    record(65_000, { channel: null, error_code: 'quota_key_exceeded', outcome: 'rejected', usage: null })
  ])
    store.requests.append({ ...one, ...(one.outcome === 'rejected' && { cost_nano: '0' }) })
  t.same(await requestsOf(store), [7])
  t.same(await requestsOf(store, { every: 1 }), [2, 5])
  t.same(await requestsOf(store, { tenant: 'acme' }), [5])
  t.same(await requestsOf(store, { tenant: 'zeta' }), [1])
  t.same(await requestsOf(store, { tenant: 'none' }), [])
  t.same(await requestsOf(store, { model: 'gpt' }), [4], 'with the one whose budget was used up')
  t.same(await requestsOf(store, { model: 'made up' }), [], 'names of clients make no sums')
  t.same(await requestsOf(store, { channel: 'two' }), [2])
  t.same(await requestsOf(store, { model: 'gpt', channel: 'two' }), [1])
  t.same(await requestsOf(store, { tenant: 'acme', model: 'gpt', channel: 'one' }), [1])
  const hour = base / trafficSpans.hour
  t.same(await requestsOf(store, { span: 'hour', from: hour, to: hour + 1, every: 1 }), [7])
  const { sums } = (await store.traffic(query()))[0]!
  t.match(sums, { input: 64, output: 28, cost: '4000' })
  t.same(JSON.parse(sums.codes), {
    upstream_timeout_idle: 1,
    model_not_found: 1,
    invalid_api_key: 1,
    quota_key_exceeded: 1
  })
  t.equal(sums.first.split(' ').length, 2)
  await store.close()
  const again = await open(path)
  again.requests.append(record(2000))
  t.same(await requestsOf(again), [8], 'a later start adds to what is there')
  await again.close()
})

t.test('a store of an earlier version has its log summed up', async (t) => {
  const path = file(t)
  const store = await open(path)
  for (let i = 0; i < 50; i++) store.requests.append(record(i * 1000, { tenant: i % 2 ? 'acme' : 'zeta' }))
  const before = await store.traffic(query({ every: 1, tenant: 'acme' }))
  await store.close()
  rewind(path, 10)
  const again = await open(path)
  t.same(await again.traffic(query({ every: 1, tenant: 'acme' })), before)
  await again.close()
})

t.test('old minutes go, and hours stay', async (t) => {
  const path = file(t)
  const now = base + 10 * 86_400_000
  const keeping = {
    requests: { age: Infinity, size: Infinity },
    journal: { age: Infinity, size: Infinity, rows: 65_536 },
    patience: 0
  }
  const store = await openStore({ file: path, durability: 'process', keeping, now: () => now })
  store.requests.append(record(0))
  store.requests.append(record(10 * 86_400_000))
  await eventually(async () => (await requestsOf(store)).length === 0, 20_000)
  const hour = base / trafficSpans.hour
  t.same(await requestsOf(store, { span: 'hour', from: hour, to: hour + 1, every: 1 }), [1])
  const from = now / trafficSpans.minute
  t.same(await requestsOf(store, { from, to: from + 1, every: 1 }), [1])
  await store.close()
})

t.test('figures over a million requests come at once', async (t) => {
  const path = file(t)
  await (await open(path)).close()
  const database = new DatabaseSync(path)
  // The sums of a day of 700 requests a minute, of ten tenants with five models on two channels each.
  database.exec(`
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1439),
      m(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM m WHERE j < 9),
      c(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM c WHERE k < 9)
    INSERT INTO traffic_minute
      SELECT 'tenant:t' || j, ${base / 60_000} + i, 'm' || (k / 2), 'c' || (k % 2), 7, '', 700, 700, 7000, '20:3 24:2 30:2' FROM n, m, c;
    INSERT INTO traffic_minute SELECT '', time, '', '', 700, '', 70000, 70000, 700000, '20:300 24:200 30:200' FROM traffic_minute GROUP BY time;
  `)
  t.equal(
    Number(database.prepare("SELECT sum(requests) AS n FROM traffic_minute WHERE scope = ''").get()!['n']),
    1_008_000
  )
  const span = { span: 'minute', from: base / 60_000, to: base / 60_000 + 1440, every: 10 } as const
  for (const asked of [{}, { tenant: 't3' }, { tenant: 't3', model: 'm1' }]) {
    queryTraffic(database, { ...span, ...asked })
    const ms = leastUsed(200, () => t.equal(queryTraffic(database, { ...span, ...asked }).length, 144))
    t.ok(ms < 200, `${JSON.stringify(asked)} took ${ms} ms of the processor`)
    t.comment(`${JSON.stringify(asked)}: ${ms} ms`)
  }
  database.close()
})

t.test('the route shows what the log has', async (t) => {
  const local = await gateway(t)
  for (let i = 0; i < 3; i++) await local.chat()
  await local.chat({ model: 'none' })
  await eventually(async () => (await local.admin('/admin/v1/requests')).data.length === 4)
  const { data } = await local.admin('/admin/v1/requests')
  const shown = await local.admin('/admin/v1/overview')
  const cost = data.reduce((sum: bigint, one: RequestRecord) => sum + BigInt(one.cost_nano), 0n)
  t.match(shown, { step_s: 60, next: null })
  t.match(shown.total, { requests: 4, errors: 1, codes: { model_not_found: 1 }, cost_nano: String(cost) })
  t.ok(shown.data.length >= 60 && shown.data.length <= 62)
  t.ok(shown.total.first_event_p95_ms >= shown.total.first_event_p50_ms && shown.total.first_event_p50_ms > 0)
  t.equal((await local.admin('/admin/v1/overview?model=demo')).total.requests, 3)
  t.equal((await local.admin('/admin/v1/overview?channel=demo')).total.requests, 3)
  t.equal((await local.admin('/admin/v1/overview?tenant=acme&model=demo&step=5m')).total.requests, 3)
  const year = await local.admin('/admin/v1/overview?since=2026-01-01')
  t.ok(year.step_s >= 3600 && year.data.length <= 600)
  t.equal(year.total.requests, 4)
  for (const [parameters, param] of [
    ['step=3s', 'step'],
    ['since=2026-11-02&until=2026-11-01', 'since'],
    ['since=1970-01-01', 'since'],
    ['colour=red', 'colour']
  ] as const) {
    const reply = await ask(t, local.adminUrl, { path: `/admin/v1/overview?${parameters}` })
    t.match([reply.status, reply.json().error.param], [400, param], parameters)
  }
})
