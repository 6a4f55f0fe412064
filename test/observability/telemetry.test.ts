// What a collector is told of requests, what upstreams are told of traces, and that neither costs a request anything.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as conventions from '@opentelemetry/semantic-conventions/incubating'
import t from 'tap'
import type { Test } from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../kit/gateway.ts'
import { collector } from '../kit/otlp.ts'
import type { Collector } from '../kit/otlp.ts'
import { eventually, figures, stopwatch } from '../kit/probe.ts'
import { bytes, head, Upstream } from '../kit/upstream.ts'
import './collector.ts'

/** Each test waits for exports most of its time, so that some run at one time. */
t.jobs = 8
const beside = { buffered: true }

const root = join(import.meta.dirname, '..', '..')
const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentId = 'b7ad6b7169203331'
const traceparent = `00-${traceId}-${parentId}-01`
const answer = {
  id: 'a1',
  object: 'chat.completion',
  created: 1,
  model: 'test-model',
  choices: [{ index: 0, message: { role: 'assistant', content: 'ANSWER-CANARY' }, finish_reason: 'stop' }],
  usage: {
    prompt_tokens: 100,
    completion_tokens: 7,
    total_tokens: 107,
    prompt_tokens_details: { cached_tokens: 60 }
  }
}

const text = JSON.stringify(answer)
const answering = [
  head(200, { 'content-type': 'application/json', 'content-length': String(text.length) }),
  bytes(text)
]

/** A gateway with a collector, and upstreams that it tries one after another. */
async function open(
  t: Test,
  telemetry: Overrides = {},
  told?: Collector
): Promise<{ running: LocalGateway; to: Collector; first: Upstream; second: Upstream }> {
  const to = told ?? (await collector(t))
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const running = await gateway(
    t,
    { telemetry: { otlp: to.url, interval: '1s', timeout: '60s', ...telemetry } },
    { upstreams: { first, second } }
  )
  return { running, to, first, second }
}

function send(running: LocalGateway, headers: Record<string, string> = {}): ReturnType<LocalGateway['ask']> {
  const messages = [{ role: 'user', content: 'PROMPT-CANARY' }]
  return running.ask({
    path: '/v1/chat/completions?key=QUERY-CANARY',
    headers,
    body: { model: 'test-model', messages }
  })
}

const kinds = { server: 2, client: 3 }

t.test(
  'an exchange and its attempts are spans of one trace, with the attributes of the conventions',
  beside,
  async (t) => {
    const { running, to, first, second } = await open(t, {
      headers: { authorization: 'Bearer collector' },
      attributes: { 'deployment.environment.name': 'test' },
      providers: { second: 'x_ai' }
    })
    first.json({ error: { message: 'broken' } }, { status: 500 })
    second.json(answer)
    const before = Date.now()
    const reply = await running.ask({
      path: '/v1/chat/completions',
      headers: { traceparent, tracestate: 'vendor=1' },
      body: { model: 'test-model', messages: [{ role: 'user', content: 'Hi' }] }
    })
    t.equal(reply.status, 200)
    await eventually(() => to.spans.length === 3, 10_000)
    const server = to.spans.find(({ kind }) => kind === kinds.server)
    const [failed, answered] = to.spans.filter(({ kind }) => kind === kinds.client)
    t.match(server, {
      traceId,
      parentSpanId: parentId,
      traceState: 'vendor=1',
      name: 'POST /v1/chat/completions',
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/v1/chat/completions',
        'url.path': '/v1/chat/completions',
        'url.scheme': 'http',
        'http.response.status_code': 200,
        'sluice.request_id': reply.headers['x-request-id'],
        'sluice.tenant': 'acme',
        'sluice.key': 'test',
        'sluice.outcome': 'completed',
        'sluice.model': 'test-model',
        'sluice.cost_usd': /^0\.000\d+$/
      }
    })
    const attempt = {
      traceId,
      parentSpanId: server.spanId,
      name: 'chat test-model',
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.request.model': 'test-model',
        'server.address': '127.0.0.1',
        'http.request.method': 'POST'
      }
    }
    t.match(failed, {
      ...attempt,
      attributes: {
        'gen_ai.provider.name': 'openai',
        'sluice.channel': 'first',
        'server.port': Number(first.url.port),
        'http.response.status_code': 500,
        'error.type': 'upstream_bad_response'
      },
      status: { code: 2 }
    })
    t.match(answered, {
      ...attempt,
      attributes: {
        'gen_ai.provider.name': 'x_ai',
        'sluice.channel': 'second',
        'http.response.status_code': 200,
        'gen_ai.usage.input_tokens': 100,
        'gen_ai.usage.output_tokens': 7,
        'gen_ai.usage.cache_read.input_tokens': 60
      }
    })
    for (const span of to.spans) {
      t.ok(
        span.start / 1e6 >= before - 5 && span.start <= span.end && span.end / 1e6 <= Date.now() + 5,
        'lies in its time'
      )
    }
    t.ok(failed.end <= answered.end && failed.start < answered.start, 'one attempt comes after the other')

    const known = new Set<unknown>(Object.values(conventions))
    const own = new Set(to.spans.flatMap(({ attributes }) => Object.keys(attributes)))
    t.same(
      [...own].filter((name) => !known.has(name) && !name.startsWith('sluice.')),
      [],
      'every name is one of the conventions'
    )
    t.same([...to.schemas], ['https://opentelemetry.io/schemas/1.45.0'])
    const { version } = JSON.parse(
      readFileSync(join(root, 'node_modules/@opentelemetry/semantic-conventions/package.json'), 'utf8')
    ) as { version: string }
    t.ok([...to.schemas][0]!.endsWith(`/${version}`), 'in the version that the schema names')
    t.match(to.resources[0], {
      'service.name': 'sluice',
      'service.version': /^\d/,
      'deployment.environment.name': 'test'
    })
    t.equal(to.headers[0]!.authorization, 'Bearer collector')
  }
)

