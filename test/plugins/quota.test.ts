// What is held, what is charged and what is given back, for every way of an exchange to end.
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { definePlugin, GatewayError, noUsage } from '../../core/contract/contract.ts'
import { charge, spent, usage } from '../../core/contract/slots.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import type { Model } from '../../core/contract/contract.ts'
import type { Price } from '../../core/money/price.ts'
import { Lens } from '../../core/bodies/lens.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import { turnBound, within } from '../../plugins/quota/bound.ts'
import quota from '../../plugins/quota/index.ts'
import { amountOf, termsFor, termsOf } from '../../plugins/quota/terms.ts'
import type { Terms, Units } from '../../plugins/quota/terms.ts'
import { pluginContract } from '../kit/contract.ts'
import { eventually } from '../kit/probe.ts'
import { chunk, endOfBody, events, head, reset, stall, until, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, chatEvents, key, Workbench } from '../kit/workbench.ts'
import type { Answer, Sections } from '../kit/workbench.ts'

pluginContract(t, quota, {
  accepts: [{}, { estimate: 'typical', default_output: 1, clamp_output: true }],
  refuses: [
    [{ estimate: 'best' }, /worst, typical/],
    [{ default_output: 0 }, /must be/]
  ]
})

/** A million tokens cost 1 dollar in and 2 out: 1,000 and 2,000 nano-dollars a token. */
const nano = { input: 1000n, output: 2000n }

interface Bench {
  bench: Workbench
  upstream: Upstream
}

async function open(t: Test, sections: Sections = {}): Promise<Bench> {
  const upstream = await Upstream.start(t)
  return { upstream, bench: await Workbench.open(t, { channels: { a: channelTo(upstream) }, ...sections }) }
}

const chain = (quota: object): unknown[] => [
  'auth',
  { quota },
  'ratelimit',
  { route: { repeats: 0 } },
  'usage-meter',
  { log: { sink: 'none' } }
]

function code({ body }: Answer): string | undefined {
  return (JSON.parse(body) as { error?: { code: string } }).error?.code
}

const failing = { error: { message: 'broken' } }

t.test(
  'one byte is one token: the worst case of body and output limit is held, and the real cost settled',
  async (t) => {
    const { bench, upstream } = await open(t)
    upstream.json(chatAnswer(100, 7))
    const answer = await bench.send({ body: { max_tokens: 50 } })
    const [row] = bench.ledger.rows
    const { length } = answer.exchange.body.bytes
    t.equal(row!.request.amount, BigInt(length) * nano.input + 50n * nano.output)
    t.match(row!.request, { requestId: answer.exchange.id, model: 'demo', time: answer.exchange.receivedAt })
    t.same(row!.request.estimate, { input: Math.ceil(length / 3), maxOutput: 50 })
    t.same(
      row!.request.scopes.map(({ id }) => id),
      ['tenant:acme', 'key:test-key']
    )
    t.same(row!.dispatched, ['a'])
    t.match(row!.settled, { amount: 114_000n, source: 'upstream', channel: 'a', usage: { input: 100, output: 7 } })
    t.notOk(row!.settled && 'costs' in row!.settled, 'the only attempt is the charge itself')
    t.match(answer.exchange.get(charge), { amount: 114_000n, reserved: row!.request.amount, source: 'upstream' })
  }
)

t.test(
  'what is held is bounded by the model, grows with the number of answers and takes the dearest class',
  async (t) => {
    const price = { input: 1, output: 2, cache_write: 1.25, audio_output: 20, request: 0.001 }
    const { bench, upstream } = await open(t, {
      models: { demo: { price, context_window: 20, max_output_tokens: 30 } }
    })
    const held = async (body: object): Promise<bigint> => {
      upstream.json(chatAnswer())
      t.equal((await bench.send({ body })).status, 200)
      return bench.ledger.rows.at(-1)!.request.amount
    }
    const rest = 20n * 1250n + 1_000_000n
    t.equal(await held({ max_tokens: 10 }), rest + 10n * 20_000n)
    t.equal(await held({ max_completion_tokens: 12, max_tokens: 10 }), rest + 12n * 20_000n, 'the larger limit counts')
    t.equal(await held({ max_tokens: 5000 }), rest + 30n * 20_000n, 'the model gives no more')
    t.equal(await held({}), rest + 30n * 20_000n)
    t.equal(await held({ max_tokens: 10, n: 3 }), rest + 30n * 20_000n)
    t.equal(await held({ max_tokens: null, n: null }), rest + 30n * 20_000n, 'null is not given')
  }
)

