// Limits of keys at work: what refuses, what the headers say, and that nothing is ever kept.
import t from 'tap'
import type { Test } from 'tap'
import { MemoryLimits } from '../../core/store/memory-limits.ts'
import type { Limits } from '../../core/store/limits.ts'
import ratelimit from '../../plugins/ratelimit/index.ts'
import { pluginContract } from '../kit/contract.ts'
import { endOfBody, events, head, reset, stall, until, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, chatEvents, key, Workbench } from '../kit/workbench.ts'
import type { Answer, Sections } from '../kit/workbench.ts'

pluginContract(t, ratelimit, {
  accepts: [{}, { reset: 'epoch', expected_output: 0 }],
  refuses: [
    [{ reset: 'seconds' }, /delta, epoch/],
    [{ expected_output: -1 }, /must be/]
  ]
})

interface Bench {
  bench: Workbench
  upstream: Upstream
  clock: { now: number }
}

/** On a clock that only the test moves, in microseconds. */
async function open(t: Test, limits: object, sections: Sections = {}): Promise<Bench> {
  const upstream = await Upstream.start(t)
  const clock = { now: 3_600_000_000 }
  const bench = await Workbench.open(
    t,
    { channels: { a: channelTo(upstream) }, keys: [key({ limits })], ...sections },
    { limits: new MemoryLimits(() => clock.now) }
  )
  return { upstream, bench, clock }
}

function rates({ headers }: Answer): (string | undefined)[] {
  return ['limit', 'remaining', 'reset'].map((name) => headers[`x-ratelimit-${name}`])
}

function error({ body }: Answer): { type: string; code: string; message: string } {
  return (JSON.parse(body) as { error: { type: string; code: string; message: string } }).error
}

t.test('requests beyond a rate are refused with the moment when one passes again', async (t) => {
  const { bench, upstream, clock } = await open(t, { rps: 2 })
  for (const remaining of ['1', '0']) {
    upstream.json(chatAnswer())
    const answer = await bench.send()
    t.same(rates(answer), ['2', remaining, '1'])
  }
  const refused = await bench.send()
  t.equal(refused.status, 429)
  t.match(error(refused), { type: 'rate_limit_error', code: 'rate_limit_rps', message: /2 requests per second/ })
  t.same(rates(refused), ['2', '0', '1'])
  t.equal(refused.headers['retry-after'], '1')
  t.equal(refused.headers['retry-after-ms'], '500')
  t.notOk('x-should-retry' in refused.headers)
  t.equal(upstream.requests.length, 2)
  clock.now += 500_000
  upstream.json(chatAnswer())
  t.equal((await bench.send()).status, 200)
})

t.test('streams and failures carry the headers too, and those of the upstream never show', async (t) => {
  const { bench, upstream } = await open(t, { rpm: 10 })
  const foreign = {
    'x-ratelimit-limit': '9999',
    'x-ratelimit-remaining': '9998',
    'x-ratelimit-reset': '1s',
    'retry-after': '77'
  }
  upstream.script(
    head(200, { 'content-type': 'text/event-stream', ...foreign }),
    events([...chatEvents(), 'data: [DONE]\n\n']),
    endOfBody()
  )
  t.same(rates(await bench.send({ body: { stream: true } })), ['10', '9', '6'])
  upstream.json({ error: { message: 'no' } }, { status: 400, headers: foreign })
  const failed = await bench.send()
  t.same(rates(failed), ['10', '8', '12'])
  t.notOk('retry-after' in failed.headers)
})

t.test('the tightest limit is shown, and reset can be told as a point in time', async (t) => {
  const { bench, upstream } = await open(
    t,
    { rpm: 100, rps: 50, concurrency: 2 },
    { chain: ['auth', { ratelimit: { reset: 'epoch' } }, 'route', 'usage-meter'] }
  )
  upstream.json(chatAnswer())
  const began = Date.now()
  const answer = await bench.send()
  t.same(rates(answer).slice(0, 2), ['2', '1'], 'one slot of two is the smallest share')
  const reset = Number(answer.headers['x-ratelimit-reset']) * 1000
  t.ok(reset > began - 1000 && reset < Date.now() + 3000, `${reset} after ${began}`)
})

