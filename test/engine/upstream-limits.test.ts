// Limits of channels under everything that can become of a request: what is held of them, how long, and how it is
// corrected when the upstream has told what it used.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { toldLimits } from '../../core/protocols/told/limits.ts'
import { Told } from '../../plugins/route/told.ts'
import { ask } from '../kit/client.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { gateway, spawnGateway } from '../kit/gateway.ts'
import type { LocalGateway, TestGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import { chunk, endOfBody, events, head, reset, stall, until, Upstream } from '../kit/upstream.ts'

t.setTimeout(600_000)

/** Tokens a minute: what is expected of a request is far less, and what an answer says that it used far more. */
const tpm = 60_000
const used = 50_000
const usage = { prompt_tokens: 20_000, completion_tokens: 30_000, total_tokens: used }
const answer = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage
}

/** Long enough for what the answers say that they read. */
const asked = { model: 'm', messages: [{ role: 'user', content: 'word '.repeat(6000) }] }

function chat(running: TestGateway, more: object = {}): Promise<ReceivedReply> {
  return running.chat({ ...asked, ...more })
}

function chunkOf(content: string, finish: string | null = null): object {
  const delta = content === '' ? {} : { role: 'assistant', content }
  const choices = [{ index: 0, delta, finish_reason: finish }]
  return { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices }
}

const streamed = [chunkOf('Hel'), chunkOf('lo'), chunkOf('', 'stop'), { ...chunkOf(''), choices: [], usage }]

function channelOf(upstream: Upstream, more: object = {}): object {
  return { protocol: 'openai', base_url: upstream.url.href, private: true, models: { m: 'm' }, ...more }
}

function chainWith(route: object): unknown[] {
  const before = [{ auth: {} }, { quota: {} }, { ratelimit: {} }]
  return [...before, { route }, { 'protocol-translate': {} }, { 'usage-meter': {} }, { log: { sink: 'none' } }]
}

/** What is left of a limit of a channel. */
async function left(running: TestGateway, name: string, channel = 'up'): Promise<number> {
  const { health } = await running.admin(`/admin/v1/channels/${channel}`)
  return health.limits.find((limit: { name: string }) => limit.name === name).left
}

/** Takes a look at what is taken of the tokens: so much, but for what has leaked since `began`. */
async function taken(t: Test, running: TestGateway, expected: number, began: number, what: string): Promise<void> {
  const rest = tpm - (await left(running, 'tpm'))
  const leaked = Math.ceil(((performance.now() - began) * tpm) / 60_000)
  t.ok(rest <= expected && rest >= expected - leaked - 1, `${what}: ${rest} of ${expected} taken, ${leaked} leaked`)
}

async function reload(running: LocalGateway): Promise<void> {
  t.equal((await ask(t, running.adminUrl, { method: 'POST', path: '/admin/v1/reload' })).status, 200)
}

/** A gateway in front of one channel with a limit of tokens. */
async function limited(
  t: Test,
  { channels, models, ...more }: any = {}
): Promise<{ upstream: Upstream; running: LocalGateway }> {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, {
    channels: { up: channelOf(upstream, { limits: { tpm, concurrency: 1 }, ...channels?.up }) },
    models: { m: { price: { input: 1, output: 2 }, ...models?.m } },
    chain: chainWith({ repeats: 0 }),
    ...more
  })
  return { upstream, running }
}

t.test('tokens are corrected by what was used, however the answer ends', async (t) => {
  t.test('whole, and streamed', async (t) => {
    for (const stream of [false, true]) {
      const { upstream, running } = await limited(t)
      const began = performance.now()
      if (stream) upstream.sse(streamed)
      else upstream.json(answer)
      t.equal((await chat(running, { stream })).status, 200)
      await taken(t, running, used, began, stream ? 'a stream' : 'a whole answer')
    }
  })
  t.test('with an error', async (t) => {
    const { upstream, running } = await limited(t)
    upstream.json({ error: { message: 'broken' } }, { status: 500 })
    t.equal((await chat(running)).status, 502)
    t.equal(await left(running, 'tpm'), tpm)
  })
  for (const [what, leaves, more] of [
    ['cut by the upstream', false, {}],
    ['left by the client', true, { limits: { on_disconnect: 'abort' } }]
  ] as const)
    t.test(what, async (t) => {
      const { upstream, running } = await limited(t, more)
      const began = performance.now()
      upstream.script(
        head(200, { 'content-type': 'text/event-stream' }),
        events([chunkOf('Hel'), { ...chunkOf('lo'), usage }]),
        leaves ? stall() : reset()
      )
      const client = await running.openChat({ ...asked, stream: true })
      if (leaves) {
        await upstream.request()
        await eventually(() => client.reads.length > 0)
        client.close()
      }
      await eventually(async () => (await running.admin('/admin/v1/requests')).data.length === 1)
      const { data } = await running.admin('/admin/v1/requests')
      const counted = Number(data[0].usage.input ?? 0) + Number(data[0].usage.output ?? 0)
      t.ok(counted > 0)
      await taken(t, running, counted, began, `${what} (${data[0].usage_source})`)
      t.equal(await left(running, 'concurrency'), 1)
    })
})