t.test(
  'options: a typical estimate holds a third of the input, and a default stands in for a missing limit',
  async (t) => {
    const { bench, upstream } = await open(t, { chain: chain({ estimate: 'typical', default_output: 7 }) })
    upstream.json(chatAnswer())
    const answer = await bench.send()
    const tokens = Math.ceil(answer.exchange.body.bytes.length / 3)
    t.equal(bench.ledger.rows[0]!.request.amount, BigInt(tokens) * nano.input + 7n * nano.output)
  }
)

t.test('an answer within the limits held never costs more than was held', async (t) => {
  const { bench, upstream } = await open(t, {
    models: { demo: { price: { input: 0.15, cached_input: 0.075, cache_write: 0.1875, output: 0.6 } } }
  })
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 500 }),
      fc.string({ maxLength: 300, unit: 'grapheme' }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      async (limit, text, part, share) => {
        const body = { model: 'demo', max_tokens: limit, messages: [{ role: 'user', content: text }] }
        const input = Math.floor(part * Buffer.byteLength(JSON.stringify(body)))
        upstream.json({ ...chatAnswer(input, Math.floor(share * limit)) })
        await bench.send({ body })
        const row = bench.ledger.rows.at(-1)!
        return row.settled !== undefined && row.settled.amount <= row.request.amount
      }
    ),
    { numRuns: 60 }
  )
})

t.test('more than was held is charged in full', async (t) => {
  const { bench, upstream } = await open(t)
  upstream.json(chatAnswer(1_000_000, 5000))
  await bench.send({ body: { max_tokens: 1 } })
  t.equal(bench.ledger.rows[0]!.settled?.amount, 1_010_000_000n)
})

t.test('what is no limit is refused before anything is held', async (t) => {
  const { bench } = await open(t)
  const bad = ['0', '-1', '1.5', '"100"', '2147483648', '1e30', 'true', '[5]', '{"a":1}', '1e400']
  for (const field of ['max_tokens', 'max_completion_tokens', 'n']) {
    for (const value of bad) {
      const answer = await bench.send({ body: `{"model":"demo","${field}":${value}}` })
      t.equal(answer.status, 400, `${field}: ${value}`)
      t.match(JSON.parse(answer.body), { error: { code: 'invalid_field', param: field } })
      t.ok(answer.body.includes(value.slice(0, 5).replaceAll('"', '\\"')), 'the value is named')
    }
  }
  t.equal((await bench.send({ body: { n: 129 } })).status, 400)
  t.equal(bench.ledger.rows.length, 0)
})

t.test('an exceeded budget is a quota error that no SDK tries again', async (t) => {
  const { bench, upstream } = await open(t, {
    tenants: { acme: { projects: { web: { budget: { usd: 0.01, per: 'total' } } } } },
    keys: [key({ project: 'web' })]
  })
  upstream.json(chatAnswer(4000, 1000))
  t.equal((await bench.send({ body: { max_tokens: 1000 } })).status, 200)
  const refused = await bench.send({ body: { max_tokens: 2000 } })
  t.equal(refused.status, 429)
  t.match(JSON.parse(refused.body), { error: { type: 'quota_error', code: 'quota_project_exceeded' } })
  t.equal(refused.headers['x-should-retry'], 'false')
  t.notOk('retry-after' in refused.headers)
  t.notOk('retry-after-ms' in refused.headers)
  t.equal(upstream.requests.length, 1, 'it never reaches the upstream')
})

