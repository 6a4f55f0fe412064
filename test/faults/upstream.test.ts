// What upstreams do wrong, through the real gateway: what the client sees, whether another channel took over, what was
// billed.
// Runs alone: it measures the memory of its process.
import { setTimeout as sleep } from 'node:timers/promises'
import { brotliCompressSync, constants, createGzip, deflateSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { ask } from '../kit/client.ts'
import type { Client } from '../kit/client.ts'
import { spawnGateway } from '../kit/gateway.ts'
import { eventually, residentBytes, settled, stopwatch } from '../kit/probe.ts'
import { checkChatStream } from '../kit/sse.ts'
import {
  Upstream,
  bytes,
  chunk,
  endOfBody,
  eventBytes,
  events,
  fin,
  head,
  pause,
  readBody,
  reset,
  stall,
  until
} from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import {
  afterContent,
  before,
  billed,
  completion,
  delta,
  done,
  finish,
  one,
  opening,
  sse,
  two,
  usage,
  whole
} from './vendor.ts'

// Some thirty scenarios of a second or so: on a busy machine they take longer than a file is given.
t.setTimeout(600_000)

t.test('what is delivered before a break is followed by an error, never by an end', async (t) => {
  const { local, vendor } = await before(t, one)
  const breaks: Record<string, Step[]> = {
    'an error event': [events([{ error: { message: 'Overloaded', type: 'server_error', code: null } }]), endOfBody()],
    'a reset': [reset()],
    'a lost connection': [fin()],
    'a proper end without a finish': [endOfBody()],
    'an end in mid-event': [chunk('data: {"id":"chatcmpl-1","choi'), endOfBody()],
    'an event that is no JSON': [events(['data: {oops\n\n']), endOfBody()],
    'an HTML page': [chunk('<html><body>502</body></html>\n\n'), endOfBody()]
  }
  for (const [what, steps] of Object.entries(breaks)) {
    const reply = await afterContent(local, vendor, steps)
    t.equal(reply.status, 200, what)
    t.ok(reply.complete, what)
    const answer = checkChatStream(reply.body, { error: true })
    t.match(answer.choices, [{ content: 'So far', finish: undefined }], what)
    const record = await local.record(reply)
    t.match(record, { outcome: 'failed', usage_source: 'partial' }, what)
    t.equal(record.error_code, what === 'an error event' ? 'upstream_bad_response' : record.error_code)
    t.ok(BigInt(record.cost_nano) > 0n, what)
  }
  t.equal(
    vendor.requests.length,
    Object.keys(breaks).length,
    'and nothing is tried twice once a client has seen something'
  )
  await settled(t, local)
})

t.test('an upstream that fails before the answer begins is replaced by the next', async (t) => {
  const json = (status: number, body: string, type = 'application/json'): Step[] => [
    head(status, { 'content-type': type, 'content-length': String(Buffer.byteLength(body)) }),
    bytes(body)
  ]
  const failures: Record<string, Step[]> = {
    'a reset': [reset()],
    'a connection closed at once': [fin()],
    'a bad HTTP response': [bytes('HTTP/1.1 banana\r\n\r\n')],
    'status 500': json(500, '{"error":{"message":"oops"}}'),
    'status 503 in HTML': json(503, '<html>busy</html>', 'text/html'),
    'status 429': json(429, '{"error":{"message":"slow down","type":"requests"}}'),
    'our key refused': json(401, '{"error":{"message":"Incorrect API key provided: upstream-secret-of-first"}}'),
    'an empty 200': json(200, '', 'text/event-stream'),
    'only an end marker': [sse, events([done]), endOfBody()],
    'a role and an end marker': [sse, events([opening, done]), endOfBody()],
    'a role and a loss': [sse, events([opening]), fin()],
    'an error after the role': [sse, events([opening, { error: { message: 'Overloaded', code: 503 } }]), endOfBody()],
    'an empty object': json(200, '{}')
  }
  for (const [what, steps] of Object.entries(failures)) {
    // A gateway each, as it would leave out a channel that fails time and again.
    await t.test(what, async (t) => {
      const { local, first, second } = await before(t, two)
      first.script(...steps)
      second.sse(whole)
      const reply = await local.chat({ stream: true })
      t.equal(reply.status, 200)
      t.match(checkChatStream(reply.body).choices, [{ content: 'All well' }])
      t.match(await local.record(reply), {
        outcome: 'completed',
        channel: 'second',
        usage: billed,
        attempts: [{ channel: 'first' }, { channel: 'second' }]
      })
      await settled(t, local)
    })
  }
})

t.test('when nobody is left the client gets the status, in its own envelope, and pays nothing', async (t) => {
  const cases: [
    what: string,
    status: number,
    body: string | Buffer,
    headers: Record<string, string>,
    shown: number,
    error: object
  ][] = [
    [
      'a user error',
      400,
      '{"error":{"message":"bad n","type":"invalid_request_error","param":"n","code":"invalid_value"}}',
      {},
      400,
      { message: 'bad n', type: 'invalid_request_error', param: 'n', code: 'invalid_value' }
    ],
    ['a code that is a number', 422, '{"error":{"message":"no","code":42}}', {}, 422, { message: 'no', code: '42' }],
    ['an error that is a string', 400, '{"error":"plain text"}', {}, 400, { message: 'plain text' }],
    [
      'an error in an array',
      404,
      '[{"error":{"code":404,"message":"no such model","status":"NOT_FOUND"}}]',
      {},
      404,
      { message: 'no such model' }
    ],
    [
      'HTML',
      500,
      `<html>${'<p>x</p>'.repeat(1000)}</html>`,
      { 'content-type': 'text/html' },
      502,
      { message: /^.{1,300}$/ }
    ],
    ['nothing', 500, '', {}, 502, { message: /\S/ }],
    ['200 KB', 400, JSON.stringify({ error: { message: 'x'.repeat(200_000) } }), {}, 400, { message: /^.{1,1000}$/ }],
    [
      'gzip',
      400,
      gzipSync('{"error":{"message":"packed"}}'),
      { 'content-encoding': 'gzip' },
      400,
      { message: 'packed' }
    ],
    [
      'our key refused',
      401,
      '{"error":{"message":"Incorrect key upstream-secret-of-vendor","code":"invalid_api_key"}}',
      {},
      502,
      { code: 'upstream_auth_failed' }
    ],
    [
      'no room',
      429,
      '{"error":{"message":"slow down"}}',
      { 'retry-after-ms': '1200' },
      429,
      { code: 'upstream_rate_limited' }
    ]
  ]
  for (const [what, status, body, headers, shown, error] of cases) {
    await t.test(what, async (t) => {
      const { local, vendor } = await before(t, one)
      for (const stream of [true, false]) {
        vendor.script(
          head(status, {
            'content-type': 'application/json',
            'content-length': String(Buffer.byteLength(body)),
            ...headers
          }),
          bytes(body)
        )
        const reply = await local.chat({ stream })
        t.equal(reply.status, shown)
        t.match(reply.headers, { 'content-type': /^application\/json/ })
        t.match(reply.json().error, { message: String, type: String, code: String, ...error })
        t.notMatch(reply.text, /upstream-secret|127\.0\.0\.1|vendor/)
        if (status === 429) t.match(reply.headers, { 'retry-after': '2', 'retry-after-ms': '1200' })
        t.match(await local.record(reply), { outcome: 'failed', cost_nano: '0' })
      }
      await settled(t, local)
    })
  }
})

t.test('a request that is wrong is tried once, and the channel is none the worse for it', async (t) => {
  const { local, first, second } = await before(t, two)
  for (let i = 0; i < 20; i++) {
    first.json({ error: { message: 'bad', type: 'invalid_request_error' } }, { status: [400, 404, 413, 422][i % 4]! })
    t.equal((await local.chat()).status, [400, 404, 413, 422][i % 4])
  }
  first.json(completion)
  t.match(await local.record(await local.chat()), { channel: 'first', outcome: 'completed' })
  t.equal(second.requests.length, 0)
})

t.test('a whole answer that is cut is never shown', async (t) => {
  const { local, first, second } = await before(t, two)
  const text = JSON.stringify(completion)
  for (const [what, steps] of Object.entries({
    'less than its length': [
      head(200, { 'content-type': 'application/json', 'content-length': '5000' }),
      bytes(text.slice(0, 200)),
      fin()
    ],
    'chunks without an end': [head(200, { 'content-type': 'application/json' }), chunk(text), fin()],
    'a reset inside': [head(200, { 'content-type': 'application/json' }), chunk(text.slice(0, 100)), reset()]
  })) {
    first.script(...steps)
    second.json(completion)
    const reply = await local.chat()
    t.same(reply.json(), completion, what)
    t.match(await local.record(reply), { channel: 'second', usage: billed })
  }
})

t.test('a whole answer that could be read in two ways is never shown', async (t) => {
  const { local, first, second } = await before(t, two)
  const text = JSON.stringify(completion)
  for (const member of ['"usage":{"prompt_tokens":1}', '"choices":[]', '"\\u0075sage":null']) {
    const twice = `${text.slice(0, -1)},${member}}`
    first.script(head(200, { 'content-type': 'application/json', 'content-length': `${twice.length}` }), bytes(twice))
    second.json(completion)
    const reply = await local.chat()
    t.same(reply.json(), completion, member)
    t.match(await local.record(reply), { channel: 'second', usage: billed })
  }
})

t.test('every byte of a large request reaches the second channel', async (t) => {
  const { local, first, second } = await before(t, two)
  first.scriptFromHead(readBody(1_000_000), reset())
  second.json(completion)
  const messages = [{ role: 'user', content: 'x'.repeat(8_000_000) }]
  t.equal((await local.chat({ messages })).status, 200)
  t.same(second.requests[0]!.json().messages, messages)
})

t.test('answers of the wrong shape are put right', async (t) => {
  const { local, vendor } = await before(t, one)
  vendor.json(completion)
  const stream = await local.chat({ stream: true, stream_options: { include_usage: true } })
  t.match(stream.headers, { 'content-type': /^text\/event-stream/ })
  t.match(checkChatStream(stream.body, { usage: true }).choices, [{ content: 'All well', finish: 'stop' }])
  t.match(await local.record(stream), { usage: billed })

  vendor.script(
    head(200, { 'content-type': 'text/event-stream; charset=utf-8' }),
    events([...whole, done]),
    endOfBody()
  )
  const body = await local.chat()
  t.match(body.headers, { 'content-type': /^application\/json/ })
  t.match(body.json(), {
    object: 'chat.completion',
    choices: [{ message: { role: 'assistant', content: 'All well' }, finish_reason: 'stop' }]
  })
  t.match(await local.record(body), { usage: billed })
})

t.test('compressed streams reach the client in the clear, event by event', async (t) => {
  const { local, vendor } = await before(t, one)
  const source = Buffer.concat([...whole, done].map(eventBytes))
  for (const [encoding, packed] of [
    ['gzip', gzipSync(source)],
    ['br', brotliCompressSync(source)],
    ['deflate', deflateSync(source)]
  ] as const) {
    vendor.script(
      head(200, { 'content-type': 'text/event-stream', 'content-encoding': encoding }),
      chunk(packed),
      endOfBody()
    )
    const reply = await local.chat({ stream: true, stream_options: { include_usage: true } })
    t.notOk(reply.headers['content-encoding'])
    t.equal(reply.text, source.toString(), encoding)
    t.match(await local.record(reply), { usage: billed })
  }
  const gzip = createGzip()
  const flushed = async (data: unknown): Promise<Buffer> => {
    gzip.write(eventBytes(data))
    await new Promise<void>((resolve) => gzip.flush(constants.Z_SYNC_FLUSH, resolve))
    const pieces: Buffer[] = []
    for (let piece = gzip.read() as Buffer | null; piece; piece = gzip.read() as Buffer | null) pieces.push(piece)
    return Buffer.concat(pieces)
  }
  let go!: () => void
  vendor.script(
    head(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }),
    chunk(await flushed(opening)),
    chunk(await flushed(delta('Early'))),
    until(new Promise<void>((resolve) => (go = resolve))),
    fin()
  )
  const client = await local.openChat({ stream: true })
  await client.body('Early')
  go()
  checkChatStream((await client.reply()).body, { error: true })
})

