// What is written down about an exchange, what never is, and that writing it never holds anything up.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import type { RequestRecord } from '../../core/store/requests.ts'
import type { Usage } from '../../core/money/usage.ts'
import log from '../../plugins/log/index.ts'
import { Sink } from '../../plugins/log/sink.ts'
import type { Write } from '../../plugins/log/sink.ts'
import { textOf } from '../../plugins/log/text.ts'
import { pluginContract } from '../kit/contract.ts'
import { bytes, chunk, endOfBody, events, head, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, chatEvents, key, Workbench } from '../kit/workbench.ts'
import type { Sections } from '../kit/workbench.ts'
import { stopwatch } from '../kit/probe.ts'

pluginContract(t, log, {
  accepts: [{ sink: 'none' }, { sink: 'none', bodies: true, body_limit: '1KiB', buffer: '1MiB' }],
  refuses: [
    [{ sink: '' }, /must/],
    [{ bodies: 'yes' }, /true or false/],
    [{ body_limit: 'much' }, /size/]
  ]
})

interface Bench {
  bench: Workbench
  upstream: Upstream
  file: string
  lines(): Promise<(RequestRecord & { request_body?: string; response_body?: string })[]>
}

async function open(t: Test, options: object = {}, sections: Sections = {}): Promise<Bench> {
  const upstream = await Upstream.start(t)
  const file = join(t.testdir({}), 'lines.log')
  const credential = 'secret-of-the-channel'
  const chain = [
    'auth',
    'quota',
    'ratelimit',
    { route: { repeats: 0 } },
    'usage-meter',
    { log: { sink: file, ...options } }
  ]
  const bench = await Workbench.open(t, { channels: { a: channelTo(upstream, { credential }) }, chain, ...sections })
  return {
    bench,
    upstream,
    file,
    async lines() {
      await bench.close()
      return readFileSync(file, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as RequestRecord)
    }
  }
}

t.test('a record shows the usage that was charged, when the reported one cannot be true', async (t) => {
  const { bench, upstream } = await open(t)
  upstream.json(chatAnswer(9_000_000_000_000_000, 7))
  await bench.send()
  const [record] = bench.records
  t.match(record, { outcome: 'completed', usage_source: 'estimated', usage: { output: 0 } })
  t.ok(record!.usage!.input < 1000, `${record!.usage!.input} tokens`)
  t.equal(BigInt(record!.cost_nano), BigInt(record!.usage!.input) * 1000n)
})

t.test('the text of a record is that of JSON.stringify, whatever was recorded before it', async () => {
  // Few different names, so that records are alike in some members and not in others.
  const name = fc.constantFrom(null, 'a', 'b', 'ü"\\', '')
  const given = fc.constantFrom('a', 'b', 'line\nbreak')
  const amount = fc.bigInt({ min: 0n, max: 10n ** 18n }).map(String)
  const ms = fc.nat({ max: 36_000_000 }).map((tenths) => tenths / 10)
  const count = fc.maxSafeNat()
  const usage = fc
    .tuple(
      fc.record({ input: count, cached_input: count, cache_write: count, output: count, reasoning: count }),
      fc.constantFrom<Partial<Usage>[]>({}, { audio_input: 5 }, { image: 1, request: 1 })
    )
    .map(([always, more]): Usage => ({ ...always, ...more }))
  const attempt = fc.record({
    channel: given,
    status: fc.option(fc.constantFrom(200, 500), { nil: undefined }),
    error_code: fc.option(given, { nil: undefined }),
    head_ms: fc.option(ms, { nil: undefined }),
    first_byte_ms: fc.option(ms, { nil: undefined }),
    duration_ms: ms,
    at_ms: fc.option(ms, { nil: undefined })
  })
  const record: fc.Arbitrary<RequestRecord> = fc.record({
    request_id: fc.uuid(),
    time: fc.constant('2026-11-21T00:00:00.000Z'),
    tenant: name,
    project: name,
    member: name,
    key: name,
    model: name,
    requested_model: name,
    endpoint: given,
    client_protocol: given,
    channel: name,
    channel_protocol: name,
    status: fc.constantFrom(200, 429, 502),
    error_code: name,
    outcome: fc.constantFrom<RequestRecord['outcome'][]>('completed', 'rejected', 'failed', 'aborted'),
    streamed: fc.boolean(),
    usage: fc.option(usage),
    usage_source: fc.constantFrom<RequestRecord['usage_source'][]>(null, 'upstream', 'partial'),
    cost_usd: fc.constant('0.5'),
    cost_nano: amount,
    price_version: name,
    reserved_nano: fc.option(amount),
    attempts: fc.array(attempt, { maxLength: 3 }),
    first_byte_ms: fc.option(ms),
    duration_ms: ms,
    client_request_id: fc.option(fc.string()),
    times: fc.oneof(
      fc.record({ body_ms: ms, plugins_ms: ms }),
      fc.record({ plugins_ms: ms, refused_by: given }),
      fc.record({
        body_ms: ms,
        plugins_ms: ms,
        hooks: fc.constant([{ plugin: 'ü"', hook: 'onRequest', at_ms: 0.5, duration_ms: 1 }])
      })
    )
  })
  const decision = { order: [{ channel: 'ü"', rank: 0, weight: 1 }], excluded: [], stopped: 'no "more"' }
  const reason = { by: 'limit', scope: 'key:"a"' } as RequestRecord['reason'] & object
  const tags = { team: 'a"b', ü: '1' }
  const playground = { actor_kind: 'session', actor: 'https://login.example.com "x"' }
  const sameText = (made: RequestRecord): boolean => textOf(made) === JSON.stringify(made)
  fc.assert(
    // One, the same once more, and one that differs in a single member.
    fc.property(record, record, fc.nat(), (one, other, place) => {
      const member = Object.keys(one)[place % Object.keys(one).length] as keyof typeof one
      return (
        sameText(one) &&
        sameText({ ...one, dropped: ['user', 'x"y'] }) &&
        sameText({ ...one, decision }) &&
        sameText({ ...one, tags }) &&
        sameText({ ...one, playground }) &&
        sameText({ ...other, dropped: ['n'], tags, reason, decision, playground }) &&
        sameText({ ...one }) &&
        sameText({ ...one, [member]: other[member] })
      )
    }),
    { numRuns: 3000 }
  )
})

