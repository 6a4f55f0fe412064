// Limits of keys at work: what refuses, what the headers say, and that nothing is ever kept.
import { once } from 'node:events'
import t from 'tap'
import type { Test } from 'tap'
import { MemoryLimits } from '../../core/store/memory/limits.ts'
import type { LimitSet } from '../../core/catalogue/caller.ts'
import type { Limits } from '../../core/store/limits.ts'
import { definePlugin } from '../../core/contract/contract.ts'
import { usage } from '../../core/contract/slots.ts'
import ratelimit from '../../plugins/ratelimit/index.ts'
import { pluginContract } from '../kit/contract.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import { eventually, settled } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'
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

function setOf(rates: object): LimitSet {
  return { id: 'key:k', home: 'tenant:acme', level: 'key', scope: 'key:k', models: null, rates }
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
  const { bench, upstream, clock } = await open(
    t,
    { rpm: 4, rps: 4, concurrency: 50 },
    { chain: ['auth', { ratelimit: { reset: 'epoch' } }, 'route', 'usage-meter'] }
  )
  const within = (reset: string | undefined, from: number, to: number): void =>
    void t.ok(Number(reset) >= Math.floor(from / 1000) && Number(reset) <= to / 1000 + 1, `${reset} from ${from}`)
  upstream.json(chatAnswer())
  const began = Date.now()
  const answer = await bench.send()
  const [limit, remaining, reset] = rates(answer)
  t.same([limit, remaining], ['4', '3'], 'three of four are a smaller share than 49 slots of 50')
  within(reset, began + 250, Date.now() + 250)
  clock.now += 1_000_000
  upstream.json(chatAnswer())
  const next = rates(await bench.send())
  t.same(next.slice(0, 2), ['4', '2'], 'the minute is tighter than the second, though it comes behind it')
  within(next[2], began + 29_000, Date.now() + 29_000)
})

t.test('a refusal shows the limit that refused, also when another has less left', async (t) => {
  const { bench, upstream } = await open(t, { tpm: 1000, rps: 1, concurrency: 5 })
  upstream.json(chatAnswer(400, 400))
  t.same(rates(await bench.send()).slice(0, 2), ['1', '0'])
  const refused = await bench.send()
  t.match(error(refused), { code: 'rate_limit_tpm', message: /1000 tokens per minute/ })
  t.same(rates(refused), ['1000', '200', '48'])
  const { reason } = bench.records.at(-1)!
  t.match(reason, { by: 'limit', scope: 'key:test-key', limit_name: 'tpm', limit: 1000, used: 800, left: 200 })
  t.match(reason, { asked: 1000, free_at: /^\d{4}-/ }, 'never more than the limit')
})

t.test(
  'tokens are expected by input, limit of the output and answers, and by the option where no limit is',
  async (t) => {
    const { bench, upstream } = await open(
      t,
      { tpm: 100_000 },
      { chain: ['auth', { ratelimit: { expected_output: 500 } }, 'route', 'usage-meter'] }
    )
    const zero = { ...chatAnswer(), usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } }
    for (const [body, output] of [
      [{}, 500],
      [{ max_tokens: 100 }, 100],
      [{ max_tokens: 100, n: 3 }, 300],
      [{ n: 2 }, 1000],
      [{ max_tokens: 9000 }, 500]
    ] as const) {
      upstream.json(zero)
      const { headers, exchange } = await bench.send({ body })
      const input = Math.ceil(exchange.body.bytes.length / 3)
      t.equal(100_000 - Number(headers['x-ratelimit-remaining']) - input, output, JSON.stringify(body))
    }
  }
)

t.test(
  'an answer that nobody counted keeps what was expected of it, one without an upstream gives it back',
  async (t) => {
    const echo = definePlugin({
      name: 'echo',
      summary: 'Answers some requests itself, and counts none.',
      options: {},
      provides: [usage],
      setup: () => ({
        onRequest: ({ request }) =>
          'x-echo' in request.headers ? { status: 200, body: { object: 'echo' } } : undefined
      })
    })
    const upstream = (await Upstream.start(t)).json(chatAnswer()).json(chatAnswer())
    const bench = await Workbench.open(
      t,
      {
        channels: { a: channelTo(upstream) },
        keys: [key({ limits: { tpm: 100_000 } })],
        chain: ['auth', 'ratelimit', 'echo', 'route']
      },
      { limits: new MemoryLimits(() => 0), more: [echo] }
    )
    let input = 0
    const used = async (headers: Record<string, string> = {}): Promise<number> => {
      const answer = await bench.send({ headers })
      t.equal(answer.status, 200)
      input = Math.ceil(answer.exchange.body.bytes.length / 3)
      return 100_000 - Number(answer.headers['x-ratelimit-remaining'])
    }
    const expected = await used({ 'x-echo': 'yes' })
    t.equal(expected, input + 1024, 'what is expected of output where nothing says')
    t.equal(await used(), expected, 'the first gave back what it had')
    t.equal(await used(), 2 * expected, 'the second kept it')
  }
)

