// The transport against upstreams on real sockets: what it sends, which connections it uses again, and how calls end.
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import type { Channel } from '../../../core/catalogue/catalogue.ts'
import type { GatewayError } from '../../../core/errors.ts'
import type { HttpTransport } from '../../../core/transport/transport.ts'
import { eventually, heldBytes } from '../../kit/probe.ts'
import {
  bytes,
  chunk,
  endOfBody,
  fin,
  halfClose,
  head,
  pause,
  reset,
  stall,
  until,
  Upstream
} from '../../kit/upstream.ts'
import type { Step } from '../../kit/upstream.ts'
import { open, own, testEach, undici } from './kinds.ts'
import type { Kind } from './kinds.ts'
import { ask, channelOf, Recorder } from './recorder.ts'

const MiB = 1024 * 1024
const hello = [head(200, { 'content-length': '5' }), bytes('hello')]

// Everything twice: on a busy machine that takes longer than a file is given.
t.setTimeout(600_000)

const both = [own, undici]

/** A transport and an upstream, both closed when the test is over. */
async function pair(
  t: Test,
  kind: Kind,
  more: Partial<Channel> = {}
): Promise<{ transport: HttpTransport; upstream: Upstream; channel: Channel }> {
  const upstream = await Upstream.start(t)
  return { transport: open(t, kind), upstream, channel: channelOf(upstream.url, { ...kind.channel, ...more }) }
}

/** Resolves when a connection that was released now may be used again. */
async function cooled(): Promise<void> {
  for (let n = 0; n < 3; n++) await turn()
}

/** A server that treats its sockets as it likes. */
async function server(t: Test, accept: (socket: Socket) => void): Promise<Server & { port: number }> {
  const sockets = new Set<Socket>()
  const listening = createServer((socket) => {
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)))
    accept(socket)
  })
  await once(listening.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    listening.close()
  })
  return Object.assign(listening, { port: (listening.address() as AddressInfo).port })
}

testEach(t, both, 'a request is one head and one body', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind, { headers: { 'x-team': 'platform' } })
  upstream.always(...hello)
  const host = upstream.url.host
  channel.baseUrl.search = '?version=1'
  const common = `host: ${host}\r\nconnection: keep-alive\r\naccept-encoding: identity\r\nuser-agent: sluice\r\nx-team: platform\r\n`
  const sent: [Parameters<typeof ask>[2], string][] = [
    [
      { headers: ['accept', 'text/x', 'x-latin', '\xe4'] },
      `POST /v1/chat?version=1 HTTP/1.1\r\n${common}accept: text/x\r\nx-latin: \xe4\r\ncontent-length: 2\r\n\r\n{}`
    ],
    [{ body: [] }, `POST /v1/chat?version=1 HTTP/1.1\r\n${common}content-length: 0\r\n\r\n`],
    [{ method: 'GET', body: [], path: '/models/a%20b' }, `GET /v1/models/a%20b?version=1 HTTP/1.1\r\n${common}\r\n`],
    [{ method: 'DELETE', body: [] }, `DELETE /v1/chat?version=1 HTTP/1.1\r\n${common}\r\n`],
    [{ method: 'GET', body: [], path: '/models?alt=sse' }, `GET /v1/models?alt=sse&version=1 HTTP/1.1\r\n${common}\r\n`]
  ]
  for (const [request, wire] of sent) {
    await ask(transport, channel, request).over
    const { connection } = upstream.requests.at(-1)!
    t.equal(Buffer.concat(connection.reads.splice(0).map((read) => read.bytes)).toString('latin1'), wire)
  }
  for (const size of [1, 16 * 1024, 16 * 1024 + 1, 3 * MiB]) {
    const body = Buffer.alloc(size, 'abcdefg')
    t.equal((await ask(transport, channel, { body: [body.subarray(0, 9), body.subarray(9)] }).over).body, 'hello')
    t.ok(upstream.requests.at(-1)!.body.equals(body), `${size} bytes`)
  }
})