t.test('the tokens of a channel that failed are given back when another one answers', async (t) => {
  const [upstream, other] = [await Upstream.start(t), await Upstream.start(t)]
  const limits = { tpm, concurrency: 1 }
  const running = await gateway(t, {
    channels: {
      up: channelOf(upstream, { limits }),
      other: channelOf(other, { limits, priority: 1 }),
      third: channelOf(other, { limits, models: { spare: 'spare' } })
    },
    models: {
      m: { price: { input: 1, output: 2 } },
      spare: { price: { input: 1, output: 2 } },
      both: { fallback: ['m', 'spare'] }
    }
  })
  const began = performance.now()
  upstream.json({ error: { message: 'broken' } }, { status: 500 })
  let go!: () => void
  const gate = new Promise<void>((resolve) => (go = resolve))
  other.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([chunkOf('Hel')]),
    until(gate),
    events(streamed.slice(1)),
    chunk('data: [DONE]\n\n'),
    endOfBody()
  )
  const reply = chat(running, { stream: true })
  await other.request()
  t.equal(await left(running, 'tpm'), tpm, 'the first has its tokens back')
  t.equal(await left(running, 'concurrency'), 1, 'and its slot')
  t.equal(await left(running, 'concurrency', 'other'), 0, 'the second is in use')
  go()
  t.equal((await reply).status, 200)
  t.equal(await left(running, 'concurrency', 'other'), 1)
  const rest = await left(running, 'tpm', 'other')
  t.ok(rest >= tpm - used && rest <= tpm - used + performance.now() - began + 1, `the second has used ${tpm - rest}`)
})

t.test('a channel that failed has everything back while one without limits answers', async (t) => {
  const [upstream, other] = [await Upstream.start(t), await Upstream.start(t)]
  const running = await gateway(t, {
    channels: {
      up: channelOf(upstream, { limits: { tpm, concurrency: 1 } }),
      other: channelOf(other, { priority: 1 })
    },
    models: { m: { price: { input: 1, output: 2 } } }
  })
  upstream.json({ error: { message: 'broken' } }, { status: 500 })
  const gate = Promise.withResolvers<void>()
  other.script(until(gate.promise), head(200), endOfBody())
  const reply = chat(running)
  await other.request()
  t.same([await left(running, 'tpm'), await left(running, 'concurrency')], [tpm, 1])
  gate.resolve()
  await reply
})

t.test('requests that wait are let in by the limits that a reload has brought', async (t) => {
  const upstream = await Upstream.start(t)
  upstream.always(head(200, { 'content-type': 'application/json' }), chunk(JSON.stringify(answer)), endOfBody())
  const withRpm = (rpm: number | undefined): Record<string, unknown> => ({
    channels: { up: channelOf(upstream, rpm === undefined ? {} : { limits: { rpm } }) },
    models: { m: { price: { input: 1, output: 2 } } },
    chain: chainWith({ wait: '10m' })
  })
  for (const next of [600, undefined]) {
    const running = await gateway(t, withRpm(1))
    t.equal((await chat(running)).status, 200)
    const waiting = [chat(running), chat(running)]
    await sleep(300)
    running.configure(withRpm(next))
    await reload(running)
    for (const reply of waiting) t.equal((await reply).status, 200, `now the limit is ${next}`)
  }
})

