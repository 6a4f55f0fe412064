// Two gateways that share one store in PostgreSQL and Redis are one gateway to whoever uses them.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { startSimulator } from '../../core/simulator/simulator.ts'
import { ask } from '../kit/client.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { brokenIn } from '../kit/cluster-money.ts'
import { testKey } from '../kit/gateway.ts'
import type { LocalGateway, TestGateway } from '../kit/gateway.ts'
import { Installation, nodesMissing } from '../kit/nodes.ts'
import { eventually } from '../kit/probe.ts'
import { openRealtime, refusedRealtime } from '../kit/realtime.ts'

t.setTimeout(600_000)

const foreign = 'sk-test-foreign-0000000000000'
const video = '/v1/video/generations'
const responses = '/v1/responses'

const directive = (members: object): string => `Tell me. [[simulator ${JSON.stringify(members)}]]`
const said = (members: object, more: object = {}): object => ({
  model: 'demo',
  messages: [{ role: 'user', content: directive(members) }],
  ...more
})

interface Pair {
  all: Installation
  a: LocalGateway
  b: LocalGateway
}

/** Two gateways before one simulator, with everything that a client can ask for. */
async function pair(t: Test, more: object = {}): Promise<Pair> {
  const upstream = await startSimulator({ port: 0 })
  t.teardown(() => upstream.close())
  const channel = (protocol: string, endpoints: string[], models: object): object => ({
    protocol,
    base_url: new URL('/v1', upstream.url).href,
    private: true,
    credential: 'secret',
    endpoints,
    models
  })
  const price = { input: 1, output: 2, second: 3, image: 4 }
  const all = await Installation.make(t, {
    channels: {
      demo: channel('openai', ['chat', 'videos', 'images', 'realtime', 'responses'], { demo: 'demo' }),
      chat: channel('openai', ['chat'], { own: 'demo' })
    },
    models: { demo: { price }, own: { price, state: 'gateway' } },
    tenants: { acme: { budget: { usd: 1000, per: 'month' } }, other: {} },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme' },
      { name: 'foreign', key: foreign, tenant: 'other' },
      { name: 'poor', key: 'sk-test-poor-00000000000000', tenant: 'other', budget: { usd: '0.0002', per: 'day' } },
      { name: 'slow', key: 'sk-test-slow-00000000000000', tenant: 'other', limits: { rpm: 2 } }
    ],
    state: { key: 'a secret of the operator that nobody else knows' },
    tasks: { poll: { first: '100ms', most: '60s' } },
    chain: [
      { auth: {} },
      { idempotency: {} },
      { quota: {} },
      { ratelimit: {} },
      { route: { repeats: 0 } },
      { 'protocol-translate': {} },
      { 'usage-meter': {} },
      { log: { sink: 'none' } }
    ],
    ...more
  })
  const [a, b] = [await all.node(), await all.node()]
  return { all, a, b }
}

async function holdsIn(all: Installation): Promise<number> {
  return (await all.sql('select 1 from sluice.hold')).length
}