testEach(t, both, 'what would be read as something else is not sent', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  const requests: Parameters<typeof ask>[2][] = [
    ...['/a b', '/a\r\nx: y', '/a\nb', '/\xe4', '/a#b', '/a\0', '/a\x7f'].map((path) => ({ path })),
    ...['a\r\nx: y', 'a\n', '\0', 'a\rb', '\u0100', '\x7f'].map((value) => ({ headers: ['x-a', value] })),
    ...['', 'a b', 'a:', 'a\r\nb', '\xe4', 'host', 'Content-Length', 'transfer-encoding', 'connection'].map((name) => ({
      headers: [name, '5']
    }))
  ]
  for (const request of requests) {
    t.throws(
      () => ask(transport, channel, request),
      { code: 'upstream_connection_failed', retryable: true },
      JSON.stringify(request)
    )
  }
  for (const headers of [{ authorization: 'a\r\nb: c' }, { 'x-a': 'b\nc' }]) {
    t.throws(() => ask(transport, channelOf(upstream.url, { headers })), {
      code: 'upstream_connection_failed',
      message: /^(?!.*b:? c)/
    })
  }
  t.equal(upstream.connections.length, 0)
})

testEach(t, both, 'an answer comes as head, body and end, however it is cut', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  upstream.script(
    bytes(
      'HTTP/1.1 103 Hints\r\nlink: a\r\n\r\nHTTP/1.1 201 Made\r\nSet-Cookie: a\r\nset-cookie: b\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n3\r\ndef\r\n0\r\nt: r\r\n\r\n'
    )
  )
  const one = await ask(transport, channel).over
  await cooled()
  t.match(one, { status: 201, headers: { 'set-cookie': ['a', 'b'] }, body: 'abcdef' })
  if (kind === own) t.strictSame(one.heard, ['head', 'data', 'end'], 'chunks of one read are one piece')
  else t.strictSame(one.heard, ['head', 'data', 'data', 'data', 'end'])
  upstream.script(
    ...Array.from('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n', bytes)
  )
  t.match(await ask(transport, channel).over, {
    status: 200,
    body: 'abcde',
    heard: ['head', 'data', 'data', 'data', 'data', 'data', 'end']
  })
  await cooled()
  upstream.script(head(204, { 'content-length': '5' }))
  t.match(await ask(transport, channel).over, { status: 204, heard: ['head', 'end'] })
  t.equal(upstream.connections.length, 1)
})

testEach(t, both, 'a connection is used again unless one side said otherwise', async (t, kind) => {
  const rows: [what: string, steps: Step[], kept: boolean][] = [
    ['a length', hello, true],
    ['chunks', [head(200), chunk('hello'), endOfBody()], true],
    [
      'HTTP/1.0 that is kept',
      [bytes('HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 5\r\n\r\nhello')],
      true
    ],
    [
      'a time to keep it',
      [head(200, { 'content-length': '5', 'keep-alive': 'timeout=30, max=100' }), bytes('hello')],
      true
    ],
    ['no time to keep it', [head(200, { 'content-length': '5', 'keep-alive': 'timeout=1' }), bytes('hello')], false],
    ['HTTP/1.0', [bytes('HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello')], false],
    ['HTTP/1.0 up to the end', [bytes('HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n\r\nhello'), fin()], false],
    ['up to the end', [bytes('HTTP/1.1 200 OK\r\n\r\nhello'), fin()], false],
    ['up to the half-closed end', [bytes('HTTP/1.1 200 OK\r\n\r\nhello'), halfClose()], false],
    ['close', [head(200, { 'content-length': '5', connection: 'Close' }), bytes('hello')], false],
    [
      'close among others',
      [bytes('HTTP/1.1 200 OK\r\nconnection: x-a, close\r\nConnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello')],
      false
    ],
    ['a byte too many', [head(200, { 'content-length': '5' }), bytes('hello!')], false],
    ['a line end too many', [head(200), bytes('5\r\nhello\r\n0\r\n\r\n\r\n')], kind !== own]
  ]
  for (const [what, steps, kept] of rows) {
    const { transport, upstream, channel } = await pair(t, kind)
    upstream.script(...steps).script(...hello)
    for (let n = 0; n < 2; n++) {
      t.match(await ask(transport, channel).over, { status: 200, body: 'hello', error: undefined }, what)
      await cooled()
    }
    t.equal(upstream.connections.length, kept ? 1 : 2, what)
    t.equal(transport.connections, kept ? 1 : transport.connections)
  }
})

