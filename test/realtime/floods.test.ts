// As many of the smallest frames as there is room for in one read of a connection.
import { once } from 'node:events'
import { connect as dial } from 'node:net'
import type { Socket } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { testKey } from '../kit/gateway.ts'
import { watchedGateway } from '../kit/loop.ts'
import type { WatchedGateway } from '../kit/loop.ts'
import { eventually } from '../kit/probe.ts'
import { frameBytes, readFrames, sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'

/** Milliseconds of CPU time. */
const most = 50
const readBytes = 64 * 1024
const last = '{"type":"last"}'

/** What fills a read, and what stands behind it. */
function flood(payload: string, opcode: number, masked: boolean): Buffer {
  const one = frameBytes(payload, { opcode, masked })
  const all = Array<Buffer>(Math.floor(readBytes / one.length)).fill(one)
  return Buffer.concat([...all, frameBytes(last, { opcode: 1, masked })])
}

/** The connection of a client with a session. */
async function open(t: Test, { url }: WatchedGateway): Promise<Socket> {
  const client = dial(Number(new URL(url).port), '127.0.0.1')
  client.on('error', () => {})
  t.teardown(() => client.destroy())
  client.write(
    `GET /v1/realtime?model=demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${testKey}\r\nConnection: Upgrade\r\n` +
      'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
  )
  await once(client, 'data')
  return client.resume()
}

t.test('a flood of the smallest frames of a client holds nobody up', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await watchedGateway(t, sessionsAt(upstream))
  const shapes = {
    pings: ['', 9],
    'texts of nothing': ['', 1],
    'what is no event': ['[]', 1],
    events: ['{"type":"x"}', 1],
    'what is refused': ['{"type":"session.update","session":{"model":"x"}}', 1],
    'what is asked for': ['{"type":"response.create"}', 1]
  } as const
  for (const [index, [name, [payload, opcode]]] of Object.entries(shapes).entries()) {
    const client = await open(t, running)
    const { socket } = await upstream.peer(index + 1)
    let passed = 0
    socket!.on('message', (data) => void (String(data as Buffer) === last && passed++))
    const bytes = flood(payload, opcode, true)
    const { cpu } = await running.held(async () => {
      const already = passed
      client.write(bytes)
      await eventually(() => passed > already, 20_000)
    }, most)
    t.ok(cpu < most, `${name}: ${cpu} ms`)
    client.destroy()
  }
})

t.test('a flood of the smallest frames of an upstream holds nobody up', async (t) => {
  const upstream = await socketUpstream(t, { raw: true })
  const running = await watchedGateway(t, sessionsAt(upstream))
  const shapes = { pings: ['', 9], pongs: ['', 10], events: ['{"type":"x"}', 1] } as const
  for (const [index, [name, [payload, opcode]]] of Object.entries(shapes).entries()) {
    const client = await open(t, running)
    let passed = 0
    client.on('data', (bytes: Buffer) => (passed += bytes.includes(last) ? 1 : 0))
    const { stream } = await upstream.peer(index + 1)
    let answers = 0
    stream.on('data', (bytes: Buffer) => (answers += readFrames(bytes).length))
    const bytes = flood(payload, opcode, false)
    const { cpu } = await running.held(async () => {
      const already = passed
      stream.write(bytes)
      await eventually(() => passed > already, 20_000)
    }, most)
    t.ok(cpu < most, `${name}: ${cpu} ms`)
    if (opcode === 9) t.ok(answers > 0)
    client.destroy()
  }
})
