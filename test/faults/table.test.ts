// Sixteen ways in which upstreams fail, with one channel and with a second behind it: no lie, no hang, what can be
// saved is, and the money is right.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import type { LocalGateway, Overrides } from '../kit/gateway.ts'
import { nanoCost } from '../kit/oracle.ts'
import { eventually, settled, stopwatch } from '../kit/probe.ts'
import { checkChatStream } from '../kit/sse.ts'
import { bytes, endOfBody, events, fin, head, pause, reset, stall } from '../kit/upstream.ts'
import type { Step, Upstream } from '../kit/upstream.ts'
import type { RequestRecord } from '../../core/store/requests.ts'
import { before, billed, delta, finish, one, opening, sse, two, usage, whole } from './vendor.ts'

const long = process.env['SLUICE_LONG'] === '1'
t.setTimeout(600_000)

const well: Step[] = [sse, events([...whole, 'data: [DONE]\n\n']), endOfBody()]
/** Resolves when the client has seen the beginning. Before that, a channel that fails is tried again. */
let begunSeen: Promise<unknown>
const begun: Step[] = [sse, events([opening, delta('So'), delta(' far')]), () => begunSeen]
const json = (status: number, body: unknown, headers: Record<string, string> = {}): Step[] => {
  const text = JSON.stringify(body)
  return [
    head(status, { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)), ...headers }),
    bytes(text)
  ]
}
const slower = { error: { message: 'slow down', type: 'requests' } }
const filtered = { ...finish, choices: [{ index: 0, delta: {}, finish_reason: 'content_filter' }] }

/**
 * What a client sees of a stream: an answer with its finish reason, one that broke with its error, or a status with its
 * error.
 */
type Seen = { answer: string; finish: string } | { broken: string; code: string } | { status: number; code: string }

interface Fault {
  /** What the first channel does once, or from then on; after `once` it is well. */
  once?: Step[]
  ever?: Step[]
  alone: Seen
  backed: Seen
  /** How often channels are tried, with one and with two. */
  tries: [alone: number, backed: number]
}

const saved: Seen = { answer: 'All well', finish: 'stop' }
const broken = (code: string): Seen => ({ broken: 'So far', code })
const shown = (status: number, code: string): Seen => ({ status, code })

const faults: Record<string, Fault> = {
  'a 429 with Retry-After, once': {
    once: json(429, slower, { 'retry-after': '1', 'retry-after-ms': '30' }),
    alone: saved,
    backed: saved,
    tries: [2, 2]
  },
  'a 429 for ever': {
    ever: json(429, slower, { 'retry-after-ms': '30' }),
    alone: shown(429, 'upstream_rate_limited'),
    backed: saved,
    tries: [2, 2]
  },
  'a 500, once': { once: json(500, { error: { message: 'oops' } }), alone: saved, backed: saved, tries: [2, 2] },
  'a 503 for ever': {
    ever: json(503, { error: { message: 'overloaded' } }),
    alone: shown(503, 'upstream_bad_response'),
    backed: saved,
    tries: [2, 2]
  },
  'a reset before the head': {
    ever: [reset()],
    alone: shown(502, 'upstream_connection_failed'),
    backed: saved,
    tries: [2, 2]
  },
  'no answer': { ever: [stall()], alone: shown(504, 'upstream_timeout_first_byte'), backed: saved, tries: [1, 2] },
  'a first token that is late': {
    ever: [pause(150), sse, pause(150), ...well.slice(1)],
    alone: saved,
    backed: saved,
    tries: [1, 1]
  },
  'a cut': {
    ever: [...begun, reset()],
    alone: broken('upstream_stream_interrupted'),
    backed: broken('upstream_stream_interrupted'),
    tries: [1, 1]
  },
  'silence in the midst': {
    ever: [...begun, stall()],
    alone: broken('upstream_timeout_idle'),
    backed: broken('upstream_timeout_idle'),
    tries: [1, 1]
  },
  'an event that is none': {
    ever: [...begun, events(['data: {oops\n\n', finish, 'data: [DONE]\n\n']), endOfBody()],
    alone: broken('upstream_bad_response'),
    backed: broken('upstream_bad_response'),
    tries: [1, 1]
  },
  'no terminator': { ever: [sse, events(whole), fin()], alone: saved, backed: saved, tries: [1, 1] },
  'too long a context': {
    ever: json(400, {
      error: {
        message: 'This model has 8192 tokens',
        type: 'invalid_request_error',
        param: 'messages',
        code: 'context_length_exceeded'
      }
    }),
    alone: shown(400, 'context_length_exceeded'),
    backed: shown(400, 'context_length_exceeded'),
    tries: [1, 1]
  },
  'a content filter': {
    ever: [sse, events([opening, delta('All'), delta(' well'), filtered, usage, 'data: [DONE]\n\n']), endOfBody()],
    alone: { answer: 'All well', finish: 'content_filter' },
    backed: { answer: 'All well', finish: 'content_filter' },
    tries: [1, 1]
  },
  'a cut before anything was shown': {
    ever: [sse, events([opening]), reset()],
    alone: shown(502, 'upstream_stream_interrupted'),
    backed: saved,
    tries: [2, 2]
  }
}