testEach(
  t,
  both,
  'the connection that was used last is used first, and one that has waited too long not at all',
  async (t, kind) => {
    const { transport, upstream, channel } = await pair(t, kind)
    let go!: () => void
    const both = new Promise<void>((resolve) => (go = resolve))
    const kept = [head(200, { 'content-length': '5', 'keep-alive': 'timeout=2' }), bytes('hello')]
    upstream
      .script(until(both), ...hello)
      .script(until(both), pause(20), ...kept)
      .always(...hello)
    const [first, second] = [ask(transport, channel), ask(transport, channel)]
    await upstream.request(1)
    go()
    await Promise.all([first.over, second.over])
    const last = upstream.requests[1]!.connection
    await cooled()
    await ask(transport, channel).over
    t.equal(upstream.requests[2]!.connection, last)
    upstream.script(...kept)
    await cooled()
    await ask(transport, channel).over
    await sleep(1100)
    await ask(transport, channel).over
    t.not(upstream.requests[4]!.connection, last, 'its second is over')
    t.equal(upstream.requests[4]!.connection, upstream.requests[0]!.connection)
    t.equal((await last.closed).by, 'peer')
  }
)

testEach(t, both, 'a loop that stands still while a connection is made ends no call', async (t, kind) => {
  const timeouts = { connect: 500, firstByte: 1, idle: 1, total: 1 }
  const { transport, upstream, channel } = await pair(t, kind, { timeouts })
  upstream.always(...hello)
  const { over } = ask(transport, channel)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2000)
  t.match(await over, { status: 200, body: 'hello' })
})

testEach(t, both, 'a connection whose time is over before it could wait is closed', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  upstream.script(head(200, { 'content-length': '5', 'keep-alive': 'timeout=2' }), bytes('hello'))
  await ask(
    transport,
    channel,
    {},
    new Recorder((what) => {
      if (what !== 'end') return
      const began = performance.now()
      while (performance.now() - began < 1100);
    })
  ).over
  t.equal((await upstream.connections[0]!.closed).by, 'peer')
})

testEach(t, both, 'bytes that nobody asked for answer nothing', async (t, kind) => {
  const evil = 'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil'
  for (const [what, steps] of Object.entries<Step[]>({
    'in the same write': [bytes(`HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello${evil}`)],
    'in the next write': [
      ({ socket }) => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello')
        socket.write(evil)
      }
    ],
    'a turn later': [...hello, bytes(evil)],
    'a moment later': [...hello, pause(20), bytes(evil)]
  })) {
    const { transport, upstream, channel } = await pair(t, kind)
    upstream.script(...steps).always(...hello)
    // The next request is sent in the very moment of the end.
    const next = new Recorder()
    ask(transport, channel, {}, new Recorder((heard) => heard === 'end' && ask(transport, channel, {}, next)))
    t.match(await next.over, { body: 'hello', error: undefined }, what)
    await upstream.requests[0]!.connection.closed
    for (let n = 0; n < 5; n++) t.equal((await ask(transport, channel).over).body, 'hello', what)
    t.not(upstream.requests[1]!.connection, upstream.requests[0]!.connection, what)
  }
})

testEach(t, both, 'an upstream that closes while nobody asks costs nothing', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  for (const end of [fin(), reset()]) {
    upstream.script(...hello, pause(10), end).script(...hello)
    await ask(transport, channel).over
    await eventually(() => transport.connections === 0)
    t.equal((await ask(transport, channel).over).body, 'hello')
    await sleep(20)
  }
})

testEach(
  t,
  both,
  'a request is sent again only when its reused connection broke unheard, soon, and once',
  async (t, kind) => {
    const drop: Step = ({ socket }) => void socket.resetAndDestroy()
    const rows: [what: string, steps: Step[], sent: number, code: string | undefined][] = [
      ['reset', [drop], 2, undefined],
      ['closed', [fin()], 2, undefined],
      ['interim answer', [bytes('HTTP/1.1 103 Hints\r\n\r\n'), pause(20), drop], 1, 'upstream_connection_failed'],
      ['part of a head', [bytes('HTTP/1.1 2'), pause(20), drop], 1, 'upstream_connection_failed'],
      ['late', [pause(600), drop], 1, 'upstream_connection_failed'],
      ['no HTTP', [bytes('nonsense\r\n\r\n')], 1, 'upstream_bad_response']
    ]
    const body = Buffer.alloc(40_000, 'body')
    for (const [what, steps, sent, code] of rows) {
      const { transport, upstream, channel } = await pair(t, kind)
      upstream.script(...hello)
      await ask(transport, channel).over
      await cooled()
      upstream.script(...steps).always(...hello)
      const { error, body: answer } = await ask(transport, channel, { body: [body.subarray(0, 9), body.subarray(9)] })
        .over
      t.equal(error?.code, code, what)
      t.equal(answer, code ? '' : 'hello', what)
      t.equal(upstream.requests.length, 1 + sent, what)
      t.ok(upstream.requests.at(-1)!.body.equals(body), what)
      t.ok(upstream.requests[1]!.connection === upstream.requests[0]!.connection, 'it was reused')
    }
  }
)