t.test('requests that no channel saw have a span too', beside, async (t) => {
  const { running, to } = await open(t)
  await running.ask({ path: '/v1/nothing', body: {} })
  await running.ask({ path: '/v1/chat/completions', headers: { authorization: 'Bearer sk-wrong' }, body: {} })
  await eventually(() => to.spans.length === 2, 10_000)
  const told = to.spans.map(({ name, attributes, status }) => [name, attributes['error.type'], status?.code ?? 0])
  t.same(told.toSorted(), [
    ['POST /v1/chat/completions', 'invalid_api_key', 0],
    ['POST', 'route_not_found', 0]
  ])
})

t.test('upstreams go on with a trace where the file says so, from the span of the attempt', beside, async (t) => {
  const { running, to, first } = await open(t, { propagate: ['fir*'] })
  first.always(...answering)
  await send(running, { traceparent, tracestate: 'a=1,b=2', baggage: 'user=7' })
  await eventually(() => to.spans.length === 2, 10_000)
  const { headers } = first.requests.at(-1)!
  const { spanId } = to.spans.find(({ kind }) => kind === kinds.client)
  t.equal(headers['traceparent'], `00-${traceId}-${spanId}-01`)
  t.equal(headers['tracestate'], 'a=1,b=2')
  t.equal(headers['baggage'], undefined, 'but not with what it says of users')
})

t.test(
  'upstreams hear nothing of a trace by default, and of baggage only where the file says so',
  beside,
  async (t) => {
    const { running, first } = await open(t)
    first.always(...answering)
    const sent = { traceparent, tracestate: 'a=1', baggage: 'user=7' }
    await send(running, sent)
    for (const name of Object.keys(sent)) t.equal(first.requests.at(-1)!.headers[name], undefined, name)
    running.configure({ telemetry: { otlp: 'http://127.0.0.1:1', propagate: ['*'], baggage: true } })
    t.equal((await running.gateway.reload('test')).ok, true)
    await send(running, sent)
    t.equal(first.requests.at(-1)!.headers['baggage'], 'user=7')
  }
)

