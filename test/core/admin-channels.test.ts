// The life of a channel: switched off, drained, tried, and seen how it is doing.
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import { startGateway } from '../../core/container.ts'
import { silentLog } from '../../core/telling/log.ts'
import { makeCertificate } from '../kit/certificate.ts'
import { ask } from '../kit/client.ts'
import { sluiceEach } from '../kit/command.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually, figures } from '../kit/probe.ts'
import { bytes, events, head, pause, stall, until, Upstream } from '../kit/upstream.ts'
import { chatAnswer, chatEvents } from '../kit/workbench.ts'

type Call = (method: string, path: string, body?: unknown) => Promise<ReceivedReply>

/** Requests to the routes of channels. */
function adminOf(t: Test, { adminUrl }: Pick<LocalGateway, 'adminUrl'>): Call {
  return (method, path, body) =>
    ask(t, adminUrl, { method, path: `/admin/v1/channels${path}`, ...(body !== undefined && { body }) })
}

const good = (): Parameters<Upstream['always']> => {
  const body = JSON.stringify(chatAnswer())
  return [head(200, { 'content-type': 'application/json', 'content-length': String(body.length) }), bytes(body)]
}

async function two(t: Test): Promise<{ local: LocalGateway; a: Upstream; b: Upstream; admin: Call }> {
  const [a, b] = [(await Upstream.start(t)).always(...good()), (await Upstream.start(t)).always(...good())]
  const local = await gateway(t, { channels: { b: { priority: 1 } } }, { upstreams: { a, b } })
  return { local, a, b, admin: adminOf(t, local) }
}

