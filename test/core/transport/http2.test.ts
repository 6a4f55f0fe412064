// The transport over HTTP/2, in clear text and under TLS: streams that share a session, and how each of them ends.
// Runs alone: it measures the memory of its process.
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { createServer as createTlsServer } from 'node:tls'
import t from 'tap'
import type { Test } from 'tap'
import type { Channel } from '../../../core/catalogue/catalogue.ts'
import type { HttpTransport } from '../../../core/transport/transport.ts'
import { makeCertificate } from '../../kit/certificate.ts'
import { Http2Upstream } from '../../kit/http2-upstream.ts'
import type { Answer } from '../../kit/http2-upstream.ts'
import { eventually, heldBytes, stopwatch } from '../../kit/probe.ts'
import { open, undici2 } from './kinds.ts'
import { ask, channelOf, Recorder } from './recorder.ts'

const MiB = 1024 * 1024
const certificate = makeCertificate(t)
const tls = { ca: certificate.ca, identity: undefined, serverName: undefined, verify: true }

type Options = NonNullable<Parameters<typeof Http2Upstream.start>[1]>

async function pair(
  t: Test,
  options: Options = {},
  more: Partial<Channel> = {}
): Promise<{ transport: HttpTransport; upstream: Http2Upstream; channel: Channel }> {
  const upstream = await Http2Upstream.start(t, options)
  return {
    transport: open(t, undici2),
    upstream,
    channel: channelOf(upstream.url, { ...undici2.channel, ...(options.certificate && { tls }), ...more })
  }
}

/** A frame RST_STREAM on the wire: the server's own way to reset ends the stream before. */
function resetFrame(stream: number, code: number): Buffer {
  const frame = Buffer.alloc(13)
  frame.writeUIntBE(4, 0, 3)
  frame[3] = 3
  frame.writeUInt32BE(stream, 5)
  frame.writeUInt32BE(code, 9)
  return frame
}

/** A head and `hello`, and then this. */
const begun =
  (then: Answer): Answer =>
  (request) => {
    request.stream.respond({ ':status': 200 })
    request.stream.write('hello', () => setTimeout(() => void then(request), 10))
  }

t.test('a request and its answer are what they are over HTTP/1.1', async (t) => {
  for (const options of [{}, { certificate }]) {
    const { transport, upstream, channel } = await pair(t, options, { headers: { 'x-team': 'platform' } })
    channel.baseUrl.search = '?version=1'
    upstream.answer = async ({ stream, body }) => {
      const received = await body()
      stream.additionalHeaders({ ':status': 103, link: 'a' })
      stream.respond(
        { ':status': 201, 'x-a': ['1', '2'], 'set-cookie': ['a', 'b'], constructor: 'c', 'x-latin': '\xe4' },
        { waitForTrailers: true }
      )
      stream.on('wantTrailers', () => stream.sendTrailers({ 'x-end': 'yes' }))
      stream.end(`${received.length} ${received.subarray(0, 9).toString()}`)
    }
    for (const size of [0, 2, 16 * 1024, 16 * 1024 + 1, 3 * MiB]) {
      const body = Buffer.alloc(size, 'abcdefg')
      const call = await ask(transport, channel, {
        headers: ['accept', 'text/x'],
        body: [body.subarray(0, 9), body.subarray(9)]
      }).over
      t.match(call, {
        status: 201,
        error: undefined,
        body: `${size} ${body.subarray(0, 9).toString()}`,
        heard: ['head', 'data', 'end']
      })
      t.strictSame(
        { ...call.headers, date: '' },
        { 'x-a': '1, 2', 'set-cookie': ['a', 'b'], constructor: 'c', 'x-latin': '\xe4', date: '' }
      )
      t.equal('toString' in call.headers, false)
    }
    t.match(upstream.requests[1]!.headers, {
      ':method': 'POST',
      ':path': '/v1/chat?version=1',
      ':authority': upstream.url.host,
      ':scheme': upstream.url.protocol.slice(0, -1),
      accept: 'text/x',
      'x-team': 'platform',
      'user-agent': 'sluice',
      'accept-encoding': 'identity',
      'content-length': '2'
    })
    t.notOk('connection' in upstream.requests[1]!.headers || 'host' in upstream.requests[1]!.headers)
    const stored = {
      length: 2 * MiB,
      read: () => Promise.reject(new Error('it is opened')),
      open: () => Readable.from([Buffer.alloc(MiB, 'x'), Buffer.alloc(MiB, 'y')], { objectMode: false })
    }
    t.equal((await ask(transport, channel, { body: stored }).over).body, `${2 * MiB} xxxxxxxxx`)
    for (const method of ['GET', 'DELETE'] as const) {
      t.equal((await ask(transport, channel, { method, body: [] }).over).body, '0 ')
      t.notOk('content-length' in upstream.requests.at(-1)!.headers, method)
    }
    upstream.answer = ({ stream }) => stream.respond({ ':status': 204 }, { endStream: true })
    t.match(await ask(transport, channel).over, { status: 204, heard: ['head', 'end'] })
    t.equal(upstream.sessions.length, 1, 'one session carries all')
    t.equal(transport.connections, 1)
  }
})