t.test('a served request is one record, the same in the store and in the line', async (t) => {
  const { bench, upstream, lines } = await open(t)
  upstream.json(chatAnswer(100, 7))
  const answer = await bench.send({ headers: { 'x-request-id': 'mine-1' } })
  t.equal(bench.records.length, 1)
  const [record] = bench.records
  t.match(record, {
    request_id: answer.headers['x-request-id'],
    time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
    tenant: 'acme',
    project: null,
    member: null,
    key: 'test-key',
    model: 'demo',
    endpoint: 'chat',
    client_protocol: 'openai-chat',
    channel: 'a',
    channel_protocol: 'openai',
    status: 200,
    error_code: null,
    outcome: 'completed',
    streamed: false,
    usage: { input: 100, cached_input: 0, cache_write: 0, output: 7, reasoning: 0 },
    usage_source: 'upstream',
    cost_usd: '0.000114',
    cost_nano: '114000',
    price_version: /./,
    reserved_nano: /^\d+$/,
    attempts: [{ channel: 'a', status: 200 }],
    client_request_id: 'mine-1'
  })
  t.ok(record!.duration_ms > 0 && record!.first_byte_ms! <= record!.duration_ms)
  t.same(await lines(), [JSON.parse(JSON.stringify(record))])
})

t.test('refused, failed, cut and abandoned requests are records as well', async (t) => {
  const { bench, upstream } = await open(t, { sink: 'none' }, { keys: [key({ limits: { concurrency: 1 } })] })
  await bench.send({ headers: { authorization: 'Bearer sk-wrong' } })
  t.match(bench.records.at(-1), {
    tenant: null,
    key: null,
    model: null,
    channel: null,
    status: 401,
    error_code: 'invalid_api_key',
    outcome: 'rejected',
    usage: null,
    usage_source: null,
    cost_usd: '0',
    cost_nano: '0',
    attempts: [],
    first_byte_ms: null,
    client_request_id: null
  })
  await bench.send({ target: '/nowhere' })
  t.match(bench.records.at(-1), { status: 404, error_code: 'route_not_found', endpoint: 'unknown' })
  await bench.send({ body: { model: 'm'.repeat(200) } })
  t.match(bench.records.at(-1), { status: 404, key: 'test-key', error_code: 'model_not_found' })
  t.equal(bench.records.at(-1)!.model!.length, 128)
  upstream.json({ error: { message: 'broken' } }, { status: 500 })
  await bench.send()
  t.match(bench.records.at(-1), {
    status: 502,
    error_code: 'upstream_bad_response',
    outcome: 'failed',
    usage: null,
    cost_nano: '0',
    attempts: [{ channel: 'a', status: 500, error_code: 'upstream_bad_response' }]
  })
  upstream.script(head(200, { 'content-type': 'text/event-stream' }), events(chatEvents(9).slice(0, 5)), endOfBody())
  await bench.send({ body: { stream: true } })
  t.match(bench.records.at(-1), {
    status: 200,
    error_code: 'upstream_stream_interrupted',
    outcome: 'failed',
    streamed: true,
    usage_source: 'partial'
  })
  t.ok(bench.records.at(-1)!.first_byte_ms !== null)
  const { client, answer } = bench.start()
  await upstream.request(2)
  client.leave()
  await answer
  t.match(bench.records.at(-1), { status: 499, error_code: 'client_closed', outcome: 'aborted' })
  t.equal(bench.records.length, 6)
  t.equal(new Set(bench.records.map(({ request_id }) => request_id)).size, 6)
})

