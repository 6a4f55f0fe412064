// What `POST /admin/v1/explain` says of a request is what becomes of it when it is sent, and saying it changes nothing.
import t from 'tap'
import type { Test } from 'tap'
import type { Explanation } from '../../core/admin/requests/explanation.ts'
import { endpointNames } from '../../core/catalogue/endpoints.ts'
import { definePlugin } from '../../core/contract/contract.ts'
import type { Plugin } from '../../core/contract/contract.ts'
import { caller, slot } from '../../core/contract/slots.ts'
import { operations } from '../../core/operations/index.ts'
import { plugins } from '../../plugins/index.ts'
import { ask } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { GatewaySetup, LocalGateway, Overrides } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { chunk, endOfBody, head, Upstream } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

const json = { 'content-type': 'application/json' }
const answer = (status: number, body: object) => [head(status, json), chunk(JSON.stringify(body)), endOfBody()]
const broken = { error: { message: 'no capacity', type: 'server_error', code: 'overloaded' } }
const everything = { endpoints: endpointNames.filter((name) => name !== 'models') }
const all = { endpoints: ['audio', 'realtime', 'chat', 'responses'] }
const turns = [{ role: 'user', content: 'Hi' }]

interface Bench {
  local: LocalGateway
  a: Upstream
  b: Upstream
  explain(body: object): Promise<Explanation>
  /** The error of an explanation that is refused itself. */
  refused(body: unknown): Promise<{ status: number; error: { message: string; param?: string } }>
}

async function open(t: Test, overrides: Overrides = {}, setup: GatewaySetup = {}): Promise<Bench> {
  const [a, b] = [await Upstream.start(t), await Upstream.start(t)]
  for (const upstream of [a, b]) upstream.always(...answer(200, chatAnswer()))
  const local = await gateway(t, overrides, { upstreams: { a, b }, ...setup })
  const post = (body: unknown) =>
    ask(t, local.adminUrl, { method: 'POST', path: '/admin/v1/explain', headers: json, body })
  return {
    local,
    a,
    b,
    async explain(body) {
      const reply = await post(body)
      if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`)
      return reply.json() as Explanation
    },
    async refused(body) {
      const reply = await post(body)
      return { status: reply.status, ...(reply.json() as { error: { message: string } }) }
    }
  }
}

/** Counts as an upstream that answers anything: what it was sent is what matters. */
const endpoints: { endpoint: string; path: string; body: Record<string, unknown> }[] = [
  { endpoint: 'chat', path: '/v1/chat/completions', body: { model: testModel, messages: turns, seed: 5, n: 1 } },
  { endpoint: 'chat', path: '/v1/chat/completions', body: { model: testModel, messages: turns, stream: true } },
  { endpoint: 'responses', path: '/v1/responses', body: { model: testModel, input: 'Hi', store: false } },
  { endpoint: 'messages', path: '/v1/messages', body: { model: testModel, max_tokens: 9, messages: turns } },
  {
    endpoint: 'generate',
    path: `/v1beta/models/${testModel}:generateContent`,
    body: { contents: [{ parts: [{ text: 'Hi' }] }] }
  },
  { endpoint: 'embeddings', path: '/v1/embeddings', body: { model: testModel, input: ['one', 'two'] } }
]

for (const protocol of ['openai', 'anthropic', 'gemini']) {
  t.test(`what would be sent to ${protocol} is what is sent, and what would be held is what is held`, async (t) => {
    const { local, a, explain } = await open(t, {
      channels: { a: { protocol }, b: { endpoints: ['moderations'] } }
    })
    for (const { path, body } of endpoints) {
      const told = await explain({ key: 'test', method: 'POST', path, body })
      t.equal(a.requests.length, 0, 'nothing is sent')
      const reply = await local.ask({ method: 'POST', path, body })
      const name = `${path} ${body['stream'] === true ? 'streamed' : 'whole'}`
      const record = await local.record(reply)
      if (told.outcome === 'refused') {
        t.equal(reply.status, told.refusal!.status, name)
        t.equal(record.error_code, told.refusal!.code, name)
        t.equal(a.requests.length, 0)
        continue
      }
      t.equal(told.outcome, 'sent', `${name}: ${reply.text}`)
      const sent = a.requests.pop()!
      const { upstream, held, request, dropped } = told
      t.equal(upstream!.method, sent.method, name)
      t.equal(upstream!.url, `${a.url.origin}${sent.target}`, name)
      t.same(upstream!.body, sent.json(), name)
      for (const [header, value] of Object.entries(upstream!.headers)) {
        if (value === '[redacted]') t.match(sent.headers[header], /upstream-secret-of-a/, `${name}: ${header}`)
        else t.equal(sent.headers[header], value, `${name}: ${header}`)
      }
      t.equal(held!.nano, record.reserved_nano, name)
      t.equal(request.endpoint, record.endpoint, name)
      t.equal(request.client_protocol, record.client_protocol, name)
      t.same(dropped, record.dropped ?? [], name)
      t.notMatch(JSON.stringify(told), /upstream-secret/, 'credentials stay here')
    }
  })
}

t.test('the lines of what would be held add up to it', async (t) => {
  const { explain } = await open(t)
  const { held } = await explain({ key: 'test', model: testModel, body: { messages: turns, max_tokens: 50 } })
  const sum = held!.lines.reduce((all, line) => all + line.units * Number(line.usd_per_million), 0)
  t.equal(sum * 1000, Number(held!.nano))
  t.match(held, { usd: /^0\.000\d+$/, lines: [{ counted: 'prompt' }, { counted: 'answer', units: 50 }] })
})

t.test('forms and sessions are shown as well, and what the gateway answers itself', async (t) => {
  const { a, explain } = await open(t, { models: { [testModel]: { price: 'free' } }, channels: { a: all, b: all } })
  const form = await explain({
    key: 'test',
    endpoint: 'audio.transcriptions',
    model: testModel,
    body: { language: 'en', file: { filename: 'a.wav', base64: Buffer.from('sound').toString('base64') } }
  })
  t.match(form, {
    outcome: 'sent',
    upstream: {
      url: /\/audio\/transcriptions$/,
      headers: { 'content-type': /^multipart\/form-data/ },
      body: { language: 'en', model: testModel, file: { filename: 'a.wav', bytes: 5 } }
    }
  })
  const session = await explain({ key: 'test', endpoint: 'realtime', model: testModel })
  t.match(session, {
    outcome: 'sent',
    upstream: { url: new RegExp(`^ws://.*/realtime\\?model=${testModel}$`), body: null }
  })
  t.match(await explain({ key: 'test', endpoint: 'models' }), { outcome: 'answered', answered_by: 'gateway' })
  t.match(await explain({ key: 'test', path: '/v1/responses/resp_1', method: 'DELETE' }), { outcome: 'kept' })
  t.match(await explain({ key: 'test', path: '/v1/nothing' }), {
    outcome: 'refused',
    refusal: { status: 404, code: 'route_not_found' }
  })
  t.equal(a.requests.length, 0)
})