t.test('what one gateway does, the other has done', { skip: nodesMissing }, async (t) => {
  const { all, a, b } = await pair(t)
  const as = (key: string) => ({ authorization: `Bearer ${key}` })
  const chat = (node: TestGateway, key: string, body: object = said({ text: 'Hi' })): Promise<ReceivedReply> =>
    node.ask({ path: '/v1/chat/completions', headers: as(key), body })

  await t.test('a request of one is in the log, the balances and the spend of the other', async (t) => {
    const reply = await a.chat()
    t.equal(reply.status, 200)
    t.match(await b.record(reply), { tenant: 'acme', status: 200, usage_source: 'upstream' })
    const charged = (await b.record(reply)).cost_nano
    const { data } = await b.admin('/admin/v1/balances')
    t.equal(data.find(({ scope }: any) => scope === 'tenant:acme').posted_nano, charged)
    t.match((await b.admin('/admin/v1/spend?by=model')).data, [{ requests: 1, charge_nano: charged }])
    t.same(await b.admin('/readyz'), { status: 'ok' })
  })

  await t.test('one that cannot take over its configuration says so itself, and goes on', async (t) => {
    const text = readFileSync(a.file, 'utf8')
    writeFileSync(a.file, `${text}\nnonsense: 1\n`)
    t.match(await a.gateway.reload('test'), { ok: false })
    const refused = { status: 'degraded', reasons: [/^configuration: the files are refused since 20/] }
    t.match(await a.admin('/readyz'), refused)
    t.same(await b.admin('/readyz'), { status: 'ok' })
    t.equal((await a.chat()).status, 200)
    writeFileSync(a.file, text)
    t.match(await a.gateway.reload('test'), { ok: true })
    t.same(await a.admin('/readyz'), { status: 'ok' })
  })

  await t.test('a budget is one budget, and limits are one', async (t) => {
    const body = said({ text: 'Hi' }, { max_tokens: 40 })
    const statuses = await Promise.all(
      Array.from({ length: 12 }, (_, i) => chat(i % 2 ? a : b, 'sk-test-poor-00000000000000', body))
    )
    const refused = statuses.filter(({ status }) => status === 429)
    t.ok(refused.length > 0 && refused.length < 12, `${refused.length} of 12 were refused`)
    t.match(refused[0]!.json(), { error: { code: 'quota_key_exceeded' } })
    const { data } = await a.admin('/admin/v1/balances?scope=key:poor')
    t.ok(BigInt(data[0].posted_nano) <= 200_000n, data[0].posted_nano)
    const [one, two, three] = [
      await chat(a, 'sk-test-slow-00000000000000'),
      await chat(b, 'sk-test-slow-00000000000000'),
      await chat(a, 'sk-test-slow-00000000000000')
    ]
    t.same([one.status, two.status, three.status], [200, 200, 429])
    t.match(three.json(), { error: { code: 'rate_limit_rpm' } })
  })

  await t.test('a list that was begun at one goes on at the other', async (t) => {
    const body = { name: 'looking', role: 'viewer', tenant: 'other' }
    const { token } = (await ask(t, a.adminUrl, { path: '/admin/v1/operators', body })).json()
    const page = async (node: LocalGateway, query = ''): Promise<any> => {
      const path = `/admin/v1/requests?limit=1${query}`
      return (await ask(t, node.adminUrl, { method: 'GET', path, headers: as(token) })).json()
    }
    await eventually(async () => (await page(b)).data?.length === 1)
    const first = await page(a)
    const second = await page(b, `&cursor=${first.next}`)
    t.equal(second.data?.length, 1, JSON.stringify(second))
    t.not(second.data?.[0].request_id, first.data[0].request_id)
  })

  await t.test('a key that is made at one works at the other at once, and ends there when it is revoked', async (t) => {
    const made = await ask(t, a.adminUrl, { path: '/admin/v1/keys', body: { name: 'made', tenant: 'acme' } })
    t.equal(made.status, 201, made.text)
    const { key } = made.json()
    await eventually(async () => (await chat(b, key)).status === 200)
    const slow = said({ text: 'a b c d e f g h i j k l m n o p q r s t u v w x y z', gap_ms: 2000 }, { stream: true })
    const cut = chat(b, key, slow)
    await eventually(async () => (await b.admin('/admin/v1/requests/under-way')).data.length > 0, 20_000)
    const revoked = await ask(t, a.adminUrl, { method: 'DELETE', path: '/admin/v1/keys/made' })
    t.equal(revoked.status, 200, revoked.text)
    await eventually(async () => (await chat(b, key)).status === 401, 20_000)
    t.notMatch((await cut).text, / z|\[DONE\]/, 'what runs at the other ends')
    const trail = (await b.admin('/admin/v1/audit')).data.map(({ action }: { action: string }) => action)
    t.ok(trail.includes('key.create') && trail.includes('key.revoke'), trail.join())
  })

  await t.test('a task is polled, listed and called off by way of the other', async (t) => {
    const begun = await a.ask({
      path: video,
      body: { model: 'demo', prompt: directive({ queue_ms: 0, work_ms: 500 }) }
    })
    t.equal(begun.status, 202, begun.text)
    const { id } = begun.json()
    // The one that has begun it would ask again only in a minute.
    await eventually(async () => {
      const seen = await b.ask({ method: 'GET', path: `${video}/${id}` })
      return seen.json().status === 'succeeded'
    }, 30_000)
    t.equal((await a.ask({ method: 'GET', path: `${video}/${id}` })).json().status, 'succeeded')
    t.equal((await b.ask({ method: 'GET', path: `${video}/${id}`, headers: as(foreign) })).status, 404)
    const second = (
      await a.ask({ path: video, body: { model: 'demo', prompt: directive({ work_ms: 60_000 }) } })
    ).json()
    const off = await b.ask({ path: `${video}/${second.id}/cancel`, body: {} })
    t.match(off.json(), { id: second.id, status: 'cancelled' })
    t.equal((await a.ask({ method: 'GET', path: `${video}/${second.id}` })).json().status, 'cancelled')
    t.equal(await holdsIn(all), 0, 'nothing is held any more')
  })

  await t.test('a response in the background is read, followed and called off by way of the other', async (t) => {
    const create = async (members: object, more: object = {}): Promise<any> =>
      (
        await a.ask({ path: responses, body: { model: 'own', input: directive(members), background: true, ...more } })
      ).json()
    const begun = await create({ text: 'Done at last.', first_byte_ms: 300 })
    await eventually(async () => {
      const read = await b.ask({ method: 'GET', path: `${responses}/${begun.id}` })
      return read.json().status === 'completed'
    }, 30_000)
    const next = await b.ask({ path: responses, body: { model: 'own', input: 'And?', previous_response_id: begun.id } })
    t.equal(next.status, 200, next.text)
    const long = await create({ text: 'Never.', first_byte_ms: 60_000 })
    t.match((await b.ask({ path: `${responses}/${long.id}/cancel`, body: {} })).json(), { status: 'cancelled' })
    t.match((await a.ask({ method: 'GET', path: `${responses}/${long.id}` })).json(), { status: 'cancelled' })
    t.equal((await b.ask({ method: 'GET', path: `${responses}/${begun.id}`, headers: as(foreign) })).status, 404)
  })

  await t.test('a stored response of an upstream is gone on with by way of the other', async (t) => {
    const made = await a.ask({ path: responses, body: { model: 'demo', input: directive({ text: 'Yes.' }) } })
    const { id } = made.json()
    t.match((await b.ask({ method: 'GET', path: `${responses}/${id}` })).json(), { id, status: 'completed' })
    const next = await b.ask({ path: responses, body: { model: 'demo', input: 'And?', previous_response_id: id } })
    t.equal(next.status, 200, next.text)
  })

  await t.test('a repeat at the other is told to wait, and then gets the same answer', async (t) => {
    const headers = { 'idempotency-key': 'one' }
    const body = said({ text: 'Only once.', first_byte_ms: 6000 })
    const first = a.ask({ path: '/v1/chat/completions', headers, body })
    await eventually(async () => (await all.sql('select 1 from sluice.claim')).length > 0, 20_000)
    const meanwhile = await b.ask({ path: '/v1/chat/completions', headers, body })
    t.equal(meanwhile.status, 409, meanwhile.text)
    const { text } = await first
    let again: ReceivedReply | undefined
    await eventually(async () => {
      again = await b.ask({ path: '/v1/chat/completions', headers, body })
      return again.status === 200
    }, 20_000)
    t.equal(again!.text, text)
    t.equal(again!.headers['idempotency-replayed'], 'true')
  })

  await t.test('a repeat while the answer is being written is told to wait, and is not run', async (t) => {
    const held = all.sql('begin; lock table sluice.answer in exclusive mode; select pg_sleep(60)')
    held.catch(() => {})
    const locks = (which: string): Promise<any[]> =>
      all.sql(`select pid from pg_locks where relation = 'sluice.answer'::regclass and ${which}`)
    const locked = `mode = 'ExclusiveLock' and granted`
    await eventually(async () => (await locks(locked)).length > 0, 20_000)
    const headers = { 'idempotency-key': 'being written' }
    const repeat = (node: TestGateway): Promise<ReceivedReply> =>
      node.ask({ path: '/v1/chat/completions', headers, body: said({ text: 'Once.' }) })
    const first = repeat(a)
    await eventually(async () => (await locks('not granted')).length > 0, 20_000)
    for (const node of [b, a, b]) {
      const meanwhile = await repeat(node)
      t.equal(meanwhile.status, 409, meanwhile.text)
    }
    for (const { pid } of await locks(locked)) await all.sql(`select pg_terminate_backend(${pid})`)
    const { status, text } = await first
    t.equal(status, 200, text)
    for (const node of [a, b]) t.match(await repeat(node), { text, headers: { 'idempotency-replayed': 'true' } })
    await eventually(async () => (await all.sql('select 1 from sluice.claim')).length === 0, 20_000)
  })

  await t.test('each knows which gateways there are, and what they run', async (t) => {
    const { hash, nodes, store } = await a.admin('/admin/v1/config')
    t.equal(store.startsWith('postgres://'), true)
    await eventually(async () => {
      const seen = (await a.admin('/admin/v1/config')).nodes
      return seen.length === 2 && seen.every(({ config }: { config: string }) => config !== '')
    }, 20_000)
    t.equal(nodes.find(({ own }: { own: boolean }) => own).config, hash)
    const slots = readdirSync(join(dirname(a.file), 'own'))
    t.same(slots.toSorted(), ['config', 'node-1'])
  })

  await t.test('the book is verified by way of any of them, which tell how far it is', async (t) => {
    const path = '/admin/v1/ledger/verify'
    // Of all that a verification reads, these come after the journal, and requests need them least.
    const held = all.sql('begin; lock table sluice.anchor in access exclusive mode; select pg_sleep(60)')
    held.catch(() => {})
    const locked = `select pid from pg_locks where relation = 'sluice.anchor'::regclass and mode = 'AccessExclusiveLock' and granted`
    await eventually(async () => (await all.sql(locked)).length > 0, 20_000)
    const started = await ask(t, b.adminUrl, { path, body: {} })
    t.equal(started.status, 202, started.text)
    let running: any
    await eventually(async () => {
      running = (await b.admin(path)).running
      return running?.table === 'journal' && running.rows > 0
    }, 50_000)
    t.match(running, { by: 'this machine', rows: running.of })
    await all.sql(`select pg_terminate_backend(pid) from (${locked}) holders`)
    const results = async (): Promise<any[]> => (await a.admin(path)).results
    await eventually(async () => (await results()).length === 1, 120_000)
    const [result] = await results()
    t.match(result, { outcome: 'holds', broken: 0, why: null })
    t.equal(result.checked.journal, running.of, 'nothing was asked for meanwhile')
    t.ok(result.checked.balance > 0 && result.checked.price > 0, JSON.stringify(result.checked))
  })

  await a.gateway.close({ drain: true })
  await eventually(async () => (await b.admin('/admin/v1/config')).nodes.length === 1, 20_000)
  t.equal((await b.chat()).status, 200, 'the other serves on')
  await b.gateway.close()
  t.same(await brokenIn(all.database), [], 'the book holds')
})

