// The transport through a proxy: what the proxy is told, that answers are as whole as without, and that clients hear
// nothing of it.
import { setTimeout as sleep } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import t from 'tap'
import type { Channel, ChannelProxy } from '../../../core/catalogue/catalogue.ts'
import { makeCertificate } from '../../kit/certificate.ts'
import { Http2Upstream } from '../../kit/http2-upstream.ts'
import { gateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { Proxy } from '../../kit/proxy.ts'
import { bytes, chunk, fin, head, stall, Upstream } from '../../kit/upstream.ts'
import { open, undici, undici2 } from './kinds.ts'
import { ask, channelOf } from './recorder.ts'

const certificate = makeCertificate(t)
setDefaultCACertificates([...getCACertificates('default'), certificate.ca])
const hello = [head(200, { 'content-length': '5' }), bytes('hello')]

const by = ({ url }: Proxy, credentials?: string): ChannelProxy => ({
  url,
  authorization: credentials && `Basic ${Buffer.from(credentials).toString('base64')}`,
  from: 'file'
})

t.test('a tunnel is asked for by name, and used again', async (t) => {
  for (const options of [{}, { certificate }]) {
    const [upstream, proxy, transport] = [await Upstream.start(t), await Proxy.start(t, options), open(t, undici)]
    const channel = channelOf(upstream.url, { ...undici.channel, proxy: by(proxy) })
    upstream.always(...hello)
    for (let n = 0; n < 3; n++) {
      t.match(await ask(transport, channel).over, { body: 'hello', error: undefined })
      await sleep(50)
    }
    t.strictSame(
      proxy.requests.map(({ authority }) => authority),
      [upstream.url.host]
    )
    t.notOk('proxy-authorization' in proxy.requests[0]!.headers || 'authorization' in proxy.requests[0]!.headers)
    t.equal(upstream.connections.length, 1)
    t.equal(transport.connections, 1)
  }
})

t.test('TLS and HTTP/2 go through it unseen', async (t) => {
  const [upstream, proxy, transport] = [
    await Http2Upstream.start(t, { certificate }),
    await Proxy.start(t),
    open(t, undici2)
  ]
  const channel = channelOf(upstream.url, { ...undici2.channel, proxy: by(proxy) })
  for (const call of Array.from({ length: 5 }, () => ask(transport, channel, { body: [Buffer.alloc(100_000)] })))
    t.equal((await call.over).body, 'hello')
  t.equal(proxy.requests[0]!.authority, upstream.url.host)
  const stranger = channelOf(upstream.url, {
    ...undici2.channel,
    proxy: by(proxy),
    tls: { ca: makeCertificate(t).ca, identity: undefined, serverName: undefined, verify: true }
  })
  t.match(
    await ask(transport, stranger).over,
    { error: { code: 'upstream_connection_failed' } },
    'and is not trusted with who answers'
  )
})

t.test('a proxy that wants credentials gets them, and nobody else does', async (t) => {
  const [upstream, proxy, transport] = [
    await Upstream.start(t),
    await Proxy.start(t, { credentials: 'user:hunter' }),
    open(t, undici)
  ]
  upstream.always(...hello)
  t.equal((await ask(transport, channelOf(upstream.url, { proxy: by(proxy, 'user:hunter') })).over).body, 'hello')
  t.notOk('proxy-authorization' in upstream.requests[0]!.headers)
  for (const credentials of [undefined, 'user:wrong']) {
    const { error } = await ask(transport, channelOf(upstream.url, { proxy: by(proxy, credentials) })).over
    t.match(error, {
      code: 'upstream_connection_failed',
      message: 'The upstream could not be reached or closed the connection.'
    })
    t.match(error!.details.cause, { message: 'the proxy refused with 407' })
  }
})

t.test('a proxy that does not lead through is an error in time, of which clients see nothing', async (t) => {
  const upstream = await Upstream.start(t)
  const transport = open(t, undici)
  const failed = async (proxy: ChannelProxy, more: Partial<Channel> = {}): Promise<string> => {
    const { error } = await ask(transport, channelOf(upstream.url, { proxy, ...more })).over
    t.equal(error!.code, 'upstream_connection_failed')
    t.notMatch(error!.message, /proxy|127\.0\.0\.1|hunter/i)
    t.equal(error!.details.untaken, true, 'nobody has had the request')
    return error!.message
  }
  const unreachable = 'The upstream could not be reached or closed the connection.'
  for (const text of [
    'HTTP/1.1 403 Forbidden\r\ncontent-length: 4\r\n\r\nno!!',
    'HTTP/1.1 502 Bad Gateway\r\n\r\n',
    'nonsense\r\n\r\n',
    '',
    'HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray'
  ]) {
    t.equal(
      await failed(by(await Proxy.start(t, { answer: (socket) => void socket.end(text) }), 'user:hunter')),
      unreachable,
      JSON.stringify(text)
    )
  }
  t.equal(await failed(by(await Proxy.start(t, { answer: (socket) => void socket.resetAndDestroy() }))), unreachable)
  const timeouts = { connect: 300, firstByte: 1, idle: 1, total: 1 }
  t.equal(
    await failed(by(await Proxy.start(t, { answer: () => {} })), { timeouts }),
    'Connecting to the upstream took too long.'
  )
  t.equal(await failed({ url: new URL('http://127.0.0.1:1'), authorization: undefined, from: 'file' }), unreachable)
  t.equal(await failed(by(await Proxy.start(t)), { private: false }), 'The upstream address is not allowed.')
  await eventually(() => transport.connections === 0)
  t.equal(upstream.connections.length, 0)
})

t.test('cut answers and given up calls are what they are without', async (t) => {
  const [upstream, proxy, transport] = [await Upstream.start(t), await Proxy.start(t), open(t, undici)]
  const channel = channelOf(upstream.url, { proxy: by(proxy) })
  upstream.script(head(200, { 'content-length': '9' }), bytes('hello'), fin())
  t.match(await ask(transport, channel).over, { body: 'hello', error: { code: 'upstream_stream_interrupted' } })
  upstream.script(head(200), chunk('hello'), fin())
  t.match(await ask(transport, channel).over, { body: 'hello', error: { code: 'upstream_stream_interrupted' } })
  upstream.script(head(200), chunk('hello'), stall())
  const call = ask(transport, channel)
  await eventually(() => call.heard.includes('data'))
  call.call.abort()
  await eventually(() => transport.connections === 0 && proxy.open === 0)
  const early = ask(transport, channel)
  early.call.abort()
  await sleep(50)
  t.strictSame(early.heard, [])
  t.equal(transport.connections, 0)
})

t.test(
  'a gateway serves channels through a proxy, says so at its start, and shows clients nothing of it',
  async (t) => {
    const upstream = await Upstream.start(t)
    const proxy = await Proxy.start(t, { credentials: 'user:hunter' })
    const way = (password: string): string => `http://user:${password}@${proxy.url.host}`
    const running = await gateway(t, { channels: { up: { proxy: way('hunter') } } }, { upstreams: { up: upstream } })
    t.match(
      running.lines.find(({ message }) => message === 'upstreams are reached through a proxy'),
      { fields: { from: 'the configuration', channels: ['up'] } }
    )
    upstream.json({
      id: 'c',
      object: 'chat.completion',
      model: 'test-model',
      choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    })
    t.equal((await running.chat()).status, 200)
    t.equal(proxy.requests.length, 1)
    running.configure({ channels: { up: { proxy: way('wrong') } } })
    t.match(await running.gateway.reload('test'), { ok: true })
    const reply = await running.chat()
    t.equal(reply.status, 502)
    t.notMatch(reply.text, /407|proxy/i)
    t.notMatch(
      reply.text + JSON.stringify(running.lines) + JSON.stringify(await running.admin('/admin/v1/config')),
      /hunter|wrong/
    )
  }
)
