// Frames that could be read in two ways, or not at all, and large ones: refused on either side, looked into in slices,
// and held in memory that has a bound.
import t from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import { watchedGateway } from '../kit/loop.ts'
import { eventually, settled } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import { frameBytes, sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'

t.setTimeout(600_000)

const MiB = 1024 * 1024
/** Milliseconds of CPU time that the loop may be held. */
const most = 40
/** A frame after a large one. */
const next = Buffer.from('{"type":"next"}')
const deep = `${'['.repeat(600)}${']'.repeat(600)}`

/** By what is wrong with them; some reader takes each for a wish for a response or for another model. */
const twofold: Record<string, string | Buffer> = {
  'a response that is too deep': `{"type":"response.create","x":${deep}}`,
  'wishes that are too deep': `{"type":"response.create","response":{"input":${deep}}}`,
  'settings that are too deep': `{"type":"session.update","session":{"x":${deep},"model":"costly"}}`,
  'a type twice': '{"type":"x","type":"response.create"}',
  'settings twice': '{"type":"session.update","session":{},"session":{"model":"costly"}}',
  'a model twice': '{"type":"session.update","session":{"model":"demo","model":"costly"}}',
  'a model twice, once in escapes': '{"type":"session.update","session":{"model":"demo","mod\\u0065l":"costly"}}',
  ſession: '{"type":"session.update","ſession":{"model":"costly"}}',
  Session: '{"type":"session.update","Session":{"model":"costly"}}',
  'a member that ends in a zero byte': '{"type":"session.update","session\\u0000":{"model":"costly"}}',
  Type: '{"type":"x","Type":"response.create"}',
  'TYPE alone': '{"TYPE":"response.create"}',
  'a model in capitals': '{"type":"session.update","session":{"MODEL":"costly"}}',
  'a model with a zero byte': '{"type":"session.update","session":{"model\\u0000x":"costly"}}',
  'a limit in capitals': '{"type":"response.create","response":{"Max_Output_Tokens":5}}',
  'a model in another event': '{"type":"transcription_session.update","session":{"model":"costly"}}',
  'a model of one response': '{"type":"response.create","response":{"model":"costly"}}',
  'a model that is a list': '{"type":"session.update","session":{"model":["costly"]}}',
  'a type in capitals': '{"type":"Response.Create"}',
  'a type with a zero byte': '{"type":"response.create\\u0000"}',
  'no type': '{"response":{}}',
  'a type that is a list': '{"type":["response.create"]}',
  'a list': '[{"type":"response.create"}]',
  'no JSON': "{'type':'response.create'}",
  'two values': '{"type":"x"}{"type":"response.create"}',
  'a comment': '{"type":"x"}//',
  'a mark before it': '\ufeff{"type":"response.create"}',
  nothing: '',
  'UTF-16': Buffer.from('{"type":"response.create"}', 'utf16le'),
  'no UTF-8': Buffer.from('{"type":"response.create","x":"\xff"}', 'latin1'),
  'a thousand members': `{"type":"response.create"${Array.from({ length: 1200 }, (_, n) => `,"${n}":0`).join('')}}`
}

t.test('a frame of a client that could be read in two ways, or not at all, is refused', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, sessionsAt(upstream))
  const client = await openRealtime(t, running)
  const { socket } = await upstream.peer()
  const got: string[] = []
  socket!.on('message', (data) => void got.push(String(data)))
  let errors = 0
  for (const [what, frame] of Object.entries(twofold)) {
    client.socket.send(frame)
    t.match(await client.event('error', ++errors), { error: { type: 'invalid_request_error' } }, what)
  }
  client.send({ type: 'session.update', event_id: 'mine', session: { model: 'other' } })
  t.match(await client.event('error', ++errors), { error: { event_id: 'mine' } })
  const fine = [
    '{"type":"x","Other":{"Model":1},"items":[{"a":1,"A":2}]}',
    `{"type":"x","deep":${'['.repeat(500)}${']'.repeat(500)}}`,
    '{"type":"session.update","session":{"Voice":"x","model":null}}'
  ]
  for (const frame of fine) client.socket.send(frame)
  await eventually(() => got.length === fine.length)
  t.same(got, fine, 'what can be read in one way alone goes on as it came, and nothing else has')
  client.socket.send('{"type":"response.create","response":{"model":"demo", "max_output_tokens":"inf"}}')
  await eventually(() => got.length === fine.length + 1)
  t.equal(got.at(-1), '{"type":"response.create","response":{"model":"demo-upstream", "max_output_tokens":"inf"}}')
  client.socket.close(1000)
  await settled(t, running)
})