t.test('fifty requests at once on a budget for three: three pass', async (t) => {
  const body = { max_tokens: 1000 }
  const size = Buffer.byteLength(JSON.stringify({ model: 'demo', messages: [], ...body }))
  const worst = size * 1000 + 1000 * 2000
  const usd = (worst * 3 + 1) / 1e9
  const { bench, upstream } = await open(t, { keys: [key({ budget: { usd: usd.toFixed(9), per: 'total' } })] })
  upstream.always(
    head(200, { 'content-type': 'application/json' }),
    chunk(JSON.stringify(chatAnswer(size, 1000))),
    endOfBody()
  )
  const answers = await Promise.all(Array.from({ length: 50 }, () => bench.send({ body })))
  t.equal(answers.filter(({ status }) => status === 200).length, 3)
  t.equal(answers.filter((answer) => answer.status === 429 && code(answer) === 'quota_key_exceeded').length, 47)
})

t.test('on the embedded ledger nothing stays held, and the books say what the records say', async (t) => {
  const store = await openStore({ file: ':memory:', durability: 'process' })
  t.teardown(() => store.close())
  const upstream = await Upstream.start(t)
  const sections: Sections = {
    channels: { a: channelTo(upstream) },
    tenants: { acme: { budget: { usd: 0.05, per: 'total' } } },
    keys: [key({ budget: { usd: 0.02, per: 'month' } })]
  }
  const bench = await Workbench.open(t, sections, { ledger: store.ledger })
  const stream = head(200, { 'content-type': 'text/event-stream' })
  upstream
    .json(chatAnswer(100, 7))
    .sse(chatEvents(50))
    .json(failing, { status: 500 })
    .script(reset())
    .script(stream, events(chatEvents().slice(0, 3)), endOfBody())
  for (const streamed of [false, true, false, false, true]) await bench.send({ body: { stream: streamed } })
  await bench.send({ body: { max_tokens: 0 } })
  upstream.always(
    head(200, { 'content-type': 'application/json' }),
    chunk(JSON.stringify(chatAnswer(50, 1000))),
    endOfBody()
  )
  const race = await Promise.all(Array.from({ length: 30 }, () => bench.send({ body: { max_tokens: 1000 } })))
  const admitted = race.filter(({ status }) => status === 200).length
  t.ok(
    admitted > 0 &&
      race.filter((answer) => answer.status === 429 && code(answer) === 'quota_key_exceeded').length === 30 - admitted
  )
  const spent = bench.records.reduce((sum, { cost_nano }) => sum + BigInt(cost_nano), 0n)
  for (const { pending, posted, limit, scope } of store.ledger.balances()) {
    t.equal(pending, 0n, scope)
    t.equal(posted, spent, scope)
    t.ok(limit === undefined || posted <= limit, scope)
  }
  t.same(new Set(store.ledger.balances().map(({ scope }) => scope)), new Set(['tenant:acme', 'key:test-key']))
})

t.test('a model without a price is charged nothing, and its requests are in the journal all the same', async (t) => {
  const { bench, upstream } = await open(t, { models: { demo: { price: 'free' } } })
  upstream.json(chatAnswer(1000, 1000))
  const answer = await bench.send()
  t.match(bench.ledger.rows, [
    { request: { amount: 0n }, settled: { amount: 0n, usage: { input: 1000, output: 1000 } } }
  ])
  t.equal(answer.exchange.get(charge).amount, 0n)
})

t.test('requests that are not billed are not known to the ledger', async (t) => {
  const { bench } = await open(t)
  t.equal((await bench.send({ method: 'GET', target: '/v1/models' })).status, 200)
  t.equal(bench.ledger.rows.length, 0)
})

t.test('an answer that no meter counted is charged by its size: a missing number is not zero', async (t) => {
  const blind = definePlugin({
    name: 'blind',
    summary: 'Counts nothing.',
    options: {},
    provides: [usage],
    setup: () => ({})
  })
  const upstream = (await Upstream.start(t)).json(chatAnswer())
  const bench = await Workbench.open(
    t,
    { channels: { a: channelTo(upstream) }, chain: ['auth', 'quota', 'route', 'blind'] },
    { more: [blind] }
  )
  const answer = await bench.send({
    body: { messages: [{ role: 'user', content: 'thirty bytes, all of them said.' }] }
  })
  t.match(bench.ledger.rows[0]!.settled, {
    source: 'estimated',
    usage: { input: Math.ceil(31 / 3), output: Math.ceil(answer.body.length / 3) }
  })
})