t.test("a client's own request id is a label: printable, short, never the id", async (t) => {
  const { bench, upstream } = await open(t, { sink: 'none' })
  const body = JSON.stringify(chatAnswer())
  upstream.always(head(200, { 'content-type': 'application/json', 'content-length': String(body.length) }), bytes(body))
  for (const [sent, kept] of [
    ['abc', 'abc'],
    ['x'.repeat(5000), 'x'.repeat(128)],
    ['a\r\nb\u0000c d\u00e9', 'abcd'],
    ['\u001b[31m', '[31m'],
    ['   ', null],
    [['a', 'b'], 'a,b']
  ] as const) {
    const answer = await bench.send({ headers: { 'x-request-id': sent as string | string[] } })
    t.equal(bench.records.at(-1)!.client_request_id, kept)
    t.equal(answer.headers['x-request-id'], bench.records.at(-1)!.request_id)
  }
})

t.test('numbers are counted under names that nobody outside can make up', async (t) => {
  const { bench, upstream } = await open(t, { sink: 'none' })
  upstream.json(chatAnswer(100, 7))
  await bench.send()
  await bench.send({ body: { model: 'made-up' } })
  await bench.send({ headers: { authorization: 'Bearer sk-wrong' } })
  const { metrics } = bench
  t.equal(
    metrics.value('requests_total', {
      endpoint: 'chat',
      protocol: 'openai-chat',
      model: 'demo',
      outcome: 'completed',
      code: 'ok'
    }),
    1
  )
  t.equal(
    metrics.value('requests_total', {
      endpoint: 'chat',
      protocol: 'openai-chat',
      model: 'other',
      outcome: 'rejected',
      code: 'model_not_found'
    }),
    1
  )
  t.equal(
    metrics.value('requests_total', {
      endpoint: 'chat',
      protocol: 'openai-chat',
      model: 'other',
      outcome: 'rejected',
      code: 'invalid_api_key'
    }),
    1
  )
  t.equal(metrics.value('tokens_total', { model: 'demo', class: 'input' }), 100)
  t.equal(metrics.value('tokens_total', { model: 'demo', class: 'output' }), 7)
  t.equal(metrics.value('cost_usd_total', { model: 'demo' }), 0.000114)
  t.equal(metrics.value('request_duration_seconds', { endpoint: 'chat', outcome: 'completed' }), 1)
  t.equal(metrics.value('request_duration_seconds', { endpoint: 'chat', outcome: 'rejected' }), 2)
  t.equal(metrics.value('first_byte_seconds', { endpoint: 'chat', model: 'demo' }), 1)
  t.notOk([...metrics.values.keys()].some((name) => name.includes('made-up')))
})

t.test('nothing of a body and no credential is in a line unless bodies are turned on', async (t) => {
  const { bench, upstream, file } = await open(t)
  upstream.json({ ...chatAnswer(), note: 'ANSWER-CANARY' })
  await bench.send({
    target: '/v1/chat/completions?key=sk-test-key&x=QUERY-CANARY',
    headers: { 'x-secret': 'HEADER-CANARY' },
    body: { messages: [{ role: 'user', content: 'PROMPT-CANARY' }], user: 'USER-CANARY' }
  })
  await bench.close()
  const text = readFileSync(file, 'utf8')
  t.match(text, /"key":"test-key"/)
  t.notMatch(text, /CANARY|sk-test-key|secret-of-the-channel/)
})