t.test('requests that came before a reload take nothing off the limits that it has brought', async (t) => {
  const upstream = await Upstream.start(t)
  upstream.always(head(200, { 'content-type': 'application/json' }), chunk(JSON.stringify(answer)), endOfBody())
  const withRpm = (rpm: number): Record<string, unknown> => ({
    channels: { up: channelOf(upstream, { limits: { rpm } }) },
    models: { m: { price: { input: 1, output: 2 } } },
    chain: chainWith({ wait: '10m' })
  })
  const running = await gateway(t, withRpm(1))
  t.equal((await chat(running)).status, 200)
  const waiting = chat(running)
  await sleep(300)
  running.configure(withRpm(30))
  await reload(running)
  const began = performance.now()
  for (let i = 0; i < 25; i++) t.equal((await chat(running)).status, 200)
  await sleep(600)
  const rest = await left(running, 'rpm')
  t.ok(rest <= 5 + (performance.now() - began) / 2000, `${rest} are left`)
  t.equal((await waiting).status, 200)
})

t.test('turns of an open session count in the limits that a reload has brought', async (t) => {
  const withRpm = (rpm: number): Record<string, unknown> => ({
    channels: { demo: { protocol: 'simulator', models: { demo: 'demo' }, limits: { rpm } } },
    models: { demo: { price: { input: 1, output: 2 } } },
    chain: chainWith({ wait: '0s' })
  })
  const running = await gateway(t, withRpm(100))
  const client = await openRealtime(t, running)
  await client.event('session.created')
  client.ask('Hello.')
  await client.event('response.done')
  running.configure(withRpm(3))
  await reload(running)
  client.ask('Once more.')
  await client.event('response.done', 2)
  let refused: unknown
  const error = client.event('error').then((event) => (refused = event))
  // The limit gives back one turn in 20 seconds, and a busy machine may take as long for the turns until here.
  for (let turn = 3; turn < 50 && !refused; turn++) {
    client.ask('And again.')
    await Promise.race([error, client.event('response.done', turn)])
  }
  t.match(refused, { error: { code: 'upstream_rate_limited' } })
})

t.test('a limit of tokens counts the turns of a session by what they used', async (t) => {
  const running = await gateway(t, {
    channels: { demo: { protocol: 'simulator', models: { demo: 'demo' }, limits: { tpm, concurrency: 1 } } },
    models: { demo: { price: { input: 1, output: 2 } } },
    chain: chainWith({ wait: '0s' })
  })
  const began = performance.now()
  const client = await openRealtime(t, running)
  await client.event('session.created')
  t.equal(await left(running, 'concurrency', 'demo'), 0, 'the session has the slot')
  t.equal((await running.chat({ model: 'demo' })).status, 429)
  client.ask('Hello.')
  const { response } = (await client.event('response.done')) as any
  const rest = tpm - (await left(running, 'tpm', 'demo'))
  const counted = response.usage.input_tokens + response.usage.output_tokens
  t.ok(rest <= counted && rest >= counted - (performance.now() - began) - 1, `${rest} of ${counted}`)
  client.socket.close(1000, 'bye')
  await client.closed
  await eventually(async () => (await left(running, 'concurrency', 'demo')) === 1)
})

t.test('who leaves while waiting takes no place of those who wait, and nothing of the limits', async (t) => {
  const { upstream, running } = await limited(t, { chain: chainWith({ wait: '10m', waiting: 1 }) })
  let go!: () => void
  const gate = new Promise<void>((resolve) => (go = resolve))
  upstream.script(
    head(200, { 'content-type': 'application/json' }),
    until(gate),
    chunk(JSON.stringify(answer)),
    endOfBody()
  )
  upstream.json(answer)
  const first = chat(running)
  await upstream.request()
  for (let i = 0; i < 3; i++) {
    const client = await running.openChat(asked)
    await eventually(async () => (await chat(running)).status === 429, 10_000)
    client.close()
  }
  go()
  t.equal((await first).status, 200)
  t.equal((await chat(running)).status, 200)
  t.equal(upstream.requests.length, 2)
  t.equal(await left(running, 'concurrency'), 1)
})