t.test('a trace context that is not valid counts as none', beside, async (t) => {
  const { running, to, first } = await open(t, { propagate: ['*'] })
  first.always(...answering)
  const wrong = [
    `ff-${traceId}-${parentId}-01`,
    `00-${traceId}-${parentId}-01-more`,
    `00-${'0'.repeat(32)}-${parentId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `00-${traceId.toUpperCase()}-${parentId}-01`,
    `00-${traceId.slice(1)}-${parentId}-01`,
    'nonsense'
  ]
  for (const one of wrong) await send(running, { traceparent: one, tracestate: 'a=1' })
  await eventually(() => to.spans.length === 2 * wrong.length, 10_000)
  for (const { headers } of first.requests) {
    t.match(headers['traceparent'], /^00-[\da-f]{32}-[\da-f]{16}-01$/)
    t.notMatch(headers['traceparent'], traceId)
    t.equal(headers['tracestate'], undefined)
  }
  await send(running, { traceparent: `01-${traceId}-${parentId}-01-of a later version` })
  t.match(first.requests.at(-1)!.headers['traceparent'], traceId)
})

t.test('what is not sampled is not exported, and says so to upstreams', beside, async (t) => {
  const { running, to, first } = await open(t, { sample: 0, propagate: ['*'] })
  first.always(...answering)
  await send(running)
  t.match(first.requests.at(-1)!.headers['traceparent'], /-00$/)
  await send(running, { traceparent: traceparent.replace(/01$/, '00') })
  t.match(first.requests.at(-1)!.headers['traceparent'], new RegExp(`^00-${traceId}-.*-00$`))
  await send(running, { traceparent })
  t.match(first.requests.at(-1)!.headers['traceparent'], /-01$/, 'a client decides for its own trace')
  await eventually(() => to.spans.length === 2 && to.logs.length >= 3, 10_000)
  t.equal(to.spans[0].traceId, traceId)
})

t.test('a client at the edge can be linked to, or ignored', beside, async (t) => {
  for (const [accept, links] of [
    ['link', [{ traceId, spanId: parentId }]],
    ['ignore', []]
  ] as const) {
    const { running, to, first } = await open(t, { accept })
    first.json(answer)
    await send(running, { traceparent })
    await eventually(() => to.spans.length === 2, 10_000)
    const server = to.spans.find(({ kind }) => kind === kinds.server)
    t.not(server.traceId, traceId, accept)
    t.match(server.links, links, accept)
    t.equal(server.links.length, links.length, accept)
  }
})

t.test('metrics are those of the page, and the histograms of the conventions', beside, async (t) => {
  const { running, to, first } = await open(t)
  first.always(...answering)
  for (let i = 0; i < 3; i++) await send(running)
  await eventually(() => to.metrics.get('gen_ai.client.token.usage')?.histogram.points[0].count === 3, 10_000)
  const page = await figures(t, running)
  const valueOf = (name: string): unknown => {
    const { sum, gauge } = to.metrics.get(name)
    const { value, whole } = (sum ?? gauge).points[0]
    return value ?? whole
  }
  t.equal(valueOf('sluice_store_healthy'), 1)
  t.match(to.metrics.get('sluice_requests_total').sum, { monotonic: 1 })
  t.match(to.metrics.get('sluice_requests_total').sum.points[0].attributes, { endpoint: 'chat', code: 'ok' })
  t.equal(valueOf('sluice_requests_total'), 3)
  for (const name of new Set([...page.keys()].map((series) => series.split('{')[0]!)))
    if (name.startsWith('sluice_') && !name.includes('telemetry'))
      t.ok(to.metrics.has(name.replace(/_(bucket|sum|count)$/, '')) || to.metrics.has(name), name)
  const seconds = to.metrics.get('sluice_request_duration_seconds').histogram.points[0]
  t.equal(seconds.counts.length, seconds.bounds.length + 1)
  t.equal(
    seconds.counts.reduce((sum: number, count: number) => sum + count, 0),
    seconds.count,
    'the counts of buckets are apart from each other'
  )
  const known = new Set<unknown>(Object.values(conventions))
  for (const [name, { unit, histogram }] of to.metrics) {
    if (!name.startsWith('gen_ai.')) continue
    t.ok(known.has(name), name)
    t.equal(unit, name.endsWith('usage') ? '{token}' : 's')
    t.match(histogram.points[0].attributes, {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'test-model'
    })
  }
  const byType = Object.fromEntries(
    to.metrics
      .get('gen_ai.client.token.usage')
      .histogram.points.map(({ attributes, sum }: any) => [attributes['gen_ai.token.type'], sum])
  )
  t.same(byType, { input: 300, output: 21 })
})

t.test('logs are the lines of the program and a record for each request, within its trace', beside, async (t) => {
  const { running, to, first } = await open(t)
  first.json(answer)
  const reply = await send(running, { traceparent })
  running.configure({ nonsense: true })
  t.equal((await running.gateway.reload('test')).ok, false)
  await eventually(
    () => to.logs.some(({ eventName }) => eventName) && to.logs.some(({ severity }) => severity >= 13),
    10_000
  )
  const record = to.logs.find(({ eventName }) => eventName === 'sluice.request')
  t.match(record, { traceId, severityText: 'info' })
  t.match(JSON.parse(record.body.text), {
    request_id: reply.headers['x-request-id'],
    outcome: 'completed',
    tenant: 'acme'
  })
  t.match(JSON.stringify(to.logs), /nonsense: unknown key/)
})

t.test('work that goes on after its answer is told of once, with its cost, when it has ended', beside, async (t) => {
  const to = await collector(t)
  const running = await gateway(t, {
    telemetry: { otlp: to.url, interval: '1s' },
    models: { demo: { price: { input: 1, output: 2, image: 0.01 } } },
    tasks: { poll: { first: '10ms' } }
  })
  const body = { model: 'demo', prompt: 'A boat', size: '64x64' }
  const reply = await running.ask({ path: '/v1/images/generations/async', body })
  t.equal(reply.status, 202, reply.text)
  const records = (): any[] =>
    to.logs.filter(({ eventName }) => eventName === 'sluice.request').map((one) => JSON.parse(one.body.text))
  await eventually(() => records().length > 0, 20_000)
  t.match(records(), [{ request_id: reply.headers['x-request-id'], endpoint: 'images.async', outcome: 'completed' }])
  t.ok(Number(records()[0].cost_usd) >= 0.01, records()[0].cost_usd)
  const served = (): number => to.spans.filter(({ kind }) => kind === kinds.server).length
  // Spans are sent by themselves.
  await eventually(() => served() > 0, 20_000)
  t.equal(served(), 1)
})

t.test('nothing of a body, a query or a credential is exported', beside, async (t) => {
  const { running, to, first } = await open(t)
  first.json(answer)
  first.json({ error: { message: 'ERROR-CANARY of upstream-secret-of-first', code: 'x' } }, { status: 401 })
  await send(running)
  await send(running)
  await eventually(() => to.spans.length >= 4 && to.logs.length >= 2 && to.metrics.size > 0, 10_000)
  const all = Buffer.concat(to.raw).toString('latin1')
  for (const secret of ['PROMPT-CANARY', 'ANSWER-CANARY', 'QUERY-CANARY', testKey, 'upstream-secret'])
    t.notOk(all.includes(secret), secret)
})

t.test(
  'a collector that is away, slow or refusing delays and loses no request, and is told of once',
  beside,
  async (t) => {
    const answers = {
      slow: () => {},
      refusing: (response: any) => response.writeHead(400).end(),
      breaking: (response: any) => response.destroy()
    }
    const collectors = {
      away: 'http://127.0.0.1:1',
      ...Object.fromEntries(
        await Promise.all(Object.entries(answers).map(async ([name, how]) => [name, (await collector(t, how)).url]))
      )
    } as Record<string, string>
    for (const [name, otlp] of Object.entries(collectors)) {
      await t.test(name, async (t) => {
        const first = await Upstream.start(t)
        first.always(...answering)
        const settings = { otlp, queue: 16, timeout: '200ms', interval: '1s' }
        const running = await gateway(t, { telemetry: settings }, { upstreams: { first } })
        const watch = stopwatch()
        for (let round = 0; round < 5; round++)
          for (const { status } of await Promise.all(Array.from({ length: 10 }, () => send(running))))
            t.equal(status, 200)
        const lost = async (signal: string, reason: string): Promise<number> =>
          (await figures(t, running)).get(`sluice_telemetry_lost_total{signal="${signal}",reason="${reason}"}`) ?? 0
        t.ok((await lost('traces', 'queue')) > 0, 'the queue is bounded')
        await eventually(
          async () => (await lost('traces', 'export')) > 0 && (await lost('metrics', 'export')) > 0,
          30_000
        )
        const lines = running.lines.filter(({ message }) => message.startsWith('telemetry is lost'))
        t.ok(lines.length >= 1 && lines.length <= 3, `${lines.length} lines, one of a signal`)
        t.match(lines[0], { level: 'warn', fields: { lost: Number, why: String } })
        const before = watch.ms
        await running.gateway.close()
        t.ok(watch.ms - before < 5000, 'the end waits a moment at most')
      })
    }
  }
)

t.test('a reload turns telemetry on, sends it elsewhere, and turns it off', beside, async (t) => {
  const [one, two] = [await collector(t), await collector(t)]
  const first = await Upstream.start(t)
  first.always(...answering)
  const running = await gateway(t, {}, { upstreams: { first } })
  const turn = async (telemetry?: Overrides): Promise<void> => {
    running.configure(telemetry ? { telemetry } : {})
    t.match(await running.gateway.reload('test'), { ok: true, problems: [] })
    await send(running)
  }
  await send(running)
  await turn({ otlp: one.url })
  await eventually(() => one.spans.length === 2, 10_000)
  await turn({ otlp: two.url, signals: ['traces'] })
  await eventually(() => two.spans.length === 2, 10_000)
  await turn()
  await send(running)
  await running.gateway.close()
  t.equal(one.spans.length, 2, 'each got what was its own, and what came before and after nobody')
  t.equal(two.spans.length, 2)
  t.equal(two.logs.length + two.metrics.size, 0, 'only the signals that were asked for')
})

/** What a program prints in a process of its own, in which `hooks` has changed how modules are loaded. */
function apart(folder: string, hooks: string, program: string): string[] {
  writeFileSync(join(folder, 'hooks.mjs'), `import { registerHooks } from 'node:module'\n${hooks}`)
  writeFileSync(join(folder, 'program.mjs'), program)
  const args = ['--no-warnings', '--import', join(folder, 'hooks.mjs'), join(folder, 'program.mjs')]
  return execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }).trim().split('\n')
}

t.test(
  'packages that are missing are a problem of the file, with the command that installs them',
  beside,
  async (t) => {
    const folder = t.testdir({ 'gateway.yaml': readFileSync(join(root, 'gateway.yaml'), 'utf8') })
    const file = join(folder, 'gateway.yaml')
    const program = `
    import { appendFileSync } from 'node:fs'
    import { readConfig } from ${JSON.stringify(new URL('../../core/program/configuration.ts', import.meta.url).href)}
    import { plugins } from ${JSON.stringify(new URL('../../plugins/index.ts', import.meta.url).href)}
    const source = { file: ${JSON.stringify(file)}, env: {}, plugins }
    const read = () => readConfig(source).then(() => 'fine', (error) => error.message)
    console.log(await read())
    appendFileSync(source.file, '\\ntelemetry: { otlp: "http://127.0.0.1:4318" }\\n')
    console.log(await read())`
    const missing = `registerHooks({ resolve(name, context, next) {
    if (name === '@opentelemetry/sdk-logs') throw Object.assign(new Error('no'), { code: 'ERR_MODULE_NOT_FOUND' })
    return next(name, context)
  } })`
    const [without, problem] = apart(folder, missing, program)
    t.equal(without, 'fine')
    t.match(
      problem,
      /gateway\.yaml:\d+:1 telemetry: needs packages .* run `npm install --no-save @opentelemetry\/api@\d.*sdk-logs@\d/
    )
    t.notMatch(problem, 'semantic-conventions')
  }
)

