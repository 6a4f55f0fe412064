// Models that stand in for each other: who is asked, what is held and charged, who may ask, and what clients are told.
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../kit/gateway.ts'
import { eventually, figures, settled } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import { bytes, endOfBody, events, head, reset, until, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { completion, delta, done, opening, sse, whole } from '../faults/vendor.ts'

t.setTimeout(600_000)

const json = (status: number, body: unknown): Step[] => {
  const text = JSON.stringify(body)
  return [
    head(status, { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }),
    bytes(text)
  ]
}
const error = (status: number, code: string): Step[] => json(status, { error: { message: 'No.', type: 'some', code } })
const well = json(200, completion)
const wellStream = [sse, events([...whole, done]), endOfBody()]
const prices = { a: { input: 1, output: 2 }, b: { input: 3, output: 5 }, c: { input: 7, output: 1 } } as const
type Name = keyof typeof prices
const costOf = (name: Name): number => (11 * prices[name].input + 7 * prices[name].output) * 1000

interface Bench extends Record<Name, Upstream> {
  local: LocalGateway
}

/** Three models, each with a channel of its own, and `models` beside them. */
async function bench(t: Test, models: Overrides, more: Overrides = {}): Promise<Bench> {
  const [a, b, c] = [await Upstream.start(t), await Upstream.start(t), await Upstream.start(t)]
  const all = { a, b, c }
  const channels = Object.fromEntries(
    Object.entries(all).map(([name, upstream]) => [
      name,
      {
        protocol: 'openai',
        base_url: upstream.url.href,
        private: true,
        credential: `secret-of-${name}`,
        endpoints: ['chat', 'embeddings', 'responses'],
        models: { [name]: `${name}-upstream` },
        ...(more['each'] as object)
      }
    ])
  )
  const local = await gateway(t, {
    channels: { ...channels, ...(more['channels'] as object) },
    models: { ...Object.fromEntries(Object.entries(prices).map(([name, price]) => [name, { price }])), ...models },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme', budget: { usd: 1000, per: 'day' }, ...(more['key'] as object) }
    ],
    ...(more['tenants'] ? { tenants: more['tenants'] } : {})
  })
  return { ...all, local }
}

/** What was asked of an upstream, by its name for the model. */
const asked = ({ requests }: Upstream): string[] => requests.map(({ body }) => JSON.parse(String(body)).model)

t.test('a name for several models asks one after another, and says which one answered', async (t) => {
  const { local, a, b, c } = await bench(t, { best: { fallback: ['a', 'b', 'c'] }, fast: { alias: 'a' } })
  a.always(...error(503, 'overloaded'))
  b.always(reset())
  c.always(...well)
  const reply = await local.chat({ model: 'best' })
  t.equal(reply.status, 200)
  t.equal(reply.headers['x-sluice-model'], 'c')
  t.equal(reply.json().model, 'best', 'the answer has the name that was asked for')
  t.same([asked(a), asked(b), asked(c)], [['a-upstream'], ['b-upstream'], ['c-upstream']])
  const record = await local.record(reply)
  t.same([record.model, record.requested_model, record.channel], ['c', 'best', 'c'])
  t.equal(Number(record.cost_nano), costOf('c'))
  t.ok(BigInt(record.cost_nano) <= BigInt(record.reserved_nano!))
  t.same(
    record.attempts.map(({ channel, model }) => [channel, model]),
    [
      ['a', 'a'],
      ['b', 'b'],
      ['c', 'c']
    ]
  )
  t.same(
    record.decision?.models?.map(({ model, code }) => [model, code]),
    [
      ['a', 'upstream_bad_response'],
      ['b', 'upstream_connection_failed']
    ]
  )
  t.notMatch(JSON.stringify(reply.headers), /secret|127\.0\.0\.1/)
  a.always(...well)
  const alias = await local.chat({ model: 'fast' })
  t.equal(alias.headers['x-sluice-model'], 'a')
  t.same([(await local.record(alias)).model, Number((await local.record(alias)).cost_nano)], ['a', costOf('a')])
  const plain = await local.chat({ model: 'a' })
  t.notOk('x-sluice-model' in plain.headers, 'an ordinary model says nothing')
  const list = await local.ask({ path: '/v1/models' })
  t.same(
    list
      .json()
      .data.map(({ id }: { id: string }) => id)
      .sort(),
    ['a', 'b', 'best', 'c', 'demo', 'fast']
  )
  await settled(t, local)
  await chained(t, local)
})