t.test('events of any length up to the limit pass whole, and longer ones are an error', async (t) => {
  const { local, vendor } = await before(t, one)
  for (const size of [70_000, 1_100_000, 12_000_000]) {
    const long = Buffer.concat([opening, delta('x'.repeat(size)), finish].map(eventBytes))
    const pieces = Array.from({ length: Math.ceil(long.length / 16_384) }, (_, i) =>
      long.subarray(i * 16_384, (i + 1) * 16_384)
    )
    vendor.script(sse, events([...pieces, done]), endOfBody())
    const began = stopwatch()
    const reply = await local.chat({ stream: true })
    t.equal(checkChatStream(reply.body).choices[0]!.content.length, size)
    t.ok(began.ms < 5000)
  }
  vendor.script(
    sse,
    events([opening, delta('So far'), 'data: ', ...Array.from({ length: 18 }, () => 'x'.repeat(1_000_000))]),
    stall()
  )
  t.equal(checkChatStream((await local.chat({ stream: true })).body, { error: true }).error!.code, 'answer_too_large')
})

t.test('events are passed on as they come', async (t) => {
  const { local, vendor } = await before(t, one)
  const clients: Client[] = []
  /** Waits until the client has this piece: nothing that comes later is needed for it. */
  const arrived = (text: string): Step => {
    return () => eventually(() => clients.some(({ reads }) => reads.some(({ bytes }) => bytes.includes(text))))
  }
  const pieces = Array.from({ length: 6 }, (_, i) => [events([delta(`piece ${i}`)]), arrived(`piece ${i}`)]).flat()
  vendor.script(sse, events([opening]), ...pieces, events([finish, done]), endOfBody())
  const client = await local.openChat({ stream: true })
  clients.push(client)
  const reply = await client.reply()
  t.match(reply.headers, { 'cache-control': /no-cache/ })
  t.equal(client.reads.filter((read) => read.bytes.includes('piece')).length, 6)
})

