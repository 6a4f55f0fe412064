// Reloads swap the configuration beneath running streams without dropping one, and a bad file changes nothing.
import { copyFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { makeCertificate } from '../kit/certificate.ts'
import { connect } from '../kit/client.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import { openSession, readHttp2 } from '../kit/http2.ts'
import { figures } from '../kit/probe.ts'
import { checkChatStream } from '../kit/sse.ts'
import { events, head, pause, until, Upstream } from '../kit/upstream.ts'
import { chatEvents } from '../kit/workbench.ts'

t.test('50 reloads during 100 streams drop none', async (t) => {
  const upstream = await Upstream.start(t)
  const list = chatEvents(40, 7)
  upstream.always(
    head(200, { 'content-type': 'text/event-stream' }),
    ...list.flatMap((event) => [events([event]), pause(25)]),
    events(['data: [DONE]\n\n']),
    ({ write }) => write('0\r\n\r\n')
  )
  const running = await gateway(t, {}, { upstreams: { up: upstream } })
  const streams = await Promise.all(Array.from({ length: 100 }, () => running.openChat({ stream: true })))
  await Promise.all(streams.map((stream) => stream.body('word0')))
  for (let n = 0; n < 50; n++) {
    running.configure({
      channels: { up: { weight: n + 1 } },
      models: { 'test-model': { price: { input: n + 2, output: 2 } } }
    })
    const result = await running.gateway.reload('test')
    t.match(result, { ok: true, problems: [] })
  }
  for (const stream of streams) {
    const reply = await stream.reply()
    if (reply.status !== 200) t.fail(reply.text)
    checkChatStream(reply.body)
  }
  const { data } = await running.admin('/admin/v1/requests?limit=200')
  t.equal(data.length, 100)
  t.strictSame(
    new Set(data.map(({ outcome, cost_nano: cost }: { outcome: string; cost_nano: string }) => `${outcome} ${cost}`)),
    new Set(['completed 87000']),
    'each at the price it began with'
  )
})

t.test('a file that cannot be used leaves the old one serving, and says where it is wrong', async (t) => {
  const running = await gateway(t)
  const { hash } = running.gateway.config
  const cases: [string, RegExp][] = [
    ['listen: {', /gateway\.yaml:\d+:\d+/],
    ['', /gateway\.yaml/],
    ['chanels: {}', /chanels.*channels/s]
  ]
  for (const [text, problem] of cases) {
    writeFileSync(running.file, text)
    const result = await running.gateway.reload('test')
    t.equal(result.ok, false)
    t.match(result.problems.map(({ place, message }) => `${place} ${message}`).join('\n'), problem)
    t.equal(running.gateway.config.hash, hash)
    t.equal((await running.chat()).status, 200)
  }
})

t.test('what the process was started with cannot change, and the refusal names it', async (t) => {
  const running = await gateway(t)
  for (const [overrides, name] of [
    [{ listen: { port: 65000 } }, 'listen.port'],
    [{ store: { sqlite: '/nowhere/x.db' } }, 'store'],
    [{ limits: { connections: 5 } }, 'limits.connections']
  ] as const) {
    running.configure(overrides)
    const result = await running.gateway.reload('test')
    t.equal(result.ok, false)
    t.match(result.problems[0]!.message, name)
  }
  running.configure({ limits: { json_body: '1KiB' } })
  t.match(await running.gateway.reload('test'), { ok: true })
  const reply = await running.chat({ messages: [{ role: 'user', content: 'x'.repeat(2000) }] })
  t.match(
    [reply.status, reply.json().error.code],
    [413, 'request_too_large'],
    'a limit that exchanges look up follows the reload'
  )
})

t.test('a wrong order is refused with the line to move', async (t) => {
  const running = await gateway(t)
  running.configure({ chain: [{ quota: {} }, { auth: {} }, { route: {} }, { 'usage-meter': {} }] })
  const result = await running.gateway.reload('test')
  t.match(
    result.problems.map(({ place, message }) => `${place} ${message}`),
    [/gateway\.yaml:\d+:\d+ quota needs caller: put it below auth/]
  )
  running.configure({ chain: [{ auth: {} }, { quota: {} }, { 'usage-meter': {} }] })
  t.match((await running.gateway.reload('test')).problems[0]!.message, /selects the channel: add route/)
  t.equal((await running.chat({ model: 'demo' })).status, 200)
})

t.test('limits and slots outlive a reload', async (t) => {
  const keys = [{ name: 'test', key: testKey, tenant: 'acme', limits: { rpm: 3 } }]
  const running = await gateway(t, { keys })
  for (let n = 0; n < 3; n++) t.equal((await running.chat()).status, 200)
  running.configure({ keys, models: { demo: { price: { input: 5, output: 5 } } } })
  t.match(await running.gateway.reload('test'), { ok: true })
  t.equal((await running.chat()).status, 429)
})

t.test(
  'a renewed certificate is shown after a reload, streams go on, and one that cannot be used changes nothing',
  async (t) => {
    const [first, second] = [makeCertificate(t), makeCertificate(t)]
    const upstream = await Upstream.start(t)
    const go = Promise.withResolvers<void>()
    const list = chatEvents(4, 7)
    upstream.always(
      head(200, { 'content-type': 'text/event-stream' }),
      events(list.slice(0, 2)),
      until(go.promise),
      events([...list.slice(2), 'data: [DONE]\n\n']),
      ({ write }) => write('0\r\n\r\n')
    )
    const running = await gateway(
      t,
      { listen: { tls: { cert: first.cert, key: first.key } } },
      { upstreams: { up: upstream } }
    )
    const body = JSON.stringify({ model: 'test-model', stream: true, messages: [] })
    const headers = {
      ':method': 'POST',
      ':path': '/v1/chat/completions',
      authorization: `Bearer ${testKey}`,
      'content-type': 'application/json'
    }
    const url = running.url.replace('127.0.0.1', 'localhost')
    const old = openSession(t, url, { ca: first.ca })
    const stream = old.request(headers)
    stream.end(body)
    const reply = readHttp2(stream)
    await upstream.request(0)
    const shows = async (ca: string): Promise<boolean> => {
      const client = await connect(t, url, ca).catch(() => undefined)
      return (
        client !== undefined &&
        (await client.send({ path: '/v1/models', headers: { authorization: `Bearer ${testKey}` } }).reply()).status ===
          200
      )
    }

    copyFileSync(second.cert, first.cert)
    const mixed = await running.gateway.reload('test')
    t.match(mixed.problems[0], {
      place: /gateway\.yaml:\d+:\d+$/,
      message: /^listen\.tls\.key: .* is the key of another certificate/
    })
    t.ok(await shows(first.ca), 'the old one stays')
    t.equal((await figures(t, running)).get('sluice_config_last_reload_successful'), 0)
    t.match(running.lines.at(-1), { level: 'error', message: /not reloaded/ })

    copyFileSync(second.key, first.key)
    t.match(await running.gateway.reload('test'), { ok: true })
    t.ok(await shows(second.ca))
    t.notOk(await shows(first.ca))
    t.equal((await figures(t, running)).get('sluice_config_last_reload_successful'), 1)
    go.resolve()
    checkChatStream((await reply).body)
    const again = old.request(headers)
    again.end(body)
    checkChatStream((await readHttp2(again)).body)

    running.configure({ listen: { tls: undefined } })
    t.match((await running.gateway.reload('test')).problems[0]!.message, /^listen\.tls: this cannot change/)
  }
)
