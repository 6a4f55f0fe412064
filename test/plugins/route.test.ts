// Where requests go: priorities, weights, failing channels, and how few retries a failing upstream sees.
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { Candidates } from '../../core/contract/contract.ts'
import type { Channel, ChannelHealth } from '../../core/contract/contract.ts'
import { choose } from '../../plugins/route/choose.ts'
import type { Chance } from '../../plugins/route/choose.ts'
import { ChannelState } from '../../plugins/route/health.ts'
import route from '../../plugins/route/index.ts'
import { pluginContract } from '../kit/contract.ts'
import { eventually, stopwatch } from '../kit/probe.ts'
import { chunk, endOfBody, events, head, reset, stall, Upstream } from '../kit/upstream.ts'
import type { ReceivedRequest, Step } from '../kit/upstream.ts'
import { channelTo, chatAnswer, chatEvents, Workbench } from '../kit/workbench.ts'
import type { Answer, Sections } from '../kit/workbench.ts'

pluginContract(t, route, {
  accepts: [{}, { attempts: 1, repeats: 0, eject_after: 1, retry_ratio: 0, retry_per_second: 0 }],
  refuses: [
    [{ attempts: 0 }, /must be/],
    [{ retry_ratio: 11 }, /must be/],
    [{ eject_after: 1.5 }, /must be/]
  ]
})

const failure = { error: { message: 'broken' } }
const good = [head(200, { 'content-type': 'application/json' }), chunk(JSON.stringify(chatAnswer())), endOfBody()]
const bad = (status: number, headers: Record<string, string> = {}) => [
  head(status, { 'content-type': 'application/json', ...headers }),
  chunk(JSON.stringify(failure)),
  endOfBody()
]

interface Bench {
  bench: Workbench
  a: Upstream
  b: Upstream
}

/** Two channels that answer well unless told otherwise; `b` stands in for `a`. */
async function open(t: Test, options: object = {}, sections: Sections = {}): Promise<Bench> {
  const [a, b] = [(await Upstream.start(t)).always(...good), (await Upstream.start(t)).always(...good)]
  const channels = { a: channelTo(a), b: channelTo(b, { priority: 1 }) }
  const bench = await Workbench.open(t, { channels, chain: ['auth', { route: options }, 'usage-meter'], ...sections })
  return { bench, a, b }
}

function code({ body }: Answer): string {
  return (JSON.parse(body) as { error: { code: string } }).error.code
}

function health(bench: Workbench): Readonly<Record<string, ChannelHealth>> {
  return bench.health()
}

t.test('the first priority serves while it can, the next one when it fails', async (t) => {
  const { bench, a, b } = await open(t)
  for (let i = 0; i < 5; i++) t.equal((await bench.send()).status, 200)
  t.equal(a.requests.length, 5)
  t.equal(b.requests.length, 0)
  a.script(...bad(500))
  const answer = await bench.send()
  t.equal(answer.status, 200)
  t.same(
    answer.exchange.attempts.map(({ channel, status }) => [channel.name, status]),
    [
      ['a', 500],
      ['b', 200]
    ]
  )
  t.equal(bench.metrics.value('attempts_total', { channel: 'a', outcome: 'failed', code: 'upstream_bad_response' }), 1)
  t.equal(bench.metrics.value('attempts_total', { channel: 'b', outcome: 'answered', code: 'ok' }), 1)
})

t.test('within one priority channels are chosen by weight, and none is tried twice', async (t) => {
  const upstream = await Upstream.start(t)
  const weights = { a: 6, b: 3, c: 1, d: 0 }
  const channels = Object.fromEntries(
    Object.entries(weights).map(([name, weight]) => [name, channelTo(upstream, { weight })])
  )
  const bench = await Workbench.open(t, {
    channels,
    chain: ['auth', { route: { attempts: 10, repeats: 0 } }, 'usage-meter']
  })
  upstream.always(...bad(500))
  const first = { a: 0, b: 0, c: 0, d: 0 }
  for (let i = 0; i < 10; i++) {
    const { exchange } = await bench.send()
    const tried = exchange.attempts.map(({ channel }) => channel.name)
    t.equal(new Set(tried).size, tried.length, tried.join())
  }
  upstream.always(...good)
  const fresh = await Workbench.open(t, { channels, chain: ['auth', 'route', 'usage-meter'] })
  for (let i = 0; i < 400; i++) first[(await fresh.send()).exchange.attempts[0]!.channel.name as keyof typeof first]++
  t.equal(first.d, 0, 'weight 0 only when nothing else is left')
  t.ok(
    Math.abs(first.a - 240) < 60 && Math.abs(first.b - 120) < 55 && Math.abs(first.c - 40) < 35,
    JSON.stringify(first)
  )
})

