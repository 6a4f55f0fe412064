// WebSockets to upstreams: the ways to them are those of requests.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import type { GatewayError } from '../../../core/errors.ts'
import { Transports } from '../../../core/transport/transports.ts'
import type { Channel } from '../../../core/catalogue/catalogue.ts'
import { FrameSocket } from '../../../core/wire/frame-socket.ts'
import { makeCertificate } from '../../kit/certificate.ts'
import { eventually } from '../../kit/probe.ts'
import { Proxy } from '../../kit/proxy.ts'
import { frameBytes, socketUpstream } from '../../kit/socket-upstream.ts'
import { channelOf } from './recorder.ts'

const asked = { path: '/realtime?model=m', headers: { 'x-own': 'yes' }, maxMessage: 1024 }

/** Says something and waits for it to come back; how that was asked for. */
async function echoed(
  t: Test,
  transport: Transports,
  channel: Channel,
  upstream: Awaited<ReturnType<typeof socketUpstream>>
): Promise<void> {
  const answer = await transport.connect(channel, { ...asked, signal: new AbortController().signal })
  if (!(answer instanceof FrameSocket)) return void t.fail(`refused with ${answer.status}`)
  const { socket, request } = await upstream.peer(upstream.peers.length || 1)
  socket!.on('message', (data, binary) => socket!.send(data, { binary }))
  const heard: string[] = []
  const closed = new Promise<number>((resolve) =>
    answer.take({
      received: () => {},
      frame: (data) => void heard.push(String(data)),
      drained: () => {},
      closed: ({ code }) => resolve(code)
    })
  )
  answer.send(Buffer.from('hello'), false)
  await eventually(() => heard.length === 1)
  t.same(heard, ['hello'])
  t.equal(request.url, '/v1/realtime?model=m')
  t.match(request.headers, { 'x-own': 'yes', authorization: 'Bearer secret', host: channel.baseUrl.host })
  t.equal(transport.connections, 1)
  socket!.close(1000)
  t.equal(await closed, 1000)
  await eventually(() => transport.connections === 0)
}

t.test('over TCP and TLS, with what the channel trusts', async (t) => {
  const transport = new Transports()
  t.teardown(() => transport.close())
  const headers = { authorization: 'Bearer secret' }
  const plain = await socketUpstream(t)
  await echoed(t, transport, channelOf(plain.url, { headers }), plain)
  const certificate = makeCertificate(t)
  const secure = await socketUpstream(t, { certificate })
  const url = new URL(secure.url.href.replace('127.0.0.1', 'localhost'))
  await echoed(
    t,
    transport,
    channelOf(url, { headers, tls: { ca: certificate.ca, identity: undefined, serverName: undefined, verify: true } }),
    secure
  )
  const distrusted = await transport
    .connect(channelOf(url, { headers }), { ...asked, signal: new AbortController().signal })
    .catch((error: GatewayError) => error)
  t.match(distrusted, { code: 'upstream_connection_failed' })
})

t.test('through a proxy, and to no private address', async (t) => {
  const transport = new Transports()
  t.teardown(() => transport.close())
  const headers = { authorization: 'Bearer secret' }
  const upstream = await socketUpstream(t)
  const proxy = await Proxy.start(t)
  await echoed(
    t,
    transport,
    channelOf(upstream.url, {
      headers,
      transport: 'undici',
      proxy: { url: proxy.url, authorization: undefined, from: 'file' }
    }),
    upstream
  )
  t.same(
    proxy.requests.map(({ authority }) => authority),
    [upstream.url.host]
  )
  for (const host of ['127.0.0.1', '[::1]', '[::ffff:127.0.0.1]', 'localhost', '10.0.0.1']) {
    for (const scheme of ['http', 'https']) {
      const channel = channelOf(new URL(`${scheme}://${host}:${upstream.url.port}/v1`), { private: false })
      const error = await transport
        .connect(channel, { ...asked, signal: new AbortController().signal })
        .catch((error: GatewayError) => error)
      t.match(
        error,
        { code: 'upstream_connection_failed', message: 'The upstream address is not allowed.' },
        `${scheme} ${host}`
      )
    }
  }
  t.equal(upstream.peers.length, 1)
})