t.test('a key without limits has no headers, and nobody without a key has', async (t) => {
  const { bench, upstream } = await open(t, {})
  upstream.json(chatAnswer())
  t.same(rates(await bench.send()), [undefined, undefined, undefined])
  t.same(rates(await bench.send({ headers: { authorization: 'Bearer sk-wrong' } })), [undefined, undefined, undefined])
  t.equal((bench.limits as MemoryLimits).size, 0)
})

t.test('all spellings of a key share one set of limits', async (t) => {
  const { bench, upstream } = await open(t, { rpm: 3 })
  const spellings = [
    { authorization: 'bearer   sk-test-key' },
    { authorization: '', 'x-api-key': 'sk-test-key' },
    { authorization: '', 'x-goog-api-key': 'sk-test-key' }
  ]
  for (const headers of spellings) {
    upstream.json(chatAnswer())
    t.equal((await bench.send({ headers })).status, 200)
  }
  for (const headers of spellings) t.equal((await bench.send({ headers })).status, 429)
})

t.test('slots are taken while an answer lasts, streams included', async (t) => {
  const { bench, upstream } = await open(t, { concurrency: 2 })
  const finish = Promise.withResolvers<void>()
  const list = [...chatEvents(), 'data: [DONE]\n\n']
  for (let i = 0; i < 2; i++) {
    upstream.script(
      head(200, { 'content-type': 'text/event-stream' }),
      events(list.slice(0, 3)),
      until(finish.promise),
      events(list.slice(3)),
      endOfBody()
    )
  }
  const running = [bench.start({ body: { stream: true } }), bench.start({ body: { stream: true } })]
  await Promise.all(running.map(({ client }) => client.began))
  const refused = await bench.send()
  t.equal(error(refused).code, 'rate_limit_concurrency')
  t.equal(refused.headers['retry-after'], '1')
  t.equal(refused.headers['retry-after-ms'], '1000')
  finish.resolve()
  for (const { answer } of running) t.equal((await answer).status, 200)
  upstream.json(chatAnswer())
  t.equal((await bench.send()).status, 200)
})

t.test('tokens are counted as they were used, input and output, and an idle minute makes up for them', async (t) => {
  const { bench, upstream, clock } = await open(
    t,
    { tpm: 1000 },
    { chain: ['auth', { ratelimit: { expected_output: 100 } }, 'route', 'usage-meter'] }
  )
  upstream.json(chatAnswer(400, 400))
  t.equal((await bench.send()).status, 200)
  upstream.json(chatAnswer(400, 400))
  const second = await bench.send()
  t.equal(second.status, 200)
  const third = await bench.send()
  t.equal(third.status, 429)
  t.equal(error(third).code, 'rate_limit_tpm')
  t.equal(third.headers['x-ratelimit-remaining'], '0')
  t.ok(Number(third.headers['retry-after']) >= 36, 'the debt of 600 tokens takes 36 s')
  clock.now += 60_000_000
  upstream.json(chatAnswer(400, 400))
  t.equal((await bench.send()).status, 200)
})

t.test(
  'cached input does not count against tokens per minute, and a failed request gives its tokens back',
  async (t) => {
    const { bench, upstream } = await open(t, { tpm: 10_000 }, { chain: ['auth', 'ratelimit', 'route', 'usage-meter'] })
    const usage = {
      prompt_tokens: 5000,
      completion_tokens: 10,
      total_tokens: 5010,
      prompt_tokens_details: { cached_tokens: 4900 }
    }
    upstream.json({ ...chatAnswer(), usage })
    await bench.send()
    upstream.json({ error: { message: 'no' } }, { status: 400 })
    await bench.send()
    upstream.json(chatAnswer())
    const third = await bench.send({ body: { max_tokens: 1 } })
    const expected = Math.ceil(third.exchange.body.bytes.length / 3) + 1
    t.equal(third.headers['x-ratelimit-remaining'], String(10_000 - 110 - expected))
  }
)