t.test('a hold ends whatever a meter says: what nobody can compute is charged by the estimate', async (t) => {
  const says: (() => MeteredUsage)[] = [
    () => ({ usage: { ...noUsage, input: 1.5, output: NaN }, source: 'upstream' }),
    () => ({ usage: { ...noUsage, input: -3 }, source: 'upstream' }),
    () => ({
      get usage(): never {
        throw new Error('This meter is broken.')
      },
      source: 'upstream'
    })
  ]
  const odd = definePlugin({
    name: 'odd',
    summary: 'Counts what is no count.',
    options: {},
    provides: [usage],
    setup: () => ({
      onResponse(_exchange, { attempt }) {
        attempt!.usage = says[0]!()
      }
    })
  })
  for (const broken of [false, false, true]) {
    const upstream = (await Upstream.start(t)).json(chatAnswer())
    const sections = { channels: { a: channelTo(upstream) }, chain: ['auth', 'quota', 'route', 'odd'] }
    const bench = await Workbench.open(t, sections, { more: [odd] })
    const { status, exchange } = await bench.send({ body: { max_tokens: 5 } })
    t.equal(status, 200)
    t.same(bench.ledger.open, [])
    const { settled, request } = bench.ledger.rows[0]!
    t.match(settled, { source: 'estimated', usage: { output: broken ? 5 : 0 } })
    if (broken) t.equal(settled!.usage.input, request.estimate.input)
    t.ok(settled!.amount > 0n && settled!.amount <= request.amount)
    t.equal(exchange.get(charge).amount, settled!.amount)
    const told = broken ? 'could not be computed' : 'cannot be true'
    t.equal(bench.log.filter(({ message }) => message.includes(told)).length, 1, told)
    says.shift()
  }
})

t.test('a price that changes while a request runs does not change its charge', async (t) => {
  const { bench, upstream } = await open(t)
  let answerIt!: () => void
  const released = new Promise<void>((resolve) => (answerIt = resolve))
  upstream.script(
    () => released,
    head(200, { 'content-type': 'application/json' }),
    chunk(JSON.stringify(chatAnswer(10, 10))),
    endOfBody()
  )
  const { answer } = bench.start()
  await upstream.request()
  await bench.reload({ channels: { a: channelTo(upstream) }, models: { demo: { price: { input: 100, output: 200 } } } })
  answerIt()
  await answer
  t.equal(bench.ledger.rows[0]!.settled?.amount, 30_000n)
  upstream.json(chatAnswer(10, 10))
  await bench.send()
  t.equal(bench.ledger.rows[1]!.settled?.amount, 3_000_000n)
})

t.test('whatever ends without an answer is given back whole', async (t) => {
  const { bench, upstream } = await open(t, { keys: [key({ limits: { rpm: 6 } })] })
  upstream.json(failing, { status: 400 }).json(failing, { status: 500 }).json(failing, { status: 200 }).script(reset())
  for (const why of ['refused by the upstream', 'failed there', 'an error in a 200', 'cut before the head']) {
    const answer = await bench.send()
    t.not(answer.status, 200, why)
    const row = bench.ledger.rows.at(-1)!
    t.ok(row.voided, why)
    t.same(row.dispatched, ['a'])
    t.equal(row.costs.length, 1, 'with what the attempt may have cost')
    t.equal(answer.exchange.find(charge), undefined)
  }
  const [refused, broke, error] = bench.ledger.rows
  t.match(refused!.costs, [{ attempt: 1, channel: 'a', amount: 0n, source: 'estimated' }])
  t.equal(broke!.costs[0]!.amount, 0n)
  t.ok(error!.costs[0]!.amount > 0n, 'an upstream that accepted the prompt may bill it')

  upstream.json(chatAnswer()).json(chatAnswer())
  await bench.send()
  await bench.send()
  const limited = await bench.send()
  t.equal(limited.status, 429)
  t.equal(code(limited), 'rate_limit_rpm')
  t.match(bench.ledger.rows.at(-1), { voided: true, dispatched: [], costs: [] }, 'refused below: nothing was sent')
  t.same(bench.ledger.open, [])
})