t.test('who gives up while it is opened leaves nothing behind', async (t) => {
  const transport = new Transports()
  t.teardown(() => transport.close())
  const upstream = await socketUpstream(t, { silent: true })
  const abort = new AbortController()
  const opening = transport
    .connect(channelOf(upstream.url), { ...asked, signal: abort.signal })
    .catch((error: GatewayError) => error)
  await eventually(() => transport.connections === 1)
  abort.abort()
  t.match(await opening, { code: 'upstream_connection_failed' })
  await eventually(() => transport.connections === 0)
})

/** An upstream that answers handshakes by hand. `accept`: what the key asks for. */
async function byHand(t: Test, answer: (socket: Socket, accept: string) => void): Promise<URL> {
  const server = createServer((socket) => {
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    socket.once('data', (bytes) => {
      const key = /sec-websocket-key: (.*)\r/i.exec(String(bytes))![1]!
      answer(socket, createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64'))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`)
}

const timeouts = { connect: 30_000, firstByte: 3000, idle: 30_000, total: 30_000 }

t.test('an upstream has refused whose refusal is cut, or does not come to its end', async (t) => {
  const transport = new Transports()
  t.teardown(() => transport.close())
  const refusal = 'HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 1000\r\n\r\n{"error"'
  const ways: Record<string, (socket: Socket) => void> = {
    'stands still': () => {},
    'is ended': (socket) => socket.end(),
    'is reset': (socket) => setTimeout(() => socket.resetAndDestroy(), 200)
  }
  for (const [way, goOn] of Object.entries(ways)) {
    const url = await byHand(t, (socket) => {
      socket.write(refusal)
      goOn(socket)
    })
    const answer = await transport.connect(channelOf(url, { timeouts }), {
      ...asked,
      signal: new AbortController().signal
    })
    t.match(answer, { status: 429, headers: { 'retry-after': '7' }, body: Buffer.from('{"error"') }, way)
  }
  await eventually(() => transport.connections === 0)
})

t.test('a handshake is accepted as it must be, in whatever pieces, or it is none', async (t) => {
  const transport = new Transports()
  t.teardown(() => transport.close())
  const first = 'HTTP/1.1 101 Switching Protocols\r\n'
  const right = (accept: string): string =>
    `${first}Upgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`
  const wrong: Record<string, (accept: string) => string> = {
    'no Accept': () => `${first}Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n`,
    'another Accept': (accept) => right(`x${accept}`),
    'two of them': (accept) => right(`${accept}\r\nSec-WebSocket-Accept: ${accept}`),
    'no Upgrade': (accept) => right(accept).replace(/Upgrade: .*\r\n/, ''),
    'an Upgrade to something else': (accept) => right(accept).replace('WebSocket\r', 'h2c\r'),
    'no Connection': (accept) => right(accept).replace(/Connection: .*\r\n/, ''),
    'a Connection without it': (accept) => right(accept).replace(', upgrade', ''),
    'another protocol': () => 'SSH-2.0-OpenSSH_9.6\r\n'
  }
  for (const [name, text] of Object.entries(wrong)) {
    const url = await byHand(t, (socket, accept) => void socket.write(text(accept)))
    const failure = await transport
      .connect(channelOf(url, { timeouts: { ...timeouts, firstByte: 30_000 } }), {
        ...asked,
        signal: new AbortController().signal
      })
      .catch((error: GatewayError) => error)
    t.match(failure, { code: 'upstream_bad_response' }, name)
  }
  const said = Buffer.concat([frameBytes('one', { opcode: 1 }), frameBytes('two', { opcode: 1 })])
  const ways: Record<string, (all: Buffer) => Buffer[]> = {
    'in one piece with messages': (all) => [all],
    'a byte at a time': (all) => [...all].map((byte) => Buffer.of(byte)),
    'behind interim answers': (all) => [Buffer.from('HTTP/1.1 100 Continue\r\n\r\n'), all]
  }
  for (const [name, pieces] of Object.entries(ways)) {
    const url = await byHand(t, (socket, accept) => {
      socket.setNoDelay(true)
      for (const piece of pieces(Buffer.concat([Buffer.from(right(accept)), said]))) socket.write(piece)
    })
    const answer = await transport.connect(channelOf(url), { ...asked, signal: new AbortController().signal })
    const heard: string[] = []
    if (answer instanceof FrameSocket)
      answer.take({
        received: () => {},
        frame: (data) => void heard.push(String(data)),
        drained: () => {},
        closed: () => {}
      })
    await eventually(() => heard.length === 2)
    t.same(heard, ['one', 'two'], name)
    if (answer instanceof FrameSocket) answer.destroy()
  }
  await eventually(() => transport.connections === 0)
})