t.test('silence ends in an error, at each of its places', async (t) => {
  const { local, vendor } = await before(t, one, {
    channels: { vendor: { timeouts: { first_byte: '300ms', idle: '300ms', total: '900ms' } } }
  })
  const slow = (...steps: Step[]): Promise<{ status: number; code: string; took: number }> => {
    vendor.script(...steps)
    const began = performance.now()
    return local.chat({ stream: true }).then((reply) => ({
      status: reply.status,
      code: reply.status === 200 ? checkChatStream(reply.body, { error: true }).error!.code : reply.json().error.code,
      took: performance.now() - began
    }))
  }
  t.match(await slow(stall()), { status: 504, code: 'upstream_timeout_first_byte' })
  t.match(await slow(sse, stall()), { status: 504, code: 'upstream_timeout_first_byte' })
  t.match(await slow(sse, events([opening]), stall()), { status: 504, code: 'upstream_timeout_first_byte' })
  const idle = await slow(sse, events([opening, delta('Hm')]), stall())
  t.match(idle, { status: 200, code: 'upstream_timeout_idle' })
  // Timers count from the beginning of the event loop's turn, which is long on a busy machine.
  t.ok(idle.took > 150, `${idle.took} ms`)
  const trickle = Array.from({ length: 30 }, (_, i) => [events([delta(`${i}`)]), pause(50)]).flat()
  t.match(await slow(sse, events([opening]), ...trickle, stall()), { status: 200, code: 'upstream_timeout_total' })
  await eventually(() => vendor.open === 0)
  await settled(t, local)
})