const by = (random: number): Chance => ({ random: () => random, conversation: () => undefined })

t.test('the choice by weight follows the random number exactly', (t) => {
  const channels = [2, 0, 3, 5].map((weight, i) => ({ name: String(i), weight, priority: 0 }) as Channel)
  const states = new Map(channels.map((channel) => [channel, new ChannelState()]))
  const chosen = Array.from(
    { length: 10 },
    (_, i) => choose(new Candidates(channels), new Set(), states, 0, by(i / 10))!.name
  )
  t.same(chosen, ['0', '0', '2', '2', '2', '3', '3', '3', '3', '3'])
  t.end()
})

t.test('a channel is chosen as long as one is left, and never one that failed', (t) => {
  const entry = fc.record({ weight: fc.nat(3), priority: fc.nat(2), out: fc.boolean(), failed: fc.boolean() })
  fc.assert(
    fc.property(
      fc.array(entry, { minLength: 1, maxLength: 6 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (entries, random) => {
        const sorted = [...entries].sort((x, y) => x.priority - y.priority)
        const channels = sorted.map(({ weight, priority }, i) => ({ name: String(i), weight, priority }) as Channel)
        const states = new Map(
          channels.map((channel, i) => {
            const state = new ChannelState()
            if (sorted[i]!.out) state.refused(0, 0)
            return [channel, state]
          })
        )
        const failed = new Set(channels.filter((_, i) => sorted[i]!.failed))
        const allOut = sorted.every(({ out }) => out)
        const open = channels.filter((channel, i) => !failed.has(channel) && (allOut || !sorted[i]!.out))
        const chosen = choose(new Candidates(channels), failed, states, 1, by(random))
        if (open.length === 0) return chosen === undefined
        return (
          open.includes(chosen!) && (allOut || chosen!.priority === Math.min(...open.map(({ priority }) => priority)))
        )
      }
    )
  )
  t.end()
})

t.test('what the client did wrong is tried once and counts against nobody', async (t) => {
  const { bench, a, b } = await open(t, { eject_after: 2 })
  for (const status of [400, 404, 413, 422]) {
    for (let i = 0; i < 5; i++) {
      a.script(...bad(status))
      const answer = await bench.send()
      t.equal(answer.status, status)
      t.equal(answer.exchange.attempts.length, 1)
    }
  }
  t.equal(b.requests.length, 0)
  t.match(health(bench)['a'], { state: 'healthy', consecutive_failures: 0, failures: 0 })
  t.equal((await bench.send()).status, 200)
})

t.test(
  'a channel that refuses our credential is left out at once, and a reload with another one puts it back',
  async (t) => {
    const { bench, a, b } = await open(t)
    a.always(...bad(401))
    const first = await bench.send()
    t.equal(first.status, 200, 'the other channel serves')
    t.equal((await bench.send()).status, 200)
    t.equal(a.requests.length, 1)
    t.match(health(bench)['a'], { state: 'ejected' })
    const line = bench.log.find(({ level }) => level === 'error')
    t.match(line, {
      message: 'a channel refused our credential',
      fields: { channel: 'a', status: 401, hint: /channels\.a\.credential/ }
    })

    const chain = ['auth', 'route', 'usage-meter']
    await bench.reload({ channels: { a: channelTo(a), b: channelTo(b, { priority: 1 }) }, chain })
    await bench.send()
    t.equal(a.requests.length, 1, 'a reload that changes nothing about it changes nothing')
    a.always(...good)
    await bench.reload({
      channels: { a: channelTo(a, { credential: 'sk-new-credential' }), b: channelTo(b, { priority: 1 }) },
      chain
    })
    t.match(health(bench)['a'], { state: 'healthy', failures: 0 })
    await bench.send()
    t.equal(a.requests.length, 2)
  }
)

t.test('a single channel that refuses our credential is an error of ours, not of the client', async (t) => {
  const upstream = (await Upstream.start(t)).always(...bad(403))
  const bench = await Workbench.open(t, { channels: { a: channelTo(upstream) } })
  for (let i = 0; i < 3; i++) {
    const answer = await bench.send()
    t.equal(answer.status, 502)
    t.equal(code(answer), 'upstream_auth_failed')
  }
})

t.test('failures in a row take a channel out, and it is asked again when nothing else is left', async (t) => {
  const { bench, a, b } = await open(t, { eject_after: 3 })
  a.always(...bad(500))
  const began = Date.now()
  for (let i = 0; i < 6; i++) t.equal((await bench.send()).status, 200)
  t.equal(a.requests.length, 3)
  const { until, ...state } = health(bench)['a']!
  t.match(state, { state: 'ejected', consecutive_failures: 3, failures: 3, successes: 0 })
  t.ok(until! >= began + 5000 && until! <= Date.now() + 5000, 'for five seconds')
  t.equal(bench.metrics.value('channel_ejections_total', { channel: 'a' }), 1)
  t.match(bench.log, [
    { level: 'warn', message: 'a channel is left out', fields: { channel: 'a', code: 'upstream_bad_response' } }
  ])
  b.always(...bad(500))
  for (let i = 0; i < 3; i++) await bench.send()
  t.match(health(bench)['b'], { state: 'ejected' })
  a.always(...good)
  const last = await bench.send()
  t.equal(last.status, 200)
  t.match(health(bench)['a'], { state: 'healthy', until: null, consecutive_failures: 0 }, 'its success puts it back')
})

t.test('the only channel of a model is used however often it failed', async (t) => {
  const upstream = (await Upstream.start(t)).always(...bad(503))
  const bench = await Workbench.open(t, {
    channels: { a: channelTo(upstream) },
    chain: ['auth', { route: { repeats: 0 } }, 'usage-meter']
  })
  for (let i = 0; i < 20; i++) t.equal((await bench.send()).status, 503)
  t.equal(upstream.requests.length, 20)
  upstream.always(...good)
  t.equal((await bench.send()).status, 200)
})

t.test('an upstream that asks for a pause gets it', async (t) => {
  const { bench, a } = await open(t)
  a.script(...bad(429, { 'retry-after': '60' }))
  const began = Date.now()
  t.equal((await bench.send()).status, 200)
  const { state, until, consecutive_failures } = health(bench)['a']!
  t.match({ state, consecutive_failures }, { state: 'cooling', consecutive_failures: 0 })
  t.ok(until! >= began + 60_000 && until! <= Date.now() + 60_000)
  for (let i = 0; i < 5; i++) await bench.send()
  t.equal(a.requests.length, 1)

  const { bench: brief, a: soon } = await open(t)
  soon.script(...bad(429, { 'retry-after-ms': '30' }))
  await brief.send()
  await new Promise((resolve) => setTimeout(resolve, 40))
  t.equal(health(brief)['a']!.state, 'healthy')
  await brief.send()
  t.equal(soon.requests.length, 2)
})

t.test('when every channel limits us the client is told when to come back', async (t) => {
  const { bench, a, b } = await open(t)
  a.script(...bad(429, { 'retry-after': '9' }))
  b.script(...bad(429, { 'retry-after-ms': '6200' }))
  const answer = await bench.send()
  t.equal(answer.status, 429)
  t.equal(code(answer), 'upstream_rate_limited')
  t.equal(answer.headers['retry-after'], '7')
})

t.test(
  'whatever Retry-After says, clients are told a sensible time, and the channel rests no longer than that',
  async (t) => {
    const upstream = await Upstream.start(t)
    const sections = { channels: { a: channelTo(upstream) }, chain: ['auth', { route: { repeats: 0 } }, 'usage-meter'] }
    const inAnHour = new Date(Date.now() + 3_600_000).toUTCString()
    const cases: [headers: Record<string, string>, seconds: number][] = [
      [{}, 1],
      [{ 'retry-after': '' }, 1],
      [{ 'retry-after': 'soon' }, 1],
      [{ 'retry-after': '-5' }, 1],
      [{ 'retry-after': '1, 2' }, 1],
      [{ 'retry-after': 'May' }, 1],
      [{ 'retry-after': 'Infinity' }, 1],
      [{ 'retry-after': '1e400' }, 1],
      [{ 'retry-after': '0x10' }, 1],
      [{ 'retry-after': '9'.repeat(400) }, 1],
      [{ 'retry-after-ms': 'Infinity' }, 1],
      [{ 'retry-after-ms': 'NaN', 'retry-after': '7' }, 7],
      [{ 'retry-after-ms': '-1', 'retry-after': '7' }, 7],
      [{ 'retry-after': '7' }, 7],
      [{ 'retry-after': '1.2' }, 2],
      [{ 'retry-after-ms': '1200' }, 2],
      [{ 'retry-after': '0' }, 1],
      [{ 'retry-after': '301' }, 300],
      [{ 'retry-after': '999999999999' }, 300],
      [{ 'retry-after-ms': '999999999999' }, 300],
      [{ 'retry-after': inAnHour }, 300],
      [{ 'retry-after': 'Wed, 21 Oct 2015 07:28:00 GMT' }, 1],
      [{ 'retry-after': 'Wed, 99 Foo' }, 1]
    ]
    for (const [headers, seconds] of cases) {
      for (const status of [429, 503]) {
        const bench = await Workbench.open(t, sections)
        upstream.script(...bad(status, headers))
        const { headers: told } = await bench.send()
        const what = `${status} ${JSON.stringify(headers)}`
        const unsaid =
          status === 503 &&
          seconds === 1 &&
          headers['retry-after'] !== '0' &&
          !headers['retry-after']?.startsWith('Wed, 21')
        t.equal(told['retry-after'], unsaid ? undefined : String(seconds), what)
        const rest = (health(bench)['a']!.until ?? 0) - Date.now()
        t.ok(rest <= (unsaid ? 0 : seconds * 1000), `${what}: rests ${rest} ms`)
      }
    }
  }
)

t.test('when no other channel is left, one whose failure may pass is asked again, once', async (t) => {
  const json = [head(200, { 'content-type': 'application/json' })]
  const passing: Record<string, Step[]> = {
    'a failure': bad(500),
    'an overload': bad(503),
    'a reset': [reset()],
    'a body that is no answer': [...json, chunk('{}'), endOfBody()],
    'an answer that breaks off': [...json, chunk('{"id"'), reset()],
    'too many requests': bad(429, { 'retry-after-ms': '300' })
  }
  const upstream = await Upstream.start(t)
  const sections = { channels: { a: channelTo(upstream) }, chain: ['auth', 'route', 'usage-meter'] }
  for (const [what, steps] of Object.entries(passing)) {
    const bench = await Workbench.open(t, sections)
    upstream.script(...steps).script(...good)
    const watch = stopwatch()
    const { status, exchange } = await bench.send()
    t.ok(watch.ms < 1500, `${what}: ${watch.ms} ms in all`)
    t.equal(status, 200, what)
    t.same(
      exchange.attempts.map(({ channel }) => channel.name),
      ['a', 'a'],
      what
    )
    const [first, second] = upstream.requests.slice(-2) as [ReceivedRequest, ReceivedRequest]
    const gap = second.at - first.at
    t.ok(gap >= (what === 'too many requests' ? 500 : 200), `${what}: after ${gap} ms`)
    t.same(second.body, first.body)
  }
  const failing = await Workbench.open(t, sections)
  upstream.always(...bad(500))
  t.equal((await failing.send()).exchange.attempts.length, 2)
  const lasting: Record<string, Step[]> = {
    'what the client did': bad(400),
    'our credential': bad(401),
    'too many requests for a long time': bad(429, { 'retry-after': '6' }),
    silence: [stall()]
  }
  for (const [what, steps] of Object.entries(lasting)) {
    const bench = await Workbench.open(t, {
      ...sections,
      channels: { a: channelTo(upstream, { timeouts: { first_byte: '100ms' } }) }
    })
    upstream.script(...steps)
    const { status, exchange } = await bench.send({ body: { stream: true } })
    t.not(status, 200, what)
    t.equal(exchange.attempts.length, 1, what)
  }
})

t.test('of several channels that failed, the one that is back first is asked again', async (t) => {
  const { bench, a, b } = await open(t)
  a.script(...bad(429, { 'retry-after-ms': '200' }))
  b.script(...bad(429, { 'retry-after-ms': '4000' }))
  const { status, exchange } = await bench.send()
  t.equal(status, 200)
  t.same(
    exchange.attempts.map(({ channel }) => channel.name),
    ['a', 'b', 'a']
  )
})

t.test('who leaves while it is waited for is not tried for again', async (t) => {
  const upstream = (await Upstream.start(t)).always(...bad(429, { 'retry-after': '4' }))
  const bench = await Workbench.open(t, {
    channels: { a: channelTo(upstream) },
    chain: ['auth', 'route', 'usage-meter']
  })
  const { client, answer } = bench.start()
  await upstream.request()
  await new Promise((resolve) => setTimeout(resolve, 30))
  client.leave()
  const left = stopwatch()
  const { outcome } = await answer
  await eventually(() => bench.running === 0)
  t.ok(left.ms < 3500)
  t.match(outcome, { kind: 'aborted', status: 499 })
  t.equal(upstream.requests.length, 1)
})

t.test('a stream that dies after its opening is begun anew elsewhere; after its first words it is not', async (t) => {
  const { bench, a, b } = await open(t)
  const opening = [head(200, { 'content-type': 'text/event-stream' }), events(chatEvents().slice(0, 1)), reset()]
  a.script(...opening)
  b.sse(chatEvents(4))
  const answer = await bench.send({ body: { stream: true } })
  t.equal(answer.status, 200)
  t.equal(answer.body.match(/"role":"assistant"/g)?.length, 1)
  t.ok(answer.body.includes('word3'))

  a.script(head(200, { 'content-type': 'text/event-stream' }), events(chatEvents().slice(0, 3)), reset())
  const cut = await bench.send({ body: { stream: true } })
  t.equal(cut.exchange.attempts.length, 1)
  t.equal(cut.outcome.error?.code, 'upstream_stream_interrupted')
  t.match(health(bench)['a'], { failures: 2, consecutive_failures: 2 })
})

t.test('attempts are bounded by the option, and by one', async (t) => {
  const upstream = (await Upstream.start(t)).always(...bad(500))
  const channels = Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((name) => [name, channelTo(upstream)]))
  for (const [options, most] of [
    [{}, 3],
    [{ attempts: 5 }, 5],
    [{ attempts: 1 }, 1]
  ] as const) {
    const bench = await Workbench.open(t, { channels, chain: ['auth', { route: options }, 'usage-meter'] })
    t.equal((await bench.send()).exchange.attempts.length, most)
  }
})

t.test('when everything fails the upstreams see few requests more than there are', async (t) => {
  const { bench, a, b } = await open(t, { retry_ratio: 0.2, retry_per_second: 1 })
  a.always(...bad(500))
  b.always(...bad(500))
  const requests = 200
  for (let i = 0; i < requests; i++) await bench.send()
  const seen = a.requests.length + b.requests.length
  t.ok(seen <= requests * 1.2 + 10 + 1, `${seen} attempts for ${requests} requests`)
  t.ok(seen >= requests * 1.2, 'and the allowance is used')
})

t.test('a client that leaves says nothing about a channel', async (t) => {
  const { bench, a } = await open(t, { eject_after: 1 })
  a.always(stall())
  for (let i = 0; i < 3; i++) {
    const { client, answer } = bench.start()
    await a.request(i)
    client.leave()
    await answer
  }
  t.match(health(bench)['a'], { state: 'healthy', failures: 0, successes: 0 })
})

t.test('a model without a channel for the endpoint is refused in words', async (t) => {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, { channels: { a: channelTo(upstream, { endpoints: ['embeddings'] }) } })
  const answer = await bench.send()
  t.equal(answer.status, 400)
  t.equal(code(answer), 'protocol_mismatch')
  t.equal(upstream.requests.length, 0)
})

t.test('without auth in the chain an unknown model is still refused', async (t) => {
  const { bench } = await open(t, {}, { chain: ['route', 'usage-meter'] })
  const answer = await bench.send({ body: { model: 'nothing' } })
  t.equal(answer.status, 404)
  t.equal(code(answer), 'model_not_found')
})