t.test('what leaves while it waits for another try has taken nothing of the tokens', async (t) => {
  const { upstream, running } = await limited(t, { chain: chainWith({ repeats: 1, wait: '10m' }) })
  upstream.script(
    head(429, { 'content-type': 'application/json', 'retry-after': '4' }),
    chunk(JSON.stringify({ error: { message: 'slow down' } })),
    endOfBody()
  )
  const client = await running.openChat(asked)
  await upstream.request()
  client.close()
  await eventually(async () => (await running.admin('/admin/v1/requests')).data.length === 1, 10_000)
  t.equal(await left(running, 'tpm'), tpm)
  t.equal(await left(running, 'concurrency'), 1)
})

t.test('a response in the background has its slot until it was begun, and its expected tokens for good', async (t) => {
  const { upstream, running } = await limited(t, { channels: { up: { endpoints: ['responses'] } } })
  const begun = { id: 'resp_1', object: 'response', status: 'queued', background: true, output: [], usage: null }
  upstream.json(begun)
  const began = performance.now()
  const body = { model: 'm', input: 'word '.repeat(600), background: true, max_output_tokens: 4000 }
  t.equal((await running.ask({ path: '/v1/responses', body })).status, 200)
  t.equal(await left(running, 'concurrency'), 1)
  const rest = tpm - (await left(running, 'tpm'))
  t.ok(rest > 1000 - (performance.now() - began), `${rest} are taken`)
})

t.test('what the gateway makes in the background itself has its slot to the end', async (t) => {
  const { upstream, running } = await limited(t, {
    channels: { up: { endpoints: ['chat'] } },
    models: { m: { state: 'gateway' } },
    state: { key: 'a secret of the operator that nobody else knows' }
  })
  let go!: () => void
  const gate = new Promise<void>((resolve) => (go = resolve))
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([chunkOf('Hel')]),
    until(gate),
    events(streamed.slice(1)),
    chunk('data: [DONE]\n\n'),
    endOfBody()
  )
  const reply = await running.ask({ path: '/v1/responses', body: { model: 'm', input: 'Hi', background: true } })
  t.equal(reply.status, 200)
  await upstream.request()
  t.equal(await left(running, 'concurrency'), 0)
  go()
  await eventually(async () => (await left(running, 'concurrency')) === 1, 10_000)
})

t.test('slots and tokens of a channel go on in the next process', async (t) => {
  const vendor = await Upstream.start(t)
  let go!: () => void
  const gate = new Promise<void>((resolve) => (go = resolve))
  vendor.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([chunkOf('Hel')]),
    until(gate),
    events(streamed.slice(1)),
    chunk('data: [DONE]\n\n'),
    endOfBody()
  )
  vendor.always(head(200, { 'content-type': 'application/json' }), chunk(JSON.stringify(answer)), endOfBody())
  const running = await spawnGateway(t, {
    channels: { up: channelOf(vendor, { limits: { tpm, concurrency: 1 } }) },
    models: { m: { price: { input: 1, output: 2 } } },
    chain: chainWith({ wait: '60s' })
  })
  const client = await running.openChat({ ...asked, stream: true })
  await client.body('Hel')
  const upgraded = await ask(t, running.adminUrl, { method: 'POST', path: '/admin/v1/upgrade' })
  t.match(upgraded.json(), { ok: true, generation: 2 })
  t.equal(await left(running, 'concurrency'), 0, 'the one of the process before')
  const began = performance.now()
  const waiting = chat(running, { messages: [{ role: 'user', content: 'Hi' }] })
  await sleep(300)
  t.equal(vendor.requests.length, 1)
  go()
  t.match((await client.reply()).text, /\[DONE\]/)
  client.socket.end()
  t.equal((await waiting).status, 200)
  t.equal(vendor.requests.length, 2)
  const rest = tpm - (await left(running, 'tpm'))
  t.ok(rest > used - (performance.now() - began), `${rest} are taken`)
})

t.test('an upstream that tells of nothing left for a day is asked again long before', (t) => {
  const told = new Told()
  const [limit] = toldLimits({
    'x-ratelimit-limit-requests': '14400',
    'x-ratelimit-remaining-requests': '0',
    'x-ratelimit-reset-requests': '24h0m0s'
  })
  told.learn('m', [limit!], 1000)
  t.ok(told.spentUntil('m', 1000) > 60_000)
  t.equal(told.spentUntil('m', 1000 + 300_000), 0, 'after five minutes one more request may tell anew')
  t.match(told.report(1000 + 300_000), [{ left: 0 }], 'what was told is still shown')
  t.end()
})
