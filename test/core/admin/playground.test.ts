// The playground: real requests by the admin API, in all protocols, with keys that are named or typed in.
import t from 'tap'
import type { Test } from 'tap'
import { ask, connect } from '../../kit/client.ts'
import type { Client, ReceivedReply } from '../../kit/client.ts'
import { formOf } from '../../kit/form.ts'
import { gateway, testKey, testModel } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { openRealtime, refusedRealtime } from '../../kit/realtime.ts'
import { checkChatStream, readEvents } from '../../kit/sse.ts'
import { bytes, events, head, stall, Upstream } from '../../kit/upstream.ts'
import { chatEvents } from '../../kit/workbench.ts'

const owner = 'the token of the owner'
const root = '/admin/v1/playground'
const words = [{ role: 'user', content: 'Tell me about boats.' }]

/** A whole and a streamed request in each protocol. */
const asked: Record<string, { path: string; streamed?: string; body: Record<string, unknown> }> = {
  'openai-chat': { path: '/v1/chat/completions', body: { model: 'demo', messages: words } },
  'openai-responses': { path: '/v1/responses', body: { model: 'demo', input: 'Tell me about boats.', store: false } },
  anthropic: { path: '/v1/messages', body: { model: 'demo', max_tokens: 100, messages: words } },
  gemini: {
    path: '/v1beta/models/demo:generateContent',
    streamed: '/v1beta/models/demo:streamGenerateContent?alt=sse',
    body: { contents: [{ role: 'user', parts: [{ text: 'Tell me about boats.' }] }] }
  }
}

const settings = {
  admin: { token: owner },
  channels: { demo: { protocol: 'simulator', models: { demo: 'demo', whisper: 'whisper-1', voice: 'tts-1' } } },
  models: {
    demo: { price: { input: 1, output: 2 } },
    whisper: { price: { second: '0.0001' } },
    voice: { price: { input: 1, output: 0, audio_output: 12 } }
  },
  tenants: { acme: { budget: { usd: 3, per: 'day' } }, zeta: {} },
  keys: [
    { name: 'ours', key: 'sk-ours', tenant: 'acme' },
    { name: 'theirs', key: 'sk-theirs', tenant: 'zeta' },
    { name: 'poor', key: 'sk-poor', tenant: 'zeta', budget: { usd: '0.000001', per: 'day' } }
  ]
}

interface Asking {
  method?: string
  token?: string
  headers?: Record<string, string>
  body?: unknown
}

/** The parts of a request to the admin listener. */
const parts = (path: string, { method, token = owner, headers, body }: Asking = {}) => ({
  path,
  headers: { authorization: `Bearer ${token}`, ...headers },
  ...(method !== undefined && { method }),
  ...(body !== undefined && { body })
})
const admin = (t: Test, local: LocalGateway, path: string, asking?: Asking): Promise<ReceivedReply> =>
  ask(t, local.adminUrl, parts(path, asking))

async function operator(t: Test, local: LocalGateway, role: string, tenant?: string): Promise<string> {
  const made = await admin(t, local, '/admin/v1/operators', { body: { name: `${role}-${tenant}`, role, tenant } })
  return made.json().token
}

async function recordOf(t: Test, local: LocalGateway, { headers }: Pick<ReceivedReply, 'headers'>): Promise<any> {
  let found: unknown
  await eventually(async () => {
    const list = await admin(t, local, `/admin/v1/requests?request_id=${headers['x-request-id']}`)
    return (found = list.json().data[0]) !== undefined
  })
  return found
}

const auditOf = async (t: Test, local: LocalGateway): Promise<any[]> =>
  (await admin(t, local, '/admin/v1/audit?action=playground.run')).json().data