t.test(
  'a client secret opens sessions at every gateway, which spend together what it may',
  { skip: nodesMissing },
  async (t) => {
    const { all, a, b } = await pair(t)
    const made = await a.ask({
      path: '/v1/realtime/client_secrets',
      body: { session: { type: 'realtime', model: 'demo' }, budget: '0.5' }
    })
    t.equal(made.status, 200)
    const { value } = made.json()
    const withSecret = { headers: {}, protocols: ['realtime', `openai-insecure-api-key.${value}`] }
    const usage = '"usage": {"input_tokens": 499990, "output_tokens": 20, "total_tokens": 500010}'
    const there = await openRealtime(t, b, withSecret)
    there.ask(`One [[simulator {"tokens": 20, ${usage}}]]`)
    await there.event('response.done')
    there.socket.close(1000)
    await eventually(async () => (await all.sql('select from sluice.client_secret_hold')).length === 0, 20_000)
    await eventually(
      async () => (await all.sql('select from sluice.client_secret where posted > 0')).length === 1,
      20_000
    )
    t.equal((await refusedRealtime(t, a, withSecret)).status, 429, 'it is spent')
    const unknown = { ...withSecret, protocols: ['realtime', 'openai-insecure-api-key.ek_unknown'] }
    t.equal((await refusedRealtime(t, b, unknown)).status, 401)
  }
)

