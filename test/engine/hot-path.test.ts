// What a small request is made of: few promises, objects that are of one shape whatever becomes of the request, and
// nothing that V8 makes in the old space. Else all requests are slower, and no other test would fail.
import { promiseHooks, setFlagsFromString } from 'node:v8'
import { runInThisContext } from 'node:vm'
import t from 'tap'
import { definePlugin } from '../../core/contract/contract.ts'
import type { Plugin } from '../../core/contract/contract.ts'
import { plugins } from '../../plugins/index.ts'
import { gateway } from '../kit/gateway.ts'
import { endOfBody, events, head, until, Upstream } from '../kit/upstream.ts'
import { channelTo, chatEvents, Workbench } from '../kit/workbench.ts'

const answer = {
  id: 'c1',
  object: 'chat.completion',
  model: 'test-model',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 8, completion_tokens: 2, total_tokens: 10 }
}
const limits = { rps: 1000, rpm: 10_000, tpm: 1_000_000, concurrency: 10 }
const budget = { usd: 1000, per: 'month' }
const overrides = {
  tenants: { acme: { budget, projects: { web: { budget, limits } } } },
  keys: [{ name: 'test', key: 'sk-test-000000000000000000000000', tenant: 'acme', project: 'web', limits, budget }]
}
const root = new URL('../../', import.meta.url).href

/** The promises that code of the gateway makes until `run` has resolved, by the place in the code. */
async function promisesOf(run: () => Promise<void>): Promise<Map<string, number>> {
  const made = new Map<string, number>()
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 20
  const stop = promiseHooks.onInit(() => {
    // The first frame is this function; those of functions of V8 and Node have no file of ours.
    const frame =
      new Error()
        .stack!.split('\n')
        .slice(2)
        .find((line) => line.includes('file://')) ?? ''
    if (!frame.includes(`${root}core/`) && !frame.includes(`${root}plugins/`)) return
    const place = frame.replace(root, '').trim()
    made.set(place, (made.get(place) ?? 0) + 1)
  }) as () => void
  await run()
  stop()
  Error.stackTraceLimit = stackTraceLimit
  return made
}

t.test('a small request makes a handful of promises', async (t) => {
  const upstream = await Upstream.start(t)
  const served = await gateway(t, overrides, { upstreams: { only: upstream } })
  const requests = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) {
      upstream.json(answer)
      if ((await served.chat()).status !== 200) throw new Error('a request failed')
    }
  }
  await requests(5)
  const made = await promisesOf(() => requests(20))
  // Those of a batch are for all of its requests, and a slow machine makes several batches of one request.
  const own = [...made].filter(([place]) => !place.includes('writer/draft.ts'))
  const each = own.map(([place, count]) => ({ place, each: count / 20 })).filter((one) => one.each >= 0.5)
  const all = each.reduce((sum, one) => sum + one.each, 0)
  // With each await counted, of which a hook makes V8 tell.
  t.ok(all <= 13, `${all} promises a request: ${each.map((one) => `\n${one.each} ${one.place}`).join('')}`)
})

t.test('what a request is kept in has one shape, however it is answered', async (t) => {
  setFlagsFromString('--allow-natives-syntax')
  const haveSameMap = runInThisContext('(a, b) => %HaveSameMap(a, b)') as (a: object, b: object) => boolean
  const seen: Record<string, object>[] = []
  const looking: Plugin = definePlugin({
    name: 'looking',
    summary: 'Keeps what it is shown.',
    options: {},
    setup: () => ({
      onSettled(exchange, outcome) {
        const { request, body, times } = exchange
        seen.push({ view: exchange, request, body, times, outcome, attempt: exchange.attempts[0]! })
      }
    })
  })
  const upstream = await Upstream.start(t)
  const chain = [
    { auth: {} },
    { quota: {} },
    { ratelimit: {} },
    { route: { repeats: 0 } },
    { 'protocol-translate': {} },
    { 'usage-meter': {} },
    { log: { sink: 'none' } },
    { looking: {} }
  ]
  const served = await gateway(
    t,
    { ...overrides, chain },
    { upstreams: { only: upstream }, plugins: new Map([...plugins, [looking.name, looking]]) }
  )
  const chunk = { id: 'c1', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: 'Hello' } }] }
  upstream.json(answer).sse([chunk, { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }])
  upstream.json({ error: { message: 'no', type: 'invalid_request_error' } }, { status: 400 }).json(answer)
  t.equal((await served.chat()).status, 200)
  t.equal((await served.chat({ stream: true })).status, 200)
  t.equal((await served.chat()).status, 400)
  t.equal((await served.chat({ max_tokens: 5, temperature: 0.1, user: 'somebody' })).status, 200)
  t.equal(seen.length, 4)
  const kinds = ['a whole answer', 'a stream', 'a refusal', 'other members']
  for (const [n, one] of seen.entries())
    for (const name of Object.keys(one))
      t.ok(haveSameMap(seen[0]![name]!, one[name]!), `${name} of ${kinds[n]} is as that of a whole answer`)
})

t.test('what a client calls is no function that keeps the exchange until a full collection', async (t) => {
  setFlagsFromString('--allow-natives-syntax')
  const isYoung = runInThisContext('(made) => %InYoungGeneration(made)') as (made: unknown) => boolean
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, { channels: { up: channelTo(upstream) } })
  const { promise: shown, resolve: show } = Promise.withResolvers<void>()
  const all = [...chatEvents(2), 'data: [DONE]\n\n']
  const streamed = head(200, { 'content-type': 'text/event-stream' })
  upstream.script(streamed, events(all.slice(0, 2)), until(shown), events(all.slice(2)), endOfBody())
  const { client, answer: told } = bench.start({ body: { stream: true } })
  t.ok(isYoung(client.onGone), 'who is told that it left')
  await client.began
  t.ok(isYoung(client.onDrain), 'who is told that it reads on')
  show()
  t.equal((await told).complete, true)
})