t.test('an answer that is cut is charged for what was delivered, and labelled', async (t) => {
  const { bench, upstream } = await open(t)
  upstream.script(head(200, { 'content-type': 'text/event-stream' }), events(chatEvents(20).slice(0, 12)), endOfBody())
  const answer = await bench.send({ body: { stream: true } })
  t.equal(answer.outcome.kind, 'failed')
  const { settled } = bench.ledger.rows[0]!
  t.equal(settled?.source, 'partial')
  t.ok(settled!.usage.output >= 11 && settled!.usage.output <= 40, `${settled!.usage.output} tokens`)
  t.equal(answer.exchange.get(charge).source, 'partial')
})

t.test(
  'a client that leaves in mid-stream pays for what the upstream counted when that can be read, else for its part',
  async (t) => {
    const { bench, upstream } = await open(t, { limits: { disconnect_drain: { time: '2s' } } })
    let go!: () => void
    const gone = new Promise<void>((resolve) => (go = resolve))
    const list = chatEvents(20, 50)
    upstream.script(
      head(200, { 'content-type': 'text/event-stream' }),
      events(list.slice(0, 5)),
      () => gone,
      events([...list.slice(5), 'data: [DONE]\n\n']),
      endOfBody()
    )
    const read = bench.start({ body: { stream: true } })
    await read.client.began
    read.client.leave()
    go()
    t.equal((await read.answer).outcome.kind, 'aborted')
    t.match(bench.ledger.rows[0]!.settled, { source: 'upstream', usage: { input: 50, output: 20 } })

    upstream.script(head(200, { 'content-type': 'text/event-stream' }), events(list.slice(0, 5)), stall())
    const cut = bench.start({ body: { stream: true } })
    await cut.client.began
    cut.client.leave()
    await cut.answer
    t.equal(bench.ledger.rows[1]!.settled?.source, 'partial')
    t.same(bench.ledger.open, [])
  }
)

t.test('one that is answered by its third channel is charged once, with two rows beside', async (t) => {
  const upstream = await Upstream.start(t)
  const names = ['a', 'b', 'c']
  const channels = Object.fromEntries(names.map((name, priority) => [name, channelTo(upstream, { priority })]))
  const bench = await Workbench.open(t, { channels, chain: chain({}) })
  for (const body of [{}, { stream: true }]) {
    for (let i = 0; i < 2; i++) upstream.json(failing, { status: 500 })
    if ('stream' in body) upstream.sse(chatEvents())
    else upstream.json(chatAnswer(100, 7))
    const answer = await bench.send({ body })
    t.equal(answer.status, 200)
    t.match(answer.exchange.get(spent)(), [{ channel: 'a' }, { channel: 'b' }], 'for whoever settles it later')
    t.match(bench.ledger.rows.at(-1), {
      settled: {
        channel: 'c',
        costs: [
          { attempt: 1, channel: 'a' },
          { attempt: 2, channel: 'b' }
        ]
      }
    })
  }
})

t.test('a failed attempt is a row beside the charge of the one that answered', async (t) => {
  const first = await Upstream.start(t)
  const second = await Upstream.start(t)
  const bench = await Workbench.open(t, { channels: { a: channelTo(first), b: channelTo(second, { priority: 1 }) } })
  first.script(head(200, { 'content-type': 'text/event-stream' }), events(chatEvents().slice(0, 1)), reset())
  second.sse(chatEvents(4, 30))
  const answer = await bench.send({ body: { stream: true } })
  t.equal(answer.status, 200)
  const row = bench.ledger.rows[0]!
  t.same(row.dispatched, ['a', 'b'])
  t.match(row.settled, { channel: 'b', usage: { input: 30, output: 4 }, amount: 38_000n })
  t.match(row.costs, [{ attempt: 1, channel: 'a' }])
  t.ok(row.costs[0]!.amount > 0n)
  t.equal(bench.ledger.rows.length, 1)
})

t.test('what is left of budgets is not asked for before a hold is refused', async (t) => {
  const { bench, upstream } = await open(t, { keys: [key({ budget: { usd: 1, per: 'day' } })] })
  bench.ledger.affordable = () => {
    throw new Error('a round trip more, where budgets are kept elsewhere')
  }
  upstream.json(chatAnswer())
  t.equal((await bench.send()).status, 200)
})