t.test('a client that leaves takes the upstream with it, wherever the answer is', async (t) => {
  const { local, vendor } = await before(t, one, { limits: { on_disconnect: 'abort' } })
  for (const [what, steps, stream] of [
    ['before the head', [stall()], true],
    ['before the first event', [sse, stall()], true],
    ['in mid-stream', [sse, events([opening, delta('So far')]), stall()], true],
    [
      'while a whole answer is waited for',
      [head(200, { 'content-type': 'application/json' }), chunk('{"id":'), stall()],
      false
    ]
  ] as const) {
    for (const leave of ['close', 'reset'] as const) {
      vendor.script(...steps)
      const n = vendor.requests.length
      const client = await local.openChat({ stream })
      const { connection } = await vendor.request(n)
      if (what === 'in mid-stream') await client.body('So far')
      else await sleep(20)
      const left = stopwatch()
      client[leave]()
      const end = await connection.closed
      t.equal(end.by, 'peer', what)
      t.ok(left.ms < 2000, what)
    }
  }
  await settled(t, local)
  const { data } = await local.admin('/admin/v1/requests?limit=20')
  t.equal(data.length, 8)
  for (const record of data) t.match(record, { outcome: 'aborted', status: record.first_byte_ms === null ? 499 : 200 })
})

t.test('whoever does not read is not read for', async (t) => {
  const { local, vendor } = await before(t, one)
  const flood = (function* () {
    yield opening
    const big = delta('x'.repeat(60_000))
    for (let i = 0; i < 5000; i++) yield big
  })()
  vendor.script(sse, events(flood), endOfBody())
  const memory = residentBytes()
  const client = await local.openChat({ stream: true })
  await client.body(100_000)
  client.stopReading()
  const { connection } = await vendor.request()
  let written = -1
  await eventually(async () => {
    const before = written
    await sleep(100)
    return (written = connection.written) === before
  })
  t.ok(residentBytes() - memory < 64 * 1024 * 1024, 'memory stays')
  client.close()
  t.equal((await connection.closed).by, 'peer')
  await settled(t, local)
})