t.test('every endpoint can be explained, by its name and a model', async (t) => {
  const { local, a, b, explain, refused } = await open(t, {
    models: { [testModel]: { price: 'free' } },
    channels: { a: everything, b: everything }
  })
  const outcomes = new Map<string, number>()
  for (const { name, paths, model } of operations) {
    const asked = { key: 'test', endpoint: name, model: testModel }
    if (paths[0]!.replace(`{${model?.name}`, '').includes('{')) {
      t.match(await refused(asked), { status: 400, error: { param: 'path' } }, name)
      continue
    }
    const { outcome, refusal, upstream } = await explain(asked)
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    if (refusal) t.equal(refusal.code, 'invalid_field', `${name}: ${refusal.message}`)
    if (outcome === 'sent') t.match(upstream, { channel: 'a', model: testModel }, name)
  }
  t.ok(outcomes.get('sent')! >= 20, JSON.stringify([...outcomes]))
  t.equal(a.requests.length + b.requests.length, 0)
  t.same(
    local.lines.filter(({ level }) => level === 'error'),
    []
  )
})

t.test('an explanation takes nothing, counts nothing and leaves no record', async (t) => {
  const { local, a, b, explain } = await open(t, {
    tenants: { acme: { budget: { usd: 1, per: 'day' } } },
    keys: [{ name: 'test', key: testKey, tenant: 'acme', limits: { rpm: 5, tpm: 100_000, concurrency: 1 } }],
    chain: [
      { auth: {} },
      { idempotency: {} },
      { quota: {} },
      { ratelimit: {} },
      { route: { repeats: 0 } },
      { 'protocol-translate': {} },
      { 'usage-meter': {} },
      { log: { sink: 'none' } }
    ]
  })
  // An ejection would be over after five seconds, which is less than what follows takes on a busy machine.
  a.script(head(429, { ...json, 'retry-after': '300' }), chunk(JSON.stringify(broken)), endOfBody())
  await local.record(await local.chat())
  const metrics = async (): Promise<string[]> =>
    (await ask(t, local.adminUrl, { path: '/metrics' })).text
      .split('\n')
      .filter((line) =>
        /^sluice_(attempts|requests|tokens|cost|idempotent|channel_ejections|usage|exchanges|store_commits)/.test(line)
      )
  const look = async (): Promise<object> => ({
    balances: await local.admin('/admin/v1/balances'),
    channels: (
      (await local.admin('/admin/v1/channels')) as { data: { name: string; health: Record<string, unknown> }[] }
    ).data.map(({ name, health: { until: _, ...health } }) => [name, health]),
    requests: ((await local.admin('/admin/v1/requests')) as { data: { request_id: string }[] }).data.length,
    metrics: await metrics()
  })
  const before = await look()
  const body = { model: testModel, messages: turns }
  const once = { 'idempotency-key': 'once' }
  for (let i = 0; i < 20; i++) {
    t.match(await explain({ key: 'test', body, headers: once }), {
      outcome: 'sent',
      upstream: { channel: 'b' },
      limits: [{ limit_name: 'concurrency', used: 0 }, { limit_name: 'rpm', limit: 5 }, { limit_name: 'tpm' }],
      excluded: [{ channel: 'a', by: 'route', code: 'cooling', until: /Z$/ }]
    })
    await explain({ key: 'test', model: 'nothing' })
    await explain({ key: 'test', model: testModel, body: { messages: turns, max_tokens: 900_000 } })
  }
  t.same(await look(), before)
  t.equal(b.requests.length, 1)
  const reply = await local.ask({ method: 'POST', path: '/v1/chat/completions', headers: once, body })
  t.equal(reply.status, 200)
  t.equal(reply.headers['x-ratelimit-remaining'], '0', 'the one place is taken by this request alone')
  t.match(await explain({ key: 'test', body, headers: once }), { outcome: 'answered', answered_by: 'idempotency' })
  t.match(await explain({ key: 'test', body: { ...body, n: 1 }, headers: once }), {
    refusal: { code: 'idempotency_conflict' }
  })
})

