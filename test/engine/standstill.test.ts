// The event loop stands still for longer than a limit, as in a plugin that computes: nobody is ended for that.
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { connect } from '../kit/client.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

t.setTimeout(120_000)

/** All limits here are a second, or two. */
const longer = 4000

/** Keeps this thread from everything, the gateway and its upstream too. */
function standStill(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, longer)
}

const event = (delta: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n'
const opening = event({ role: 'assistant', content: 'One' })
const more = event({ content: ' two' })
const end = `${event({}, 'stop')}data: [DONE]\n\n`

/** A gateway, and the connections of its upstream once a request has come on them: what is written to one is sent. */
async function before(t: Test, timeouts: object): Promise<{ local: LocalGateway; asked: () => Promise<Socket> }> {
  const come: Socket[] = []
  const waiting: ((socket: Socket) => void)[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => (waiting.length > 0 ? waiting.shift()!(socket) : come.push(socket)))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const channel = {
    protocol: 'openai',
    base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    private: true,
    endpoints: ['chat'],
    models: { demo: 'demo' },
    timeouts
  }
  const local = await gateway(t, { channels: { demo: channel }, limits: { client_body: '1s', client_stall: '1s' } })
  return {
    local,
    asked: () => new Promise((resolve) => (come.length > 0 ? resolve(come.shift()!) : waiting.push(resolve)))
  }
}

t.test('an upstream whose next event waits in the socket is not silent', async (t) => {
  const { local, asked } = await before(t, { idle: '1s' })
  const client = await local.openChat({ model: 'demo', stream: true })
  const upstream = await asked()
  upstream.write(head + opening)
  await client.body('One')
  upstream.write(more)
  standStill()
  upstream.end(end)
  const reply = await client.reply()
  t.match(reply.text, / two.*\[DONE\]/s)
  t.match(await local.record(reply), { outcome: 'completed' })
})

t.test('an upstream is given the time in which nobody could hear it', async (t) => {
  const { local, asked } = await before(t, { idle: '2s', total: '3s' })
  const client = await local.openChat({ model: 'demo', stream: true })
  const upstream = await asked()
  upstream.write(head + opening)
  await client.body('One')
  standStill()
  // Three looks at time limits come before it.
  await new Promise((resolve) => setTimeout(resolve, 200))
  upstream.end(more + end)
  t.match((await client.reply()).text, / two.*\[DONE\]/s)
})

t.test('the beginning of an answer may wait in the socket', async (t) => {
  const { local, asked } = await before(t, { first_byte: '1s' })
  const reply = local.chat({ model: 'demo', stream: true })
  const upstream = await asked()
  upstream.write(head + opening)
  standStill()
  upstream.end(more + end)
  t.match((await reply).text, / two.*\[DONE\]/s)
})

t.test('the rest of a request may wait in the socket', async (t) => {
  const { local, asked } = await before(t, {})
  const client = await connect(t, local.url)
  const body = JSON.stringify({ model: 'demo', stream: true, messages: [{ role: 'user', content: 'Hi' }] })
  client.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${testKey}\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, 20)}`
  )
  await eventually(async () => (await local.admin('/admin/v1/requests/under-way')).data.length === 1)
  client.write(body.slice(20))
  standStill()
  void asked().then((upstream) => upstream.end(head + opening + end))
  t.match((await client.reply()).text, /One.*\[DONE\]/s)
})

t.test('a client that has read what there was is not stalled', async (t) => {
  const { local, asked } = await before(t, {})
  const client = await local.openChat({ model: 'demo', stream: true })
  const upstream = await asked()
  upstream.write(head + opening)
  await client.body('One')
  client.stopReading()
  const large = event({ content: 'x'.repeat(100_000) })
  let full = false
  upstream.once('drain', () => (full = false))
  for (let sent = 0; sent < 400; sent++) full = !upstream.write(large) || full
  await new Promise((resolve) => setTimeout(resolve, 300))
  t.ok(full, 'the client holds all of them up')
  client.resume()
  standStill()
  upstream.end(end)
  t.match((await client.reply()).text.slice(-100), /\[DONE\]/)
})

t.test('who is silent after that is ended all the same', async (t) => {
  const { local, asked } = await before(t, { idle: '1s' })
  const client = await local.openChat({ model: 'demo', stream: true })
  const upstream = await asked()
  upstream.write(head + opening)
  await client.body('One')
  standStill()
  t.match((await client.reply()).text, /upstream_timeout_idle/)
})