/** What the books say of failed attempts adds up, and names the model of each. */
async function chained(t: Test, local: LocalGateway): Promise<void> {
  const lines = [...(await figures(t, local)).keys()].filter((line) => line.includes('model="'))
  const known = /model="(?:a|b|c|best|fast|other|test-model|(?:x|list)\/\*)"/
  for (const line of lines) t.match(line, known, 'metrics know the models of the file alone')
}

t.test('a stream falls back until something was shown, also for an error within a 200', async (t) => {
  const { local, a, b } = await bench(t, { best: { fallback: ['a', 'b'] } })
  b.always(...wellStream)
  const overloaded = { error: { type: 'overloaded_error', message: 'Overloaded', code: 'overloaded_error' } }
  for (const steps of [
    [sse, events([overloaded]), endOfBody()],
    [sse, events([opening, overloaded]), endOfBody()],
    [sse, reset()]
  ]) {
    a.always(...steps)
    const reply = await local.chat({ model: 'best', stream: true })
    t.equal(reply.headers['x-sluice-model'], 'b')
    t.equal(reply.text.split('"role":"assistant"').length, 2, 'one opening')
    t.notMatch(reply.text, /overloaded/)
    t.match(reply.text, /All/)
  }
  a.always(sse, events([opening, delta('Half')]), reset())
  const before = b.requests.length
  const broken = await local.chat({ model: 'best', stream: true })
  t.match(broken.text, /Half/)
  t.match(broken.text, /"error"/)
  t.equal(b.requests.length, before, 'what was shown is not begun anew')
  t.equal((await local.record(broken)).model, 'a')
  await settled(t, local)
})

t.test(
  'a model that is silent has a stand-in too, whole or streamed, and no client waits more than twice',
  async (t) => {
    const quick = { timeouts: { first_byte: '300ms', first_byte_whole: '300ms' } }
    const { local, a, b, c } = await bench(
      t,
      { best: { fallback: ['a', 'b'] }, long: { fallback: ['a', 'b', 'c'] } },
      { each: quick }
    )
    for (const stream of [false, true]) {
      a.always(until(new Promise(() => {})))
      b.always(...(stream ? wellStream : well))
      const reply = await local.chat({ model: 'best', stream })
      t.equal(reply.headers['x-sluice-model'], 'b')
      t.match(reply.text, /All/)
    }
    b.always(until(new Promise(() => {})))
    c.always(...well)
    const late = await local.chat({ model: 'long' })
    t.equal(late.status, 504)
    t.equal(late.headers['x-should-retry'], 'false')
    t.equal(c.requests.length, 0)
    await settled(t, local)
  }
)

t.test('the file says what lets another model stand in, and a client may refuse it', async (t) => {
  const { local, a, b } = await bench(t, {
    careful: { fallback: ['a', 'b'] },
    any: { fallback: ['a', 'b'], fallback_on: ['failure', 'context', 'filter'] },
    long: { fallback: ['a', 'b'], fallback_on: ['context'] }
  })
  b.always(...well)
  const rows: [Step[], string, string | undefined][] = [
    [error(400, 'context_length_exceeded'), 'careful', undefined],
    [error(400, 'context_length_exceeded'), 'any', 'b'],
    [error(400, 'context_length_exceeded'), 'long', 'b'],
    [error(400, 'content_filter'), 'careful', undefined],
    [error(400, 'content_filter'), 'any', 'b'],
    [error(400, 'invalid_value'), 'any', undefined],
    [error(503, 'overloaded'), 'long', undefined],
    [error(401, 'invalid_api_key'), 'any', 'b'],
    [error(404, 'model_not_found'), 'any', 'b']
  ]
  for (const [steps, model, by] of rows) {
    a.always(...steps)
    const reply = await local.chat({ model })
    t.equal(
      reply.status === 200 ? reply.headers['x-sluice-model'] : undefined,
      by,
      `${model}: ${JSON.stringify(steps[1])}`
    )
  }
  a.always(...error(503, 'overloaded'))
  const before = b.requests.length
  const body = { model: 'any', messages: [{ role: 'user', content: 'Hi' }] }
  const ask = (said: string) =>
    local.ask({ path: '/v1/chat/completions', headers: { 'x-sluice-fallback': said }, body })
  const off = await ask('off')
  t.equal(off.status, 503)
  t.equal((await local.record(off)).model, 'a')
  t.equal((await ask('never')).status, 400, 'what is neither on nor off is refused, as it may cost money')
  t.equal(b.requests.length, before)
  t.equal((await ask('on')).headers['x-sluice-model'], 'b')
  t.notOk(b.requests.some(({ headers }) => 'x-sluice-fallback' in headers))
  await settled(t, local)
})

