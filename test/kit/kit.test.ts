// Tests of the kit itself: its upstream plays scripts, its client sees the answers, and its checker refuses what SDKs
// refuse.
// Runs alone: it measures the memory of its process.
import { existsSync } from 'node:fs'
import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { ask, connect } from './client.ts'
import { gateway } from './gateway.ts'
import { Http2Pool, readHttp2 } from './http2.ts'
import { eventually, residentBytes } from './probe.ts'
import { checkChatStream, readEvents } from './sse.ts'
import {
  Upstream,
  bytes,
  chunk,
  endOfBody,
  events,
  fin,
  halfClose,
  head,
  pause,
  readBody,
  reset,
  stall,
  stopReading,
  until
} from './upstream.ts'
import type { Cut } from './upstream.ts'

const post = { path: '/v1/x', body: { hello: 'wörld' } }

t.test('scripts are played in order and requests are kept as they came', async (t) => {
  const upstream = await Upstream.start(t)
  upstream
    .json({ a: 1 })
    .json('not json', { status: 503, headers: { 'retry-after': '1' } })
    .always(head(200, { 'content-length': '2' }), bytes('{}'))
  const client = await connect(t, upstream.url)
  t.match(await client.send({ ...post, headers: { 'x-one': '1' } }).reply(0), {
    status: 200,
    text: '{"a":1}',
    complete: true
  })
  t.match(await client.send(post).reply(1), { status: 503, text: 'not json', headers: { 'retry-after': '1' } })
  t.match(await client.send(post).reply(2), { text: '{}' })
  const first = await upstream.request(0)
  t.match(first, { method: 'POST', target: '/v1/x', headers: { 'x-one': '1' }, complete: true })
  t.same(first.json(), post.body)
  t.match(first.head.raw, /^POST \/v1\/x HTTP\/1\.1\r\nhost: 127/)
  t.equal(upstream.connections.length, 1)
  t.equal(upstream.open, 1)
  client.write(
    `POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\ntrailer: 1\r\n\r\n`
  )
  t.equal((await upstream.request(3)).body.toString(), 'abcde')
  client.close()
  t.match(await upstream.connections[0]!.closed, { by: 'peer' })
})

t.test('a stream arrives in the pieces it was cut into', async (t) => {
  const upstream = await Upstream.start(t)
  const count = async (cut: Cut): Promise<number> => {
    upstream.sse([{ a: 'é' }, ': comment\n\n', { b: '漢' }], { cut })
    const client = await connect(t, upstream.url)
    const reply = await client.send(post).reply()
    t.same(
      readEvents(reply.body).map(({ data }) => data),
      ['{"a":"é"}', '{"b":"漢"}', '[DONE]']
    )
    return client.reads.length
  }
  t.ok((await count('one')) <= 3)
  const perEvent = await count('event')
  t.ok(perEvent >= 4 && perEvent <= 6, `${perEvent} reads`)
  t.ok((await count('byte')) > 60)
})

t.test('connections end in the way a script says', async (t) => {
  const upstream = await Upstream.start(t)
  const seen = async (): Promise<{ end: string; complete: boolean | undefined; received: number }> => {
    const client = await connect(t, upstream.url)
    const reply = await client
      .send(post)
      .reply()
      .catch(() => undefined)
    const end = await client.closed
    return { end, complete: reply?.complete, received: client.received }
  }
  upstream.script(reset())
  t.match(await seen(), { end: 'reset', received: 0 })
  upstream.script(head(200), chunk('abc'), reset())
  t.match(await seen(), { end: 'reset', complete: false })
  upstream.script(head(200), chunk('abc'), fin())
  t.match(await seen(), { end: 'fin', complete: false })
  upstream.script(head(200, { connection: 'close' }), bytes('abc'), halfClose())
  t.match(await seen(), { end: 'fin', complete: true })
  await eventually(() => upstream.open === 0)
  t.match(
    upstream.connections.map(({ end }) => end?.by),
    ['upstream', 'upstream', 'upstream', 'upstream']
  )
})