t.test('calls share sessions, each up to what the upstream allows, and none waits for another', async (t) => {
  const { transport, upstream, channel } = await pair(t, { settings: { maxConcurrentStreams: 10 } })
  const go = Promise.withResolvers<void>()
  upstream.answer = async ({ stream }) => {
    stream.respond({ ':status': 200 })
    await go.promise
    stream.end('hello')
  }
  const calls = Array.from({ length: 35 }, () => ask(transport, channel))
  await eventually(() => calls.every(({ heard }) => heard.includes('head')))
  const sessions = new Map<unknown, number>()
  for (const { session } of upstream.requests) sessions.set(session, (sessions.get(session) ?? 0) + 1)
  t.ok(
    sessions.size >= 4 && [...sessions.values()].every((streams) => streams <= 10),
    `${[...sessions.values()].join()} streams`
  )
  go.resolve()
  for (const call of calls) t.equal((await call.over).body, 'hello')
})

t.test('an answer is whole only when its stream was ended', async (t) => {
  const { transport, upstream, channel } = await pair(t)
  const codes = [0, 1, 2, 3, 5, 7, 8, 11, 13]
  for (const code of codes) {
    upstream.answer = begun(({ stream }) => [...upstream.sockets].at(-1)!.write(resetFrame(stream.id!, code)))
    const call = await ask(transport, channel).over
    t.match(
      call,
      {
        heard: ['head', 'data', 'error'],
        body: 'hello',
        error: { code: 'upstream_stream_interrupted', details: { cause: { message: /lost|reset/ } } }
      },
      `reset with ${code}`
    )
    t.notMatch(call.error!.message, /127\.0\.0\.1/)
  }
  for (const code of codes) {
    upstream.answer = ({ stream }) => [...upstream.sockets].at(-1)!.write(resetFrame(stream.id!, code))
    t.match(
      await ask(transport, channel).over,
      {
        heard: ['error'],
        error: { code: 'upstream_connection_failed', details: { cause: { message: /lost|reset/ } } }
      },
      `reset with ${code} before the head`
    )
  }
  t.equal(upstream.sessions.length, 1, 'the session goes on')
  upstream.answer = begun(({ stream }) => [...upstream.sockets].at(-1)!.write(resetFrame(stream.id!, 8)))
  const paused = ask(transport, channel, {}, new Recorder((what, { call }) => what === 'head' && call.pause()))
  await eventually(() => paused.heard.includes('head'))
  await sleep(50)
  paused.call.resume()
  t.equal((await paused.over).error?.code, 'upstream_stream_interrupted', 'also when it was read later')
  upstream.answer = begun(({ stream }) => stream.end())
  const late = ask(transport, channel, {}, new Recorder((what, { call }) => what === 'head' && call.pause()))
  await eventually(() => late.heard.includes('head'))
  await sleep(50)
  late.call.resume()
  t.match(await late.over, { error: undefined, body: 'hello' })
  for (const length of ['9', '3']) {
    upstream.answer = ({ stream }) => {
      stream.respond({ ':status': 200, 'content-length': length })
      stream.end('hello')
    }
    t.match(
      await ask(transport, channel).over,
      { error: { code: 'upstream_stream_interrupted' } },
      `content-length ${length}`
    )
  }
})