t.test('who may use a name gets what stands behind it; who may not learns nothing', async (t) => {
  const { local, a, b } = await bench(
    t,
    { best: { fallback: ['a', 'b'] } },
    { key: { models: ['best'], limits: { models: { best: { rpm: 3 } } } } }
  )
  a.always(...error(503, 'overloaded'))
  b.always(...well)
  t.equal((await local.chat({ model: 'a' })).status, 404)
  t.equal((await local.chat({ model: 'b' })).status, 404)
  t.equal((await local.chat({ model: 'best' })).status, 200)
  t.same(
    (await local.ask({ path: '/v1/models' })).json().data.map(({ id }: { id: string }) => id),
    ['best']
  )
  await local.chat({ model: 'best' })
  await local.chat({ model: 'best' })
  t.equal((await local.chat({ model: 'best' })).status, 429, 'limits of models count the name that is asked for')
  await settled(t, local)
})

t.test('budgets hold the dearest of those that may answer', async (t) => {
  const { local, a } = await bench(
    t,
    { best: { fallback: ['a', 'b'] } },
    { key: { budget: { usd: '0.01', per: 'day' } } }
  )
  a.always(...well)
  // 2500 tokens cost 0.005 at a, and 0.0125 at b.
  const body = { max_tokens: 2500 }
  t.equal((await local.chat({ model: 'a', ...body })).status, 200)
  const refused = await local.chat({ model: 'best', ...body })
  t.equal(refused.status, 429)
  t.equal(refused.json().error.code, 'quota_key_exceeded')
  const only = await local.ask({
    path: '/v1/chat/completions',
    headers: { 'x-sluice-fallback': 'off' },
    body: { model: 'best', messages: [{ role: 'user', content: 'Hi' }], ...body }
  })
  t.equal(only.status, 200, 'whoever refuses the dear one holds nothing for it')
  await settled(t, local)
})

t.test('a model that cannot be charged or carried is not asked while another can be', async (t) => {
  const { local, a, b } = await bench(t, {
    b: { price: { ...prices.b, service_tiers: { priority: prices.b } } },
    best: { fallback: ['a', 'b'] },
    none: { fallback: ['a', 'c'] }
  })
  a.always(...well)
  b.always(...well)
  const tier = await local.chat({ model: 'best', service_tier: 'priority' })
  t.equal(tier.status, 200)
  t.equal(a.requests.length, 0)
  const record = await local.record(tier)
  t.same(
    [record.model, record.decision?.models?.map(({ model, code }) => [model, code])],
    ['b', [['a', 'price_missing']]]
  )
  const none = await local.chat({ model: 'none', service_tier: 'priority' })
  t.same([none.status, none.json().error.code], [503, 'price_missing'])
  await settled(t, local)
})

t.test('embeddings are those of one model, and tokens are counted for one', async (t) => {
  const { local, a, b } = await bench(t, { best: { fallback: ['a', 'b'] } })
  a.always(...error(503, 'overloaded'))
  const vectors = await local.ask({ path: '/v1/embeddings', body: { model: 'best', input: 'Hi' } })
  t.equal(vectors.status, 503, vectors.text)
  t.equal(b.requests.length, 0)
  await settled(t, local)
})

