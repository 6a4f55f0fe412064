// How long the places at an upstream are held that `limits` of a channel allow, and which credential is asked again for
// what it has made.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startSimulator } from '../../core/simulator/simulator.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { openRealtime, refusedRealtime } from '../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'
import { chunk, endOfBody, events, head, reset, stall, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { chatAnswer, chatEvents } from '../kit/workbench.ts'

t.setTimeout(300_000)

const stream = head(200, { 'content-type': 'text/event-stream' })
const good = [head(200, { 'content-type': 'application/json' }), chunk(JSON.stringify(chatAnswer())), endOfBody()]

async function left(running: LocalGateway, channel: string): Promise<number> {
  const { health } = await running.admin(`/admin/v1/channels/${channel}`)
  return health.limits.find(({ name }: { name: string }) => name === 'concurrency').left
}

t.test('a stream has its place until it ends, whichever way it ends', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(
    t,
    { channels: { up: { limits: { concurrency: 1 } } }, limits: { disconnect_drain: { time: '200ms' } } },
    { upstreams: { up: upstream } }
  )
  const all = chatEvents()
  const endings: Record<string, readonly Step[]> = {
    'it is whole': [stream, events(all), endOfBody()],
    'its connection breaks before anything': [reset()],
    'its connection breaks in the midst': [stream, events(all.slice(0, 2)), reset()],
    'it is an error': [head(500, { 'content-type': 'application/json' }), chunk('{}'), endOfBody()],
    'it is refused': [head(400, { 'content-type': 'application/json' }), chunk('{}'), endOfBody()],
    'it is no stream': [head(200, { 'content-type': 'text/event-stream' }), chunk('nonsense'), endOfBody()]
  }
  for (const [how, steps] of Object.entries(endings)) {
    upstream.script(...steps)
    const client = await running.openChat({ stream: true })
    await client.reply().catch(() => {})
    await eventually(async () => (await left(running, 'up')) === 1)
    t.pass(how)
  }
  upstream.script(stream, events(all.slice(0, 2)), stall())
  const client = await running.openChat({ stream: true })
  await eventually(async () => (await left(running, 'up')) === 0)
  t.pass('it is held while the stream goes on')
  client.reset()
  await eventually(async () => (await left(running, 'up')) === 1)
  t.pass('its client leaves')
  upstream.always(...good)
  t.equal((await running.chat()).status, 200)
})

t.test('who waits gets the place that is given back, and who leaves while waiting takes none', async (t) => {
  const upstream = await Upstream.start(t)
  const chain = [
    { auth: {} },
    { quota: {} },
    { ratelimit: {} },
    { route: { wait: '100s' } },
    { 'usage-meter': {} },
    { log: { sink: 'none' } }
  ]
  const running = await gateway(
    t,
    { channels: { up: { limits: { concurrency: 1 } } }, chain },
    { upstreams: { up: upstream } }
  )
  upstream.script(stream, events(chatEvents().slice(0, 2)), stall())
  const first = await running.openChat({ stream: true })
  await upstream.request(0)
  const leaving = await running.openChat()
  await eventually(() => running.gateway !== undefined)
  upstream.always(...good)
  const waiting = running.chat()
  leaving.reset()
  first.reset()
  t.equal((await waiting).status, 200)
  t.equal(upstream.requests.length, 2, 'nobody was asked for the one who left')
  await eventually(async () => (await left(running, 'up')) === 1)
})

t.test('a session has its place until it is closed', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, {
    ...sessionsAt(upstream, { limits: { concurrency: 1 } }),
    chain: [{ auth: {} }, { quota: {} }, { route: { wait: '0s' } }, { 'usage-meter': {} }, { log: { sink: 'none' } }]
  })
  const session = await openRealtime(t, running)
  const refused = await refusedRealtime(t, running)
  t.equal(refused.status, 429)
  t.ok(refused.headers['retry-after'])
  session.socket.terminate()
  await eventually(async () => (await left(running, 'demo')) === 1)
  const again = await openRealtime(t, running)
  ;(await upstream.peer(2)).socket!.terminate()
  await again.closed
  await eventually(async () => (await left(running, 'demo')) === 1)
  t.pass('also when its upstream ends it')
})

t.test('what a credential has made is asked of that one, also after another was put in front', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const simulator = await startSimulator({ port: 0 })
  t.teardown(() => simulator.close())
  const one = { key: 'upstream-secret-one', name: 'one' }
  const two = { key: 'upstream-secret-two', name: 'two' }
  const file = (credentials: readonly object[]): Record<string, unknown> => ({
    channels: {
      demo: {
        protocol: 'openai',
        base_url: new URL('/v1', simulator.url).href,
        private: true,
        endpoints: ['responses'],
        models: { demo: 'demo' },
        credentials
      }
    },
    models: { demo: { price: { input: 1, output: 1 } } },
    store: { sqlite: join(folder, 'sluice.db') }
  })
  const running = await gateway(t, file([one]))
  const created = await running.ask({ method: 'POST', path: '/v1/responses', body: { model: 'demo', input: 'Hi' } })
  t.equal(created.status, 200)
  const { id } = created.json() as { id: string }
  running.configure(file([two, one]))
  await running.ask({ method: 'GET', path: '/v1/models' })
  const reload = await fetch(`${running.adminUrl}/admin/v1/reload`, { method: 'POST' })
  t.equal(reload.status, 200)
  for (let i = 0; i < 6; i++) {
    const asked = await running.ask({ method: 'GET', path: `/v1/responses/${id}` })
    t.equal(asked.status, 200)
    t.match((await running.record(asked)).attempts, [{ channel: 'demo', credential: 'one' }])
  }
  const next = await running.ask({
    method: 'POST',
    path: '/v1/responses',
    body: { model: 'demo', input: 'And?', previous_response_id: id }
  })
  t.match((await running.record(next)).attempts, [{ credential: 'one' }])
  running.configure(file([two]))
  t.equal((await fetch(`${running.adminUrl}/admin/v1/reload`, { method: 'POST' })).status, 200)
  t.not((await running.ask({ method: 'GET', path: `/v1/responses/${id}` })).status, 200, 'nobody else is asked for it')
})