t.test('where another model stands in, each attempt has the price and the limit of its own', async (t) => {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const bench = await Workbench.open(t, {
    channels: {
      a: channelTo(first, { models: { small: 'small' } }),
      b: channelTo(second, { models: { large: 'large' } })
    },
    models: {
      small: { price: { input: 1, output: 2 }, max_output_tokens: 100_000 },
      large: { price: { input: 3, output: 5 }, max_output_tokens: 100_000 },
      demo: { fallback: ['small', 'large'] }
    },
    keys: [key({ budget: { usd: '0.05', per: 'total' } })]
  })
  first.script(head(200, { 'content-type': 'text/event-stream' }), events(chatEvents().slice(0, 1)), reset())
  second.sse(chatEvents(4, 30))
  const answer = await bench.send({ body: { stream: true } })
  t.equal(answer.status, 200)
  const { settled, costs } = bench.ledger.rows[0]!
  t.match(settled, { channel: 'b', usage: { input: 30, output: 4 } })
  const [failed] = costs
  t.match(failed, { attempt: 1, channel: 'a', model: 'small' })
  t.equal(failed!.amount, BigInt(failed!.usage.input) * nano.input + BigInt(failed!.usage.output) * nano.output)
  const limits = [first, second].map(({ requests }) => requests[0]!.json() as { max_completion_tokens: number })
  const [few, fewer] = limits.map(({ max_completion_tokens: most }) => most)
  t.ok(few! > 2 * fewer!, `${few} and ${fewer}`)
  t.equal(answer.headers['x-sluice-max-output'], String(fewer), 'what the budget left of the one that answered')
})

t.test('the first byte waits for the reservation on disk, the end for the settlement', async (t) => {
  const { bench, upstream } = await open(t)
  const disk = Promise.withResolvers<void>()
  bench.ledger.disk = disk.promise
  const rest = Promise.withResolvers<void>()
  const list = [...chatEvents(3), 'data: [DONE]\n\n']
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events(list.slice(0, 3)),
    until(rest.promise),
    events(list.slice(3)),
    endOfBody()
  )
  const { client, answer } = bench.start({ body: { stream: true } })
  await upstream.request()
  await new Promise((resolve) => setTimeout(resolve, 30))
  t.equal(client.headSent, false, 'dispatched, and nothing shown')
  const settlement = Promise.withResolvers<void>()
  bench.ledger.disk = settlement.promise
  disk.resolve()
  await client.began
  rest.resolve()
  await eventually(() => bench.ledger.open.length === 0)
  t.notOk(client.text.includes('[DONE]'), 'settled in memory, and the end is still held')
  settlement.resolve()
  t.ok((await answer).body.endsWith('data: [DONE]\n\n'))
})

t.test(
  'a ledger that cannot take it refuses the request; one that fails to settle does not let the end through',
  async (t) => {
    const { bench, upstream } = await open(t)
    bench.ledger.broken = new GatewayError('billing_unavailable', 'The ledger cannot be written.', {
      retryAfterMs: 1000
    })
    const refused = await bench.send()
    t.equal(refused.status, 503)
    t.equal(upstream.requests.length, 0)
    bench.ledger.broken = undefined
    bench.ledger.disk = Promise.reject(new Error('disk full'))
    bench.ledger.disk.catch(() => {})
    upstream.json(chatAnswer())
    const lost = await bench.send()
    t.equal(lost.status, 503)
    t.equal(code(lost), 'billing_unavailable')
  }
)

t.test('a long stream tells the ledger how far it is', async (t) => {
  const { bench, upstream } = await open(t)
  upstream.sse(chatEvents(200))
  await bench.send({ body: { stream: true } })
  t.equal(bench.ledger.rows[0]!.delivered, 192)
})

/** Terms of a model at these rates of a million units. */
const termsAt = (perMillion: Price['perMillion'], more: Partial<Model> = {}): Terms =>
  termsOf({ prices: [{ from: -Infinity, price: { version: 'v', perMillion } }], ...more } as Model)[0]!

