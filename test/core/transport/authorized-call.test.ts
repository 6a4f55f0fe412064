// Requests and WebSockets of channels whose credential changes.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import type { Channel } from '../../../core/catalogue/catalogue.ts'
import { credentialOf, Credentials } from '../../../core/credentials/credentials.ts'
import { silentLog } from '../../../core/telling/log.ts'
import { Transports } from '../../../core/transport/transports.ts'
import { FrameSocket } from '../../../core/wire/frame-socket.ts'
import { eventually } from '../../kit/probe.ts'
import { socketUpstream } from '../../kit/socket-upstream.ts'
import { tokenServer } from '../../kit/token-server.ts'
import type { Answer, TokenServer } from '../../kit/token-server.ts'
import { channelOf, Recorder } from './recorder.ts'

const request = {
  method: 'POST',
  path: '/chat/completions',
  headers: ['content-type', 'application/json'],
  body: [Buffer.from('{"model":"m"}')]
} as const

/** A transport with a channel whose credential is in a file, and what writes that file. */
async function opened(
  t: Test,
  url: URL,
  more: Partial<Channel> = {}
): Promise<{ transport: Transports; channel: Channel; rotate(key: string): void }> {
  const file = join(t.testdir({ key: 'first' }), 'key')
  const channel = channelOf(url, {
    ...more,
    living: { source: { kind: 'file', file }, header: 'authorization', prefix: 'Bearer ' }
  })
  const credentials = new Credentials(silentLog)
  t.teardown(credentials.use([channel]))
  await credentialOf(channel.living!.source)!.wait()
  const transport = new Transports()
  t.teardown(() => transport.close())
  t.teardown(await transport.use([channel]))
  return { transport, channel, rotate: (key) => writeFileSync(file, key) }
}

/** An upstream that takes one key. */
async function picky(t: Test, key: string): Promise<TokenServer> {
  return tokenServer(t, ({ headers, body }): Answer => {
    const right = headers.authorization === `Bearer ${key}`
    return right ? { body: `took ${body.toString()}` } : { status: 401, body: 'x'.repeat(200_000) }
  })
}

for (const transport of ['own', 'undici'] as const) {
  t.test(`a request that is refused is sent once more, whole, with the next credential (${transport})`, async (t) => {
    const upstream = await picky(t, 'second')
    const { transport: transports, channel, rotate } = await opened(t, new URL(`${upstream.url}/v1`), { transport })
    const first = new Recorder()
    transports.send(channel, request, first)
    await first.over
    t.equal(first.status, 401, 'there is no other yet')
    t.equal(first.body.length, 200_000, 'the refusal arrives whole')
    t.same([first.heard[0], first.heard.at(-1)], ['head', 'end'])
    t.equal(upstream.asked.length, 1)

    rotate('second')
    const second = new Recorder()
    transports.send(channel, request, second)
    await second.over
    t.equal(second.status, 200)
    t.equal(second.body, 'took {"model":"m"}')
  })
}

t.test('a sink that throws at a refusal that was held back gets the error', async (t) => {
  const upstream = await picky(t, 'none')
  const { transport, channel } = await opened(t, new URL(`${upstream.url}/v1`))
  const sink = new Recorder((what) => {
    if (what === 'head') throw new Error('thrown by the sink')
  })
  transport.send(channel, request, sink)
  const { error } = await sink.over
  t.equal(error?.code, 'internal_error')
  t.same(sink.heard, ['head', 'error'])
  await eventually(() => transport.connections === 0)
})

t.test('one that is given up while it waits is never sent and hears nothing', async (t) => {
  const upstream = await picky(t, 'late')
  const late = Promise.withResolvers<Answer>()
  const server = await tokenServer(t, () => late.promise)
  const channel = channelOf(new URL(`${upstream.url}/v1`), {
    living: {
      source: {
        kind: 'oauth2',
        tokenUrl: `${server.url}/token`,
        clientId: 'id',
        clientSecret: 'secret',
        clientAuth: 'basic',
        scope: undefined,
        parameters: {}
      },
      header: 'authorization',
      prefix: 'Bearer '
    }
  })
  const credentials = new Credentials(silentLog)
  t.teardown(credentials.use([channel]))
  const transport = new Transports()
  t.teardown(() => transport.close())
  t.teardown(await transport.use([channel]))
  const [left, stayed] = [new Recorder(), new Recorder()]
  const call = transport.send(channel, request, left)
  transport.send(channel, request, stayed)
  t.equal(call.unsent, true)
  call.abort()
  late.resolve({ body: { access_token: 'late', expires_in: 60 } })
  await stayed.over
  t.equal(stayed.status, 200)
  t.equal(upstream.asked.length, 1)
  t.same(left.heard, [])
})

t.test('a WebSocket is opened once more with the next credential', async (t) => {
  const upstream = await socketUpstream(t)
  const seen: (string | undefined)[] = []
  upstream.refuse = ({ headers: { authorization } }) => {
    seen.push(authorization)
    return authorization === 'Bearer second' ? undefined : 'HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n'
  }
  const { transport, channel, rotate } = await opened(t, upstream.url)
  const asked = {
    path: '/realtime',
    headers: { 'x-own': 'yes' },
    maxMessage: 1024,
    signal: new AbortController().signal
  }
  rotate('second')
  const answer = await transport.connect(channel, asked)
  t.ok(answer instanceof FrameSocket)
  t.same(seen, ['Bearer first', 'Bearer second'])
  t.equal(upstream.peers[0]!.request.headers['x-own'], 'yes')
})
