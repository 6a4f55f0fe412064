// Models and prices by the admin API, and what traffic would have cost on other models: for operators and for actors of
// one tenant.
import { randomUUIDv7 } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { openStore } from '../../../core/store/embedded/store.ts'
import { versioned } from '../../../config/prices/prices.ts'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { gateway } from '../../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { scope } from '../store/embedded/sample.ts'
import { slowness } from '../../kit/turns.ts'

t.setTimeout(600_000)

const owner = 'the token of the owner'
const million = 1_000_000n
const day = 86_400_000

type Call = (method: string, path: string, body?: unknown) => Promise<ReceivedReply>

const caller =
  (t: Test, { adminUrl }: LocalGateway, token: string): Call =>
  (method, path, body) =>
    ask(t, adminUrl, {
      method,
      path: `/admin/v1${path}`,
      headers: { authorization: `Bearer ${token}` },
      ...(body !== undefined && { body })
    })

const simulator = (models: readonly string[], more: object = {}): object => ({
  protocol: 'simulator',
  models: Object.fromEntries(models.map((name) => [name, 'demo'])),
  ...more
})

const file: Overrides = {
  admin: { token: owner },
  channels: {
    demo: simulator(['demo', 'dear', 'calls', 'later', 'team/own']),
    spare: simulator(['dear'], { priority: 1, enabled: false, cost: { of: 'price', factor: '0.5' } })
  },
  models: {
    demo: { owned_by: 'sluice', price: { input: 1, output: 2 }, context_window: 8000, max_output_tokens: 900 },
    dear: {
      price: [
        { input: 3, output: 9 },
        { from: '2999-01-01', input: 2, output: 8 }
      ],
      deprecated: { since: '2026-01-01', sunset: '2999-06-01', replacement: 'demo' }
    },
    calls: { price: { input: 1, output: 2, request: 0.01 } },
    later: { price: [{ from: '2999-01-01', input: 1, output: 1 }] },
    'team/own': { price: 'free' }
  },
  tenants: { acme: { models: ['d*', 'team/*'] }, zeta: {} },
  keys: [
    { name: 'test', key: 'sk-test-000000000000000000000000', tenant: 'acme' },
    { name: 'theirs', key: 'sk-theirs-00000000000000000000', tenant: 'zeta' }
  ]
}

async function open(t: Test): Promise<{ local: LocalGateway; root: Call; member: Call }> {
  const local = await gateway(t, file)
  const root = caller(t, local, owner)
  const made = await root('POST', '/operators', { name: 'eve', role: 'viewer', tenant: 'acme' })
  return { local, root, member: caller(t, local, made.json().token) }
}

async function chats(t: Test, local: LocalGateway, root: Call): Promise<void> {
  for (const [key, model] of [
    ['sk-test-000000000000000000000000', 'demo'],
    ['sk-test-000000000000000000000000', 'dear'],
    ['sk-theirs-00000000000000000000', 'demo']
  ] as const) {
    const headers = { authorization: `Bearer ${key}` }
    const body = { model, messages: [{ role: 'user', content: 'Count to ten' }], max_tokens: 20 }
    t.equal((await ask(t, local.url, { path: '/v1/chat/completions', headers, body })).status, 200)
  }
  await eventually(async () => (await root('GET', '/requests')).json().data.length === 3)
}

t.test('it lists the catalogue with prices, channels, deprecations and use', async (t) => {
  const { local, root } = await open(t)
  await chats(t, local, root)
  const { data } = (await root('GET', '/models')).json()
  t.same(
    data.map(({ name }: { name: string }) => name),
    ['calls', 'dear', 'demo', 'later', 'team/own']
  )
  const [calls, dear, demo, later, own] = data
  t.match(demo, {
    owned_by: 'sluice',
    context_window: 8000,
    max_output_tokens: 900,
    deprecated: null,
    price: { from: null, free: false, usd_per_million: { input: '1', cached_input: '1', output: '2' }, tiers: [] },
    next: null,
    requests: 2,
    channels: [{ name: 'demo', protocol: 'simulator', upstream_model: 'demo', state: 'healthy' }]
  })
  t.ok(demo.endpoints.includes('chat') && demo.endpoints.includes('embeddings'))
  t.equal(BigInt(demo.charge_nano), BigInt(demo.usage.input) * 1000n + BigInt(demo.usage.output) * 2000n)
  t.match(dear, {
    price: { usd_per_million: { input: '3' } },
    next: { from: '2999-01-01T00:00:00.000Z', usd_per_million: { input: '2' } },
    deprecated: { since: '2026-01-01T00:00:00.000Z', sunset: '2999-06-01T00:00:00.000Z', replacement: 'demo' },
    channels: [
      { name: 'demo', cost_usd_per_million: null },
      { name: 'spare', state: 'off', cost_usd_per_million: { input: '1.5', output: '4.5' } }
    ]
  })
  t.match(calls, { price: { usd_per_million: { request: '10000' } }, requests: 0, charge_nano: '0', usage: {} })
  t.match(later, { price: null, next: { usd_per_million: { output: '1' } } })
  t.match(own, { price: { free: true, version: 'free' } })
  t.match((await root('GET', '/models?until=2020-01-08&limit=1')).json(), { data: [{ requests: 0 }], next: String })
  t.match((await root('GET', '/models?since=2026-01-01T05:00:00Z')).json().error, { param: 'since' })
  t.match((await root('GET', '/models?since=2026-02-02&until=2026-02-02')).json().error, { param: 'since' })
})