testEach(t, both, 'a broken answer is an error of its kind', async (t, kind) => {
  const rows: [what: string, steps: Step[], heard: string[], code: string][] = [
    ['closed at once', [fin()], ['error'], 'upstream_connection_failed'],
    ['reset at once', [reset()], ['error'], 'upstream_connection_failed'],
    ['a head that stops', [bytes('HTTP/1.1 200 OK\r\n'), fin()], ['error'], 'upstream_connection_failed'],
    [
      'less than its length',
      [head(200, { 'content-length': '9' }), bytes('hello'), fin()],
      ['head', 'data', 'error'],
      'upstream_stream_interrupted'
    ],
    [
      'chunks without an end',
      [head(200), chunk('hello'), fin()],
      ['head', 'data', 'error'],
      'upstream_stream_interrupted'
    ],
    [
      'a reset in the body',
      [head(200), chunk('hello'), reset()],
      ['head', 'data', 'error'],
      'upstream_stream_interrupted'
    ],
    [
      'a reset before the end of the connection',
      [bytes('HTTP/1.1 200 OK\r\n\r\nhello'), reset()],
      ['head', 'data', 'error'],
      'upstream_stream_interrupted'
    ],
    ['a bad head', [bytes('HTTP/1.1 200 OK\nx: y\n\n'), stall()], ['error'], 'upstream_bad_response'],
    [
      'a bad chunk',
      [bytes('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n'), stall()],
      ['head', 'data', 'error'],
      'upstream_bad_response'
    ]
  ]
  for (const [what, steps, heard, code] of rows) {
    const { transport, upstream, channel } = await pair(t, kind)
    upstream.script(...steps)
    const call = await ask(transport, channel).over
    t.strictSame(call.heard, heard, what)
    t.match(call.error, { code, source: 'upstream' }, what)
    t.notMatch(call.error!.message, /127\.0\.0\.1|secret/)
    if (heard.includes('data')) t.equal(call.body, 'hello', what)
    await eventually(() => transport.connections === 0)
  }
})

testEach(
  t,
  both,
  'an answer before the request is all sent is delivered, and its connection not used again',
  async (t, kind) => {
    const { transport, upstream, channel } = await pair(t, kind)
    const body = Buffer.alloc(16 * MiB)
    upstream
      .scriptFromHead(
        ({ socket }) => void socket.pause(),
        head(413, { 'content-length': '8' }),
        bytes('too much'),
        stall()
      )
      .script(...hello)
    t.match(await ask(transport, channel, { body: [body.subarray(0, 9), body.subarray(9)] }).over, {
      status: 413,
      body: 'too much',
      error: undefined
    })
    await eventually(() => transport.connections === 0)
    t.equal((await ask(transport, channel).over).body, 'hello')
    t.equal(upstream.connections.length, 2)
  }
)

testEach(t, both, '64 MiB for a sink that pauses stay where they are', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  const piece = Buffer.from(Array.from({ length: 64 * 1024 }, (_, i) => (i * 7) % 251))
  const flood = (framed: boolean): Step[] => {
    const step = framed ? chunk(piece) : bytes(piece)
    return [
      framed ? head(200) : head(200, { 'content-length': String(64 * MiB) }),
      ...Array.from({ length: 1024 }, () => step),
      framed ? endOfBody() : pause(0)
    ]
  }
  for (const framed of [true, false]) {
    upstream.script(...flood(framed))
    const memory = heldBytes()
    let received = 0
    let paused = false
    let after = 0
    const recorder = new Recorder((what, { call, chunks }) => {
      if (what !== 'data') return
      const [data] = chunks.splice(0)
      if (paused) after++
      for (let i = 0; i < data!.length; i += 997)
        if (data![i] !== piece[(received + i) % piece.length]) throw new Error(`byte ${received + i} is wrong`)
      const before = received
      received += data!.length
      if (before < 8 * MiB && received >= 8 * MiB) {
        paused = true
        call.pause()
      }
    })
    ask(transport, channel, {}, recorder)
    await eventually(() => paused)
    await sleep(200)
    const stopped = received
    t.ok(after <= 1, `${after} pieces after the pause`)
    const held = heldBytes() - memory
    t.ok(held < MiB, `${held >> 10} KiB are held`)
    t.ok(upstream.requests.at(-1)!.connection.written < 32 * MiB, 'the upstream is held back')
    paused = false
    recorder.call.resume()
    await recorder.over
    t.match(recorder, { error: undefined })
    t.ok(stopped < 9 * MiB)
    t.equal(received, 64 * MiB, framed ? 'chunks' : 'a length')
  }
})

