// Frames as they are on the wire, from both sides: what is passed on, what ends a session, and with which code.
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { connect } from '../kit/client.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually, settled } from '../kit/probe.ts'
import { openRealtime, refusedRealtime } from '../kit/realtime.ts'
import { frameBytes, readFrames, sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'
import type { FrameParts, ReadFrame } from '../kit/socket-upstream.ts'

const handshake = `GET /v1/realtime?model=demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${testKey}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'

/** A client that sends bytes, and the frames that it got. */
async function rawClient(t: Test, { url }: LocalGateway): Promise<{ send(...frames: Buffer[]): void; frames(): ReadFrame[]; closed: Promise<unknown> }> {
  const client = await connect(t, url)
  let heard = Buffer.alloc(0)
  client.socket.on('data', (bytes: Buffer) => (heard = Buffer.concat([heard, bytes])))
  client.write(handshake)
  await eventually(() => heard.includes('\r\n\r\n'))
  return {
    send: (...frames) => void client.write(Buffer.concat(frames)),
    frames: () => readFrames(heard.subarray(heard.indexOf('\r\n\r\n') + 4)),
    closed: client.closed
  }
}

const codeOf = ({ payload }: ReadFrame): number => payload.readUInt16BE(0)
const close = (code: number, reason = ''): Buffer => Buffer.concat([Buffer.from([code >> 8, code & 255]), Buffer.from(reason)])

/** Frames that are wrong whoever sends them, with the code that they are answered with. */
const wrong: readonly (readonly [string, Buffer | string, FrameParts, number, (Buffer | string)?, FrameParts?])[] = [
  ['a reserved bit', 'x', { opcode: 1, reserved: 4 }, 1002],
  ['a compressed message', 'x', { opcode: 1, reserved: 1 }, 1002],
  ['an opcode that is none', 'x', { opcode: 3 }, 1002],
  ['a control opcode that is none', 'x', { opcode: 11 }, 1002],
  ['a fragment of nothing', 'x', { opcode: 0 }, 1002],
  ['a message in a message', 'x', { opcode: 1, fin: false }, 1002, 'y', { opcode: 1 }],
  ['a ping in fragments', 'x', { opcode: 9, fin: false }, 1002],
  ['a ping of 126 bytes', Buffer.alloc(126), { opcode: 9 }, 1002],
  ['text that is no UTF-8', Buffer.from([0xc3, 0x28]), { opcode: 1 }, 1007],
  ['a character cut by the end', Buffer.from([0xe2, 0x82]), { opcode: 1 }, 1007],
  ['a close code that may not be sent', close(1005), { opcode: 8 }, 1002],
  ['half a close code', Buffer.from([3]), { opcode: 8 }, 1002],
  ['a reason that is no UTF-8', Buffer.concat([close(1000), Buffer.from([0xff])]), { opcode: 8 }, 1007],
  ['more than a message may have', 'x', { opcode: 2, length: 5000 }, 1009],
  ['more than anything can have', 'x', { opcode: 2, length: 2 ** 40 }, 1009]
]

const small = { limits: { realtime: { message: '4KiB' } } }

t.test('what a client sends that is no WebSocket ends its session with the code for it', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, { ...sessionsAt(upstream), ...small })
  const all = [...wrong.map(([name, payload, parts, code, next, more]) => ({
    name, code, frames: [frameBytes(payload, { ...parts, masked: true }), ...(more ? [frameBytes(next!, { ...more, masked: true })] : [])]
  })), { name: 'a frame without a mask', code: 1002, frames: [frameBytes('x', { opcode: 1 })] }]
  for (const [index, { name, code, frames }] of all.entries()) {
    const client = await rawClient(t, running)
    const { socket } = await upstream.peer(index + 1)
    const upstreamClosed = once(socket!, 'close')
    client.send(...frames)
    await eventually(() => client.frames().some(({ opcode }) => opcode === 8))
    t.equal(codeOf(client.frames().find(({ opcode }) => opcode === 8)!), code, name)
    t.equal((await upstreamClosed)[0], 1001, 'the upstream hears that it is over')
  }
  await settled(t, running)
})

t.test('what an upstream sends that is no WebSocket ends the session with 1011', async (t) => {
  const upstream = await socketUpstream(t, { raw: true })
  const running = await gateway(t, { ...sessionsAt(upstream), ...small })
  const all = [...wrong.map(([name, payload, parts, code, next, more]) => ({ name, code, frames: [frameBytes(payload, parts), ...(more ? [frameBytes(next!, more)] : [])] })),
    { name: 'a frame with a mask', code: 1002, frames: [frameBytes('x', { opcode: 1, masked: true })] }]
  for (const [index, { name, code, frames }] of all.entries()) {
    const client = await openRealtime(t, running)
    const { stream } = await upstream.peer(index + 1)
    let heard = Buffer.alloc(0)
    stream.on('data', (bytes: Buffer) => (heard = Buffer.concat([heard, bytes])))
    stream.write(Buffer.concat(frames))
    t.equal((await client.closed).code, 1011, name)
    t.match(client.events.at(-1), { type: 'error', error: { code: 'upstream_bad_response' } })
    await eventually(() => readFrames(heard).some(({ opcode }) => opcode === 8))
    t.equal(codeOf(readFrames(heard).find(({ opcode }) => opcode === 8)!), code, 'the upstream is told')
    stream.destroy()
  }
  await settled(t, running)
})

t.test('messages pass in their order and of their kind, however they are cut up', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, sessionsAt(upstream))
  const client = await rawClient(t, running)
  const { socket, request } = await upstream.peer()
  const got: [string, boolean][] = []
  const pings: string[] = []
  socket!.on('message', (data, binary) => void got.push([String(data), binary])).on('ping', (data) => void pings.push(String(data)))
  const euro = Buffer.from('€')
  const masked = { masked: true }
  client.send(
    frameBytes('one ', { opcode: 1, fin: false, ...masked }), frameBytes('ping', { opcode: 9, ...masked }), frameBytes(euro.subarray(0, 1), { opcode: 0, fin: false, ...masked }),
    frameBytes('pong', { opcode: 10, ...masked }), frameBytes(euro.subarray(1), { opcode: 0, ...masked }),
    frameBytes('two', { opcode: 2, ...masked }), frameBytes('', { opcode: 1, ...masked }), frameBytes(Buffer.alloc(70_000, 'z'), { opcode: 1, ...masked })
  )
  await eventually(() => got.length === 4)
  t.same(got, [['one €', false], ['two', true], ['', false], ['z'.repeat(70_000), false]])
  t.same(client.frames().filter(({ opcode }) => opcode === 10).map(({ payload }) => String(payload)), ['ping'], 'a ping is answered here')
  t.same(pings, [], 'and not there')
  const { headers, url } = request
  t.equal(url, '/v1/realtime?model=demo-upstream')
  t.match(headers, { authorization: 'Bearer upstream-secret-0000', 'user-agent': 'sluice' })
  t.notOk(JSON.stringify(headers).includes(testKey))
  t.equal(headers['sec-websocket-extensions'], undefined)
  socket!.send('back')
  socket!.send(Buffer.from('bytes'))
  await eventually(() => client.frames().filter(({ opcode }) => opcode < 3).length === 2)
  t.same(client.frames().filter(({ opcode }) => opcode < 3).map(({ opcode, payload }) => [opcode, String(payload)]), [[1, 'back'], [2, 'bytes']])
})

t.test('close codes and reasons are said to the other side, but for those that may not be', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, sessionsAt(upstream))
  let n = 0
  for (const [code, reason] of [[1000, 'done'], [3000, 'mine'], [4321, 'ä'.repeat(61)], [1001, ''], [undefined, '']] as const) {
    const client = await openRealtime(t, running)
    const { socket } = await upstream.peer(++n)
    const heard = once(socket!, 'close')
    client.socket.close(code, reason)
    const [said, why] = await heard
    t.same([said, String(why)], [code ?? 1005, reason], `a client's ${code}`)
  }
  for (const [code, reason] of [[1000, 'done'], [4000, 'session over'], [1013, 'later'], [1008, 'no'], [undefined, '']] as const) {
    const client = await openRealtime(t, running)
    const { socket } = await upstream.peer(++n)
    socket!.close(code, reason)
    t.same(await client.closed, { code: code ?? 1005, reason }, `an upstream's ${code}`)
  }
  const client = await openRealtime(t, running)
  const { stream } = await upstream.peer(++n)
  stream.resetAndDestroy()
  t.equal((await client.closed).code, 1011, 'an upstream that is lost')
  t.match(client.events.at(-1), { type: 'error', error: { code: 'upstream_stream_interrupted' } })
  const leaving = await openRealtime(t, running)
  const { socket } = await upstream.peer(++n)
  const heard = once(socket!, 'close')
  leaving.socket.terminate()
  t.equal((await heard)[0], 1001, 'a client that is lost')
  await settled(t, running)
})