t.test('a script waits for signals, and for the part of a body that it wants', async (t) => {
  const upstream = await Upstream.start(t)
  let open!: () => void
  const signal = new Promise<void>((resolve) => (open = resolve))
  upstream.script(head(200), chunk('one'), until(signal), pause(20), chunk('two'), endOfBody())
  const client = await connect(t, upstream.url)
  client.send(post)
  await client.body('one')
  t.equal(client.replies.length, 0)
  open()
  t.equal((await client.reply()).text, 'onetwo')

  upstream.scriptFromHead(readBody(1000), reset())
  const other = await connect(t, upstream.url)
  other.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n\r\n${'x'.repeat(999)}`)
  await sleep(30)
  t.equal(other.end, undefined)
  other.write('x')
  t.equal(await other.closed, 'reset')
  const partial = await upstream.request(1)
  t.equal(partial.complete, false)
  t.equal(partial.body.length, 1000)
})

t.test('neither side takes more than the other reads', async (t) => {
  const upstream = await Upstream.start(t)
  const before = residentBytes()
  upstream.script(
    head(200),
    events(
      (function* () {
        for (let i = 0; i < 4000; i++) yield Buffer.alloc(65536, 0x20)
      })(),
      'event'
    ),
    endOfBody()
  )
  const client = await connect(t, upstream.url)
  client.send(post)
  await client.head()
  client.stopReading()
  let [written, looks] = [0, 0]
  await eventually(() => {
    const now = upstream.connections[0]!.written
    looks = now === written ? looks + 1 : 0
    written = now
    return looks === 20
  }, 10_000)
  t.ok(written < 32 * 1024 * 1024, 'the upstream stands still')
  t.ok(residentBytes() - before < 32 * 1024 * 1024)
  client.leaveAt(20_000_000).resume()
  t.equal(await client.closed, 'left')
  t.match(await upstream.connections[0]!.closed, { by: 'peer' })

  upstream.scriptFromHead(stopReading(), stall())
  const sender = await connect(t, upstream.url)
  sender.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000000\r\n\r\n`)
  while (sender.socket.write(Buffer.alloc(1_000_000)) || sender.socket.writableLength < 10_000_000);
  await sleep(50)
  t.ok(sender.socket.writableLength > 1_000_000, 'the upstream does not read')
  sender.reset()
})

t.test('a connection that ends early is an error with what was seen', async (t) => {
  const upstream = await Upstream.start(t)
  upstream.script(head(200), chunk('half'), fin())
  const client = await connect(t, upstream.url)
  client.send(post)
  await t.rejects(client.reply(1), /the connection ended \(fin\) after \d+ bytes: .*half/)
  t.match(await ask(t, upstream.url, post), { status: 500, text: /no script left/ })
})

const at = (delta: unknown, finish: string | null = null, index = 0): unknown => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index, delta, finish_reason: finish }]
})
const use = {
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [],
  usage: { total_tokens: 1 }
}
const text = (list: unknown[], done = 'data: [DONE]\n\n'): string =>
  list.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('') + done
const open = at({ role: 'assistant', content: '' })
const close = at({}, 'stop')

t.test('the checker puts a stream together', async (t) => {
  const call = (index: number, more: object): unknown => at({ tool_calls: [{ index, ...more }] })
  const list = [
    open,
    at({ content: 'Hi' }),
    at({ reasoning_content: 'Hm' }),
    call(0, { id: 'a', type: 'function', function: { name: 'f', arguments: '' } }),
    call(0, { function: { arguments: '{}' } }),
    close,
    use
  ]
  t.match(checkChatStream(text(list), { usage: true }), {
    id: 'c',
    usage: { total_tokens: 1 },
    choices: [
      {
        role: 'assistant',
        content: 'Hi',
        reasoning: 'Hm',
        toolCalls: [{ id: 'a', name: 'f', arguments: '{}' }],
        finish: 'stop'
      }
    ]
  })
  const error = { error: { message: 'm', type: 't', code: 'c' } }
  t.match(checkChatStream(text([open, error], ''), { error: true }), error)
})