testEach(t, both, 'what a sink was given does not change', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  const calls = Array.from({ length: 8 }, (_, n) => {
    const letter = String.fromCharCode(97 + n)
    const text = letter.repeat(300)
    upstream.script(
      head(200),
      ...Array.from({ length: 50 }, () => chunk(text)),
      chunk(letter.repeat(300_000)),
      ...Array.from({ length: 50 }, () => chunk(text)),
      endOfBody()
    )
    return ask(transport, channel)
  })
  const bodies = new Set((await Promise.all(calls.map(({ over }) => over))).map(({ body }) => body))
  t.equal(bodies.size, 8)
  for (const body of bodies) t.ok(body.length === 330_000 && body === body[0]!.repeat(330_000))
})

testEach(t, both, 'a call that is aborted hears nothing more, and its connection is closed', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  const answer = [head(200), chunk('hello'), pause(10), chunk('more'), endOfBody()]
  for (const at of ['head', 'data'] as const) {
    upstream.script(bytes('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n'))
    const call = ask(transport, channel, {}, new Recorder((what, { call }) => what === at && call.abort()))
    const { connection } = await upstream.request(upstream.requests.length)
    t.equal((await connection.closed).by, 'peer', at)
    t.equal(call.heard.at(-1), at)
  }
  for (const [what, ready] of Object.entries<(call: Recorder, n: number) => unknown>({
    'before the connection': () => {},
    'before the head': (_, n) => upstream.request(n),
    'in the body': (call) => eventually(() => call.heard.includes('data')),
    'while paused': async (call, n) => {
      await upstream.request(n)
      call.call.pause()
      await sleep(20)
    }
  })) {
    const n = upstream.requests.length
    const connections = upstream.connections.length
    upstream.script(pause(10), ...answer)
    const call = ask(transport, channel)
    await ready(call, n)
    call.call.abort()
    const heard = [...call.heard]
    call.call.abort()
    call.call.resume()
    await eventually(() => transport.connections === 0)
    if (what !== 'before the connection') t.equal((await upstream.connections[connections]!.closed).by, 'peer', what)
    await sleep(30)
    t.strictSame(call.heard, heard, what)
  }
})

testEach(t, both, 'an abort after the end closes nothing', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  upstream.always(...hello)
  for (let n = 0; n < 3; n++) {
    const call = await ask(transport, channel, {}, new Recorder((what, { call }) => what === 'end' && call.abort()))
      .over
    call.call.pause()
    call.call.abort()
    await cooled()
  }
  t.equal(upstream.connections.length, 1)
})

testEach(t, both, 'a sink that throws is told so, and its connection is closed', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  for (const at of ['head', 'data']) {
    upstream.script(...hello)
    const call = await ask(
      transport,
      channel,
      {},
      new Recorder((what) => {
        if (what === at) throw new Error('a bug')
      })
    ).over
    t.match(call.error, { code: 'internal_error' }, at)
    t.equal(call.heard.at(-1), 'error')
    await eventually(() => transport.connections === 0)
  }
})