t.test('what a cache keeps counts as it is written, and a failed answer counts what it has told', async (t) => {
  const sections = { chain: ['auth', 'ratelimit', 'route', 'usage-meter'] }
  const { bench, upstream } = await open(t, { tpm: 10_000 }, sections)
  const told = { prompt_tokens: 500, completion_tokens: 40, total_tokens: 540 }
  const written = { ...told, prompt_tokens_details: { cached_tokens: 200, cache_write_tokens: 100 } }
  const next = async (): Promise<number> => {
    upstream.json(chatAnswer())
    const answer = await bench.send({ body: { max_tokens: 1 } })
    const expected = Math.ceil(answer.exchange.body.bytes.length / 3) + 1
    return 10_000 - Number(answer.headers['x-ratelimit-remaining']) - expected
  }
  upstream.json({ ...chatAnswer(), usage: written })
  await bench.send()
  const before = await next()
  t.equal(before, 340, 'all but what the cache spared')
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([...chatEvents(1).slice(0, 2), { ...chatEvents()[0], choices: [], usage: told }]),
    reset()
  )
  const broken = await bench.send({ body: { stream: true } })
  t.match(broken.body, /upstream_stream_interrupted/)
  t.equal(await next(), before + 15 + 540, 'what it counted before it broke, and the fifteen of the answer between')
})

t.test('parallel requests are held to tokens per minute before their usage is known', async (t) => {
  const { bench, upstream } = await open(t, { tpm: 1000 })
  upstream.always(stall())
  const started = Array.from({ length: 10 }, () => bench.start({ body: { max_tokens: 400 } }))
  await upstream.request(1)
  const refused = await Promise.all(started.slice(2).map(({ answer }) => answer))
  t.ok(refused.every(({ status }) => status === 429))
  for (const { client } of started) client.leave()
  await Promise.all(started.map(({ answer }) => answer))
})

t.test('the model list counts as a request and has no tokens', async (t) => {
  const { bench, upstream } = await open(t, { rpm: 100, tpm: 100 })
  upstream.json(chatAnswer(5000, 5000))
  await bench.send()
  t.equal((await bench.send()).status, 429)
  const list = await bench.send({ method: 'GET', target: '/v1/models' })
  t.equal(list.status, 200)
  t.same(rates(list).slice(0, 2), ['100', '98'])
  const { bench: other } = await open(t, { tpm: 1 })
  t.same(rates(await other.send({ method: 'GET', target: '/v1/models' })), [undefined, undefined, undefined])
})

t.test('a limiter that answers later does the same', async (t) => {
  const inner = new MemoryLimits(() => 0)
  const limits: Limits = {
    decide: (...args) => new Promise((resolve) => setImmediate(() => resolve(inner.decide(...args))))
  }
  const upstream = (await Upstream.start(t)).json(chatAnswer())
  const bench = await Workbench.open(
    t,
    { channels: { a: channelTo(upstream) }, keys: [key({ limits: { rps: 1 } })] },
    { limits }
  )
  t.equal((await bench.send()).status, 200)
  t.equal(error(await bench.send()).code, 'rate_limit_rps')
})

t.test('a limit changed by a reload holds at once and forgets nothing', async (t) => {
  const { bench, upstream } = await open(t, { rpm: 5 })
  for (let i = 0; i < 3; i++) {
    upstream.json(chatAnswer())
    await bench.send()
  }
  await bench.reload({ channels: { a: channelTo(upstream) }, keys: [key({ limits: { rpm: 4 } })] })
  upstream.json(chatAnswer())
  t.same(rates(await bench.send()).slice(0, 2), ['4', '0'])
  t.equal((await bench.send()).status, 429)
})