t.test('as much is held as a budget has left, to the last token that it pays for', (t) => {
  const terms = termsAt({ input: 1_000_000n, output: 2_500_000n, image: 7_000_000n })
  const amounts = { output: fc.nat(60), count: fc.integer({ min: 1, max: 4 }), others: fc.nat(20), prompt: fc.nat(30) }
  fc.assert(
    fc.property(fc.record(amounts), fc.nat(800), fc.integer({ min: 1, max: 5 }), (asked, budget, least) => {
      const { output, count, others, prompt } = asked
      const at = (each: number): Units => ({
        characters: 0,
        pictures: 1,
        call: 1,
        searches: 0,
        seconds: 0,
        tools: 0,
        prompt,
        answer: each * count + others
      })
      const units = at(output)
      const whole = { output, count, limitedBy: 'request' as const, units, amount: amountOf(terms, units) }
      const left = BigInt(budget)
      if (within(whole.amount, whole, terms, least) !== whole) return false
      const bound = within(left, whole, terms, least)
      if (left >= whole.amount) return bound === whole
      let most = 0
      while (amountOf(terms, at(most + 1)) <= left) most++
      if (most < least) return bound === whole
      t.same(bound, { ...whole, output: most, units: at(most), amount: left })
      return true
    }),
    { numRuns: 500 }
  )
  t.end()
})

t.test('a response of a session holds what it may read and say, and nothing else', (t) => {
  const rates = { input: 1_000_000n, output: 2_000_000n }
  const pieces = { character: 1n, image: 1n, search: 1n, second: 1n, tool_call: 1n, request: 5n }
  const million = Object.fromEntries(Object.entries(pieces).map(([name, rate]) => [name, rate * 1_000_000_000n]))
  const amount = (read: number, most?: number, more: Partial<Model> = {}): bigint =>
    turnBound(termsAt({ ...rates, ...million }, more), read, most, 40).amount - 5000n
  t.equal(amount(10, 20), 50n, 'with one call, and no unit of any other class')
  t.equal(amount(10), 90n, 'by default')
  t.equal(amount(10, undefined, { maxOutputTokens: 30 }), 70n, 'all that the model says')
  t.equal(amount(10, 50, { maxOutputTokens: 30 }), 70n)
  t.equal(amount(10, 20, { contextWindow: 5 }), 45n, 'no more than the model reads')
  t.match(turnBound(termsAt(rates), 10, 20, 40), { output: 20, count: 1, limitedBy: 'request' })
  t.end()
})

t.test('an estimate is never above what was held', async (t) => {
  const picture = { type: 'image_url', image_url: { url: 'https://a.example/b.png' } }
  const body = { messages: [{ role: 'user', content: [picture, picture, picture] }], max_tokens: 5 }
  const silent = { ...chatAnswer(), usage: undefined }
  const { bench, upstream } = await open(t, { chain: chain({ estimate: 'typical' }) })
  upstream.json(silent)
  const answer = await bench.send({ body })
  const held = Math.ceil(answer.exchange.body.bytes.length / 3)
  t.ok(held < 3 * 85, 'less than the pictures may have taken')
  t.match(bench.ledger.rows[0], { request: { estimate: { input: held, maxOutput: 5 } } })
  t.match(bench.ledger.rows[0]!.settled, { source: 'estimated', usage: { input: held } })
  upstream.json(failing, { status: 200 })
  await bench.send({ body })
  t.match(bench.ledger.rows[1]!.costs, [{ usage: { input: held, output: 0 } }], 'nor is that of an attempt')

  const small = await open(t, { models: { demo: { price: { input: 1, output: 2 }, context_window: 20 } } })
  small.upstream.json(chatAnswer())
  await small.bench.send({ body: { ...body, n: 3 } })
  t.same(small.bench.ledger.rows[0]!.request.estimate, { input: 20, maxOutput: 15 }, 'nor above what the model reads')
})

t.test('what an attempt may have cost depends on whether the upstream took it', async (t) => {
  const { bench, upstream } = await open(t)
  const cost = async (): Promise<bigint> => {
    await bench.send({ body: { messages: [{ role: 'user', content: 'Hello there' }] } })
    const [row] = bench.ledger.rows.at(-1)!.costs
    t.equal(row!.channel, 'a')
    return row!.amount
  }
  upstream.script(reset())
  t.ok((await cost()) > 0n, 'it had the request and said nothing')
  upstream.json(failing, { status: 300 })
  t.equal(await cost(), 0n, 'what is no success is none')
  upstream.json(failing, { status: 299 })
  t.ok((await cost()) > 0n)
  await upstream.close()
  t.equal(await cost(), 0n, 'nobody was there')
})