testEach(t, both, 'connections that cannot be had are errors', async (t, kind) => {
  const { transport, upstream } = await pair(t, kind)
  const failed = (channel: Channel): Promise<{ error: GatewayError | undefined }> => ask(transport, channel).over
  const closed = await server(t, () => {})
  closed.close()
  t.match(await failed(channelOf(new URL(`http://127.0.0.1:${closed.port}`))), {
    error: { code: 'upstream_connection_failed', details: { cause: { code: 'ECONNREFUSED' } } }
  })
  t.match(await failed(channelOf(new URL('http://no-such-name.invalid'))), {
    error: { code: 'upstream_connection_failed' }
  })
  // Answers no handshake, which belongs to connecting.
  const silent = await server(t, () => {})
  const timeouts = { connect: 100, firstByte: 1, idle: 1, total: 1 }
  const began = performance.now()
  t.match(await failed(channelOf(new URL(`https://127.0.0.1:${silent.port}`), { timeouts })), {
    error: { code: 'upstream_connection_failed', message: 'Connecting to the upstream took too long.' }
  })
  t.ok(performance.now() - began > 90)
  const rude = await server(t, (socket) => void socket.resetAndDestroy())
  const { error } = await failed(channelOf(new URL(`https://127.0.0.1:${rude.port}`)))
  t.match(error, { code: 'upstream_connection_failed' })
  t.equal(error!.details.untaken, true, 'nobody has had the request')
  t.equal(upstream.connections.length, 0)
})

testEach(t, both, 'a channel that is not private reaches no private address, by number or by name', async (t, kind) => {
  const { transport, upstream } = await pair(t, kind)
  const { port } = upstream.url
  for (const host of ['127.0.0.1', '[::1]', '[::ffff:127.0.0.1]', 'localhost', '10.0.0.1', '169.254.169.254']) {
    for (const scheme of ['http', 'https']) {
      const { error } = await ask(transport, channelOf(new URL(`${scheme}://${host}:${port}/v1`), { private: false }))
        .over
      t.match(
        error,
        { code: 'upstream_connection_failed', message: 'The upstream address is not allowed.' },
        `${scheme} ${host}`
      )
    }
  }
  t.equal(upstream.connections.length, 0)
  upstream.script(...hello)
  t.equal(
    (await ask(transport, channelOf(new URL(`http://localhost:${port}/v1`))).over).body,
    'hello',
    'a private one does, whatever the name resolves to first'
  )
})

testEach(t, both, 'closing ends what waits at once and what runs when it has ended', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  let go!: () => void
  upstream
    .script(
      head(200),
      chunk('hello'),
      until(new Promise<void>((resolve) => (go = resolve))),
      chunk(' again'),
      endOfBody()
    )
    .script(...hello)
  const running = ask(transport, channel)
  await upstream.request(0)
  await ask(transport, channel).over
  let closed = false
  const closing = transport.close().then(() => (closed = true))
  await eventually(() => transport.connections === 1)
  t.equal((await upstream.requests[1]!.connection.closed).by, 'peer')
  t.notOk(closed)
  go()
  t.equal((await running.over).body, 'hello again')
  await closing
  t.equal(transport.connections, 0)
})

testEach(t, both, 'whatever becomes of a thousand requests, no connection is left', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  const kinds: Step[][] = [
    hello,
    [fin()],
    [reset()],
    [head(200), chunk('hello'), fin()],
    [bytes('HTTP/1.1 200 OK\r\n\r\nhello'), fin()],
    [head(200, { connection: 'close' }), bytes('x'), fin()],
    [stall()],
    [bytes('bad\r\n\r\n')]
  ]
  let n = 0
  let over = 0
  const one = async (): Promise<void> => {
    while (n < 1000) {
      upstream.script(...kinds[n++ % kinds.length]!)
      const call = ask(transport, channel)
      if (n % 3 === 0) setImmediate(() => call.call.abort())
      await Promise.race([call.over, sleep(40)])
      call.call.abort()
      over++
    }
  }
  await Promise.all(Array.from({ length: 40 }, one))
  t.equal(over, n)
  await eventually(() => upstream.connections.filter((connection) => !connection.end).length === transport.connections)
  await transport.close()
  t.equal(transport.connections, 0)
  await eventually(() => upstream.open === 0)
})

testEach(t, both, 'a large request to an upstream that does not read holds no more than its body', async (t, kind) => {
  const { transport, upstream, channel } = await pair(t, kind)
  const body = Buffer.alloc(16 * MiB)
  upstream.scriptFromHead(({ socket }) => void socket.pause(), stall())
  const memory = heldBytes()
  const call = ask(transport, channel, { body: [body.subarray(0, 9), body.subarray(9)] })
  await eventually(() => upstream.connections.length === 1)
  await sleep(100)
  await eventually(() => heldBytes() - memory < 2 * MiB)
  call.call.abort()
  await eventually(() => transport.connections === 0)
  t.strictSame(call.heard, [])
})