t.test('the checker refuses what SDKs trip over', async (t) => {
  const refusals: [what: string, stream: string, expectation?: Parameters<typeof checkChatStream>[1]][] = [
    ['nothing', ''],
    ['no end marker', text([open, close], '')],
    ['two end markers', text([open, close]) + 'data: [DONE]\n\n'],
    ['no role', text([at({ content: 'Hi' }), close])],
    ['no finish', text([open])],
    ['two finishes', text([open, close, close])],
    ['a second id', text([open, { ...(close as object), id: 'd' }])],
    ['no choices', text([open, { ...use, choices: undefined }, close])],
    ['a choice too many', text([open, at({ role: 'assistant' }, 'stop', 1), close])],
    ['a choice missing', text([open, close]), { n: 2 }],
    ['usage that was not asked for', text([open, close, use])],
    ['usage as null that was not asked for', text([{ ...(open as object), usage: null }, close])],
    ['usage missing', text([open, close]), { usage: true }],
    ['usage before the finish', text([open, use, close]), { usage: true }],
    ['usage twice', text([open, close, use, use]), { usage: true }],
    [
      'a tool call without a name',
      text([open, at({ tool_calls: [{ index: 0, id: 'a', type: 'function', function: { arguments: '' } }] }), close])
    ],
    [
      'a gap between tool calls',
      text([open, at({ tool_calls: [{ index: 1, id: 'a', type: 'function', function: { name: 'f' } }] }), close])
    ],
    ['an error that is not last', text([open, { error: { message: 'm', type: 't', code: 'c' } }, close])],
    ['an error with null in it', text([open, { error: { message: 'm', type: 't', code: null } }], ''), { error: true }],
    ['an error and an end marker', text([open, { error: { message: 'm', type: 't', code: 'c' } }]), { error: true }],
    ['a named event', text([open]).replace('data', 'event: x\ndata') + text([close])],
    ['a replacement character', text([open, at({ content: '\uFFFD' }), close])]
  ]
  for (const [what, stream, expectation] of refusals) t.throws(() => checkChatStream(stream, expectation), what)
})

t.test('the folder of a gateway is there until the gateway is closed', async (t) => {
  let there = false
  await t.test('a test whose gateway is the first thing that it opens', async (t) => {
    const { file } = await gateway(t)
    t.teardown(() => (there = existsSync(file)))
    t.ok(existsSync(file))
  })
  t.ok(there)
})

t.test('a pool opens another session when the others have as many requests as their server takes', async (t) => {
  const server = createServer({ settings: { maxConcurrentStreams: 2 } })
  const held: (() => void)[] = []
  server.on('stream', (stream) => held.push(() => (stream.respond(), stream.end('done'))))
  server.listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await new Promise((listening) => server.once('listening', listening))
  const pool = new Http2Pool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const first = pool.take()
  await new Promise((known) => first.once('remoteSettings', known))
  const taken = [first, pool.take(), pool.take()]
  await new Promise((known) => taken[2]!.once('remoteSettings', known))
  taken.push(pool.take(), pool.take())
  t.same(
    taken.map((session) => taken.indexOf(session)),
    [0, 0, 2, 2, 4]
  )
  t.equal(pool.size, 3)
  const replies = taken.map((session) => readHttp2(session.request({ ':path': '/' })))
  await eventually(() => held.length === taken.length)
  for (const answer of held) answer()
  for (const { text } of await Promise.all(replies)) t.equal(text, 'done')
  pool.give(first)
  t.equal(pool.take(), first)
  for (const session of taken) pool.give(session)
  pool.close()
  await eventually(() => pool.size === 0)
})