t.test('an upstream that refuses is an HTTP error, and nothing of it that is secret is shown', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, { ...sessionsAt(upstream), chain: [{ auth: {} }, { quota: {} }, { ratelimit: {} }, { route: { repeats: 0, eject_after: 100 } }, { 'usage-meter': {} }, { log: { sink: 'none' } }] })
  const answer = (status: string, body: string): string => `HTTP/1.1 ${status}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  for (const [said, status, code] of [
    [answer('400 Bad Request', '{"error":{"message":"upstream-secret-0000 is wrong","code":"model_is_odd"}}'), 400, 'model_is_odd'],
    [answer('503 Service Unavailable', ''), 503, 'upstream_bad_response'],
    ['HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\n{"error":', 503, 'upstream_bad_response'],
    ['HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n', 502, 'upstream_bad_response'],
    ['HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: wrong\r\n\r\n', 502, 'upstream_bad_response'],
    ['nonsense\r\n\r\n', 502, undefined],
    ['', 502, 'upstream_connection_failed'],
    [answer('401 Unauthorized', '{"error":{"message":"bad key upstream-secret-0000"}}'), 502, 'upstream_auth_failed']
  ] as const) {
    upstream.refuse = said
    const refused = await refusedRealtime(t, running)
    t.equal(refused.status, status, said.slice(9, 20))
    if (code) t.match(refused.json, { error: { code } })
    t.notOk(JSON.stringify(refused.json).includes('upstream-secret'))
  }
  await settled(t, running)
})

t.test('an error in mid-session is passed on without what is secret', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, sessionsAt(upstream))
  const client = await openRealtime(t, running)
  const { socket } = await upstream.peer()
  socket!.send('{"type":"error","event_id":"e1","error":{"type":"invalid_request_error","code":"odd","message":"The key upstream-secret-0000 of 127.0.0.1 is \\"odd\\"","param":null}}')
  t.match(await client.event('error'), { event_id: 'e1', error: { code: 'odd', message: 'The key [redacted] of [redacted] is "odd"', param: null } })
  const plain = '{"type":"error", "error":{"message":"Nothing <b>secret</b>"}}'
  socket!.send(plain.replace(/<.?b>/g, ''))
  await client.event('error', 2)
  t.equal(String(client.frames.at(-1)!.data), plain.replace(/<.?b>/g, ''), 'any other stays as it is')
})

t.test('an upstream that says nothing is an error in its time', async (t) => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  t.teardown(() => silent.close())
  await once(silent, 'listening')
  const url = new URL(`http://127.0.0.1:${(silent.address() as AddressInfo).port}/v1`)
  const running = await gateway(t, sessionsAt({ url }, { timeouts: { first_byte: '100ms' } }))
  const late = await refusedRealtime(t, running)
  t.match([late.status, late.json], [502, { error: { code: 'upstream_connection_failed' } }])
  await settled(t, running)
})