t.test('a connection that the upstream dropped while idle costs no request', async (t) => {
  const { local, vendor } = await before(t, one)
  const body = JSON.stringify(completion)
  for (let i = 0; i < 30; i++) {
    // Nothing in the head says that the connection will be closed.
    vendor.script(
      head(200, { 'content-type': 'application/json', 'content-length': String(body.length) }),
      bytes(body),
      pause(i % 5),
      fin()
    )
    t.equal((await local.chat()).status, 200)
    await vendor.requests[i]!.connection.closed
  }
  t.equal(vendor.requests.length, 30)
})

t.test('running streams end by themselves after a signal, and new ones are refused', async (t) => {
  const vendor = await Upstream.start(t)
  const spawned = await spawnGateway(t, {}, { upstreams: { vendor } })
  let go!: () => void
  const signal = new Promise<void>((resolve) => (go = resolve))
  vendor.always(
    sse,
    events([opening, delta('So far')]),
    until(signal),
    events([delta(' so good'), finish, usage, done]),
    endOfBody()
  )
  const clients = await Promise.all(Array.from({ length: 10 }, () => spawned.openChat({ stream: true })))
  await Promise.all(clients.map((client) => client.body('So far')))
  spawned.process.kill('SIGTERM')
  await eventually(async () => (await ask(t, spawned.adminUrl, { path: '/readyz' })).status === 503)
  const refused = await spawned.chat().then(
    (reply) => reply.status,
    () => 503
  )
  t.equal(refused, 503)
  go()
  for (const client of clients)
    t.equal(checkChatStream((await client.reply()).body).choices[0]!.content, 'So far so good')
  t.match(await spawned.exited, { code: 0 })
})