t.test('a session that ends takes its unfinished answers with it, and the next call opens another', async (t) => {
  const { transport, upstream, channel } = await pair(t)
  const ends: [string, Answer][] = [
    ['reset', () => [...upstream.sockets].at(-1)!.resetAndDestroy()],
    ['closed', () => [...upstream.sockets].at(-1)!.end()],
    ['destroyed', ({ session }) => session.destroy()],
    [
      'told that it is over, and closed',
      ({ session }) => {
        session.goaway(0)
        setTimeout(() => [...upstream.sockets].at(-1)!.destroy(), 20)
      }
    ],
    ['told that something is wrong', ({ session }) => session.goaway(2)]
  ]
  for (const [what, end] of ends) {
    upstream.answer = begun(end)
    t.match(await ask(transport, channel).over, { body: 'hello', error: { code: 'upstream_stream_interrupted' } }, what)
    await eventually(() => transport.connections === 0)
    upstream.answer = end
    t.match(await ask(transport, channel).over, { error: { code: 'upstream_connection_failed' } }, what)
    await eventually(() => transport.connections === 0)
  }
  upstream.answer = begun(({ stream, session }) => {
    session.goaway(0)
    setTimeout(() => stream.end(' again'), 20)
  })
  const running = ask(transport, channel)
  await upstream.request(upstream.requests.length)
  await sleep(20)
  const sessions = upstream.sessions.length
  upstream.answer = ({ stream }) => {
    stream.respond({ ':status': 200 })
    stream.end('new')
  }
  t.equal((await ask(transport, channel).over).body, 'new')
  t.equal(upstream.sessions.length, sessions + 1)
  t.equal((await running.over).body, 'hello again', 'what had begun on a session that is ending ends on it')
})

t.test('what the upstream says it has not looked at is sent once more', async (t) => {
  const { transport, upstream, channel } = await pair(t)
  for (const size of [2, 100_000]) {
    let seen = 0
    const answer: Answer = ({ stream }) => {
      stream.respond({ ':status': 200 })
      stream.end('hello')
    }
    upstream.answer = (request) => (++seen === 1 ? request.stream.close(7) : answer(request))
    const body = Buffer.alloc(size)
    t.match(
      await ask(transport, channel, { body: [body.subarray(0, 1), body.subarray(1)] }).over,
      { body: 'hello', error: undefined },
      `${size} bytes`
    )
    t.equal(seen, 2)
    seen = 0
    upstream.answer = ({ stream }) => {
      seen++
      stream.close(7)
    }
    t.match(await ask(transport, channel, { body: [body.subarray(0, 1), body.subarray(1)] }).over, {
      error: { code: 'upstream_connection_failed' }
    })
    t.ok(seen === 2 || seen === 4, `${seen} times`)
  }
})

