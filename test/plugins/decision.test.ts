// What a record says of how its channel was chosen: who was left out and why, the order of the others, what they said.
import t from 'tap'
import type { Test } from 'tap'
import { definePlugin } from '../../core/contract/contract.ts'
import type { RequestRecord } from '../../core/store/requests.ts'
import { eventually } from '../kit/probe.ts'
import { chunk, endOfBody, events, head, reset, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { channelTo, chatAnswer, Workbench } from '../kit/workbench.ts'
import type { Ask, Sections, Surroundings } from '../kit/workbench.ts'

const json = { 'content-type': 'application/json' }
const good = [head(200, json), chunk(JSON.stringify(chatAnswer())), endOfBody()]
const bad = (status: number, body: object | string, headers: Record<string, string> = {}): Step[] => [
  head(status, { ...json, ...headers }),
  chunk(typeof body === 'string' ? body : JSON.stringify(body)),
  endOfBody()
]
const broken = { error: { message: 'no capacity', type: 'server_error', code: 'overloaded' } }

interface Bench {
  bench: Workbench
  a: Upstream
  b: Upstream
  /** Sends a request, and gives its record as it is stored. */
  record(ask?: Ask): Promise<RequestRecord>
}

/** Two channels that answer well unless told otherwise; `b` stands in for `a`. */
async function open(
  t: Test,
  { options = {}, a: first = {}, b: second = {} }: { options?: object; a?: object; b?: object } = {},
  sections: Sections = {},
  surroundings: Surroundings = {}
): Promise<Bench> {
  const [a, b] = [(await Upstream.start(t)).always(...good), (await Upstream.start(t)).always(...good)]
  const channels = {
    a: channelTo(a, { credential: 'secret-of-channel-a', ...first }),
    b: channelTo(b, { priority: 1, weight: 3, ...second })
  }
  const chain = ['auth', 'quota', { route: { repeats: 0, ...options } }, 'protocol-translate', 'usage-meter', 'log']
  const quiet = chain.map((entry) => (entry === 'log' ? { log: { sink: 'none' } } : entry))
  const bench = await Workbench.open(t, { channels, chain: quiet, ...sections }, surroundings)
  const record = async (ask?: Ask): Promise<RequestRecord> => {
    await bench.send(ask)
    return JSON.parse(JSON.stringify(bench.records.at(-1))) as RequestRecord
  }
  return { bench, a, b, record }
}

t.test('a plain request says nothing of it', async (t) => {
  const { record } = await open(t)
  const plain = await record()
  t.notOk('decision' in plain)
  t.notOk('reason' in plain)
  t.same(Object.keys(plain.attempts[0]!), ['channel', 'status', 'head_ms', 'first_byte_ms', 'duration_ms', 'at_ms'])
})

t.test('a plain 503 is recorded as that, with what the upstream said', async (t) => {
  const { a, b, record } = await open(t)
  a.script(...bad(503, broken))
  b.script(...bad(503, '<html>Service Unavailable</html>'))
  const { attempts, decision, status, reserved_nano, cost_nano } = await record()
  t.equal(status, 503)
  t.match(attempts, [
    { channel: 'a', status: 503, error_code: 'upstream_bad_response', upstream_error: broken.error },
    { channel: 'b', status: 503, error: 'The upstream answered with status 503.' }
  ])
  t.notOk('upstream_error' in attempts[1]!)
  t.same(decision, {
    order: [
      { channel: 'a', rank: 0, weight: 1 },
      { channel: 'b', rank: 1, weight: 3 }
    ],
    excluded: [],
    stopped: 'no other channel is left'
  })
  t.ok(BigInt(reserved_nano!) > 0n, 'what was held is there, although nothing was charged')
  t.equal(cost_nano, '0')
})

t.test('what an upstream says is kept without secrets, and cut', async (t) => {
  const { a, record } = await open(t, { options: { attempts: 1 } })
  const message = `the key secret-of-channel-a is bad ${'x'.repeat(5000)}`
  a.script(...bad(500, { error: { message, type: 'secret-of-channel-a', code: 'c'.repeat(500), param: 'n' } }))
  const { attempts, decision } = await record()
  const said = attempts[0]!.upstream_error!
  t.notMatch(JSON.stringify(attempts), /secret-of-channel-a/)
  t.match(said.message, /^the key .* is bad x+$/)
  t.equal(said.message!.length, 300)
  t.same({ ...said, message: '' }, { param: 'n', message: '' })
  t.match(decision, { stopped: 'route.attempts allows no more than 1' })
})

t.test('an error inside a stream, a lost connection and a refused one are told apart', async (t) => {
  const { a, b, record } = await open(t)
  a.script(head(200, { 'content-type': 'text/event-stream' }), events([broken]), endOfBody())
  b.script(head(200, { 'content-type': 'text/event-stream' }), reset())
  const streamed = await record({ body: { stream: true } })
  t.match(streamed.attempts, [
    { channel: 'a', status: 200, upstream_error: broken.error },
    { channel: 'b', status: 200, error: /./ }
  ])
  await a.close()
  const { attempts, decision, outcome } = await record()
  t.equal(outcome, 'completed')
  t.match(attempts, [
    { channel: 'a', error_code: 'upstream_connection_failed', error: /ECONNREFUSED/ },
    { channel: 'b' }
  ])
  t.match(decision, { order: [{ channel: 'a' }, { channel: 'b' }], excluded: [] })
})

t.test('a channel that is left out for its failures says until when and why', async (t) => {
  const { a, record, bench } = await open(t, { options: { eject_after: 2 } })
  for (let i = 0; i < 2; i++) {
    a.script(...bad(500, broken))
    await record()
  }
  const before = Date.now()
  const { attempts, decision } = await record()
  t.same(
    attempts.map(({ channel }) => channel),
    ['b']
  )
  const [out] = decision!.excluded
  t.match(out, {
    channel: 'a',
    by: 'route',
    code: 'ejected',
    reason: '2 failures in a row, the last with upstream_bad_response (status 500)'
  })
  t.ok(Date.parse(out!.until!) > before && Date.parse(out!.until!) <= Date.now() + 5000)
  t.same(decision!.order, [{ channel: 'b', rank: 1, weight: 3 }])
  t.match(bench.health()['a'], { state: 'ejected', reason: out!.reason })
})

t.test('when all are left out, all are asked, and the order says how they are', async (t) => {
  const { a, b, record } = await open(t, { options: { eject_after: 1, attempts: 1 } })
  a.script(...bad(500, broken))
  await record()
  b.script(...bad(500, broken))
  await record()
  const { decision, attempts } = await record()
  t.equal(attempts.length, 1)
  t.same(decision!.excluded, [])
  t.match(decision!.order, [
    { channel: 'a', health: { code: 'ejected', reason: /^1 failure in a row/ } },
    { channel: 'b', health: { code: 'ejected', until: /Z$/ } }
  ])
})

t.test('a pause that an upstream asks for is one', async (t) => {
  const { a, record } = await open(t)
  a.script(...bad(429, broken, { 'retry-after': '60' }))
  t.match((await record()).attempts, [{ channel: 'a', status: 429, upstream_error: broken.error }, { channel: 'b' }])
  t.match((await record()).decision!.excluded, [
    { channel: 'a', code: 'cooling', reason: 'its upstream asked for a pause of 60000 ms' }
  ])
})

t.test('endpoints and protocols that cannot carry a request leave channels out', async (t) => {
  const { record, bench } = await open(t, { a: { endpoints: ['embeddings'] } })
  const { decision } = await record()
  t.match(decision, {
    order: [{ channel: 'b' }],
    excluded: [{ channel: 'a', by: 'gateway', code: 'endpoint', reason: /channels\.a\.endpoints lists embeddings/ }]
  })
  await record()
  t.equal(bench.records.at(-1)!.decision, bench.records.at(-2)!.decision, 'requests that are alike share it')

  const other = await open(t, { a: { protocol: 'anthropic' }, b: { protocol: 'openai' } })
  const { attempts, decision: passed } = await other.record({ body: { n: 2 } })
  t.match(attempts, [
    { channel: 'a', error_code: 'unsupported_parameter', sent: false },
    { channel: 'b', status: 200 }
  ])
  t.match(passed, {
    order: [{ channel: 'b' }],
    excluded: [
      { channel: 'a', by: 'gateway', code: 'protocol', reason: /^anthropic cannot carry the request: n cannot/ }
    ]
  })
  t.notOk('sent' in attempts[1]!)
})

t.test('a plugin that leaves channels out is named, with its reason', async (t) => {
  const residency = definePlugin({
    name: 'residency',
    summary: 'Keeps requests in a region.',
    options: {},
    setup: () => ({
      async onCandidates(_exchange, candidates) {
        await Promise.resolve()
        candidates.keep(({ name }) => name !== 'a', 'channel is outside of the region of the tenant')
      }
    })
  })
  const quiet = definePlugin({
    name: 'quiet',
    summary: 'Gives no reason.',
    options: {},
    setup: () => ({ onCandidates: (_exchange, candidates) => candidates.keep(() => false) })
  })
  const chain = ['auth', 'residency', 'route', { log: { sink: 'none' } }]
  const { record } = await open(t, {}, { chain }, { more: [residency] })
  t.match(await record(), {
    channel: 'b',
    decision: {
      order: [{ channel: 'b' }],
      excluded: [
        { channel: 'a', by: 'residency', code: 'plugin', reason: 'channel is outside of the region of the tenant' }
      ]
    }
  })
  const all = await open(
    t,
    {},
    { chain: ['auth', 'residency', 'quiet', 'route', { log: { sink: 'none' } }] },
    { more: [residency, quiet] }
  )
  const refused = await all.record()
  t.match(refused, {
    error_code: 'no_available_channel',
    attempts: [],
    decision: {
      order: [],
      excluded: [
        { channel: 'a', by: 'residency' },
        { channel: 'b', by: 'quiet', reason: 'it gave no reason' }
      ],
      stopped: 'no channel is left'
    }
  })
})

t.test('a record does not grow with the channels', async (t) => {
  const upstream = (await Upstream.start(t)).always(...bad(500, broken))
  const channels = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [`c${i}`, channelTo(upstream, { weight: i })])
  )
  const bench = await Workbench.open(t, { channels })
  await bench.send()
  await eventually(() => bench.records.length === 1)
  const { order, omitted } = bench.records[0]!.decision!
  t.equal(order.length, 32)
  t.equal(omitted, 8)
})
