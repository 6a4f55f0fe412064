// Many sessions, and sides that do not read: memory stays bounded, and everybody is charged once.
import t from 'tap'
import { gateway, spawnGateway } from '../kit/gateway.ts'
import { eventually, figures, residentBytes, settled } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import type { RealtimeClient } from '../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'

const long = process.env['SLUICE_LONG'] === '1'
const demo = { models: { demo: { price: { input: 1, output: 2 }, context_window: 100_000 } } }

t.test('two hundred sessions with a flooding upstream, of which some do not read', async (t) => {
  const running = await spawnGateway(t, { ...demo, limits: { client_stall: '1500ms', realtime: { ping: '10m' } } })
  const count = 200
  const share = long ? 3 : 20
  const flood = `Flood. [[simulator ${JSON.stringify({ bytes: long ? 200_000_000 : 20_000_000, chunks: long ? 20_000 : 2000, usage: { input_tokens: 10, output_tokens: 20, total_tokens: 30 } })}]]`
  const open = async (): Promise<RealtimeClient> => {
    const client = await openRealtime(t, running)
    await client.event('session.created')
    return client
  }
  const clients: RealtimeClient[] = []
  while (clients.length < count) clients.push(...(await Promise.all(Array.from({ length: 20 }, open))))
  const before = residentBytes(running.process.pid)
  const stalled = clients.filter((_client, n) => n % share === 0)
  const lively = clients.filter((_client, n) => n % share !== 0)
  for (const client of stalled) {
    client.ask(flood)
    client.socket.pause()
  }
  const answers = await Promise.all(
    lively.map(async (client) => {
      client.ask(
        'Hello [[simulator {"tokens": 5, "usage": {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}}]]'
      )
      return client.event('response.done')
    })
  )
  t.ok(
    answers.every((answer) => answer['response'].status === 'completed'),
    'others are answered meanwhile'
  )
  await eventually(async () => (await figures(t, running)).get('sluice_exchanges_running') === lively.length, 20_000)
  const grown = (residentBytes(running.process.pid) - before) / 1024 / 1024
  t.ok(grown < 200, `${grown.toFixed(0)} MiB more for ${stalled.length} floods of ${long ? 200 : 20} MB`)
  for (const client of lively) client.socket.close(1000)
  for (const client of stalled) client.socket.terminate()
  const closings = await Promise.all(lively.map(({ closed }) => closed))
  t.ok(closings.every(({ code }) => code === 1000))
  await settled(t, running)
  const { data } = await running.admin('/admin/v1/requests?limit=1000')
  t.equal(data.length, count)
  t.equal(data.filter((record: any) => record.error_code === 'client_stalled').length, stalled.length)
  t.ok(
    data.filter((record: any) => record.outcome === 'completed').every((record: any) => record.cost_nano === '17000'),
    'a response is charged once'
  )
})

t.test('a client that sends faster than its upstream reads is held back', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, sessionsAt(upstream))
  const client = await openRealtime(t, running)
  const { socket } = await upstream.peer()
  socket!.pause()
  let got = 0
  socket!.on('message', (data) => void (got += (data as Buffer).length))
  const piece = Buffer.from(
    JSON.stringify({ type: 'x', text: 'x'.repeat(64 * 1024 - '{"type":"x","text":""}'.length) })
  )
  const total = 32 * 1024 * 1024
  for (let sent = 0; sent < total; sent += piece.length) client.socket.send(piece)
  await eventually(() => client.socket.bufferedAmount < total)
  let last = -1
  await eventually(() => last === (last = client.socket.bufferedAmount))
  t.ok(client.socket.bufferedAmount > total / 2, 'what the upstream does not read stays with the client')
  socket!.resume()
  await eventually(() => got === total, 10_000)
})