t.test('a frame of an upstream that could be read in two ways, or not at all, ends its session', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, sessionsAt(upstream))
  const usage = { input_tokens: 5, output_tokens: 7, total_tokens: 12 }
  const wrong: Record<string, string | Buffer> = {
    'an end that is too deep': `{"type":"response.done","response":{"id":"r","usage":${JSON.stringify(usage)},"x":${deep}}}`,
    'an end with its response twice': `{"type":"response.done","response":{"id":"r"},"response":{"id":"r"}}`,
    'an end with its usage twice': `{"type":"response.done","response":{"id":"r","usage":${JSON.stringify(usage)},"usage":null}}`,
    'a text with its delta twice': '{"type":"response.output_text.delta","delta":"a","delta":"b"}',
    'a list': '[]',
    'a text': '"response.done"',
    'no JSON': 'Internal Server Error',
    'no UTF-8': Buffer.from('{"type":"x","x":"\xff"}', 'latin1')
  }
  for (const [at, [what, frame]] of Object.entries(wrong).entries()) {
    const client = await openRealtime(t, running)
    const { socket } = await upstream.peer(at + 1)
    client.send({ type: 'response.create' })
    await new Promise((resolve) => void socket!.once('message', resolve))
    socket!.send('{"type":"response.created","response":{"id":"r"}}')
    await client.event('response.created')
    socket!.send(frame)
    t.equal((await client.closed).code, 1011, what)
    t.same(
      client.events.map(({ type }) => type),
      ['response.created', 'error'],
      what
    )
    t.match(client.events.at(-1), { error: { code: 'upstream_bad_response' } }, what)
  }
  await settled(t, running)
})

t.test('a lower limit holds when the upstream has shown it, and no key of its own is shown with it', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, {
    ...sessionsAt(upstream),
    keys: [{ name: 'test', key: testKey, tenant: 'acme', budget: { usd: '10', per: 'total' } }]
  })
  const client = await openRealtime(t, running)
  const { socket } = await upstream.peer()
  let got = 0
  socket!.on('message', () => void got++)
  const pending = async (): Promise<number> => {
    const { data } = await running.admin('/admin/v1/balances')
    return Number(data.find(({ scope }: { scope: string }) => scope.startsWith('key:')).pending_nano)
  }
  const outputs: number[] = []
  /** What is held for one more response, in hundreds of tokens of sound. */
  const ask = async (response?: object): Promise<void> => {
    const [before, sent] = [await pending(), got]
    client.send({ type: 'response.create', response })
    await eventually(() => got > sent)
    outputs.push(Math.round(((await pending()) - before) / 400_000) * 100)
  }
  client.send({ type: 'session.update', session: { max_output_tokens: 1 } })
  await eventually(() => got === 1)
  await ask()
  const secret = { value: 'ek_upstream_0123456789', expires_at: 1 }
  socket!.send(JSON.stringify({ type: 'session.updated', session: { max_output_tokens: 1, client_secret: secret } }))
  t.match(await client.event('session.updated'), { session: { max_output_tokens: 1, client_secret: null } })
  await ask()
  await ask({ max_output_tokens: 'inf' })
  await ask({ max_output_tokens: 1, max_response_output_tokens: 700 })
  client.send({ type: 'session.update', session: { max_output_tokens: 500 } })
  await ask()
  const bounds = [
    [1000, 1200],
    [0, 200],
    [1000, 1200],
    [700, 900],
    [500, 700]
  ]
  for (const [at, [least = 0, most = 0] = []] of bounds.entries())
    t.ok(outputs[at]! >= least && outputs[at]! <= most, `${outputs[at]} for the response ${at + 1}`)
  client.socket.terminate()
  await settled(t, running)
})