t.test('a name of a pattern goes to its channel, at the price of the pattern', async (t) => {
  const { local, a } = await bench(t, {
    'x/*': { channel: 'a', price: { input: 2, output: 4 } },
    'list/*': { channel: 'a', price: 'list' },
    'y-*': { channel: 'a', price: { input: 2, output: 4 } },
    best: { fallback: ['a', 'b'] }
  })
  a.always(...well)
  const reply = await local.chat({ model: 'x/new-model' })
  t.equal(reply.status, 200)
  t.equal(reply.json().model, 'x/new-model')
  t.same(asked(a), ['new-model'])
  const record = await local.record(reply)
  t.same([record.model, Number(record.cost_nano)], ['x/new-model', (11 * 2 + 7 * 4) * 1000])
  const unpriced = await local.chat({ model: 'list/nobody-knows-it' })
  t.same([unpriced.status, unpriced.json().error.code], [503, 'price_missing'])
  const listed = await local.record(await local.chat({ model: 'list/gpt-5' }))
  t.ok(BigInt(listed.cost_nano) > 0n, 'at the public price')
  t.same(asked(a), ['new-model', 'gpt-5'])
  t.equal((await local.chat({ model: 'y/new-model' })).status, 404)
  t.equal((await local.chat({ model: 'x/' })).status, 404)
  t.equal((await local.chat({ model: 'x/a b' })).status, 404)
  t.equal((await local.chat({ model: `x/${'l'.repeat(200)}` })).status, 404)
  for (const model of ['x/..', 'x/.', 'x/../gpt-5', 'x/a/../../b', 'y-..', 'y-../a', 'x/..\\a'])
    t.equal((await local.chat({ model })).status, 404, `${model} would be another address`)
  t.same(asked(a), ['new-model', 'gpt-5'])
  a.always(...error(404, 'model_not_found'))
  const unknown = await local.chat({ model: 'x/none' })
  t.equal(unknown.status, 404, 'what the upstream does not know is unknown')
  t.equal(unknown.json().error.code, 'model_not_found')
  const list = (await local.ask({ path: '/v1/models' })).json().data.map(({ id }: { id: string }) => id)
  t.notOk(list.some((id: string) => id.startsWith('x/')))
  await chained(t, local)
  await settled(t, local)
})

t.test('a reload in the midst of a request leaves it who may answer, and its prices', async (t) => {
  const { local, a, b } = await bench(t, { best: { fallback: ['a', 'b'] } })
  let go = (): void => {}
  const gate = new Promise<void>((resolve) => (go = resolve))
  a.always(until(gate), reset())
  b.always(...well)
  const reply = local.chat({ model: 'best' })
  await eventually(() => a.requests.length === 1)
  const channel = (name: string, upstream: Upstream): unknown => ({
    protocol: 'openai',
    base_url: upstream.url.href,
    private: true,
    credential: `secret-of-${name}`,
    models: { [name]: name }
  })
  local.configure({
    channels: { a: channel('a', a) },
    models: { a: { price: prices.a }, best: { alias: 'a' } },
    keys: [{ name: 'test', key: testKey, tenant: 'acme' }]
  })
  t.match(await local.gateway.reload('test'), { ok: true })
  go()
  const record = await local.record(await reply)
  t.same([record.model, Number(record.cost_nano)], ['b', costOf('b')])
  await settled(t, local)
})

