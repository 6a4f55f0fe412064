// Sessions over HTTP/2, and how they end when nobody closes them: time, dead sides, a crash.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import t from 'tap'
import { WebSocket } from 'ws'
import { gateway, spawnGateway, testKey } from '../kit/gateway.ts'
import { eventually, settled } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'

const demo = { models: { demo: { price: { input: 1, output: 2 }, context_window: 100_000 } } }

t.test('a session over HTTP/2', async (t) => {
  const running = await gateway(t, { ...demo, limits: { drain_timeout: '100ms' } })
  const session = connectHttp2(running.url)
  t.teardown(() => session.destroy())
  await once(session, 'remoteSettings')
  t.equal(session.remoteSettings.enableConnectProtocol, true)
  const ask = (path: string, more: Record<string, string> = {}) =>
    session.request({
      ':method': 'CONNECT',
      ':protocol': 'websocket',
      ':scheme': 'http',
      ':authority': 'localhost',
      ':path': path,
      'sec-websocket-version': '13',
      'sec-websocket-protocol': 'realtime',
      authorization: `Bearer ${testKey}`,
      ...more
    })
  for (const [path, more, status] of [
    ['/v1/realtime?model=demo', { authorization: 'Bearer sk-nobody-0000000000000' }, 401],
    ['/v1/realtime?model=other', {}, 404],
    ['/v1/models', {}, 404],
    ['/v1/realtime?model=demo', { 'sec-websocket-version': '8' }, 426],
    ['/v1/realtime?model=demo', { ':protocol': 'webtransport' }, 405]
  ] as const) {
    const stream = ask(path, more)
    const [headers] = await once(stream, 'response')
    t.equal(headers[':status'], status, `${path} ${JSON.stringify(more)}`)
    stream.resume().end()
  }
  const join = async (): Promise<WebSocket> => {
    const stream = ask('/v1/realtime?model=demo')
    const [headers] = await once(stream, 'response')
    t.match(headers, { ':status': 200, 'sec-websocket-protocol': 'realtime' })
    const client = new (WebSocket as any)(null, undefined, { autoPong: true, closeTimeout: 1000 }) as WebSocket & {
      setSocket(...args: unknown[]): void
      _isServer: boolean
    }
    // The client's side of the library, on a stream of ours.
    client._isServer = false
    client.setSocket(stream, Buffer.alloc(0), { maxPayload: 1 << 20 })
    return client
  }
  const client = await join()
  const events: any[] = []
  client.on('message', (data) => void events.push(JSON.parse(String(data))))
  client.send(
    JSON.stringify({
      type: 'conversation.item.create',
      item: {
        type: 'message',
        role: 'user',
        content: [{ type: 'input_text', text: 'Hi [[simulator {"text": "By two"}]]' }]
      }
    })
  )
  client.send(JSON.stringify({ type: 'response.create', response: { output_modalities: ['text'] } }))
  await eventually(() => events.some(({ type }) => type === 'response.done'))
  t.match(
    events.find(({ type }) => type === 'response.done'),
    { response: { output: [{ content: [{ text: 'By two' }] }] } }
  )
  const closed = once(client, 'close')
  client.close(1000)
  t.equal((await closed)[0], 1000)
  await settled(t, running)
  const last = await join()
  const drained = once(last, 'close')
  const closing = running.gateway.close({ drain: true })
  t.equal((await drained)[0], 1012)
  await closing
})

t.test('a session ends when its time is up, when nothing is said, and when one side is dead', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, {
    ...sessionsAt(upstream),
    limits: { realtime: { duration: '400ms', idle: '10s', ping: '10s' } }
  })
  const brief = await openRealtime(t, running)
  t.equal((await brief.closed).code, 1001)
  t.match(brief.events.at(-1), { type: 'error', error: { code: 'session_expired' } })
  running.configure({ ...sessionsAt(upstream), limits: { realtime: { idle: '200ms', ping: '10s' } } })
  t.ok((await running.gateway.reload('test')).ok)
  t.equal((await (await openRealtime(t, running)).closed).code, 1001)
  running.configure({ ...sessionsAt(upstream), limits: { realtime: { ping: '100ms' } } })
  t.ok((await running.gateway.reload('test')).ok)
  const waiting = await openRealtime(t, running)
  const { stream } = await upstream.peer(3)
  stream.pause()
  t.equal((await waiting.closed).code, 1011, 'an upstream that does not answer')
  t.match(waiting.events.at(-1), { type: 'error', error: { code: 'upstream_timeout_idle' } })
  const silent = await openRealtime(t, running)
  const { socket } = await upstream.peer(4)
  silent.socket.pause()
  t.equal((await once(socket!, 'close'))[0], 1001, 'a client that does not answer')
  await settled(t, running)
})

t.test(
  'killed in mid-session: what was settled stands, what was open is estimated, and there is one record with all of it',
  async (t) => {
    const running = await spawnGateway(t, { ...demo, store: { durability: 'power' } })
    const client = await openRealtime(t, running)
    client.ask('One [[simulator {"tokens": 5, "usage": {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}}]]')
    await client.event('response.done')
    client.ask('Two [[simulator {"tokens": 1000, "gap_ms": 5}]]')
    await client.event('response.output_text.delta', 20)
    const text = readFileSync(running.file, 'utf8')
    running.process.kill('SIGKILL')
    await running.exited
    await t.test('and started again', async (t) => {
      const again = await spawnGateway(t, text)
      const { data } = await again.admin('/admin/v1/requests')
      t.equal(data.length, 1)
      t.match(data[0], { endpoint: 'realtime', outcome: 'failed', usage_source: 'recovered' })
      const cost = BigInt(data[0].cost_nano)
      t.ok(cost > 17_000n + 16n * 2000n, `${cost} nano-dollars: the first response and what is known of the second`)
      await settled(t, again)
    })
  }
)
