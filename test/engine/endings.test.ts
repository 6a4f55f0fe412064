// Every exchange ends once: one record with the right outcome, nothing held, nothing open, whoever cut it and where.
// Runs alone: it listens to promises that nobody handles, wherever in the process.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import type { RequestRecord } from '../../core/store/requests.ts'
import { definePlugin } from '../../core/contract/contract.ts'
import { plugins } from '../../plugins/index.ts'
import { ask, connect } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually, stopwatch } from '../kit/probe.ts'
import { checkChatStream } from '../kit/sse.ts'
import { bytes, endOfBody, eventBytes, events, head, pause, stall, until, Upstream } from '../kit/upstream.ts'
import { chatAnswer, chatEvents } from '../kit/workbench.ts'

const path = '/v1/chat/completions'
const headers = { authorization: `Bearer ${testKey}` }
const request = { path, headers, body: { model: testModel, messages: [{ role: 'user', content: 'Hi' }], stream: true } }

const rejections: unknown[] = []
process.on('unhandledRejection', (reason) => rejections.push(reason))

/** Waits until nothing is running or held, and checks it. */
async function settled(t: Test, { admin, adminUrl }: LocalGateway, upstream: Upstream): Promise<void> {
  const figure = async (name: string): Promise<number> => {
    const text = await (await fetch(`${adminUrl}/metrics`)).text()
    return [...text.matchAll(new RegExp(`^sluice_${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))].reduce(
      (sum, [, value]) => sum + Number(value),
      0
    )
  }
  await eventually(async () => (await figure('exchanges_running')) === 0)
  const { data } = await admin('/admin/v1/balances')
  for (const { scope, pending_nano: pending } of data) t.equal(pending, '0', `nothing is held for ${scope}`)
  t.strictSame(rejections, [], 'no rejection went unhandled')
  await eventually(() => upstream.open <= 256)
}

/** All records, from the request log. */
async function records({ admin }: LocalGateway): Promise<Map<string, RequestRecord>> {
  const found = new Map<string, RequestRecord>()
  let cursor: string | null = null
  do {
    const page: { data: RequestRecord[]; next: string | null } = await admin(
      `/admin/v1/requests?limit=100${cursor ? `&cursor=${cursor}` : ''}`
    )
    for (const record of page.data) {
      if (found.has(record.request_id)) throw new Error(`two records of ${record.request_id}`)
      found.set(record.request_id, record)
    }
    cursor = page.next
  } while (cursor)
  return found
}

t.test('200 streams at once, each cut by the upstream or the client at a random byte, or by nobody', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(
    t,
    { keys: [{ name: 'test', key: testKey, tenant: 'acme', limits: { concurrency: 200 } }] },
    { upstreams: { up: upstream } }
  )
  let seed = 20261121
  const random = (below: number): number => (seed = (seed * 1103515245 + 12345) >>> 0) % below
  const list = chatEvents(20)
  const wire = Buffer.concat([...list.map(eventBytes), Buffer.from('data: [DONE]\n\n')])
  const done = wire.indexOf('data: [DONE]')
  const finish = wire.indexOf('"finish_reason":"stop"')
  const kinds = Array.from({ length: 200 }, (_, i) => (['whole', 'upstream', 'client'] as const)[i % 3]!)
  let served = 0
  const cuts: number[] = []
  upstream.always(async (stage) => {
    // Which request this is does not matter: every third one is cut here, and the clients know theirs by what they saw.
    const mine = served++
    // Few places lie behind the end of the answer and before the stream's, so that some cuts are put there.
    const late = finish + 1 + random(done - finish - 1)
    const cut = mine % 20 === 0 ? late : mine % 2 === 0 ? random(wire.length) : wire.length
    cuts.push(cut)
    await stage.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n')
    for (let at = 0; at < cut;) {
      const to = Math.min(cut, at + 1 + random(400))
      await stage.write(
        Buffer.concat([Buffer.from(`${(to - at).toString(16)}\r\n`), wire.subarray(at, to), Buffer.from('\r\n')])
      )
      at = to
    }
    if (cut < wire.length) stage.socket.resetAndDestroy()
    else await stage.write('0\r\n\r\n')
  })
  const outcomes = await Promise.all(
    kinds.map(async (kind) => {
      const client = await connect(t, running.url)
      client.send(request)
      if (kind === 'client') client.leaveAt(random(4000), random(2) ? 'fin' : 'reset')
      const reply = await client.reply()
      client.close()
      return { kind, id: reply.headers?.['x-request-id'], reply }
    })
  )
  await settled(t, running, upstream)
  const all = await records(running)
  t.equal(all.size, 200, 'one record each')
  let complete = 0
  for (const { kind, id, reply } of outcomes) {
    const record = id === undefined ? undefined : all.get(id)
    if (id !== undefined && !record) t.fail(`no record of ${id}`)
    if (kind === 'client' || !record) continue
    if (reply.status !== 200) t.match(record, { outcome: 'failed', status: reply.status })
    else if (record.outcome === 'completed') {
      complete++
      t.match(checkChatStream(reply.body), { choices: [{ finish: 'stop' }] }, 'a completed answer is whole')
      // Cut behind its finish reason it is whole, and its usage may be missing.
      t.match(record, { usage_source: /^(upstream|estimated)$/, error_code: null })
    } else {
      t.equal(record.outcome, 'failed')
      t.ok(checkChatStream(reply.body, { error: true }).error, 'a cut answer ends in an error event and not in [DONE]')
    }
  }
  t.ok(complete > 20 && complete < 200, `${complete} completed`)
  t.ok(cuts.some((cut) => cut > finish && cut < done))
  const kindsSeen = new Set([...all.values()].map(({ outcome }) => outcome))
  t.strictSame([...kindsSeen].sort(), ['aborted', 'completed', 'failed'])
})

t.test('a client that leaves is noticed upstream, wherever the exchange stands', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, {}, { upstreams: { up: upstream } })
  for (const [name, body, script] of [
    ['before the head, streaming', request.body, [stall()]],
    ['before the head, not streaming', { ...request.body, stream: false }, [stall()]],
    ['before the first event', request.body, [head(200, { 'content-type': 'text/event-stream' }), stall()]],
    [
      'in the middle of a JSON body',
      { ...request.body, stream: false },
      [head(200, { 'content-type': 'application/json' }), bytes('5\r\n{"id"\r\n'), stall()]
    ]
  ] as const) {
    upstream.script(...script)
    const client = await connect(t, running.url)
    client.send({ ...request, body })
    const seen = await upstream.request(upstream.requests.length)
    await new Promise((resolve) => setTimeout(resolve, 50))
    const left = stopwatch()
    client.reset()
    await seen.connection.closed
    t.ok(left.ms < 5000, `${name}: ${Math.round(left.ms)} ms`)
  }
  await settled(t, running, upstream)
  for (const record of (await records(running)).values())
    t.match(record, { outcome: 'aborted', status: 499, cost_nano: '0' })
})

t.test('a client that leaves in mid-stream: the upstream is read on for its usage, within bounds', async (t) => {
  const upstream = await Upstream.start(t)
  const list = chatEvents(5, 7)
  const running = await gateway(
    t,
    { limits: { disconnect_drain: { time: '300ms', bytes: '64KiB', concurrent: 1 } } },
    { upstreams: { up: upstream } }
  )
  const start = [
    head(200, { 'content-type': 'text/event-stream' }),
    ...list.slice(0, 3).map((event) => bytes(chunked(event)))
  ]
  const rest = [
    ...list.slice(3).map((event) => bytes(chunked(event))),
    bytes(chunked('data: [DONE]\n\n')),
    bytes('0\r\n\r\n')
  ]

  upstream.script(...start, pause(100), ...rest)
  const quick = await connect(t, running.url)
  quick.send(request)
  await quick.body('word1')
  const id = (await quick.head()).headers['x-request-id']!
  quick.close()
  t.match(await running.record({ headers: { 'x-request-id': id } }), {
    outcome: 'aborted',
    status: 200,
    usage: { input: 7, output: 5 },
    usage_source: 'upstream'
  })

  upstream.script(...start, stall())
  const slow = await connect(t, running.url)
  slow.send(request)
  await slow.body('word1')
  const left = stopwatch()
  slow.reset()
  await upstream.requests.at(-1)!.connection.closed
  t.ok(left.ms < 5000, 'after the bound the upstream is let go')
  const slowId = (await slow.head()).headers['x-request-id']!
  const record = await running.record({ headers: { 'x-request-id': slowId } })
  t.match(record, { outcome: 'aborted', usage_source: 'partial' })
  t.not(record.cost_nano, '0', 'what was delivered is charged')
  await settled(t, running, upstream)
})

t.test('with on_disconnect: abort the upstream hears of it at once', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, { limits: { on_disconnect: 'abort' } }, { upstreams: { up: upstream } })
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    ...chatEvents(5)
      .slice(0, 3)
      .map((event) => bytes(chunked(event))),
    stall()
  )
  const client = await connect(t, running.url)
  client.send(request)
  await client.body('word1')
  const left = stopwatch()
  client.close()
  await upstream.requests[0]!.connection.closed
  t.ok(left.ms < 2000)
  await settled(t, running, upstream)
})

t.test('a client gone while its body is on the way is no exchange with an upstream', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, {}, { upstreams: { up: upstream } })
  const client = await connect(t, running.url)
  client.write(
    `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${testKey}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"model"`
  )
  await eventually(async () =>
    (await (await fetch(`${running.adminUrl}/metrics`)).text()).includes('sluice_exchanges_running 1')
  )
  client.reset()
  await settled(t, running, upstream)
  t.match([...(await records(running)).values()], [{ outcome: 'aborted', status: 499, channel: null }])
  t.equal(upstream.requests.length, 0)
})

t.test('the end marker counts, not what the connection does after it', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, {}, { upstreams: { up: upstream } })
  const list = chatEvents(2, 7)
  const without = list.slice(0, -1)
  for (const [name, steps, usageSource] of [
    ['kept open', [...list, 'data: [DONE]\n\n'].map((event) => bytes(chunked(event))).concat(stall()), 'upstream'],
    [
      'reset',
      [...list, 'data: [DONE]\n\n']
        .map((event) => bytes(chunked(event)))
        .concat(({ socket }) => void socket.resetAndDestroy()),
      'upstream'
    ],
    [
      'usage after the marker',
      [...without, 'data: [DONE]\n\n', list.at(-1)!].map((event) => bytes(chunked(event))).concat(bytes('0\r\n\r\n')),
      'upstream'
    ],
    [
      'no marker but a finish reason',
      list.map((event) => bytes(chunked(event))).concat(bytes('0\r\n\r\n')),
      'upstream'
    ],
    [
      'no usage at all',
      [...without, 'data: [DONE]\n\n'].map((event) => bytes(chunked(event))).concat(bytes('0\r\n\r\n')),
      'estimated'
    ]
  ] as const) {
    upstream.script(head(200, { 'content-type': 'text/event-stream' }), ...steps)
    const reply = await running.chat({ stream: true })
    t.match(checkChatStream(reply.body), { choices: [{ content: 'word0 word1 ', finish: 'stop' }] }, name)
    t.match(await running.record(reply), { outcome: 'completed', usage_source: usageSource }, name)
  }
  await settled(t, running, upstream)
})

t.test('a keep-alive connection serves on after every kind of answer', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, {}, { upstreams: { up: upstream } })
  const client = await connect(t, running.url)
  upstream
    .json(chatAnswer())
    .sse(chatEvents(2))
    .json({ error: { message: 'no' } }, { status: 400 })
    .sse(chatEvents(2).slice(0, 2), { done: false })
    .json(chatAnswer())
  const bodies = [false, true, false, true, false]
  for (const [n, stream] of bodies.entries()) {
    client.send({ ...request, body: { ...request.body, stream } })
    const reply = await client.reply(n)
    t.ok(reply.complete, `answer ${n}`)
  }
  t.strictSame(client.replies.map(({ status }) => status).toSpliced(3, 1), [200, 200, 400, 200])
  t.ok(
    [200, 502].includes(client.replies[3]!.status),
    'cut before its head was sent, a stream is an error with a status'
  )
  await settled(t, running, upstream)
})

t.test('an answer that breaks while its first byte is held back is given by another channel', async (t) => {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const hold = definePlugin({
    name: 'hold',
    summary: 'Holds the first byte back until its upstream is gone.',
    options: {},
    setup: () => ({
      onRequest: (exchange) =>
        exchange.showAfter(() =>
          first
            .request()
            .then(({ connection }) => connection.closed)
            .then(() => sleep(100))
        )
    })
  })
  const chain = [
    { auth: {} },
    { hold: {} },
    { quota: {} },
    { route: { repeats: 0 } },
    { 'usage-meter': {} },
    { log: { sink: 'none' } }
  ]
  const running = await gateway(
    t,
    { chain },
    { upstreams: { first, second }, plugins: new Map([...plugins, ['hold', hold]]) }
  )
  const list = chatEvents(2)
  first.script(
    head(200, { 'content-type': 'text/event-stream' }),
    ...list.slice(0, 2).map((event) => bytes(chunked(event))),
    pause(50),
    ({ socket }) => void socket.resetAndDestroy()
  )
  second.sse(list)
  const reply = await running.chat({ stream: true })
  t.match(checkChatStream(reply.body), { choices: [{ content: 'word0 word1 ', finish: 'stop' }] })
  t.match(await running.record(reply), { outcome: 'completed', channel: 'second', attempts: { length: 2 } })
  await settled(t, running, first)
})

function chunked(event: unknown): Buffer {
  const body = eventBytes(event)
  return Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n')])
}

t.test(
  'a header of a plugin that cannot be sent is a fault of the gateway: the answer says so, and nothing else comes to harm',
  async (t) => {
    const upstream = await Upstream.start(t)
    // What a client sent, put into a header of its answer unseen; and a reply that no HTTP knows.
    const echo = definePlugin({
      name: 'echo',
      summary: 'Repeats what the client calls itself.',
      options: {},
      setup: () => ({
        onRequest(exchange) {
          const name = decodeURIComponent(String(exchange.request.headers['x-name'] ?? 'nobody'))
          if (name === 'odd') return { status: 99, body: 'odd' }
          exchange.setHeader('x-name', name)
          return undefined
        }
      })
    })
    const chain = [
      { auth: {} },
      { echo: {} },
      { quota: {} },
      { route: {} },
      { 'usage-meter': {} },
      { log: { sink: 'none' } }
    ]
    const running = await gateway(
      t,
      { chain },
      { upstreams: { upstream }, plugins: new Map([...plugins, ['echo', echo]]) }
    )
    const body = { model: testModel, messages: [{ role: 'user', content: 'Hi' }] }
    const named = (name: string) => ask(t, running.url, { path, headers: { ...headers, 'x-name': name }, body })
    for (const name of ['a%0d%0ax-admin%3a%20yes', 'n%00', '%E2%9C%93', 'odd']) {
      const reply = await named(name)
      t.equal(reply.status, 500, name)
      t.match(JSON.parse(reply.text), { error: { code: 'internal_error' } }, name)
      t.notOk('x-admin' in reply.headers || 'x-name' in reply.headers)
    }
    t.equal(upstream.requests.length, 0, 'no upstream was asked')
    upstream.json(chatAnswer())
    const reply = await named('bob')
    t.match([reply.status, reply.headers['x-name']], [200, 'bob'])
    await settled(t, running, upstream)
    t.strictSame(rejections, [])
  }
)

t.test('what comes behind an answer while the gateway stops is answered, as the last of its connection', async (t) => {
  const upstream = await Upstream.start(t)
  const { openChat, gateway: running } = await gateway(t, {}, { upstreams: { up: upstream } })
  let goOn!: () => void
  const signal = new Promise<void>((resolve) => (goOn = resolve))
  const [opening, word, ...rest] = chatEvents(3)
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([opening, word]),
    until(signal),
    events([...rest, 'data: [DONE]\n\n']),
    endOfBody()
  )
  const whole = JSON.stringify(chatAnswer())
  const length = String(whole.length)
  upstream.script(head(200, { 'content-type': 'application/json', 'content-length': length }), bytes(whole))
  const client = await openChat({ stream: true })
  await client.body('word0')
  client.send({
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${testKey}` },
    body: { model: testModel, messages: [{ role: 'user', content: 'Hi' }] }
  })
  const closed = running.close({ drain: true })
  goOn()
  checkChatStream((await client.reply()).body)
  const behind = await client.reply(1)
  t.match([behind.status, behind.headers['connection']], [200, 'close'])
  t.same(await closed, { cut: 0 })
})
