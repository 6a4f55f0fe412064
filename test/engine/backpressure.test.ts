// A client that does not read holds little in the gateway, slows nobody, and is ended when its time is up.
// Runs alone: it measures the memory of its process.
import t from 'tap'
import { connect } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import { eventually, heldBytes, stopwatch } from '../kit/probe.ts'
import { checkChatStream } from '../kit/sse.ts'
import { endOfBody, events, head, pause, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { chatEvents } from '../kit/workbench.ts'

const MiB = 1024 * 1024
const answer = 64 * MiB

/** Sends 64 MB of content events, as fast as they are taken. */
const flood: Step = async (stage) => {
  const [, event] = chatEvents(1)
  const text = JSON.stringify({
    ...event,
    choices: [{ index: 0, delta: { content: 'x'.repeat(16_000) }, finish_reason: null }]
  })
  const piece = Buffer.from(`data: ${text}\n\n`)
  const framed = Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')])
  for (let sent = 0; sent < answer; sent += piece.length) await stage.write(framed)
}

t.test('64 MB for a client that stops reading', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, { limits: { client_stall: '2s' } }, { upstreams: { up: upstream } })
  const request = (stream: boolean) => ({
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${testKey}` },
    body: { model: testModel, messages: [], stream }
  })
  // Warm up, so that what a first stream costs for good is not counted.
  for (let n = 0; n < 20; n++) {
    upstream.sse(chatEvents(50))
    await running.chat({ stream: true })
  }
  const before = heldBytes()
  for (let n = 0; n < 16; n++) {
    upstream.script(head(200, { 'content-type': 'text/event-stream' }), flood)
    // It reads nothing at all, so that all that this process holds is held by the gateway.
    const client = await connect(t, running.url)
    client.send(request(true)).stopReading()
  }
  const stalled = performance.now()
  const watch = stopwatch()
  const written = (): number => upstream.connections.reduce((sum, connection) => sum + connection.written, 0)
  for (let last = -1; last !== written();) {
    last = written()
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  const growth = (heldBytes() - before) / 16
  t.ok(growth < MiB, `${Math.round(growth / 1024)} KiB held for each`)
  t.ok(
    upstream.connections.every((connection) => connection.written < answer / 2),
    'the upstream is held back'
  )

  const steps = Array.from({ length: 30 }, (_, n) => [events([chatEvents(30)[n + 1]]), pause(20)]).flat()
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([chatEvents(1)[0]]),
    ...steps,
    events([...chatEvents(1).slice(-2), 'data: [DONE]\n\n']),
    endOfBody()
  )
  const neighbour = await connect(t, running.url)
  neighbour.send(request(true))
  const { body } = await neighbour.reply()
  t.ok(checkChatStream(body).choices[0]!.content.includes('word29'), 'a neighbour streams on')
  t.ok(neighbour.reads.length > 15, `its events come one by one, in ${neighbour.reads.length} reads`)

  await eventually(() => upstream.requests.slice(20, 36).every((request) => request.connection.end), 10_000)
  const took = performance.now() - stalled
  t.ok(took > 1500 && watch.ms < 6000, `ended after ${Math.round(took)} ms`)
  const { data } = await running.admin('/admin/v1/requests?limit=100')
  const ended = data.filter((record: { error_code: string }) => record.error_code === 'client_stalled')
  t.equal(ended.length, 16)
  t.match(ended[0], { outcome: 'aborted', usage_source: 'partial' })
})

t.test('a slow reader gets every byte', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, {}, { upstreams: { up: upstream } })
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    flood,
    events([...chatEvents(1).slice(-2), 'data: [DONE]\n\n']),
    ({ write }) => write('0\r\n\r\n')
  )
  const client = await connect(t, running.url)
  client.send({
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${testKey}` },
    body: { model: testModel, messages: [], stream: true }
  })
  for (let n = 0; n < 5; n++) {
    await client.body(1000 + n * MiB)
    client.stopReading()
    await new Promise((resolve) => setTimeout(resolve, 100))
    client.resume()
  }
  const reply = await client.reply()
  t.ok(reply.complete)
  t.ok(reply.body.length > answer)
  t.equal(reply.body.subarray(-14).toString(), 'data: [DONE]\n\n')
})

t.test('clients that read too slowly for the whole time of an answer take no channel out', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(
    t,
    {
      // Long enough for a busy machine to fill what lies between the upstream and clients that do not read.
      channels: { up: { timeouts: { total: '10s' } } },
      chain: [
        { auth: {} },
        { quota: {} },
        { route: { eject_after: 2 } },
        { 'usage-meter': {} },
        { log: { sink: 'none' } }
      ]
    },
    { upstreams: { up: upstream } }
  )
  for (let n = 0; n < 3; n++) {
    upstream.script(head(200, { 'content-type': 'text/event-stream' }), flood)
    const client = await connect(t, running.url)
    client.send({
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${testKey}` },
      body: { model: testModel, messages: [], stream: true }
    })
    await client.head()
    client.stopReading()
  }
  await eventually(async () => (await running.admin('/admin/v1/requests?limit=100')).data.length === 3, 30_000)
  const { data } = await running.admin('/admin/v1/requests?limit=100')
  t.same(
    data.map((record: { error_code: string; outcome: string }) => [record.error_code, record.outcome]),
    Array.from({ length: 3 }, () => ['client_stalled', 'aborted'])
  )
  const channels = await running.admin('/admin/v1/channels')
  t.match(channels.data[0].health, { state: 'healthy', failures: 0 })
})