t.test('a channel that is out is not probed by explanations', async (t) => {
  const { local, a, explain } = await open(t, {
    chain: [
      'auth',
      'quota',
      { route: { repeats: 0, eject_after: 1, attempts: 1 } },
      'usage-meter',
      { log: { sink: 'none' } }
    ]
  })
  a.script(head(429, { ...json, 'retry-after': '1' }), chunk(JSON.stringify(broken)), endOfBody())
  await local.chat()
  t.match(await explain({ key: 'test', model: testModel }), {
    excluded: [{ channel: 'a', code: 'cooling', reason: /asked for a pause/ }],
    upstream: { channel: 'b' }
  })
  const state = async (): Promise<string> =>
    ((await local.admin('/admin/v1/channels')) as { data: { health: { state: string } }[] }).data[0]!.health.state
  await eventually(async () => (await state()) === 'healthy')
  t.match(await explain({ key: 'test', model: testModel }), { upstream: { channel: 'a' }, excluded: [] })
})

t.test('a refusal is told as the client would see it, with its reason', async (t) => {
  const { local, explain } = await open(t, {
    tenants: { acme: { budget: { usd: 0.000_001, per: 'month' } } },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme' },
      { name: 'narrow', key: 'sk-narrow-0000000000000000', tenant: 'acme', models: ['gpt-*'], endpoints: ['chat'] },
      { name: 'old', key: 'sk-old-00000000000000000000', tenant: 'acme', expires: '2020-01-01' }
    ]
  })
  const reply = await local.chat()
  const { error } = reply.json() as { error: { code: string; message: string } }
  const told = await explain({ key: 'test', body: { model: testModel, messages: turns } })
  t.match(told.refusal, { status: reply.status, code: error.code, message: error.message })
  t.match(told.refusal!.reason, {
    by: 'budget',
    scope: 'tenant:acme',
    per: 'month',
    limit_nano: '1000',
    left_nano: '1000'
  })
  t.same({ ...told.refusal!.reason, free_at: '' }, { ...(await local.record(reply)).reason, free_at: '' })
  t.match(told.order, [{ channel: 'a', health: { state: 'healthy' } }, { channel: 'b' }], 'where it would go')
  t.match(told.budgets, [{ scope: 'tenant:acme', posted_nano: '0', left_nano: '1000', resets_at: /T00:00:00/ }])
  t.match(await explain({ key: 'narrow', model: testModel }), {
    refusal: { code: 'model_not_found' },
    caller: { key: 'narrow' }
  })
  t.match(await explain({ key: 'narrow', endpoint: 'embeddings', model: testModel }), {
    refusal: { code: 'endpoint_not_allowed' }
  })
  t.match(await explain({ key: 'old', model: testModel }), { refusal: { code: 'expired_api_key' } })
  t.match(await explain({ secret: testKey, model: testModel }), { caller: { key: 'test' } })
  t.match(await explain({ headers: { 'X-API-Key': testKey }, model: testModel }), { caller: { key: 'test' } })
  t.match(await explain({ secret: 'sk-unknown', model: testModel }), {
    caller: null,
    refusal: { code: 'invalid_api_key' }
  })
  t.match(await explain({ model: testModel }), { refusal: { code: 'missing_api_key' } })
  t.match(await explain({ key: 'test', body: 'no JSON' }), { order: null, refusal: { code: 'invalid_json' } })
})