const overridesFor = (names: readonly string[]): Overrides => ({
  channels: Object.fromEntries(
    names.map((name) => [name, { timeouts: { first_byte: '3s', idle: '3s', total: '15s' } }])
  ),
  chain: [
    { auth: {} },
    { quota: {} },
    { ratelimit: {} },
    { route: { eject_after: long ? 5 : 1000, retry_per_second: 1000 } },
    { 'protocol-translate': {} },
    { 'usage-meter': {} },
    { log: { sink: 'none' } }
  ]
})

/** A gateway before one channel or two. */
async function begin(
  t: Test,
  names: readonly string[]
): Promise<{ local: LocalGateway; first: Upstream; second: Upstream | undefined }> {
  const { local, ...upstreams } = await before<string>(t, names, overridesFor(names))
  const [first, second] = names.map((name) => (upstreams as unknown as Record<string, Upstream>)[name]!)
  return { local, first: first!, second }
}

/** One request, and what became of it: nothing may take longer than all its time limits together. */
async function seen(t: Test, local: LocalGateway, what: string): Promise<{ seen: Seen; record: RequestRecord }> {
  const began = stopwatch()
  const client = await local.openChat({ stream: true })
  begunSeen = client.body('far').catch(() => {})
  const reply = await client.reply()
  client.close()
  const took = began.ms
  if (took > 18_000) t.fail(`${what}: it took ${Math.round(took)} ms`)
  const record = await local.record(reply)
  if (reply.status !== 200) return { seen: { status: reply.status, code: reply.json().error.code }, record }
  const wrong = reply.text.includes('"error"')
  const {
    choices: [choice],
    error
  } = checkChatStream(reply.body, { error: wrong })
  return {
    seen: wrong ? { broken: choice!.content, code: error!.code } : { answer: choice!.content, finish: choice!.finish! },
    record
  }
}

/**
 * What it costs, worked out apart from the product: all of an answer as counted, of a broken one what was delivered, of
 * a failure nothing.
 */
function checkMoney(t: Test, seen: Seen, record: RequestRecord, what: string): void {
  const cost = BigInt(record.cost_nano)
  if ('status' in seen)
    return void t.match([record.outcome, cost], ['failed', 0n], `${what}: nothing is charged for nothing`)
  const due = nanoCost(record.usage as unknown as Record<string, number>, dollars)
  if ('answer' in seen)
    return void t.match(
      [record.outcome, record.usage_source, record.usage, cost],
      ['completed', 'upstream', billed, due],
      `${what}: what was counted is charged`
    )
  t.match([record.outcome, record.usage_source], ['failed', 'partial'], `${what}: what was delivered is charged`)
  t.ok(cost > 0n && cost === due, `${what}: ${cost}`)
}

const dollars = { input: '1', output: '2' }

/** So many faults meet one gateway: more in a few seconds, and it would leave the channel out. */
const atOnce = 5

const list = Object.entries(faults)
for (let from = 0; from < list.length; from += atOnce) {
  const some = list.slice(from, from + atOnce)
  t.test(some.map(([what]) => what).join(', '), async (t) => {
    for (const names of [one, two]) {
      const { local, first, second } = await begin(t, names)
      second?.always(...well)
      for (const [what, { once, ever, alone, backed, tries }] of some) {
        first.always(...(ever ?? well))
        if (once) first.script(...once)
        const place = `${what}, with ${second ? 'a second channel' : 'one channel'}`
        const { seen: result, record } = await seen(t, local, place)
        t.same(result, second ? backed : alone, place)
        t.equal(record.attempts.length, tries[second ? 1 : 0], `${place}: tried as often as that may help`)
        checkMoney(t, result, record, place)
        // As long as a 429 asked for.
        await sleep(40)
      }
      await settled(t, local)
    }
  })
}

t.test('an outage', async (t) => {
  for (const names of [one, two]) {
    const backed = names === two
    const { local, first, second } = await begin(t, names)
    first.always(reset())
    second?.always(...well)
    let [answers, failures] = [0, 0]
    const until = performance.now() + (long ? 60_000 : 0)
    for (let i = 0; i < 8 || performance.now() < until; i++) {
      const { seen: result, record } = await seen(t, local, 'in the outage')
      if ('answer' in result) answers++
      else if ('status' in result && result.status >= 500) failures++
      if (i < 8) checkMoney(t, result, record, 'in the outage')
      if (long) await sleep(100)
    }
    t.equal(
      backed ? failures : answers,
      0,
      `${answers} answered, ${failures} failed, ${backed ? 'with a second channel' : 'with one channel'}`
    )
    first.always(...well)
    await eventually(async () => 'answer' in (await seen(t, local, 'after it')).seen, 30_000)
    await settled(t, local)
  }
})