t.test('bodies, when turned on, are cut and free of credentials', async (t) => {
  const { bench, upstream, lines } = await open(t, { bodies: true, body_limit: '1KiB' })
  const leaky = 'keys: sk-abcdefghijklmnop and secret-of-the-channel and AIzaSyA1234567890.'
  upstream.json({ ...chatAnswer(), leaky })
  await bench.send({ body: { messages: [{ role: 'user', content: leaky }] } })
  upstream.sse(chatEvents(300))
  await bench.send({ body: { stream: true, messages: [{ role: 'user', content: 'x'.repeat(1000 - 60) + leaky }] } })
  await bench.send({ headers: { authorization: 'Bearer sk-wrong' } })
  const [plain, streamed, refused] = await lines()
  t.match(plain!.request_body, /keys: \[redacted\] and \[redacted\] and \[redacted\]/)
  t.match(plain!.response_body, /"content":"Hello".*\[redacted\] and \[redacted\]/)
  t.match(streamed!.response_body, /^data: \{/)
  t.ok(streamed!.response_body!.length <= 1024 && streamed!.request_body!.length <= 1024)
  t.notMatch(JSON.stringify([plain, streamed]), /abcdefgh|secret-of|AIzaSy/)
  t.notOk('request_body' in refused!)
  t.notOk('request_body' in bench.records[0]!, 'the request log never holds a body')
})

t.test('bodies are free of what else a channel has to itself, in whole and where they are cut', async (t) => {
  const { bench, upstream, lines } = await open(t, { bodies: true, body_limit: '1KiB' })
  const secrets = ['Kanarie-Header-0123456789', 'Kanarek-Token-0123456789', 'Kanarya-Query-0123456789']
  const [header, token, query] = secrets
  await bench.reload({
    channels: {
      a: channelTo(upstream, { headers: { 'x-a': header!, 'x-b': `Token ${token}` }, query: { code: query! } })
    },
    chain: [
      'auth',
      'route',
      'usage-meter',
      { log: { sink: join(t.testdirName, 'lines.log'), bodies: true, body_limit: '1KiB' } }
    ]
  })
  const account = 'org-AbCdEfGh0123456789 of arn:aws:iam::123456789012:role/Acme'
  upstream.json({ ...chatAnswer(), leaky: `${secrets.join(' and ')}, ${account}` })
  await bench.send({})
  // So many are taken out before that what was read beyond the limit comes within it.
  for (const at of [1000, 1200, 1500, 1510, 1520, 1530]) {
    const filled = `${token} `.repeat(Math.floor(at / (token!.length + 1)))
    upstream.json({ ...chatAnswer(), leaky: `${filled}${'x'.repeat(at % (token!.length + 1))}${header}` })
    await bench.send({})
  }
  const all = await lines()
  t.equal(all.length, 7)
  t.match(all[0]!.response_body, /\[redacted\] and \[redacted\] and \[redacted\], \[redacted\] of \[redacted\]/)
  t.notMatch(JSON.stringify(all), /kanar|AbCdEf|123456789012/i)
})

t.test('a retried request shows the answer that the client got', async (t) => {
  const { bench, upstream, lines } = await open(t, { bodies: true })
  const second = (await Upstream.start(t)).sse(chatEvents(2))
  await bench.reload({
    channels: { a: channelTo(upstream), b: channelTo(second, { priority: 1 }) },
    chain: ['auth', 'route', 'usage-meter', { log: { sink: join(t.testdirName, 'lines.log'), bodies: true } }]
  })
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([{ ...chatEvents()[0], note: 'GIVEN-UP' }]),
    endOfBody()
  )
  const answer = await bench.send({ body: { stream: true } })
  t.equal(answer.status, 200)
  const [line] = await lines()
  t.same(
    line!.attempts.map(({ channel }) => channel),
    ['a', 'b']
  )
  t.match(line!.response_body, /word1/)
  t.notMatch(line!.response_body, /GIVEN-UP/)
})

t.test('a file that is rotated away is followed', async (t) => {
  const { bench, upstream, file } = await open(t)
  upstream.json(chatAnswer()).json(chatAnswer())
  await bench.send()
  while (readFileSync(file, 'utf8') === '') await new Promise((resolve) => setTimeout(resolve, 5))
  renameSync(file, `${file}.1`)
  await bench.send()
  await bench.close()
  t.ok(existsSync(file))
  t.equal(readFileSync(file, 'utf8').trimEnd().split('\n').length, 1)
})