t.test('64 MiB for a sink that pauses stay where they are, and the other streams of the session go on', async (t) => {
  const { transport, upstream, channel } = await pair(t)
  const piece = Buffer.from(Array.from({ length: 64 * 1024 }, (_, i) => (i * 7) % 251))
  let written = 0
  upstream.answer = async ({ stream, headers }) => {
    stream.respond({ ':status': 200 })
    if (headers['x-small']) stream.end('hello')
    else {
      for (; written < 64 * MiB; written += piece.length) if (!stream.write(piece)) await once(stream, 'drain')
      stream.end()
    }
  }
  let received = 0
  let paused = false
  let after = 0
  const recorder = ask(
    transport,
    channel,
    {},
    new Recorder((what, { call, chunks }) => {
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
  )
  await eventually(() => paused)
  const memory = heldBytes()
  await sleep(200)
  t.ok(after <= 1, `${after} pieces after the pause`)
  t.ok(heldBytes() - memory < MiB)
  t.ok(written < 16 * MiB, `${written >> 10} KiB written`)
  for (let n = 0; n < 20; n++)
    t.equal((await ask(transport, channel, { headers: ['x-small', '1'] }).over).body, 'hello')
  t.equal(upstream.sessions.length, 1)
  paused = false
  recorder.call.resume()
  t.match(await recorder.over, { error: undefined })
  t.equal(received, 64 * MiB)
})

t.test('a call that is aborted hears nothing more, its stream is reset, and the session goes on', async (t) => {
  const { transport, upstream, channel } = await pair(t)
  upstream.answer = begun(() => {})
  for (const [what, ready] of Object.entries<(call: Recorder, n: number) => unknown>({
    'before the session': () => {},
    'before the head': (_, n) => upstream.request(n),
    'in the body': (call) => eventually(() => call.heard.includes('data')),
    'while paused': async (call) => {
      await eventually(() => call.heard.includes('head'))
      call.call.pause()
      await sleep(20)
    }
  })) {
    const n = upstream.requests.length
    const call = ask(transport, channel)
    await ready(call, n)
    call.call.abort()
    const heard = [...call.heard]
    call.call.abort()
    call.call.resume()
    await sleep(30)
    t.strictSame(call.heard, heard, what)
    if (what === 'before the session') t.equal(upstream.requests.length, n, 'nothing was sent')
    else await eventually(() => upstream.requests[n]!.stream.destroyed)
  }
  for (const at of ['head', 'data', 'end']) {
    upstream.answer =
      at === 'end'
        ? ({ stream }) => {
            stream.respond({ ':status': 200 })
            stream.end('hello')
          }
        : begun(() => {})
    const call = ask(transport, channel, {}, new Recorder((what, { call }) => what === at && call.abort()))
    await eventually(() => call.heard.includes(at))
    await sleep(20)
    t.equal(call.heard.at(-1), at)
  }
  t.equal(upstream.sessions.length, 1)
  t.equal(transport.connections, 1)
  upstream.answer = ({ stream }) => {
    stream.respond({ ':status': 200 })
    stream.end('hello')
  }
  for (const at of ['head', 'data']) {
    const call = await ask(
      transport,
      channel,
      {},
      new Recorder((what) => {
        if (what === at) throw new Error('a bug')
      })
    ).over
    t.match(call, { error: { code: 'internal_error' } }, `a sink that throws at its ${at}`)
  }
  t.equal((await ask(transport, channel).over).body, 'hello')
  t.equal(upstream.sessions.length, 1)
})

t.test('a call can be given up before its request could be sent', async (t) => {
  // No body is let through.
  const { transport, upstream, channel } = await pair(t, { settings: { initialWindowSize: 0 } })
  upstream.answer = () => {}
  for (const size of [2, 10_000, 100_000]) {
    const n = upstream.requests.length
    const calls = Array.from({ length: 5 }, () => ask(transport, channel, { body: [Buffer.alloc(size)] }))
    await upstream.request(n + 4)
    for (const call of calls) call.call.abort()
    await eventually(() => upstream.requests.slice(n).every(({ stream }) => stream.destroyed))
    t.strictSame(
      upstream.requests.slice(n).map(({ stream }) => stream.rstCode),
      [8, 8, 8, 8, 8],
      'they are cancelled'
    )
  }
  upstream.answer = ({ stream }) => {
    stream.respond({ ':status': 200, 'content-length': '1' })
    stream.end('hello')
  }
  t.match(await ask(transport, channel).over, { error: { source: 'upstream' } }, 'also by undici itself')
  upstream.answer = ({ stream }) => {
    stream.respond({ ':status': 200 })
    stream.end('hello')
  }
  t.equal((await ask(transport, channel, { method: 'GET', body: [] }).over).body, 'hello')
})

t.test('an answer before the request is all sent is delivered', async (t) => {
  const { transport, upstream, channel } = await pair(t)
  upstream.answer = ({ stream }) => {
    stream.respond({ ':status': 413 })
    stream.end('too much')
  }
  const body = Buffer.alloc(16 * MiB)
  t.match(await ask(transport, channel, { body: [body.subarray(0, 9), body.subarray(9)] }).over, {
    status: 413,
    body: 'too much',
    error: undefined
  })
  upstream.answer = ({ stream }) => {
    stream.respond({ ':status': 200 })
    stream.end('hello')
  }
  t.equal((await ask(transport, channel).over).body, 'hello')
})

t.test('sessions that cannot be had are errors, in time, for all who wait', async (t) => {
  const transport = open(t, undici2)
  const listening = async (server: ReturnType<typeof createServer>): Promise<number> => {
    const sockets: { destroy(): void }[] = []
    server.on('connection', (socket) => sockets.push(socket.on('error', () => {})))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    return (server.address() as AddressInfo).port
  }
  const failures = async (url: string, more: Partial<Channel> = {}): Promise<unknown[]> => {
    const calls = Array.from(
      { length: 5 },
      () => ask(transport, channelOf(new URL(url), { ...undici2.channel, ...more })).over
    )
    return (await Promise.all(calls)).map(({ error }) => [error?.code, error?.message])
  }
  const all = (code: string, message: string): unknown[] => Array(5).fill([code, message])
  const unreachable = 'The upstream could not be reached or closed the connection.'
  const closed = createServer()
  const port = await listening(closed)
  closed.close()
  t.strictSame(await failures(`http://127.0.0.1:${port}`), all('upstream_connection_failed', unreachable))
  const silent = await listening(createServer(() => {}))
  const began = stopwatch()
  t.strictSame(
    await failures(`https://127.0.0.1:${silent}`, { timeouts: { connect: 500, firstByte: 1, idle: 1, total: 1 } }),
    all('upstream_connection_failed', 'Connecting to the upstream took too long.')
  )
  t.ok(began.ms < 2000)
  t.strictSame(
    await failures(`https://127.0.0.1:${silent}`, { private: false }),
    all('upstream_connection_failed', 'The upstream address is not allowed.')
  )
  const old = await listening(createTlsServer({ ...certificate.pem }, (socket) => void socket.on('error', () => {})))
  t.strictSame(
    await failures(`https://localhost:${old}`, { tls }),
    all('upstream_bad_response', 'The upstream sent an invalid HTTP response.')
  )
  const http1 = await listening(createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')))
  for (const [code] of (await failures(`http://127.0.0.1:${http1}`)) as [string][])
    t.match(code, /^upstream_(connection_failed|bad_response)$/)
  await eventually(() => transport.connections === 0)
})

t.test('closing ends sessions when their last answer has ended', async (t) => {
  const { transport, upstream, channel } = await pair(t)
  const go = Promise.withResolvers<void>()
  upstream.answer = begun(async ({ stream }) => {
    await go.promise
    stream.end(' again')
  })
  const drop = await transport.use([channel])
  const running = ask(transport, channel)
  await eventually(() => running.heard.includes('data'))
  drop()
  await sleep(20)
  t.equal(transport.connections, 1)
  go.resolve()
  t.equal((await running.over).body, 'hello again')
  await eventually(() => transport.connections === 0)
  upstream.answer = ({ stream }) => {
    stream.respond({ ':status': 200 })
    stream.end('hello')
  }
  t.equal((await ask(transport, channel).over).body, 'hello', 'one that comes later is served')
  // Nobody closes the session that it was given.
  for (const socket of upstream.sockets) socket.destroy()
  await eventually(() => transport.connections === 0)
})

t.test('whatever becomes of a thousand streams, none is left', async (t) => {
  const { transport, upstream, channel } = await pair(t)
  const kinds: Answer[] = [
    ({ stream }) => {
      stream.respond({ ':status': 200 })
      stream.end('hello')
    },
    ({ stream }) => stream.close(7),
    ({ stream }) => stream.destroy(),
    begun(({ stream }) => stream.end()),
    begun(({ stream }) => stream.destroy()),
    begun(() => {}),
    () => {},
    ({ session }) => {
      if (Math.random() < 0.1) session.goaway(0)
    },
    ({ session }) => {
      if (Math.random() < 0.05) session.destroy()
    }
  ]
  upstream.answer = (request) => kinds[upstream.requests.length % kinds.length]!(request)
  let n = 0
  let over = 0
  const one = async (): Promise<void> => {
    while (n < 1000) {
      const call = ask(transport, channel)
      if (n++ % 3 === 0) setImmediate(() => call.call.abort())
      await Promise.race([call.over, sleep(40)])
      call.call.abort()
      over++
    }
  }
  await Promise.all(Array.from({ length: 40 }, one))
  t.equal(over, n)
  await eventually(() => upstream.requests.every(({ stream }) => stream.destroyed))
  await transport.close()
  t.equal(transport.connections, 0)
})
