// The sixteen faults of failoverbench (github.com/failoverbench/failoverbench, scenarios/catalogue.yaml) with two
// channels, streamed and whole, judged as it judges: an answer is rescued when the client has all of it, safe when the
// client is told in time that it has not, and failed otherwise.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { settled } from '../kit/probe.ts'
import { checkChatStream } from '../kit/sse.ts'
import { bytes, chunk, endOfBody, events, fin, head, pause, reset, stall, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { completion, delta, done, finish, opening, sse, usage, whole } from './vendor.ts'

t.setTimeout(600_000)

/** How long the suite waits for an upstream that is well again, in milliseconds. */
const patienceOfSuite = 20_000

const json = (status: number, body: unknown, headers: Record<string, string> = {}): Step[] => {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const length = String(Buffer.byteLength(text))
  return [head(status, { 'content-type': 'application/json', 'content-length': length, ...headers }), bytes(text)]
}
const error = (status: number, code: string | null, headers: Record<string, string> = {}): Step[] =>
  json(status, { error: { message: 'The scripted fault.', type: 'invalid_request_error', param: null, code } }, headers)
const text = JSON.stringify(completion)
const announced = head(200, { 'content-type': 'application/json', 'content-length': String(text.length) })
const well = (stream: boolean): Step[] =>
  stream ? [sse, events([...whole, done]), endOfBody()] : json(200, completion)
const begun = [sse, events([opening, delta('All')])]

interface Scenario {
  /** What the first channel does, once or for ever. */
  once?: (stream: boolean) => Step[]
  ever?: (stream: boolean) => Step[]
  /** The client is best told what is wrong. */
  ideal?: 'error'
  /** Most requests that the first channel may see. */
  most?: number
}

const scenarios: Record<string, Scenario> = {
  'S01 a 429 with Retry-After': { once: () => error(429, 'rate_limit_exceeded', { 'retry-after': '2' }), most: 2 },
  'S02 a 429 without, for ever': { ever: () => error(429, 'rate_limit_exceeded'), most: 4 },
  'S03 a 500, once': { once: () => error(500, null) },
  'S04 a 503 for ever': { ever: () => error(503, 'overloaded'), most: 6 },
  'S05 a reset before the head': { once: () => [reset()] },
  'S06 no answer at all': { ever: () => [stall()], most: 1 },
  'S07 a first token that is late': { ever: (stream) => [pause(300), ...well(stream)] },
  'S08 a cut in the midst': {
    ever: (stream) => (stream ? [...begun, fin()] : [announced, bytes(text.slice(0, text.length * 0.6)), fin()])
  },
  'S09 silence in the midst': { ever: (stream) => [...(stream ? begun : [announced]), pause(1500), fin()] },
  'S10 a chunk that is broken': {
    ever: (stream) =>
      stream
        ? [...begun, chunk('data: {"choices": [{"delta": {"content": \n\n'), events([finish, usage, done]), endOfBody()]
        : json(200, `${text.slice(0, text.length / 2)}"oops`)
  },
  'S11 an end without a marker': { ever: (stream) => (stream ? [sse, events(whole), endOfBody()] : well(false)) },
  'S12 too long a context': { ever: () => error(400, 'context_length_exceeded'), most: 1 },
  'S13 a content filter': { ever: () => error(400, 'content_policy_violation'), ideal: 'error', most: 1 },
  'S14 a cut, and a second channel that continues nothing': {
    ever: (stream) => (stream ? [...begun, reset()] : [announced, bytes(text.slice(0, 50)), reset()])
  },
  'S16 a 503 for ever, and what is billed': { ever: () => error(503, 'overloaded'), most: 6 }
}

type Verdict = 'rescued' | 'safe' | 'failed'

interface Bench {
  local: LocalGateway
  first: Upstream
  second: Upstream
}

const list = Object.entries(scenarios)
const modelOf = (what: string): string => `fb-${what.slice(0, 3).toLowerCase()}`

/** What rescues: a second channel of the model, or a model that stands in for it, with its own channel and price. */
type Rescue = 'channel' | 'model'
const prices = { input: 1, output: 2 }
const standIn = { name: 'fb-stand-in', price: { input: 3, output: 5 } }

/** A model with a channel for each fault, and what rescues; the first has the suite's timeouts, a fortieth as long. */
async function open(t: Test, names: readonly string[], rescue: Rescue = 'channel'): Promise<Bench> {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const timeouts = { first_byte: '700ms', first_byte_whole: '700ms', idle: '700ms', total: '10s' }
  const to = (upstream: Upstream, model: string, priority: number): unknown => ({
    protocol: 'openai',
    base_url: upstream.url.href,
    private: true,
    credential: `secret-of-${model}`,
    models: { [model]: model },
    // However busy the machine is, the second has the time that it needs.
    ...(priority === 0 && { timeouts }),
    priority
  })
  const local = await gateway(t, {
    channels: Object.fromEntries(
      names.flatMap((name) => [
        [`${name}-first`, to(first, name, 0)],
        ...(rescue === 'channel' ? [[`${name}-second`, to(second, name, 1)]] : [])
      ])
    ),
    models: Object.fromEntries(names.map((name) => [name, { price: prices }])),
    ...(rescue === 'model' && {
      channels: Object.fromEntries([
        ...names.map((name) => [`${name}-first`, to(first, name, 0)]),
        ['stand-in', to(second, standIn.name, 1)]
      ]),
      models: {
        ...Object.fromEntries(
          names.map((name) => [name, { price: prices, fallback: [standIn.name], fallback_on: ['failure', 'context'] }])
        ),
        [standIn.name]: { price: standIn.price }
      }
    }),
    chain: [
      { auth: {} },
      { quota: {} },
      { ratelimit: {} },
      { route: {} },
      { 'protocol-translate': {} },
      { 'usage-meter': {} },
      { log: { sink: 'none' } }
    ]
  })
  return { local, first, second }
}

/** What a client has of it, and whether usage was told. */
async function ask(local: LocalGateway, model: string, stream: boolean): Promise<{ outcome: Verdict; usage: boolean }> {
  const reply = await local.chat({ model, ...(stream && { stream, stream_options: { include_usage: true } }) })
  const told = reply.text.includes('"prompt_tokens":11')
  if (reply.status !== 200) {
    const clean = reply.status >= 400 && typeof reply.json().error?.message === 'string'
    return { outcome: clean ? 'safe' : 'failed', usage: told }
  }
  if (!stream) {
    const complete = reply.json().choices?.[0]?.message?.content === 'All well'
    return { outcome: complete ? 'rescued' : 'failed', usage: told }
  }
  const broken = reply.text.includes('"error"')
  try {
    const { choices } = checkChatStream(reply.body, broken ? { error: true } : { usage: true })
    if (broken) return { outcome: 'safe', usage: told }
    return { outcome: choices[0]?.content === 'All well' ? 'rescued' : 'failed', usage: told }
  } catch {
    return { outcome: 'failed', usage: told }
  }
}

/** It is charged once, at the price of the model that answered, and by no more than was held. */
async function checkCharge(t: Test, local: LocalGateway, model: string): Promise<void> {
  const { data } = await local.admin(`/admin/v1/requests?limit=1`)
  const [{ model: answered, requested_model: asked, cost_nano: cost, reserved_nano: held, outcome }] = data
  t.equal(asked ?? answered, model)
  const { input, output } = answered === standIn.name ? standIn.price : prices
  if (outcome === 'completed') t.equal(Number(cost), (11 * input + 7 * output) * 1000, `${model}: by ${answered}`)
  t.ok(BigInt(cost) <= BigInt(held), `${model}: no more than was held`)
}

for (const [stream, rescue] of [
  [true, 'channel'],
  [false, 'channel'],
  [true, 'model'],
  [false, 'model']
] as const) {
  const least = (stream ? 11 : 13) + (rescue === 'model' ? 1 : 0)
  t.test(
    `${stream ? 'streamed' : 'whole'}, rescued by a ${rescue}: at least ${least} of sixteen are rescued, and none failed`,
    async (t) => {
      const verdicts: Record<string, Verdict> = {}
      const { local, first, second } = await open(t, [...list.map(([what]) => modelOf(what)), 'fb-ok'], rescue)
      for (const [what, { once, ever, ideal, most }] of list) {
        const model = modelOf(what)
        first.always(...(ever ?? well)(stream))
        if (once) first.script(...once(stream))
        second.always(...well(stream))
        const before = first.requests.length
        const { outcome, usage: told } = await ask(local, model, stream)
        await checkCharge(t, local, model)
        verdicts[what] = ideal === 'error' ? (outcome === 'safe' ? 'rescued' : 'failed') : outcome
        if (outcome === 'rescued') t.ok(told, `${what}: usage is told`)
        if (most !== undefined) t.ok(first.requests.length - before <= most, `${what}: asked ${most} times at most`)
        first.always(...well(stream))
        t.equal((await ask(local, 'fb-ok', stream)).outcome, 'rescued', `${what}: all is well afterwards`)
      }
      const down = 'S15 an upstream that is down, and well again'
      await t.test(down, async (t) => void (verdicts[down] = await flap(t, stream, rescue)))
      const count = (verdict: Verdict): number => Object.values(verdicts).filter((one) => one === verdict).length
      t.equal(Object.keys(verdicts).length, 16)
      t.equal(count('failed'), 0, JSON.stringify(verdicts))
      t.ok(count('rescued') >= least, `${count('rescued')} rescued: ${JSON.stringify(verdicts)}`)
      await settled(t, local)
    }
  )
}

/** All are served in the outage, and the first channel is used again before the suite has stopped waiting for it. */
async function flap(t: Test, stream: boolean, rescue: Rescue): Promise<Verdict> {
  const { local, first, second } = await open(t, ['fb-s15'], rescue)
  first.always(...error(503, 'overloaded'))
  second.always(...well(stream))
  const outcomes: Verdict[] = []
  const send = async (): Promise<void> => void outcomes.push((await ask(local, 'fb-s15', stream)).outcome)
  for (let i = 0; i < 10; i++) await send()
  t.ok(first.requests.length < 10, 'a channel that is down is left out')
  first.always(...well(stream))
  const [before, until] = [first.requests.length, performance.now() + patienceOfSuite]
  while (first.requests.length === before && performance.now() < until) {
    await sleep(200)
    await send()
  }
  t.ok(first.requests.length > before, 'it is used again')
  return outcomes.every((outcome) => outcome === 'rescued') && first.requests.length > before ? 'rescued' : 'failed'
}