t.test('every response of a session counts against the rates of its key, and with its tokens', async (t) => {
  const session = async (limits: object) => {
    const running = await gateway(t, {
      channels: { demo: { protocol: 'simulator', models: { demo: 'demo' } } },
      models: { demo: { price: 'free', max_output_tokens: 100 } },
      keys: [{ name: 'test', key: testKey, tenant: 'acme', limits }]
    })
    const client = await openRealtime(t, running)
    await client.event('session.created')
    return { running, client }
  }
  const end = async ({ running, client }: Awaited<ReturnType<typeof session>>): Promise<void> => {
    client.socket.close(1000)
    await settled(t, running)
  }
  const rated = await session({ rpm: 2, concurrency: 1 })
  rated.client.ask('One')
  await rated.client.event('response.done')
  rated.client.ask('Two')
  t.match(await rated.client.event('error'), {
    error: { code: 'rate_limit_rpm', message: /2 requests per minute/ }
  })
  await end(rated)
  const counted = await session({ tpm: 2000 })
  counted.client.ask('One [[simulator {"usage": {"input_tokens": 1800, "output_tokens": 190, "total_tokens": 1990}}]]')
  await counted.client.event('response.done')
  counted.client.ask('Two')
  t.match(await counted.client.event('error'), { error: { code: 'rate_limit_tpm' } })
  await end(counted)
  const slotted = await session({ concurrency: 1 })
  for (let n = 1; n <= 2; n++) {
    slotted.client.ask('Hi')
    await slotted.client.event('response.done', n)
  }
  await end(slotted)
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
  const { reason } = bench.records.at(-1)!
  t.match(reason, { limit_name: 'concurrency', limit: 2, asked: 1, used: 2, left: 0, free_at: null })
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
    const cached = {
      prompt_tokens: 5000,
      completion_tokens: 10,
      total_tokens: 5010,
      prompt_tokens_details: { cached_tokens: 4900 }
    }
    upstream.json({ ...chatAnswer(), usage: cached })
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
    decide: (...args) => new Promise((resolve) => setImmediate(() => resolve(inner.decide(...args)))),
    look: (...args) => inner.look(...args)
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

t.test('the turns of a session count by their tokens, and ask nobody where only sessions are limited', async (t) => {
  const asked: number[] = []
  const inner = new MemoryLimits(() => 0)
  const limits: Limits = {
    decide(sets, tokens, within) {
      asked.push(tokens)
      return inner.decide(sets, tokens, within)
    },
    look: (sets, tokens) => inner.look(sets, tokens)
  }
  const options = { reset: 'delta', expected_output: 10 } as const
  const hooks = await ratelimit.setup(options, { services: { limits } } as never)
  const begin = (limits: object, maxOutput?: number) => {
    const ends: (() => void)[] = []
    const turn = { input: { typical: 100 }, maxOutput, usage: undefined, defer: (end: () => void) => ends.push(end) }
    hooks.onTurn!({ get: () => ({ limitsOf: () => [setOf(limits)] }), find() {} } as never, turn as never)
    return (used?: object): void => {
      Object.assign(turn, { usage: used && { usage: used } })
      for (const end of ends) end()
    }
  }
  begin({ concurrency: 1 })
  t.same(asked, [])
  begin({ concurrency: 1, rpm: 1 })
  const ends = [begin({ tpm: 1000 }), begin({ tpm: 1000 }, 5), begin({ tpm: 1000 }, 50)]
  t.same(asked, [0, 110, 105, 110], 'its input, and of its output what is expected unless it may have less')
  const left = (): unknown => inner.decide([setOf({ tpm: 1000 })], 1000).states[0]!.remaining
  t.equal(left(), 675)
  ends[0]!({ input: 20, output: 30, cached_input: 7 })
  t.equal(left(), 735, 'what it used is counted when it ends')
  ends[1]!()
  t.equal(left(), 840, 'nothing where it used nothing')
  ends[2]!({ input: 100, output: 400 })
  t.equal(left(), 450)
})

t.test('turns that are open count by what they may take, and a session itself by nothing', async (t) => {
  const upstream = await socketUpstream(t)
  const keyWith = (tpm: number): object => ({ name: 'test', key: testKey, tenant: 'acme', limits: { tpm } })
  const local = await gateway(t, { ...sessionsAt(upstream), keys: [keyWith(1500)] })
  const [client, { socket }] = [await openRealtime(t, local), await upstream.peer()]
  let asked = 0
  socket!.on('message', (frame) => void (asked += String(frame).includes('response.create') ? 1 : 0))
  // Each may say ten tokens, and not the 1024 that one without a limit is expected to.
  for (let turn = 0; turn < 2; turn++) client.send({ type: 'response.create', response: { max_output_tokens: 10 } })
  await eventually(() => asked === 2)
  for (let turn = 0; turn < 2; turn++) client.send({ type: 'response.create' })
  await eventually(() => asked === 3)
  await client.event('error')
  t.match(
    client.events.filter(({ type }) => type === 'error'),
    [{ error: { code: 'rate_limit_tpm' } }]
  )
  client.socket.close(1000)
  await settled(t, local)

  const other = await gateway(t, { ...sessionsAt(upstream), keys: [keyWith(3000)] })
  const [session, { socket: peer }] = [await openRealtime(t, other), await upstream.peer(2)]
  session.send({ type: 'response.create' })
  await once(peer!, 'message')
  const usage = { input_tokens: 400, output_tokens: 1000, total_tokens: 1400 }
  peer!.send('{"type":"response.created","response":{"id":"r1"}}')
  peer!.send(JSON.stringify({ type: 'response.done', response: { id: 'r1', status: 'completed', usage } }))
  await session.event('response.done')
  session.socket.close(1000)
  await settled(t, other)
  // Of 3000 tokens 1600 are left, and 200 would be if the session had taken them once more; fifty a second come back.
  const again = await openRealtime(t, other)
  const { socket: last } = await upstream.peer(3)
  again.send({ type: 'response.create' })
  await Promise.race([once(last!, 'message'), again.event('error')])
  t.notOk(again.events.some(({ type }) => type === 'error'))
  again.socket.close(1000)
})

t.test('a turn whose usage nobody reported keeps what it read, unless no upstream had it', async (t) => {
  const upstream = await socketUpstream(t)
  const limited = { name: 'test', key: testKey, tenant: 'acme', limits: { tpm: 2500 } }
  // What is asked takes 2000 tokens: of 2500 a second one is refused for as long as the first one counts.
  const ask = (client: Awaited<ReturnType<typeof openRealtime>>): void => {
    const content = [{ type: 'input_text', text: 'abc '.repeat(1500) }]
    client.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } })
    client.send({ type: 'response.create', response: { max_output_tokens: 1 } })
  }
  let peers = 0
  const begin = async (local: Awaited<ReturnType<typeof gateway>>) => {
    const client = await openRealtime(t, local)
    const { socket } = await upstream.peer(++peers)
    const asked = new Promise<void>((resolve) => {
      socket!.on('message', (frame) => void (String(frame).includes('response.create') && resolve()))
    })
    ask(client)
    await Promise.race([asked, client.event('error')])
    return { client, peer: socket!, refused: client.events.some(({ type }) => type === 'error') }
  }
  const done = '{"type":"response.done","response":{"id":"r1","status":"failed"}}'
  const ends: Record<string, (session: Awaited<ReturnType<typeof begin>>) => Promise<unknown>> = {
    'ends without a report': ({ client, peer }) => (peer.send(done), client.event('response.done')),
    'is left by its client': ({ client }) => Promise.resolve(client.socket.close(1000))
  }
  for (const [name, end] of Object.entries(ends)) {
    const local = await gateway(t, { ...sessionsAt(upstream), keys: [limited] })
    const first = await begin(local)
    t.equal(first.refused, false)
    first.peer.send('{"type":"response.created","response":{"id":"r1"}}')
    await first.client.event('response.created')
    await end(first)
    first.client.socket.close(1000)
    await settled(t, local)
    const second = await begin(local)
    t.equal(second.refused, true, name)
    second.client.socket.close(1000)
  }
  const local = await gateway(t, { ...sessionsAt(upstream), keys: [limited] })
  const first = await begin(local)
  first.peer.send('{"type":"error","error":{"type":"invalid_request_error","message":"no"}}')
  await first.client.event('error')
  const second = await begin(local)
  t.equal(second.refused, false, 'what the upstream refused')
  second.client.socket.close(1000)
  first.client.socket.close(1000)
})
