// WebSockets to upstreams: the ways to them are those of requests.
import t from 'tap'
import type { Test } from 'tap'
import type { GatewayError } from '../../../core/errors.ts'
import { Transports } from '../../../core/transport/transports.ts'
import type { Channel } from '../../../core/catalogue/catalogue.ts'
import { FrameSocket } from '../../../core/wire/frame-socket.ts'
import { makeCertificate } from '../../kit/certificate.ts'
import { eventually } from '../../kit/probe.ts'
import { Proxy } from '../../kit/proxy.ts'
import { socketUpstream } from '../../kit/socket-upstream.ts'
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
