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

const handshake =
  `GET /v1/realtime?model=demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${testKey}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'

/** A client that sends bytes, and the frames that it got. */
async function rawClient(
  t: Test,
  { url }: LocalGateway
): Promise<{ send(...frames: Buffer[]): void; frames(): ReadFrame[]; closed: Promise<unknown> }> {
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
const close = (code: number, reason = ''): Buffer =>
  Buffer.concat([Buffer.from([code >> 8, code & 255]), Buffer.from(reason)])

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, at) => from + at)
const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex')

type Frame = readonly [Buffer | string, FrameParts]

/** Frames that are wrong whoever sends them, with the code that they are answered with. */
const wrong: readonly (readonly [string, number, ...Frame[]])[] = [
  ...range(1, 7).map((bits) => [`the reserved bits ${bits}`, 1002, ['x', { opcode: 1, reserved: bits }]] as const),
  ['a reserved bit of a ping', 1002, ['x', { opcode: 9, reserved: 4 }]],
  ['a compressed ping', 1002, ['x', { opcode: 9, reserved: 4 }]],
  ['a reserved bit of a fragment', 1002, ['x', { opcode: 1, fin: false }], ['y', { opcode: 0, reserved: 1 }]],
  ...[...range(3, 7), ...range(11, 15)].map((opcode) => [`the opcode ${opcode}`, 1002, ['x', { opcode }]] as const),
  ['an opcode that is none between fragments', 1002, ['x', { opcode: 1, fin: false }], ['', { opcode: 5 }]],
  ['a fragment of nothing', 1002, ['x', { opcode: 0 }]],
  ['a fragment of nothing, with more to come', 1002, ['x', { opcode: 0, fin: false }]],
  [
    'a fragment behind a whole message',
    1002,
    ['{"type"', { opcode: 2, fin: false }],
    [':"x"}', { opcode: 0 }],
    ['z', { opcode: 0 }]
  ],
  ['a message in a message', 1002, ['x', { opcode: 1, fin: false }], ['y', { opcode: 1 }]],
  ['a message of another kind in a message', 1002, ['x', { opcode: 1, fin: false }], ['y', { opcode: 2, fin: false }]],
  ...[8, 9, 10].map(
    (opcode) => [`the control opcode ${opcode} in fragments`, 1002, [close(1000), { opcode, fin: false }]] as const
  ),
  ...[8, 9, 10].map(
    (opcode) =>
      [
        `126 bytes of the control opcode ${opcode}`,
        1002,
        [Buffer.concat([close(1000), Buffer.alloc(124, 'x')]), { opcode }]
      ] as const
  ),
  ['a ping as long as 64 bits can say', 1002, ['x', { opcode: 9, length: 2 ** 63 }]],
  // Of two bytes; cut; overlong; halves of a character of two; beyond the last one; no beginning.
  ...[
    'c328',
    'e282',
    'c0af',
    'e080af',
    'f08080af',
    'eda080',
    'edbfbf',
    'f4908080',
    'f8888080 80',
    'fe',
    'ff',
    '80',
    '61 80 61'
  ].map((bytes) => [`the text ${bytes}`, 1007, [hex(bytes), { opcode: 1 }]] as const),
  [
    'text that is cut between fragments, and goes on wrongly',
    1007,
    [hex('e2'), { opcode: 1, fin: false }],
    [hex('28a1'), { opcode: 0 }]
  ],
  [
    'text that is wrong in a fragment between others',
    1007,
    ['good', { opcode: 1, fin: false }],
    [hex('ff'), { opcode: 0, fin: false }],
    ['good', { opcode: 0 }]
  ],
  ...[0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535].map(
    (code) => [`the close code ${code}`, 1002, [close(code), { opcode: 8 }]] as const
  ),
  ['half a close code', 1002, [Buffer.from([3]), { opcode: 8 }]],
  ['a reason that is no UTF-8', 1007, [Buffer.concat([close(1000), Buffer.from([0xff])]), { opcode: 8 }]],
  ['a reason with half of a character of two', 1007, [Buffer.concat([close(1000), hex('eda080')]), { opcode: 8 }]],
  ['a reason that is cut', 1007, [Buffer.concat([close(1000), hex('e282')]), { opcode: 8 }]],
  ['more than a message may have', 1009, ['x', { opcode: 2, length: 4097 }]],
  [
    'more than a message may have, in fragments',
    1009,
    ['x'.repeat(4000), { opcode: 2, fin: false }],
    ['x'.repeat(97), { opcode: 0 }]
  ],
  ['more than a number can say', 1009, ['x', { opcode: 2, length: 2 ** 53 }]],
  ['a length with the highest of 64 bits', 1009, ['x', { opcode: 2, length: 2 ** 63 }]],
  [
    'more fragments of nothing than a message may have',
    1008,
    ['', { opcode: 1, fin: false }],
    ...range(1, 5000).map(() => ['', { opcode: 0, fin: false }] as const)
  ],
  [
    'more fragments of one byte than a message may have',
    1008,
    ['', { opcode: 1, fin: false }],
    ...range(1, 4096).map(() => ['x', { opcode: 0, fin: false }] as const)
  ]
]

/** Of one side. */
function bytesOf(frames: readonly Frame[], masked: boolean): Buffer[] {
  return frames.map(([payload, parts]) => frameBytes(payload, { ...parts, masked }))
}

/** Whatever else it is, a message is an event. */
const event = (type: string): string => JSON.stringify({ type })

const small = { limits: { realtime: { message: '4KiB' } } }

t.test('what a client sends that is no WebSocket ends its session with the code for it', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, { ...sessionsAt(upstream), ...small })
  const all = [
    ...wrong.map(([name, code, ...frames]) => ({ name, code, frames: bytesOf(frames, true) })),
    { name: 'a frame without a mask', code: 1002, frames: [frameBytes('x', { opcode: 1 })] }
  ]
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
  const all = [
    ...wrong.map(([name, code, ...frames]) => ({ name, code, frames: bytesOf(frames, false) })),
    { name: 'a frame with a mask', code: 1002, frames: [frameBytes('x', { opcode: 1, masked: true })] }
  ]
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
  socket!
    .on('message', (data, binary) => void got.push([String(data), binary]))
    .on('ping', (data) => void pings.push(String(data)))
  const euro = Buffer.from('€')
  const masked = { masked: true }
  client.send(
    frameBytes('{"type":"one ', { opcode: 1, fin: false, ...masked }),
    frameBytes('ping', { opcode: 9, ...masked }),
    frameBytes(euro.subarray(0, 1), { opcode: 0, fin: false, ...masked }),
    frameBytes('pong', { opcode: 10, ...masked }),
    frameBytes(euro.subarray(1), { opcode: 0, fin: false, ...masked }),
    frameBytes('"}', { opcode: 0, ...masked }),
    frameBytes(event('two'), { opcode: 2, ...masked }),
    frameBytes(event('z'.repeat(500)), { opcode: 1, ...masked }),
    frameBytes(`{"type":"long","z":"${'z'.repeat(70_000)}"}`, { opcode: 1, ...masked })
  )
  await eventually(() => got.length === 4)
  t.same(got, [
    [event('one €'), false],
    [event('two'), true],
    [event('z'.repeat(500)), false],
    [`{"type":"long","z":"${'z'.repeat(70_000)}"}`, false]
  ])
  t.same(
    client
      .frames()
      .filter(({ opcode }) => opcode === 10)
      .map(({ payload }) => String(payload)),
    ['ping'],
    'a ping is answered here'
  )
  t.same(pings, [], 'and not there')
  const { headers, url } = request
  t.equal(url, '/v1/realtime?model=demo-upstream')
  t.match(headers, { authorization: 'Bearer upstream-secret-0000', 'user-agent': 'sluice' })
  t.notOk(JSON.stringify(headers).includes(testKey))
  t.equal(headers['sec-websocket-extensions'], undefined)
  socket!.send(event('back'))
  socket!.send(Buffer.from(event('bytes')))
  await eventually(() => client.frames().filter(({ opcode }) => opcode < 3).length === 2)
  t.same(
    client
      .frames()
      .filter(({ opcode }) => opcode < 3)
      .map(({ opcode, payload }) => [opcode, String(payload)]),
    [
      [1, event('back')],
      [2, event('bytes')]
    ]
  )
})

t.test(
  'what may be said is, in whatever pieces it comes: the longest control frames, odd texts, a byte at a time',
  async (t) => {
    const upstream = await socketUpstream(t)
    const running = await gateway(t, { ...sessionsAt(upstream), ...small })
    const client = await rawClient(t, running)
    const { socket } = await upstream.peer()
    const got: string[] = []
    socket!.on('message', (data) => void got.push(String(data)))
    const texts = [
      '',
      '\u0000',
      '\u07ff\u0800\uffff\ufffe',
      '\ud7ff\ue000',
      '\u{10000}\u{10ffff}',
      '\ufeffmark',
      'x'.repeat(4096 - '{"type":"x","text":""}'.length)
    ].map((text) => JSON.stringify({ type: 'x', text }))
    const masked = { masked: true }
    for (const text of texts) {
      const bytes = Buffer.from(text)
      const pieces = [...bytes].map((_, at) => bytes.subarray(at, at + 1)).slice(0, 20)
      const rest = bytes.subarray(pieces.length)
      client.send(frameBytes(bytes, { opcode: 1, ...masked }))
      client.send(
        ...pieces.map((piece, at) => frameBytes(piece, { opcode: at === 0 ? 1 : 0, fin: false, ...masked })),
        frameBytes(rest, { opcode: pieces.length > 0 ? 0 : 1, ...masked })
      )
    }
    const slowly = Buffer.concat([
      frameBytes('{"type":"slow ', { opcode: 1, fin: false, ...masked }),
      frameBytes('p'.repeat(125), { opcode: 9, ...masked }),
      frameBytes('nobody asked', { opcode: 10, ...masked }),
      frameBytes('word"}', { opcode: 0, ...masked })
    ])
    for (const byte of slowly) {
      client.send(Buffer.from([byte]))
      await new Promise(setImmediate)
    }
    client.send(
      ...range(1, 10).map((n) => frameBytes(`${n}`, { opcode: 9, ...masked })),
      ...range(1, 4000).map((n) =>
        frameBytes(n === 1 ? event('x') : '', { opcode: n === 1 ? 2 : 0, fin: n === 4000, ...masked })
      )
    )
    await eventually(() => got.length === 2 * texts.length + 2)
    t.same(got, [...texts.flatMap((text) => [text, text]), event('slow word'), event('x')])
    await eventually(() => client.frames().filter(({ opcode }) => opcode === 10).length === 11)
    t.same(
      client
        .frames()
        .filter(({ opcode }) => opcode === 10)
        .map(({ payload }) => String(payload)),
      ['p'.repeat(125), ...range(1, 10).map(String)],
      'each ping has its answer'
    )
    const heard = once(socket!, 'close')
    client.send(
      frameBytes(close(1000, 'r'.repeat(123)), { opcode: 8, ...masked }),
      frameBytes('{"type":"response.create"}', { opcode: 1, ...masked }),
      frameBytes('x', { opcode: 9, ...masked })
    )
    const [code, reason] = await heard
    t.same([code, String(reason)], [1000, 'r'.repeat(123)])
    t.equal(got.length, 2 * texts.length + 2, 'what comes behind a close frame is not heard')
    await settled(t, running)
  }
)

t.test('a message has 4 MiB at most where nothing else is said', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, sessionsAt(upstream))
  const most = 4 * 1024 * 1024
  for (const [length, code] of [
    [most, undefined],
    [most + 1, 1009]
  ] as const) {
    const client = await rawClient(t, running)
    client.send(frameBytes('x', { opcode: 2, length, masked: true }))
    if (code === undefined) continue
    await eventually(() => client.frames().some(({ opcode }) => opcode === 8))
    t.equal(codeOf(client.frames().find(({ opcode }) => opcode === 8)!), code)
  }
})

t.test('what an upstream agrees to that nobody offered is no session', async (t) => {
  for (const line of ['Sec-WebSocket-Extensions: permessage-deflate', 'Sec-WebSocket-Protocol: realtime']) {
    const upstream = await socketUpstream(t, { raw: true, lines: [line] })
    const running = await gateway(t, {
      ...sessionsAt(upstream),
      chain: [
        { auth: {} },
        { quota: {} },
        { ratelimit: {} },
        { route: { repeats: 0 } },
        { 'usage-meter': {} },
        { log: { sink: 'none' } }
      ]
    })
    t.match(
      await refusedRealtime(t, running),
      { status: 502, json: { error: { code: 'upstream_bad_response' } } },
      line
    )
    await settled(t, running)
  }
})

t.test('close codes and reasons are said to the other side, but for those that may not be', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, sessionsAt(upstream))
  let n = 0
  const all = [
    ...[1000, 1001, 1002, 1003, ...range(1007, 1014), 3000, 3999, 4000, 4999].map(
      (code) => [code, `because of ${code}`] as const
    ),
    [4321, 'ä'.repeat(61)],
    [1001, ''],
    [undefined, '']
  ] as const
  for (const [code, reason] of all) {
    const client = await openRealtime(t, running)
    const { socket } = await upstream.peer(++n)
    const heard = once(socket!, 'close')
    client.socket.close(code, reason)
    const [said, why] = await heard
    t.same([said, String(why)], [code ?? 1005, reason], `a client's ${code}`)
  }
  for (const [code, reason] of all) {
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
  const running = await gateway(t, {
    ...sessionsAt(upstream),
    chain: [
      { auth: {} },
      { quota: {} },
      { ratelimit: {} },
      { route: { repeats: 0, eject_after: 100 } },
      { 'usage-meter': {} },
      { log: { sink: 'none' } }
    ]
  })
  const answer = (status: string, body: string): string =>
    `HTTP/1.1 ${status}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  for (const [said, status, code] of [
    [
      answer('400 Bad Request', '{"error":{"message":"upstream-secret-0000 is wrong","code":"model_is_odd"}}'),
      400,
      'model_is_odd'
    ],
    [answer('503 Service Unavailable', ''), 503, 'upstream_bad_response'],
    ['HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\n{"error":', 503, 'upstream_bad_response'],
    ['HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n', 502, 'upstream_bad_response'],
    [
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: wrong\r\n\r\n',
      502,
      'upstream_bad_response'
    ],
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
  socket!.send(
    '{"type":"error","event_id":"e1","error":{"type":"invalid_request_error","code":"odd","message":"The key upstream-secret-0000 of 127.0.0.1 is \\"odd\\"","param":null}}'
  )
  t.match(await client.event('error'), {
    event_id: 'e1',
    error: { code: 'odd', message: 'The key [redacted] of [redacted] is "odd"', param: null }
  })
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
