// What operators see of usage: how often it is estimated or refused, which channel does not take the question for it,
// and how far the bounds of an estimate go.
import t from 'tap'
import type { Test } from 'tap'
import { usage } from '../../core/contract/slots.ts'
import usageMeter from '../../plugins/usage-meter/index.ts'
import { TestMetrics } from '../kit/metrics.ts'
import { endOfBody, events, head, reset, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, chatEvents, Workbench } from '../kit/workbench.ts'

const chain = ['auth', 'route', 'usage-meter']

async function open(t: Test, model: object = { price: { input: 1, output: 1 } }) {
  const upstream = await Upstream.start(t)
  return {
    upstream,
    bench: await Workbench.open(t, { channels: { a: channelTo(upstream) }, models: { demo: model }, chain })
  }
}

const streamHead = head(200, { 'content-type': 'text/event-stream' })

t.test('what is estimated or cannot be true is counted by channel, and what is reported is not', async (t) => {
  const { bench, upstream } = await open(t)
  const counts = (): number[] =>
    ['usage_estimated_total', 'usage_rejected_total'].map((name) => bench.metrics.value(name, { channel: 'a' }))
  upstream.json(chatAnswer())
  const { exchange } = await bench.send()
  t.same(counts(), [0, 0])
  t.match(exchange.get(usage), { usage: { input: 10, output: 5 }, source: 'upstream' })
  upstream.json({ ...chatAnswer(), usage: undefined })
  await bench.send()
  t.same(counts(), [1, 0], 'nothing was reported')
  upstream.json({ ...chatAnswer(), usage: { prompt_tokens: -1, completion_tokens: 5, total_tokens: 4 } })
  await bench.send()
  t.same(counts(), [2, 1], 'what was reported cannot be true')
  upstream.script(streamHead, events(chatEvents().slice(0, 3)), reset())
  await bench.send({ body: { stream: true } })
  t.same(counts(), [3, 1], 'it broke off')
  upstream.json({ error: { message: 'no' } }, { status: 400 })
  await bench.send()
  t.same(counts(), [3, 1], 'nobody answered')
})

t.test('an estimate goes no further than the limits of request and model, for every answer', async (t) => {
  const model = { price: { input: 1, output: 1 }, context_window: 8, max_output_tokens: 50 }
  const { bench, upstream } = await open(t, model)
  const words = { message: { role: 'assistant', content: 'word '.repeat(500) }, finish_reason: 'stop' }
  const answer = (count: number): object => ({
    ...chatAnswer(),
    choices: Array.from({ length: count }, (_, index) => ({ index, ...words })),
    usage: undefined
  })
  for (const [body, count, output] of [
    [{}, 1, 50],
    [{ max_tokens: 20 }, 1, 20],
    [{ max_tokens: 90 }, 1, 50],
    [{ max_tokens: 20, n: 3 }, 3, 60]
  ] as const) {
    upstream.json(answer(count))
    const { exchange } = await bench.send({ body: { ...body, messages: [{ role: 'user', content: 'x'.repeat(400) }] } })
    t.match(exchange.attempts.at(-1)!.usage, { source: 'estimated', usage: { input: 8, output } }, JSON.stringify(body))
  }
})

t.test('tokens of a model that is sold by searches and seconds come to none where a request has neither', async (t) => {
  const { bench, upstream } = await open(t, { price: { search: 1, second: 1 } })
  upstream.json(chatAnswer())
  const { exchange } = await bench.send()
  const charged = exchange.attempts.at(-1)!.usage!.usage
  t.match(charged, { input: 10, output: 5 })
  t.notOk(charged.search, 'no search')
  t.notOk(charged.second, 'no second')
})

t.test('operators are told of a channel that answers only what has no question for usage, and once', async (t) => {
  const said: unknown[] = []
  const log = { warn: (_message: string, { channel }: { channel: string }) => said.push(channel) }
  const metrics = new TestMetrics()
  const hooks = await usageMeter.setup({ bytes_per_token: 4 }, { catalogue: {}, log, metrics } as never)
  const told = (...attempts: object[]): unknown[] => {
    said.length = 0
    hooks.onSettled!({ attempts } as never, {} as never)
    return [...said]
  }
  const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ name }))
  const refused = { channel: a, added: 'stream_options', error: {} }
  t.same(told(refused), [], 'nobody answered')
  t.same(told({ ...refused, added: undefined }, { channel: a }), [], 'it had not been asked')
  t.same(told({ ...refused, error: undefined }, { channel: a }), [], 'it had not refused')
  t.same(told(refused, { channel: b }), [], 'another answered')
  t.same(told(refused, { channel: a, added: 'stream_options' }), [], 'it answered when it was asked again')
  t.same(told(refused, { channel: a, error: {} }), [], 'it refuses the rest too')
  t.same(told({ channel: b, error: {} }, refused, { channel: a }), ['a'])
  t.same(told(refused, { channel: a }), [], 'once')
  t.same(told({ ...refused, channel: c }, { channel: c }), ['c'], 'each')
})

t.test('a stream is counted as reported when its client did not ask, and its client sees nothing of it', async (t) => {
  const { bench, upstream } = await open(t)
  upstream.script(streamHead, events([...chatEvents(), 'data: [DONE]\n\n']), endOfBody())
  const { body, exchange } = await bench.send({ body: { stream: true } })
  t.match(exchange.attempts.at(-1)!.usage, { source: 'upstream' })
  t.notMatch(body, /usage/)
  t.same((upstream.requests[0]!.json() as { stream_options: unknown }).stream_options, { include_usage: true })
})