t.test('whatever fails, at most what was held is charged, once, by the model that answered', async (t) => {
  const { local, a, b, c } = await bench(t, {
    best: { fallback: ['a', 'b', 'c'] },
    other: { fallback: ['c', 'a'], fallback_on: ['failure', 'context', 'filter'] },
    nested: { fallback: ['b', 'other'], fallback_on: ['failure', 'filter'] },
    fast: { alias: 'nested' }
  })
  const faults: Record<string, (stream: boolean) => Step[]> = {
    well: (stream) => (stream ? wellStream : well),
    busy: () => error(503, 'overloaded'),
    limited: () => error(429, 'rate_limit_exceeded'),
    long: () => error(400, 'context_length_exceeded'),
    filtered: () => error(400, 'content_filter'),
    gone: () => [reset()],
    cut: (stream) => (stream ? [sse, events([opening, delta('Half')]), reset()] : [well[0]!, reset()])
  }
  const fault = fc.constantFrom(...Object.keys(faults))
  const seen = new Set<string>()
  await fc.assert(
    fc.asyncProperty(
      fc.record({ a: fault, b: fault, c: fault }),
      fc.constantFrom('best', 'other', 'nested', 'fast', 'a'),
      fc.boolean(),
      async (how, model, stream) => {
        for (const [name, upstream] of Object.entries({ a, b, c }))
          upstream.always(...faults[how[name as Name]]!(stream))
        const reply = await local.chat({ model, stream, max_tokens: 50 })
        const record = await local.record(reply)
        if (seen.has(record.request_id)) throw new Error('recorded twice')
        seen.add(record.request_id)
        const cost = BigInt(record.cost_nano)
        if (record.reserved_nano !== null && cost > BigInt(record.reserved_nano))
          throw new Error(`${cost} was charged above the hold`)
        if (record.outcome === 'completed' && Number(cost) !== costOf(record.model as Name))
          throw new Error(`${cost} for ${record.model}: ${JSON.stringify(record)}`)
        if (record.outcome === 'completed' && how[record.model as Name] !== 'well')
          throw new Error('who failed has not answered')
        const shown = reply.text.split('Half').length - 1
        if (shown > 1 || (shown === 1 && reply.text.includes('All'))) throw new Error(`shown twice: ${reply.text}`)
      }
    ),
    { numRuns: 60 }
  )
  await settled(t, local)
})

t.test('what is kept at an account goes there, and nobody stands in for it', async (t) => {
  const { local, a, b } = await bench(t, { best: { fallback: ['a', 'b'] } })
  const response = (id: string): Step[] =>
    json(200, {
      id,
      object: 'response',
      created_at: 1,
      status: 'completed',
      model: 'x',
      output: [],
      error: null,
      usage: { input_tokens: 11, output_tokens: 7, total_tokens: 18 }
    })
  const respond = (more: object = {}) =>
    local.ask({ path: '/v1/responses', body: { model: 'best', input: 'Hi', ...more } })
  a.always(...error(503, 'overloaded'))
  b.always(...response('resp_b'))
  const first = await respond()
  t.same([first.status, first.json().id, first.headers['x-sluice-model']], [200, 'resp_b', 'b'])
  a.always(...response('resp_a'))
  const before = a.requests.length
  const second = await respond({ previous_response_id: 'resp_b' })
  t.same([second.status, second.headers['x-sluice-model']], [200, 'b'], second.text)
  t.equal(a.requests.length, before, 'nobody is asked for what it does not know')
  const own = await respond()
  t.equal(own.json().id, 'resp_a')
  a.always(...error(503, 'overloaded'))
  const asked = b.requests.length
  const third = await respond({ previous_response_id: 'resp_a' })
  t.equal(third.status, 503)
  t.equal(b.requests.length, asked)
  t.equal((await respond({ previous_response_id: 'resp_unknown' })).status, 404)
  await settled(t, local)
})

t.test('a session is opened by whoever takes it, and its turns cost what that one costs', async (t) => {
  const { local, a, b } = await bench(
    t,
    {
      best: { fallback: ['a', 'talk'] },
      talk: { price: { input: 3, output: 5 } }
    },
    { channels: { demo: { protocol: 'simulator', models: { demo: 'demo', talk: 'demo' } } } }
  )
  a.always(...error(503, 'overloaded'))
  const client = await openRealtime(t, local, { model: 'best' })
  t.equal(client.headers['x-sluice-model'], 'talk')
  client.ask('Hello')
  await client.event('response.done')
  client.socket.close()
  await client.closed
  await settled(t, local)
  const { data } = await local.admin('/admin/v1/requests?limit=1')
  t.same([data[0].model, data[0].requested_model], ['talk', 'best'])
  t.equal(Number(data[0].cost_nano), (data[0].usage.input * 3 + data[0].usage.output * 5) * 1000)
  t.equal(b.requests.length, 0)
})