t.test('every channel is accounted for', async (t) => {
  const { explain } = await open(t, {
    channels: {
      a: { protocol: 'anthropic' },
      c: {
        protocol: 'openai',
        base_url: 'http://127.0.0.1:9/v1',
        private: true,
        models: { [testModel]: 'c' },
        endpoints: ['embeddings']
      },
      d: { protocol: 'openai', base_url: 'http://127.0.0.1:9/v1', private: true, models: { other: 'd' } }
    },
    models: { other: { price: 'free' } }
  })
  const { order, excluded, upstream } = await explain({
    key: 'test',
    body: { model: testModel, messages: turns, n: 2 }
  })
  t.match(order, [{ channel: 'b', rank: 1, weight: 1, health: { state: 'healthy' } }])
  t.match(excluded, [
    { channel: 'c', code: 'endpoint', by: 'gateway' },
    { channel: 'a', code: 'protocol', by: 'gateway', reason: /^anthropic cannot carry/ },
    { channel: 'd', code: 'model', reason: `channels.d.models does not have ${testModel}` }
  ])
  t.match(upstream, { channel: 'b', translated: false, body: { n: 2 } })
})

t.test('plugins that do not know explanations are skipped and named, with those that need them', async (t) => {
  const fact = slot('test/fact').of<string>()
  let asked = 0
  const make = (name: string, more: Partial<Plugin>, hooks: object): Plugin =>
    definePlugin({
      name,
      summary: 'For a test.',
      options: {},
      ...more,
      setup: () => ({ onRequest: () => void asked++, ...hooks })
    })
  const more = [
    make('careless', { provides: [fact] }, {}),
    make('needy', { needs: [fact], rehearses: true }, {}),
    make('watcher', {}, { onRequest: undefined, onSettled: () => {} }),
    make(
      'careful',
      { rehearses: true, needs: [caller] },
      {
        onRequest: undefined,
        onCandidates: (
          _exchange: unknown,
          candidates: { keep(wanted: (channel: { name: string }) => boolean, why: string): void }
        ) => candidates.keep(({ name }) => name === 'b', 'only b may be used')
      }
    )
  ]
  const { local, explain } = await open(
    t,
    {
      chain: [
        'auth',
        'careless',
        'needy',
        'watcher',
        'careful',
        'quota',
        'route',
        'usage-meter',
        { log: { sink: 'none' } }
      ]
    },
    { plugins: new Map([...plugins, ...more.map((plugin) => [plugin.name, plugin] as const)]) }
  )
  const told = await explain({ key: 'test', model: testModel })
  t.same(told.skipped_plugins, ['careless', 'needy'])
  t.equal(asked, 0)
  t.match(told, {
    upstream: { channel: 'b' },
    excluded: [{ channel: 'a', by: 'careful', reason: 'only b may be used' }]
  })
  await local.chat()
  t.equal(asked, 2)
})

t.test('what is asked for wrongly is refused with its field', async (t) => {
  const { refused } = await open(t)
  for (const [body, param, message] of [
    [[], undefined, /JSON object such as/],
    [{ key: 'tset' }, 'key', /did you mean "test"/],
    [{ key: 'test', secret: testKey }, 'key', /give one/],
    [{ kye: 'test' }, 'kye', /did you mean "key"/],
    [{ endpoint: 'chta' }, 'endpoint', /did you mean "chat"/],
    [{ path: 'v1/models' }, 'path', /begin with a slash/],
    [{ path: '/v1/models', model: 'x' }, 'model', /model and path are there both/],
    [{ endpoint: 'models.retrieve' }, 'model', /needs a model/],
    [{ endpoint: 'models.retrieve', model: 'a\ud800' }, 'model', /no Unicode text/],
    [{ endpoint: 'responses.retrieve' }, 'path', /give the path/],
    [{ headers: { a: 1 } }, 'headers', /texts by name/]
  ] as const) {
    const { status, error } = await refused(body)
    t.equal(status, 400, JSON.stringify(body))
    t.equal(error.param, param)
    t.match(error.message, message)
  }
})