t.test('a channel is switched off and drains at run time, over restarts, until it is undone', async (t) => {
  const { local, a, b, admin } = await two(t)
  t.equal((await local.chat()).status, 200)
  t.same([a.requests.length, b.requests.length], [1, 0])
  t.match((await admin('PATCH', '/a', { enabled: false })).json(), {
    name: 'a',
    state: 'off',
    switched: { file: 'on', operator: 'off', since: /^20/, by: 'this machine' }
  })
  t.equal((await local.chat()).status, 200)
  t.same([a.requests.length, b.requests.length], [1, 1], 'the other one serves')
  await local.gateway.close()
  const again = await startGateway({ config: local.file, log: silentLog })
  t.teardown(() => again.close())
  const after = { ...local, url: again.url, adminUrl: again.adminUrl! }
  const later = adminOf(t, after)
  t.match((await later('GET', '/a')).json(), { state: 'off' }, 'also after a restart')
  t.match((await later('PATCH', '/b', { drain: true })).json(), { state: 'draining' })
  const series = await figures(t, after)
  t.equal(series.get('sluice_channel_state{channel="b",state="draining"}'), 1)
  t.equal(series.get('sluice_channel_state{channel="b",state="healthy"}'), 0)
  const none = await ask(t, again.url, {
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${testKey}` },
    body: { model: testModel, messages: [{ role: 'user', content: 'Hi' }] }
  })
  t.match({ status: none.status, ...none.json() }, { status: 503, error: { code: 'no_available_channel' } })
  t.match((await later('PATCH', '/a', {})).json(), { state: 'healthy', switched: { operator: 'on', since: null } })
  t.match((await later('PATCH', '/b', { drain: null })).json(), { state: 'healthy' })
  t.match((await later('PATCH', '/b', { drain: 'yes' })).json(), { error: { param: 'drain' } })
  t.match((await later('PATCH', '/bb', {})).json(), {
    error: { code: 'channel_not_found', message: /did you mean "b"\?/ }
  })
})

t.test(
  'operators see when a channel stops being let in: its certificate, or a credential that is a token',
  async (t) => {
    const token = (claims: string): string =>
      ['{"alg":"none"}', claims, 'x'].map((part) => Buffer.from(part).toString('base64url')).join('.')
    const { cert, key } = makeCertificate(t)
    const base = { protocol: 'openai', base_url: 'https://upstream.example/v1', models: { demo: 'demo' } }
    const credentials = {
      token: token('{"exp": 1900000000}'),
      ageless: token('{"sub": "x"}'),
      odd: token('{"exp": 1e300}'),
      cut: token('{"exp": 19'),
      plain: 'sk-upstream'
    }
    const channels = Object.fromEntries(
      Object.entries(credentials).map(([name, credential]) => [name, { ...base, credential }])
    )
    const local = await gateway(t, {
      channels: { ...channels, both: { ...base, credential: token('{"exp": 7e9}'), tls: { cert, key } } }
    })
    const { data } = (await adminOf(t, local)('GET', '')).json() as {
      data: { name: string; credential_expires: string }[]
    }
    const seen = Object.fromEntries(data.map((channel) => [channel.name, channel.credential_expires]))
    t.match(seen, { token: '2030-03-17T17:46:40.000Z', ageless: null, odd: null, cut: null, plain: null })
    t.equal(
      Date.parse(seen['both']!),
      new X509Certificate(readFileSync(cert)).validToDate.getTime(),
      'the first of both'
    )
  }
)

t.test('what the file switches is switched back there', async (t) => {
  const { local, a, b, admin } = await two(t)
  local.configure({ channels: { a: { enabled: false } } })
  t.match(await local.gateway.reload('test'), { ok: true })
  t.equal((await local.chat()).status, 200)
  t.same([a.requests.length, b.requests.length], [0, 1])
  t.match((await admin('GET', '/a')).json(), { state: 'off', switched: { file: 'off', operator: 'on' } })
  t.match((await admin('PATCH', '/a', { enabled: true })).json(), { error: { code: 'channel_read_only' } })
  local.configure({ channels: { a: { enabled: true, drain: true } } })
  await local.gateway.reload('test')
  t.match((await admin('GET', '/a')).json(), { state: 'draining' })
  t.match((await admin('PATCH', '/a', { enabled: false })).json(), { state: 'off' }, 'the stricter one counts')
})

t.test('a channel is tried with a real request, which says what the upstream said and what it cost', async (t) => {
  const { local, a, b, admin } = await two(t)
  a.always(
    head(200, { 'content-type': 'text/event-stream' }),
    pause(20),
    events([...chatEvents(3, 7), 'data: [DONE]\n\n']),
    ({ write }) => write('0\r\n\r\n')
  )
  await admin('PATCH', '/a', { enabled: false })
  const tried = (await admin('POST', '/a/test', {})).json()
  t.match(tried, {
    channel: 'a',
    results: [{ endpoint: 'chat', model: testModel, ok: true, status: 200, error: null, usage: { output: 3 } }]
  })
  t.ok(tried.results[0].first_byte_ms >= 15)
  t.ok(tried.results[0].duration_ms >= tried.results[0].first_byte_ms)
  t.match(tried.results[0], { cost_usd: /^0\.0000/, cost_nano: /^\d+$/ })
  t.equal(a.requests.length, 1, 'also when it is off')
  t.equal(b.requests.length, 0)
  const error = JSON.stringify({ error: { message: 'Incorrect API key sk-abcdefghijklmnopqrstuvwx', type: 'invalid' } })
  b.script(head(401, { 'content-type': 'application/json', 'content-length': String(error.length) }), bytes(error))
  const refused = (await admin('POST', '/b/test', { model: testModel, endpoint: 'chat' })).json()
  t.match(refused.results, [
    { ok: false, status: 401, error: { code: 'upstream_auth_failed', said: /Incorrect API key/ }, cost_usd: null }
  ])
  t.notOk(JSON.stringify(refused).includes('abcdefghijklm'))
  t.match((await admin('POST', '/b/test', { model: 'tset-model' })).json(), { error: { param: 'model' } })
  t.match((await admin('POST', '/b/test', { endpoint: 'videos' })).json(), { error: { param: 'endpoint' } })
  const { data } = await local.admin('/admin/v1/requests')
  t.same(data, [], 'it is in no log')
  t.match(await local.admin('/admin/v1/balances'), { data: [] }, 'and nobody is charged')
})

t.test('a slow channel among ten is found by one question', async (t) => {
  const upstreams: Record<string, Upstream> = {}
  for (let i = 0; i < 10; i++) {
    const upstream = await Upstream.start(t)
    upstreams[`c${i}`] = upstream
    upstream.always(...(i === 6 ? [pause(300)] : []), ...good())
  }
  const channels = Object.fromEntries(Object.keys(upstreams).map((name) => [name, { priority: 0 }]))
  const local = await gateway(t, { channels }, { upstreams })
  await Promise.all(Array.from({ length: 200 }, () => local.chat()))
  const { data } = await local.admin('/admin/v1/channels')
  const slow = data.filter(({ health }: any) => health.first_event_ms?.p50 >= 290).map(({ name }: any) => name)
  t.same(slow, ['c6'])
  const { health } = data.find(({ name }: any) => name === 'c6')
  t.ok(health.first_event_ms.p95 >= health.first_event_ms.p50)
  t.match(health, { error_rate: 0, state: 'healthy', reason: null })
  t.ok(health.recent > 0)
  const series = await figures(t, local)
  t.equal(series.get('sluice_attempt_seconds_count{channel="c6",outcome="answered"}'), health.recent)
})

t.test('a channel is drained, tried and put back under load without a failed request', async (t) => {
  const { local, a, admin } = await two(t)
  let failed = 0
  let sent = 0
  let over = false
  const load = Array.from({ length: 8 }, async () => {
    while (!over) {
      sent++
      if ((await local.chat()).status !== 200) failed++
    }
  })
  for (let round = 0; round < 5; round++) {
    await admin('PATCH', '/a', { drain: true })
    const before = a.requests.length
    const served = sent
    while (sent < served + 40) await local.chat()
    t.ok(a.requests.length - before <= 8, 'only what was under way')
    t.match((await admin('POST', '/a/test', {})).json().results, [{ status: 200 }])
    await admin('PATCH', '/a', { enabled: false })
    await admin('PATCH', '/a', {})
    const back = sent
    while (sent < back + 20) await local.chat()
  }
  over = true
  await Promise.all(load)
  t.equal(failed, 0, `of ${sent}`)
})

t.test('commands list, switch and try channels', async (t) => {
  const { local, b } = await two(t)
  local.configure({ admin: { port: Number(new URL(local.adminUrl).port) } })
  const run = (...lines: string[][]): ReturnType<typeof sluiceEach> =>
    sluiceEach(lines.map((line) => ['channels', ...line, '--config', local.file]))
  await local.chat()
  const [drained, listed, tried] = await run(['switch', 'a', 'drain'], ['list'], ['test', 'a'])
  t.match(drained, { code: 0, out: '', err: /^a is draining, in the gateway at http/ })
  t.match(listed, {
    code: 0,
    out: /^NAME +PROTOCOL +STATE +ATTEMPTS +FAILED +P50 +P95 +TOKENS\/S +CREDENTIAL ENDS +WHY\na +openai +draining +1 +0 % .* by .* since 20\S+\nb +openai +healthy +0 +- .*\n$/
  })
  t.match(tried, { code: 0, out: /\nchat +test-model +ok +200 .* USD/ })
  b.script(head(500, { 'content-length': '0' }))
  const [failed, none, odd, missing, on] = await run(
    ['test', 'b', testModel],
    ['test', 'a', 'other', '--json'],
    ['switch', 'a', 'up'],
    ['test'],
    ['switch', 'a', 'on', '--json']
  )
  t.match(failed, { code: 3, out: /\nchat +test-model +failed +500 .*upstream_bad_response/ })
  t.match(none, { code: 1, err: /channels\.a has no model "other"/ })
  t.match(odd, { code: 2, err: /none of on, drain and off/ })
  t.match(missing, { code: 2, err: /NAME is missing/ })
  t.match(on, { code: 0, out: /"state":"healthy"/, err: /^a is on, in/ })
})

t.test('a gateway that stops does not wait for the answer to a probe', async (t) => {
  const { local, a, admin } = await two(t)
  a.always(stall())
  const tried = admin('POST', '/a/test', {}).then(
    (reply) => reply.json(),
    () => undefined
  )
  await a.request()
  await local.gateway.close()
  const answer = await tried
  if (answer) t.match(answer, { results: [{ ok: false, error: { code: 'draining' } }] })
  t.pass('it ended although the upstream never answers')
})

t.test('tests of channels are bounded in number, and a further one is refused with a word', async (t) => {
  const { local, a, b, admin } = await two(t)
  const signal = Promise.withResolvers<void>()
  a.always(until(signal.promise), ...good())
  const first = Array.from({ length: 8 }, () => admin('POST', '/a/test', {}))
  await eventually(() => a.requests.length === 8)
  const refused = await admin('POST', '/b/test', {})
  t.equal(refused.status, 429, refused.text)
  t.match(refused.json().error, { code: 'too_many_tests', message: /^8 tests of channels are under way/ })
  t.match(refused.headers['retry-after'], /^[1-9]\d*$/)
  t.equal(b.requests.length, 0)
  signal.resolve()
  for (const reply of await Promise.all(first)) t.match(reply.json().results, [{ ok: true }])
  t.match((await admin('POST', '/b/test', {})).json().results, [{ ok: true }], 'there is room again')
  b.always(head(500, { 'content-length': '0' }))
  for (let i = 0; i < 9; i++) t.equal((await admin('POST', '/b/test', {})).status, 200, 'those that fail leave as well')
  t.equal((await local.chat()).status, 200)
})