t.test('actors of a tenant see the models that it may use, its own use, and nothing of upstreams', async (t) => {
  const { local, root, member } = await open(t)
  await chats(t, local, root)
  const { data } = (await member('GET', '/models')).json()
  t.same(
    data.map(({ name }: { name: string }) => name),
    ['dear', 'demo', 'team/own']
  )
  for (const model of data) t.notOk('channels' in model || 'cost_nano' in model)
  t.equal(data[1].requests, 1, 'not those of others')
  t.match((await member('GET', '/models/demo')).json(), { requests: 1, prices: [{ requests: 1 }] })
  t.match((await member('GET', '/models/team%2Fown')).json(), { name: 'team/own' })
  const [foreign, missing] = [await member('GET', '/models/calls'), await member('GET', '/models/callz')]
  t.equal(foreign.status, 404)
  t.equal(foreign.text.replace('calls', 'callz'), missing.text, 'alike')
  t.equal((await member('GET', '/models?tenant=zeta')).status, 403)
  const compared = (await member('POST', '/what-if', { to: ['dear'] })).json()
  t.match(compared, { tenant: 'acme', requests: 2, models: [{ model: 'dear' }] })
  t.same(
    (await member('POST', '/what-if', {})).json().models.map(({ model }: { model: string }) => model),
    ['demo', 'dear', 'team/own']
  )
  t.match((await member('POST', '/what-if', { to: ['calls'] })).json().error, { code: 'invalid_field', param: 'to' })
  t.equal((await member('POST', '/what-if', { tenant: 'zeta' })).status, 403)
  t.same((await root('GET', '/models?tenant=none')).json().data, [])
})

t.test(
  'names and patterns are shown as such, with what they stand for, what they cost and what was used',
  async (t) => {
    const local = await gateway(t, {
      ...file,
      models: {
        ...(file['models'] as object),
        quick: { alias: 'demo' },
        'vendor/*': { channel: 'demo', upstream: '*', price: { input: 4, output: 8 } },
        'listed/*': { channel: 'demo', upstream: '*', price: 'list' }
      },
      tenants: { acme: { models: ['vendor/*', 'quick', 'demo'] }, zeta: {} }
    })
    const root = caller(t, local, owner)
    const body = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 5 }
    for (const model of ['vendor/demo', 'vendor/other', 'quick'])
      await ask(t, local.url, {
        path: '/v1/chat/completions',
        headers: { authorization: 'Bearer sk-test-000000000000000000000000' },
        body: { ...body, model }
      })
    await eventually(async () => (await root('GET', '/requests')).json().data.length === 3)
    const { data } = (await root('GET', '/models')).json() as { data: Record<string, any>[] }
    const named = Object.fromEntries(data.map((model) => [model['name'], model]))
    t.match(named['demo'], { kind: 'model', asked: null })
    t.match(named['quick'], { kind: 'name', asked: ['demo'], price: { usd_per_million: { input: '1' } } })
    t.match(named['vendor/*'], {
      kind: 'pattern',
      price_by_name: false,
      price: { usd_per_million: { input: '4', output: '8' } },
      requests: 2,
      channels: [{ name: 'demo', upstream_model: '*' }]
    })
    t.equal(
      BigInt(named['vendor/*']!['charge_nano']),
      BigInt(named['vendor/*']!['usage'].input) * 4000n + BigInt(named['vendor/*']!['usage'].output) * 8000n
    )
    t.match(named['listed/*'], { kind: 'pattern', price_by_name: true, price: null, requests: 0 })
    t.match((await root('GET', '/models/vendor%2F*')).json(), {
      kind: 'pattern',
      requests: 2,
      prices: [{ requests: 2 }]
    })
    t.match((await root('GET', '/models/vendor%2Fdemo')).json(), { kind: 'pattern', name: 'vendor/demo', requests: 1 })
    const made = (await root('POST', '/operators', { name: 'eve', role: 'viewer', tenant: 'acme' })).json()
    const member = caller(t, local, made.token)
    t.same(
      (await member('GET', '/models')).json().data.map(({ name }: { name: string }) => name),
      ['demo', 'quick', 'vendor/*']
    )
    t.match((await member('GET', '/models/vendor%2Fdemo')).json(), { requests: 1 })
    t.equal((await member('GET', '/models/listed%2Fdemo')).status, 404)
  }
)