t.test('a client that leaves before the answer owes the prompt, or nothing where the operator says so', async (t) => {
  for (const abandoned of ['prompt', 'nothing']) {
    const { bench, upstream } = await open(t, { chain: chain({ abandoned }) })
    upstream.script(stall())
    const { client, answer } = bench.start({ body: { messages: [{ role: 'user', content: 'Hello there' }] } })
    await upstream.request()
    client.leave()
    t.equal((await answer).outcome.kind, 'aborted')
    const [row] = bench.ledger.rows
    if (abandoned === 'nothing') t.match(row, { voided: true, costs: [{ attempt: 1 }] })
    else {
      t.match(row!.settled, { source: /estimated|partial/, usage: { input: 4, output: 0 }, channel: 'a' })
      t.same(row!.costs, [])
    }
  }
})

t.test('near the end of a budget a request that may be lowered is, to one token and no fewer', async (t) => {
  const body = { max_tokens: 100 }
  const size = Buffer.byteLength(JSON.stringify({ model: 'demo', messages: [], ...body }))
  for (const [left, lowered] of [
    [1, 1],
    [3, 3],
    [0, undefined]
  ] as const) {
    const usd = ((size * 1000 + left * 2000 + 1999) / 1e9).toFixed(9)
    const sections = { keys: [key({ budget: { usd, per: 'total' } })] }
    const { bench, upstream } = await open(t, { ...sections, chain: chain({ clamp_output: true }) })
    upstream.json(chatAnswer(1, 1))
    const answer = await bench.send({ body })
    t.equal(answer.headers['x-sluice-max-output'], lowered === undefined ? undefined : String(lowered))
    t.equal(code(answer), lowered === undefined ? 'quota_key_exceeded' : undefined)
    if (lowered !== undefined) t.match(upstream.requests[0]!.json(), { max_tokens: lowered })
    const { bench: other } = await open(t, { ...sections, chain: chain({}) })
    t.equal(code(await other.send({ body })), 'quota_key_exceeded', 'not without leave')
  }
})

t.test('a service tier that is not offered is refused, the usual one too', async (t) => {
  const price = { input: 1, output: 2, service_tiers: { priority: { input: 2, output: 4 } } }
  const { bench, upstream } = await open(t, { models: { demo: { price, tiers: ['priority'] } } })
  for (const more of [{}, { service_tier: 'default' }]) {
    const answer = await bench.send({ body: more })
    t.match(JSON.parse(answer.body), { error: { code: 'unsupported_parameter', param: 'service_tier' } })
  }
  upstream.json(chatAnswer(10, 5))
  t.equal((await bench.send({ body: { service_tier: 'priority' } })).status, 200)
  t.equal(bench.ledger.rows[0]!.settled?.amount, 10n * 2000n + 5n * 4000n)
})

t.test('pictures have the first price that fits their size and quality, also where there is only one', (t) => {
  const priced = (version: string): Price => ({ version, perMillion: { image: 1n } })
  const kinds = [
    { size: 'small', quality: 'hd', price: priced('small hd') },
    { size: undefined, quality: 'hd', price: priced('hd') }
  ]
  const chosen = (asked: object, pictures = kinds): string => {
    const [terms] = termsOf({
      prices: [{ from: -Infinity, price: { ...priced('usual'), pictures } }]
    } as unknown as Model)
    const body = { fields: new Lens(Buffer.from(JSON.stringify(asked))) } as unknown as Parameters<typeof termsFor>[0]
    const metering = { pictures: true } as unknown as Parameters<typeof termsFor>[1]
    return termsFor(body, metering, terms!, 'demo').price.version
  }
  t.equal(chosen({ size: 'small', quality: 'hd' }), 'small hd')
  t.equal(chosen({ size: 'large', quality: 'hd' }), 'hd')
  t.equal(chosen({ size: 'small' }), 'usual')
  t.equal(chosen({}), 'usual')
  t.equal(chosen({ quality: 'hd' }, kinds.slice(1)), 'hd')
  t.equal(chosen({}, [{ size: 'auto', quality: 'auto', price: priced('auto') }]), 'auto', 'what is not said is that')
  t.end()
})