t.test(
  'work whose gateway is gone is charged, also when somebody asks before its hold was brought',
  { skip: nodesMissing },
  async (t) => {
    const { all, a, b } = await pair(t, { tasks: { poll: { first: '60s', most: '60s' } } })
    const begun = await a.ask({
      path: video,
      body: { model: 'demo', prompt: directive({ queue_ms: 0, work_ms: 1 }), seconds: 2 }
    })
    t.equal(begun.status, 202, begun.text)
    const { id } = begun.json()
    const [from, to] = ['money_adopt_1', 'money_adopt_1_away']
    await all.sql(`alter function sluice.${from} rename to ${to}`)
    await a.gateway.close()
    const owners = async (): Promise<any[]> => all.sql(`select owner from sluice.work where id = '${id}'`)
    const [{ owner }] = await owners()
    await eventually(async () => (await owners())[0].owner !== owner, 30_000)
    const read = async (): Promise<any> => (await b.ask({ method: 'GET', path: `${video}/${id}` })).json()
    t.notMatch(await read(), { status: 'succeeded' }, 'nobody sees an end that could not be charged')
    await all.sql(`alter function sluice.${to} rename to ${from}`)
    await eventually(async () => (await read()).status === 'succeeded', 60_000)
    t.equal(await holdsIn(all), 0)
    const charges = await all.sql(`select amount from sluice.journal where kind = 'settle'`)
    t.same(
      charges.map(({ amount }) => String(amount)),
      ['6000000000']
    )
    t.same(await brokenIn(all.database), [])
  }
)