t.test('each protocol is answered as a client is, whole and streamed, and recorded with who ran it', async (t) => {
  const local = await gateway(t, settings)
  for (const [protocol, { path, streamed, body }] of Object.entries(asked)) {
    for (const stream of [false, true]) {
      const target = stream ? (streamed ?? path) : path
      const sent = stream && streamed === undefined ? { ...body, stream } : body
      const direct = await ask(t, local.url, { path: target, headers: { 'x-api-key': 'sk-ours' }, body: sent })
      const reply = await admin(t, local, `${root}/keys/ours${target}`, { body: sent })
      const what = `${protocol} ${stream ? 'streamed' : 'whole'}`
      t.equal(reply.status, 200, `${what}: ${reply.text.slice(0, 300)}`)
      t.ok(reply.complete)
      t.equal(reply.headers['content-type'], direct.headers['content-type'], what)
      // Answers of the simulator follow from the request, but for times and what it counts up.
      const shape = (one: ReceivedReply): unknown =>
        stream ? readEvents(one.body).map(({ event, data }) => [event, data.length]) : Object.keys(one.json())
      t.same(shape(reply), shape(direct), what)
      const [record, other] = [await recordOf(t, local, reply), await recordOf(t, local, direct)]
      t.match(record, {
        client_protocol: other.client_protocol,
        endpoint: other.endpoint,
        key: 'ours',
        tenant: 'acme',
        streamed: stream,
        status: 200,
        outcome: 'completed',
        usage: other.usage,
        cost_nano: other.cost_nano,
        client_request_id: /^adm_/,
        playground: { actor_kind: 'token', actor: 'admin.token' }
      })
      t.notOk('playground' in other, 'requests of clients are not of the playground')
      t.ok(BigInt(record.cost_nano) > 0n, 'real money')
      const [entry] = await auditOf(t, local)
      t.match(entry, {
        actor: 'admin.token',
        object_kind: 'key',
        object: 'ours',
        tenant: 'acme',
        request_id: record.client_request_id,
        after: { method: 'POST', path: target.split('?')[0] }
      })
    }
  }
  const spent = (await admin(t, local, '/admin/v1/spend?by=key')).json().data
  const records = (await admin(t, local, '/admin/v1/requests')).json().data
  const sum = records.reduce((total: bigint, { cost_nano }: { cost_nano: string }) => total + BigInt(cost_nano), 0n)
  t.match(spent, [{ key: 'ours', requests: 16, charge_nano: String(sum) }], 'all of it is in the ledger')
})

t.test('what an endpoint answers comes through as it is: lists, sound, forms, refusals', async (t) => {
  const local = await gateway(t, settings)
  const models = await admin(t, local, `${root}/keys/ours/v1/models`)
  t.same(
    models.json().data.map(({ id }: { id: string }) => id),
    ['demo', 'whisper', 'voice']
  )
  t.same(await auditOf(t, local), [], 'who only reads is not in the audit log')
  const speech = await admin(t, local, `${root}/keys/ours/v1/audio/speech`, {
    body: { model: 'voice', input: 'Hello', voice: 'alloy', response_format: 'wav' }
  })
  t.match(speech.headers, {
    'content-type': /^audio\//,
    'content-security-policy': /sandbox/,
    'cache-control': 'no-store'
  })
  t.equal(speech.body.subarray(0, 4).toString(), 'RIFF')
  const form = formOf([
    { name: 'model', value: 'whisper' },
    { name: 'file', value: speech.body, filename: 'hello.wav', type: 'audio/wav' }
  ])
  const heard = await admin(t, local, `${root}/keys/ours/v1/audio/transcriptions`, {
    headers: { 'content-type': form.type },
    body: form.body
  })
  t.equal(heard.status, 200, heard.text)
  t.type(heard.json().text, 'string')
  const refused = await admin(t, local, `${root}/keys/ours/v1/messages`, { body: { model: 'none', messages: [] } })
  t.match(refused.json(), { type: 'error', error: { type: 'not_found_error' } }, 'in the envelope of the protocol')
  t.match(await recordOf(t, local, refused), { status: 404, error_code: 'model_not_found', playground: {} })
  const nowhere = await admin(t, local, `${root}/keys/ours/v1/nowhere`, { body: {} })
  t.match(nowhere.json(), { error: { code: 'route_not_found' } })
  const session = await admin(t, local, `${root}/keys/ours/v1/realtime?model=demo`)
  t.equal(session.status, 426, 'a session needs a WebSocket')
})

t.test('a budget refuses a run as it refuses a client, and a limit does', async (t) => {
  const local = await gateway(t, {
    ...settings,
    keys: [...settings.keys, { name: 'slow', key: 'sk-slow', tenant: 'acme', limits: { rpm: 1 } }]
  })
  const { path, body } = asked['openai-chat']!
  const poor = await admin(t, local, `${root}/keys/poor${path}`, { body })
  t.equal(poor.status, 429)
  t.match(poor.json().error, { type: 'quota_error', code: 'quota_key_exceeded' })
  t.match(await recordOf(t, local, poor), { key: 'poor', error_code: 'quota_key_exceeded', cost_nano: '0' })
  t.equal((await admin(t, local, `${root}/keys/slow${path}`, { body })).status, 200)
  const direct = await ask(t, local.url, { path, headers: { authorization: 'Bearer sk-slow' }, body })
  t.match(direct.json().error, { code: 'rate_limit_rpm' }, 'a run and a client share one limit')
})