t.test('nothing of it is loaded while the file has no such section', beside, async (t) => {
  const shipped = readFileSync(join(root, 'gateway.yaml'), 'utf8').replace(/port: \d+/g, 'port: 0')
  const folder = t.testdir({ 'gateway.yaml': shipped })
  const file = JSON.stringify(join(folder, 'gateway.yaml'))
  const watch = `globalThis.loaded = []; registerHooks({ load(url, context, next) {
    if (/@opentelemetry\\/(sdk|exporter|otlp|resources)/.test(url)) globalThis.loaded.push(url)
    return next(url, context)
  } })`
  const program = `
    import { appendFileSync } from 'node:fs'
    import { startGateway } from ${JSON.stringify(new URL('../../core/container.ts', import.meta.url).href)}
    import { silentLog } from ${JSON.stringify(new URL('../../core/telling/log.ts', import.meta.url).href)}
    const gateway = await startGateway({ config: ${file}, log: silentLog })
    console.log(globalThis.loaded.length)
    appendFileSync(${file}, '\\ntelemetry: { otlp: "http://127.0.0.1:1", signals: [traces] }\\n')
    await gateway.reload('test')
    console.log(globalThis.loaded.length > 5)
    await gateway.close()`
  t.same(apart(folder, watch, program), ['0', 'true'])
})

t.test('a file with mistakes in the section is refused with their places', beside, async (t) => {
  const refused = async (telemetry: Overrides, message: RegExp): Promise<void> => {
    await t.rejects(gateway(t, { telemetry }), message)
  }
  await refused({}, /telemetry: "otlp" is missing/)
  await refused({ otlp: 'collector:4318' }, /telemetry\.otlp: must be an address like/)
  await refused({ otlp: 'http://a', sample: 2 }, /telemetry\.sample/)
  await refused({ otlp: 'http://a', signals: ['traces', 'profiles'] }, /telemetry\.signals/)
  await refused(
    { otlp: 'http://a', providers: { nobody: 'x' } },
    /telemetry\.providers\.nobody: there is no channel nobody/
  )
})