t.test('a model has all versions of its price: those of the file, and those that were charged by', async (t) => {
  const { local, root } = await open(t)
  await chats(t, local, root)
  local.configure({ ...file, models: { ...(file['models'] as object), demo: { price: { input: 4, output: 4 } } } })
  t.equal((await root('POST', '/reload', undefined)).status, 200)
  const { prices } = (await root('GET', '/models/demo')).json()
  const today = new Date().toISOString().slice(0, 10)
  t.match(prices, [
    { in_file: 'price', requests: 0, first_charged: null, price: { usd_per_million: { input: '4' } } },
    { in_file: null, requests: 2, price: { usd_per_million: { input: '1', output: '2' } } }
  ])
  t.ok(prices[1].first_charged <= today && prices[1].last_charged >= prices[1].first_charged)
  const dear = (await root('GET', '/models/dear')).json().prices
  t.match(dear, [
    { from: '2999-01-01T00:00:00.000Z', until: null, requests: 0 },
    { from: null, until: '2999-01-01T00:00:00.000Z', requests: 1 }
  ])
})

t.test('what traffic would have cost elsewhere is exact where classes match, and says where they do not', async (t) => {
  const { local, root } = await open(t)
  await chats(t, local, root)
  const all = (await root('POST', '/what-if', { model: 'demo' })).json()
  const { data } = (await root('GET', '/requests?model=demo')).json()
  const sum = (input: bigint, output: bigint): bigint =>
    data.reduce(
      (total: bigint, { usage }: any) => total + BigInt(usage.input) * input + BigInt(usage.output) * output,
      0n
    )
  const by = Object.fromEntries(all.models.map((one: any) => [one.model, one]))
  t.match(all, { requests: 2, complete: true, sources: [{ model: 'demo', requests: 2 }] })
  t.equal(BigInt(all.charge_nano), sum(1000n, 2000n))
  t.match(by['demo'], { exact: true, would_nano: all.charge_nano, difference_nano: '0', doubts: [] })
  t.match(by['dear'], {
    exact: true,
    would_nano: String(sum(3000n, 9000n)),
    difference_nano: String(sum(2000n, 7000n))
  })
  t.match(by['team/own'], { exact: true, would_nano: '0' })
  t.match(by['later'], { exact: false, would_nano: null, doubts: [{ why: 'no_price' }] })
  t.match(by['calls'], { exact: false, least_nano: all.charge_nano, doubts: [{ why: 'calls' }] })
  t.match((await root('POST', '/what-if', { key: 'theirs' })).json(), { requests: 1 })
  t.match((await root('POST', '/what-if', { since: '2020-01-01', until: '2020-01-08' })).json(), {
    requests: 0,
    charge_nano: '0',
    since: '2020-01-01',
    until: '2020-01-08'
  })
  for (const [body, param] of [
    [{ to: ['demi'] }, 'to'],
    [{ to: [] }, 'to'],
    [{ since: '2026-02-02', until: '2026-01-01' }, 'since'],
    [{ colour: 'red' }, 'colour']
  ] as const)
    t.match((await root('POST', '/what-if', body)).json().error, { param })
})

t.test('a question about 30,000 requests is answered from their sums', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-what-if-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'many.db')
  const store = await openStore({ file: path, durability: 'process' })
  const price = versioned({ perMillion: { input: 1000n * million, output: 2000n * million } })
  const scopes = Array.from({ length: 20 }, (_, key) => [scope('tenant', 'acme'), scope('key', `key-${key}`)])
  const many = 30_000
  let expected = 0n
  for (let n = 0; n < many; n++) {
    const usage = { input: n % 1000, cached_input: 0, cache_write: 0, output: n % 7, reasoning: 0 }
    const amount = BigInt(usage.input) * 1000n + BigInt(usage.output) * 2000n
    expected += BigInt(usage.input) * 3000n + BigInt(usage.output) * 9000n
    const held = store.ledger.reserve({
      requestId: randomUUIDv7(),
      scopes: scopes[n % 20]!,
      amount,
      model: 'demo',
      price,
      estimate: { input: 1, maxOutput: 1 },
      time: Date.now() - (n % 6) * day
    })
    const reservation = held instanceof Promise ? await held : held
    void reservation.settle({ usage, amount, source: 'upstream', channel: 'demo' })
    if (n % 2000 === 0) await store.flush()
  }
  await store.close()
  const local = await gateway(t, { ...file, store: { sqlite: path } })
  const root = caller(t, local, owner)
  const body = { model: 'demo', to: ['dear'] }
  await root('POST', '/what-if', body)
  let least = Infinity
  for (let turn = 0; turn < 5 && least >= 500; turn++) {
    const before = process.cpuUsage()
    const answer = (await root('POST', '/what-if', body)).json()
    const { user, system } = process.cpuUsage(before)
    t.match(answer, { requests: many, models: [{ exact: true, would_nano: String(expected) }] })
    least = Math.min(least, (user + system) / 1000 / slowness())
  }
  t.ok(least < 500, `CPU for an answer: ${least} ms`)
})