t.test('who may run what: keys by name and by secret', async (t) => {
  const local = await gateway(t, settings)
  const { path, body } = asked['openai-chat']!
  const [viewer, ofAcme, tenantAdmin] = [
    await operator(t, local, 'viewer'),
    await operator(t, local, 'viewer', 'acme'),
    await operator(t, local, 'tenant_admin', 'acme')
  ]
  const code = async (below: string, asking: Asking): Promise<string> => {
    const reply = await admin(t, local, `${root}${below}${path}`, { body, ...asking })
    return `${reply.status} ${reply.status === 200 ? '' : reply.json().error.code}`.trim()
  }
  t.equal(await code('/keys/ours', { token: tenantAdmin }), '200')
  t.equal(await code('/keys/theirs', { token: tenantAdmin }), '404 key_not_found')
  t.equal(await code('/keys/nobodys', { token: tenantAdmin }), '404 key_not_found')
  t.equal(await code('/keys/nobodys', {}), '404 key_not_found')
  for (const token of [viewer, ofAcme]) t.equal(await code('/keys/ours', { token }), '403 role_not_allowed')
  const typed = (secret: string, token: string): Promise<string> =>
    code('/secret', { token, headers: { 'x-sluice-secret': secret } })
  for (const token of [viewer, ofAcme, tenantAdmin, owner]) t.equal(await typed('sk-ours', token), '200')
  for (const token of [viewer, owner]) t.equal(await typed('sk-theirs', token), '200')
  for (const token of [ofAcme, tenantAdmin])
    for (const secret of ['sk-theirs', 'sk-no']) t.equal(await typed(secret, token), '404 key_not_found', secret)
  t.equal(await typed('sk-no', owner), '401 invalid_api_key', 'as a client is refused')
  t.equal(await code('/secret', {}), '400 missing_field')
  t.equal(await code('/keys/ours', { token: 'no token at all' }), '401 invalid_admin_token')
  t.equal(await code('/keys/ours', { headers: { 'x-api-key': 'sk-theirs' } }), '200')
  const { data } = (await admin(t, local, '/admin/v1/requests?limit=1')).json()
  t.match(data, [{ key: 'ours' }], 'a key in the headers does not count beside one that is named')
  const ran = (await auditOf(t, local)).map(({ actor, object }) => `${actor} ${object}`)
  t.ok(ran.includes('tenant_admin-acme ours') && ran.includes('viewer-undefined theirs'))
  await admin(t, local, '/admin/v1/keys', { body: { name: 'off', tenant: 'acme', enabled: false } })
  t.equal(await code('/keys/off', {}), '401 invalid_api_key', 'a disabled key is refused as for clients')
})

t.test('nothing of the admin listener reaches an upstream, and nothing of an upstream its pages', async (t) => {
  const upstream = await Upstream.start(t)
  const models = { [testModel]: { price: { input: 1, output: 1, audio_output: 1 } } }
  const local = await gateway(
    t,
    { admin: { token: owner }, models, channels: { up: { endpoints: ['audio'] } } },
    { upstreams: { up: upstream } }
  )
  const page = Buffer.from('<script>alert(1)</script>')
  upstream.script(
    head(200, {
      'content-type': 'audio/mpeg',
      'content-length': String(page.length),
      'set-cookie': 'sluice_admin=theirs',
      'clear-site-data': '"*"',
      'access-control-allow-origin': '*'
    }),
    bytes(page)
  )
  const reply = await admin(t, local, `${root}/keys/test/v1/audio/speech`, {
    headers: { cookie: 'sluice_admin=mine', 'x-sluice-csrf': 'csrf', 'x-sluice-secret': testKey, 'x-api-key': testKey },
    body: { model: testModel, input: 'Hi', voice: 'alloy' }
  })
  t.equal(reply.status, 200, reply.text)
  t.match(reply.headers, {
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store'
  })
  for (const name of ['set-cookie', 'clear-site-data', 'access-control-allow-origin'])
    t.notOk(name in reply.headers, name)
  const received = JSON.stringify([upstream.requests[0]!.target, upstream.requests[0]!.headers])
  for (const secret of [owner, testKey, 'mine', 'csrf', 'adm_']) t.notOk(received.includes(secret), secret)
})