t.test('a reload changes how many lines may wait, in front of the sink that is there', async (t) => {
  const { bench, upstream, file, lines } = await open(t, { buffer: '1KiB' })
  upstream.always(head(200, { 'content-type': 'application/json' }), chunk(JSON.stringify(chatAnswer())), endOfBody())
  for (let i = 0; i < 5; i++) await bench.send()
  const dropped = bench.metrics.value('log_dropped_total')
  t.ok(dropped > 0, `${dropped} lines had no room`)
  await bench.reload({
    channels: { a: channelTo(upstream) },
    chain: [
      'auth',
      'quota',
      'ratelimit',
      { route: { repeats: 0 } },
      'usage-meter',
      { log: { sink: file, buffer: '1MiB' } }
    ]
  })
  for (let i = 0; i < 20; i++) await bench.send()
  t.equal((await lines()).length, 25 - dropped, 'and then all have')
})

t.test('a sink that cannot be written is a problem of the configuration', async (t) => {
  await t.rejects(
    open(t, { sink: join(t.testdirName, 'no', 'such', 'folder.log') }),
    /log: the sink .*folder\.log cannot be written.*ENOENT/
  )
})

t.test('the queue in front of a sink', async (t) => {
  t.test('lines leave in batches, in order, whole', async (t) => {
    const written: string[] = []
    let most = 0
    const sink = new Sink(
      (bytes, done) => {
        most = Math.max(most, bytes.length)
        written.push(bytes.toString())
        setImmediate(done)
      },
      () => t.fail('dropped')
    )
    const lines = Array.from({ length: 20_000 }, (_, i) => `${i} ${'é'.repeat(i % 50)}`)
    for (const line of lines) sink.line(line, 10_000_000)
    await sink.flush()
    t.equal(written.join(''), `${lines.join('\n')}\n`)
    t.ok(written.length < 20 && most < 600_000, `${written.length} writes, the largest ${most} bytes`)
  })

  t.test('a stuck sink costs its bound of memory and no time, and goes on when it can', async (t) => {
    let dropped = 0
    let free: ((error?: Error | null) => void) | undefined
    const taken: string[] = []
    const write: Write = (bytes, done) => {
      taken.push(bytes.toString())
      free = done
    }
    const sink = new Sink(write, (lines) => (dropped += lines))
    const line = 'x'.repeat(99)
    const start = stopwatch()
    for (let i = 0; i < 50_000; i++) sink.line(line, 100_000)
    t.ok(start.ms < 3000)
    t.equal(dropped, 49_000)
    const flushed = sink.flush()
    while (free) {
      const done = free
      free = undefined
      done()
    }
    await flushed
    t.equal(taken.join('').split('\n').length - 1, 1000)
    sink.line('again', 100_000)
    const last = sink.flush()
    free!(new Error('disk full'))
    await last
    t.equal(dropped, 49_001, 'what a sink refuses is counted')
  })

  t.test('lines that come while others are written need no new memory each time', async (t) => {
    const memory = new Set<ArrayBufferLike>()
    let done: (() => void) | undefined
    const sink = new Sink(
      (bytes, written) => {
        memory.add(bytes.buffer)
        done = written
      },
      () => t.fail('dropped')
    )
    for (let n = 0; n < 10; n++) {
      sink.line('a line', 1000)
      const flushed = sink.flush()
      sink.line('a line that comes meanwhile', 1000)
      // The second batch is written as soon as the first is.
      done!()
      done!()
      await flushed
    }
    t.equal(memory.size, 2)
  })

  t.test('an end does not wait for a stuck sink longer than a second', async (t) => {
    const sink = new Sink(
      () => {},
      () => {}
    )
    sink.line('x', 1000)
    const start = performance.now()
    const watch = stopwatch()
    await sink.flush()
    const waited = performance.now() - start
    t.ok(waited > 900 && watch.ms < 10_000, `${waited} ms`)
  })
  t.end()
})

t.test('a reader of stdout that stops, and one that goes away, do not hold up the process', async (t) => {
  const source = `
    import { Sink, writeTo } from ${JSON.stringify(new URL('../../plugins/log/sink.ts', import.meta.url).href)}
    let dropped = 0
    const sink = new Sink(writeTo('stdout'), (lines) => (dropped += lines))
    let turns = 0
    setInterval(() => {
      for (let i = 0; i < 100; i++) sink.line('y'.repeat(500), 300000)
      if (++turns === 60) process.send({ dropped }, () => process.kill(process.pid, 'SIGKILL'))
    }, 5)`
  for (const leave of [false, true]) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', source], {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc']
    })
    if (leave) child.stdout!.destroy()
    const [[{ dropped }], [code]] = await Promise.all([
      once(child, 'message') as Promise<[{ dropped: number }]>,
      once(child, 'exit')
    ])
    t.equal(code, null, 'it ended itself by a signal, and was not held up')
    t.ok(dropped > 1000, `${dropped} lines dropped`)
  }
})