t.test('large frames of either side hold nobody up', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await watchedGateway(t, sessionsAt(upstream))
  const client = await openRealtime(t, running)
  const { socket } = await upstream.peer()
  let passed = 0
  socket!.on('message', (data: Buffer) => void (data.equals(next) && passed++))
  const fill = (unit: string, before: string, after: string): string =>
    before + unit.repeat(Math.floor((3.9 * MiB) / unit.length)) + after
  const shapes: Record<string, (before: string, after: string) => string> = {
    lists: (before, after) => fill('[],', `${before}"x":[`, `0]${after}`),
    'lists in lists': (before, after) => fill(`${'['.repeat(400)}${']'.repeat(400)},`, `${before}"x":[`, `0]${after}`),
    objects: (before, after) => fill('{"":0},', `${before}"x":[`, `0]${after}`),
    text: (before, after) => fill('a', `${before}"x":"`, `"${after}`),
    escapes: (before, after) => fill('\\u0041', `${before}"x":"`, `"${after}`)
  }
  for (const [shape, make] of Object.entries(shapes)) {
    const places = [
      ['{"type":"x",', '}'],
      ['{"type":"session.update","session":{"model":"demo",', '}}'],
      ['{"type":"response.create","response":{"model":"demo",', '}}']
    ] as const
    for (const [before, after] of places) {
      const { cpu } = await running.held(async () => {
        client.socket.send(make(before, after))
        const already = passed
        client.socket.send(next, { binary: false })
        await eventually(() => passed > already, 20_000)
      }, most)
      t.ok(cpu < most, `${shape} of a client in ${before}: ${cpu} ms`)
    }
    for (const [before, after] of [
      ['{"type":"x",', '}'],
      ['{"type":"session.updated","session":{"model":"demo-upstream","client_secret":"x",', '}}'],
      ['{"type":"response.done","response":{"id":"r","status_details":{"error":{"code":"x"}},', '}}']
    ] as const) {
      const { cpu } = await running.held(async () => {
        const heard = client.frames.length
        socket!.send(make(before, after))
        await eventually(() => client.frames.length > heard, 20_000)
      }, most)
      t.ok(cpu < most, `${shape} of an upstream in ${before}: ${cpu} ms`)
    }
    client.frames.length = client.events.length = 0
  }
})

t.test('what is on its way in all sessions has a bound, and small frames find room beyond it', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, { ...sessionsAt(upstream), limits: { body_memory: '8MiB' } })
  const { socket: first } = await openRealtime(t, running)
  const half = (bytes: number): Buffer => frameBytes('x'.repeat(bytes), { opcode: 1, length: 4 * MiB, masked: true })
  const begin = async (): Promise<Awaited<ReturnType<typeof openRealtime>>> => {
    const client = await openRealtime(t, running)
    // Half of a frame, below the library.
    ;(client.socket as unknown as { _socket: { write(bytes: Buffer): void } })._socket.write(half(1.5 * MiB))
    return client
  }
  const clients = [await begin(), await begin()]
  await new Promise((resolve) => setTimeout(resolve, 300))
  clients.push(await begin(), await begin())
  const late = await Promise.all(clients.slice(2).map(({ closed }) => closed))
  t.same(
    late.map(({ code }) => code),
    [1013, 1013],
    'half of the memory of all bodies is for frames'
  )
  t.match(clients[3]!.events.at(-1), { error: { code: 'overloaded' } })
  t.same(
    clients.slice(0, 2).map(({ socket }) => socket.readyState),
    [1, 1],
    'those that came before go on'
  )
  let got = 0
  const { socket: heard } = await upstream.peer(1)
  heard!.on('message', () => void got++)
  for (let n = 0; n < 100; n++) first.send(JSON.stringify({ type: 'x', text: 'x'.repeat(20_000) }))
  await eventually(() => got === 100)
  for (const { socket } of clients) socket.terminate()
  await eventually(async () => (await running.admin('/admin/v1/requests')).data.length >= 4, 10_000)
  for (let n = 0; n < 5; n++) first.send(JSON.stringify({ type: 'x', text: 'x'.repeat(3 * MiB) }))
  await eventually(() => got === 105, 10_000)
})