t.test('a run ends when its browser leaves, when its token is revoked, and with the gateway', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(
    t,
    { admin: { token: owner }, limits: { on_disconnect: 'abort' } },
    { upstreams: { up: upstream } }
  )
  const { path } = asked['openai-chat']!
  const body = { model: testModel, messages: words, stream: true }
  const begin = async (token = owner): Promise<Client> => {
    upstream.script(head(200, { 'content-type': 'text/event-stream' }), events(chatEvents(3).slice(0, 2)), stall())
    const client = await connect(t, local.adminUrl)
    client.send(parts(`${root}/keys/test${path}`, { token, body }))
    await client.body('data:')
    return client
  }
  const left = await begin()
  const { headers } = await left.head()
  left.close()
  t.match(await upstream.connections.at(-1)!.closed, { by: 'peer' }, 'the upstream hears of it')
  t.match(await recordOf(t, local, { headers }), { outcome: 'aborted', playground: {} })

  const token = await operator(t, local, 'operator')
  const revoked = await begin(token)
  await admin(t, local, '/admin/v1/operators/operator-undefined', { method: 'DELETE' })
  const cut = await revoked.reply()
  t.notOk(cut.complete, 'it does not look complete')
  t.match(await recordOf(t, local, cut), { outcome: 'aborted' })

  const last = await begin()
  await local.gateway.close()
  const ended = await last.reply()
  t.match(checkChatStream(ended.body, { error: true }).error, { code: 'draining' })
})

t.test('a browser that does not read holds its upstream back, and not memory', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(t, { admin: { token: owner } }, { upstreams: { up: upstream } })
  const flood = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'x'.repeat(60_000) } }] })}\n\n`
  const total = 1000
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([chatEvents(1)[0]!, ...Array.from({ length: total }, () => flood)])
  )
  const client = await connect(t, local.adminUrl)
  client.send(
    parts(`${root}/keys/test/v1/chat/completions`, { body: { model: testModel, messages: words, stream: true } })
  )
  client.stopReading()
  await eventually(() => upstream.connections.some(({ written }) => written > 0))
  const connection = upstream.connections.at(-1)!
  for (let last = -1; last !== connection.written;) {
    last = connection.written
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
  t.ok(connection.written < (total * flood.length) / 2, `${connection.written} bytes were taken`)
  client.resume()
  await client.body((total * flood.length) / 2)
  client.close()
})

t.test('only so many run at once, of one actor and of all', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(t, { admin: { token: owner } }, { upstreams: { up: upstream } })
  const body = { model: testModel, messages: words, stream: true }
  const open: Client[] = []
  for (let n = 0; n < 8; n++) {
    upstream.script(head(200, { 'content-type': 'text/event-stream' }), events(chatEvents(3).slice(0, 2)), stall())
    const client = await connect(t, local.adminUrl)
    client.send(parts(`${root}/keys/test/v1/chat/completions`, { body }))
    await client.body('data:')
    open.push(client)
  }
  const ninth = (): Promise<ReceivedReply> => admin(t, local, `${root}/keys/test/v1/models`)
  const refused = await ninth()
  t.equal(refused.status, 429)
  t.match(refused.json().error, { code: 'rate_limit_concurrency', message: /8 of yours/ })
  t.match(refused.headers, { 'retry-after': '1' })
  open[0]!.close()
  await eventually(async () => (await ninth()).status === 200)
})

t.test('a realtime session by text, with a key by its name and by its secret', async (t) => {
  const local = await gateway(t, {
    ...settings,
    models: { ...settings.models, demo: { price: { input: 1, output: 2, audio_input: 1, audio_output: 2 } } }
  })
  const gate = { url: local.adminUrl }
  const headers = { authorization: `Bearer ${owner}` }
  for (const [path, protocols] of [
    [`${root}/keys/ours/v1/realtime`, ['realtime']],
    [`${root}/secret/v1/realtime`, ['realtime', 'openai-insecure-api-key.sk-ours']]
  ] as const) {
    const session = await openRealtime(t, gate, { path, headers, protocols: [...protocols] })
    t.equal(session.socket.protocol, 'realtime')
    session.ask('Hello')
    t.match(await session.event('response.done'), { response: { status: 'completed' } })
    const id = String(session.headers['x-request-id'])
    session.socket.close()
    await session.closed
    t.match(await recordOf(t, local, { headers: { 'x-request-id': id } }), {
      endpoint: /^realtime/,
      key: 'ours',
      playground: { actor: 'admin.token' }
    })
  }
  t.equal((await auditOf(t, local)).length, 2)
  const refused = await refusedRealtime(t, gate, { path: `${root}/keys/none/v1/realtime`, headers })
  t.match(refused, { status: 404, json: { error: { code: 'key_not_found' } } })
  t.match(refused.headers['x-request-id'], /^adm_/)
  const no = await refusedRealtime(t, gate, { path: `${root}/keys/ours/v1/realtime`, headers, model: 'none' })
  t.match(no, { status: 404, json: { error: { code: 'model_not_found' } } })
  const elsewhere = await refusedRealtime(t, gate, { path: `${root}/keys/ours/v1/chat/completions`, headers })
  t.equal(elsewhere.status, 405, 'only the endpoint of sessions takes sockets')
  const session = await openRealtime(t, gate, { path: `${root}/keys/ours/v1/realtime`, headers })
  await local.gateway.close()
  await session.closed
})

t.test('a page of another origin opens no session, where programs of this machine need no token', async (t) => {
  const local = await gateway(t)
  const gate = { url: local.adminUrl }
  const path = `${root}/keys/test/v1/realtime`
  const { host } = new URL(local.adminUrl)
  for (const headers of [
    { origin: 'http://evil.test' },
    { origin: `http://127.0.0.1:1` },
    { origin: 'null' },
    { host: 'evil.test', origin: 'http://evil.test' }
  ] as Record<string, string>[])
    t.equal((await refusedRealtime(t, gate, { path, headers })).status, 403, JSON.stringify(headers))
  const session = await openRealtime(t, gate, { path, headers: { origin: `http://${host}` } })
  t.ok(session.headers['x-request-id'], 'its own pages do')
})

t.test('a page opens a session with its cookie and its csrf, and nobody else by its cookie', async (t) => {
  const local = await gateway(t, settings)
  const gate = { url: local.adminUrl }
  const own = { origin: local.adminUrl, 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
  const signIn = { method: 'POST', path: '/admin/v1/session', headers: own, body: { token: owner } }
  const begun = await ask(t, local.adminUrl, signIn)
  const cookie = begun.headers['set-cookie']!.split(';', 1)[0]!
  const protocol = `sluice-csrf.${begun.json().csrf}`
  const path = `${root}/keys/ours/v1/realtime`
  const page = { path, headers: { cookie, origin: local.adminUrl }, protocols: ['realtime', protocol] }
  const session = await openRealtime(t, gate, page)
  t.equal(session.socket.protocol, 'realtime', 'and what proves it is not sent back')
  const { origin: _origin, ...headless } = page.headers
  for (const [what, wrong, code] of [
    ['no csrf', { ...page, protocols: ['realtime'] }, 'csrf_missing'],
    ['the csrf of another', { ...page, protocols: ['realtime', `${protocol}x`] }, 'csrf_missing'],
    ['another site', { ...page, headers: { cookie, origin: 'https://evil.test' } }, 'origin_not_allowed'],
    ['another port', { ...page, headers: { cookie, origin: 'http://127.0.0.1:1' } }, 'origin_not_allowed'],
    ['no origin', { ...page, headers: headless }, 'origin_not_allowed']
  ] as const) {
    const refused = await refusedRealtime(t, gate, { ...wrong, protocols: [...wrong.protocols] })
    t.match(refused, { status: 403, json: { error: { code } } }, what)
  }
  const run = (headers: Record<string, string>): Promise<ReceivedReply> =>
    ask(t, local.adminUrl, {
      path: `${root}/keys/ours/v1/messages`,
      headers: { cookie, ...headers },
      body: asked['anthropic']!.body
    })
  t.equal((await run({ ...own, 'x-sluice-csrf': begun.json().csrf })).status, 200)
  t.equal((await run(own)).status, 403)
  t.equal((await run({ ...own, origin: 'https://evil.test', 'x-sluice-csrf': begun.json().csrf })).status, 403)
  const signOut = { method: 'DELETE', path: `/admin/v1/sessions/${begun.json().session}` }
  await ask(t, local.adminUrl, { ...signOut, headers: { authorization: `Bearer ${owner}` } })
  await session.closed
  t.pass('it ends with the session of the page')
})

t.test('who leaves before a run has begun takes nobody its place', async (t) => {
  const local = await gateway(t, settings)
  const body = { model: 'demo', messages: words }
  // More than one may run at once, each gone while the audit log takes its entry.
  for (let place = 0; place < 24; place++) {
    const client = await connect(t, local.adminUrl)
    client.send(parts(`${root}/keys/ours/v1/chat/completions`, { method: 'POST', body }))
    await new Promise((resolve) => client.socket.write('', resolve))
    client.socket.resetAndDestroy()
  }
  await eventually(async () => {
    const reply = await ask(t, local.adminUrl, parts(`${root}/keys/ours/v1/chat/completions`, { method: 'POST', body }))
    return reply.status === 200
  })
})
