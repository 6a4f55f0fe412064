// GET /admin/v1/requests/{request_id}: the life of a request, whatever became of it; its messages; and what the chain
// tells of its plugins.
import t from 'tap'
import type { Test } from 'tap'
import { definePlugin, GatewayError } from '../../../core/contract/contract.ts'
import type { Plugin } from '../../../core/contract/contract.ts'
import { plugins as shipped } from '../../../plugins/index.ts'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { gateway, testKey } from '../../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../../kit/gateway.ts'
import { openRealtime } from '../../kit/realtime.ts'
import { readByPeer } from '../../kit/unread.ts'
import { chunk, endOfBody, events, head, pause, reset, until, Upstream } from '../../kit/upstream.ts'

interface Step {
  what: string
  at_ms: number
  duration_ms: number
  [member: string]: any
}

const json = { 'content-type': 'application/json' }
const stream = { 'content-type': 'text/event-stream' }
const answer = { id: 'c', object: 'chat.completion', created: 1, model: 'test-model' }
const whole = JSON.stringify({
  ...answer,
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }
})
const delta = { ...answer, object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: 'He' } }] }

/** The life of the request that a reply answered. */
async function lifeOf(
  local: LocalGateway,
  reply: { headers: Record<string, string> }
): Promise<Step & { timeline: Step[] }> {
  await local.record(reply)
  return local.admin(`/admin/v1/requests/${reply.headers['x-request-id']}`)
}

const whats = ({ timeline }: { timeline: Step[] }): string[] =>
  timeline.map(({ what }) => what).filter((what) => what !== 'hook')
const stepsOf = ({ timeline }: { timeline: Step[] }, what: string): Step[] =>
  timeline.filter((step) => step.what === what)

t.test('a request over two channels tells of both attempts, in order and within the whole', async (t) => {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  first.script(head(500, json), chunk('{"error": {"message": "<b>no</b>"}}'), endOfBody())
  second.script(head(200, json), ({ socket }) => readByPeer(socket), pause(30), chunk(whole), endOfBody())
  const local = await gateway(t, {}, { upstreams: { first, second } })
  const life = await lifeOf(local, await local.chat())
  t.same(whats(life), ['received', 'body', 'attempt', 'attempt', 'shown', 'end', 'settled'])
  const [one, other] = stepsOf(life, 'attempt') as [Step, Step]
  t.match(one, { attempt: 1, channel: 'first', status: 500, outcome: 'failed', error_code: 'upstream_bad_response' })
  t.match(other, { attempt: 2, channel: 'second', status: 200, outcome: 'answered', error_code: null })
  t.ok(one.at_ms + one.duration_ms <= other.at_ms + 0.1, 'one after the other')
  t.ok(other['head_ms'] <= other['first_event_ms'] && other['first_event_ms'] <= other.duration_ms + 0.1)
  t.ok(other['first_event_ms'] - other['head_ms'] >= 15, 'the pause between head and body is seen')
  t.match(stepsOf(life, 'end')[0], { at_ms: life['duration_ms'], status: 200, outcome: 'completed' })
  const [body] = stepsOf(life, 'body') as [Step]
  t.ok(body.duration_ms <= one.at_ms + 0.1, 'the body is there before it is sent on')
  t.ok(life['cost_lines'].length > 0 && life['decision'] !== undefined, 'lines and decision are those of the list')
  const [listed] = (await local.admin(`/admin/v1/requests?request_id=${life['request_id']}`)).data
  const { timeline: _timeline, ...record } = life
  t.same(record, listed)
})

t.test('streams: whole ones, and those that are cut', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(t, {}, { upstreams: { first: upstream } })
  upstream.script(head(200, stream), events([delta]), reset())
  const cut = await lifeOf(local, await local.chat({ stream: true }))
  t.same(whats(cut), ['received', 'body', 'attempt', 'shown', 'end', 'settled'])
  t.match(stepsOf(cut, 'end')[0], { outcome: 'failed', error_code: 'upstream_stream_interrupted' })
  t.match(stepsOf(cut, 'attempt')[0], { status: 200, outcome: 'failed' })
  const end = { ...delta, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
  const gone = Promise.withResolvers<void>()
  upstream.script(head(200, stream), events([delta]), until(gone.promise), events([end, '[DONE]']), endOfBody())
  const client = await local.openChat({ stream: true })
  await client.body('data: ')
  setTimeout(gone.resolve, 30)
  const done = await lifeOf(local, await client.reply())
  const [shown, over] = [stepsOf(done, 'shown')[0]!, stepsOf(done, 'end')[0]!]
  t.match(over, { outcome: 'completed' })
  t.ok(over.at_ms - shown.at_ms >= 15, 'the first event is long before the end')
})

/** Takes its time, and refuses what it is told to. */
const guard = definePlugin({
  name: 'guard',
  summary: 'Refuses.',
  options: { secret: { type: 'string', default: 'dflt', description: 'A secret.' } },
  setup: () => ({
    async onRequest({ request }) {
      await new Promise((resolve) => setTimeout(resolve, 20))
      if (request.headers['x-refuse'] !== undefined)
        throw new GatewayError('content_blocked', 'This is blocked: <script>alert(1)</script>.')
      if (request.headers['x-break'] !== undefined) throw new TypeError('a mistake')
      if (request.headers['x-answer'] !== undefined) return { status: 200, body: { own: true } }
      return undefined
    }
  })
})
const plugins = new Map<string, Plugin>([...shipped, ['guard', guard]])
const chain = ['auth', 'guard', 'quota', 'ratelimit', 'route', 'usage-meter', { log: { sink: 'none' } }]
const open = (t: Test, overrides: Overrides = {}): Promise<LocalGateway> =>
  gateway(t, { chain, ...overrides }, { plugins, env: { ...process.env, GUARD: 'hush' } })

const asking = (local: LocalGateway, headers: Record<string, string> = {}): Promise<ReceivedReply> =>
  local.ask({
    path: '/v1/chat/completions',
    headers,
    body: { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
  })

t.test('what a plugin takes, and which one refused, is told in the life and by the chain', async (t) => {
  const local = await open(t, {
    keys: [{ name: 'test', key: testKey, tenant: 'acme', limits: { rpm: 4 }, budget: { usd: 1, per: 'day' } }]
  })
  const good = await lifeOf(local, await asking(local))
  const slow = good.timeline.find(({ plugin }) => plugin === 'guard')
  t.match(slow, { what: 'hook', hook: 'onRequest' })
  t.ok(slow!.duration_ms >= 15 && slow!.duration_ms <= good['duration_ms'])
  t.ok(good['times'].plugins_ms >= slow!.duration_ms)
  t.equal(good['times'].refused_by, undefined)
  const refused = await lifeOf(local, await asking(local, { 'x-refuse': '1' }))
  t.match(refused, { status: 403, outcome: 'rejected', times: { refused_by: 'guard' } })
  t.same(whats(refused), ['received', 'body', 'end', 'recorded'])
  t.match(await lifeOf(local, await asking(local, { 'x-break': '1' })), { times: { refused_by: 'guard' }, status: 500 })
  t.match(await lifeOf(local, await asking(local, { 'x-answer': '1' })), {
    times: { answered_by: 'guard' },
    status: 200
  })
  const strange = await lifeOf(local, await asking(local, { authorization: 'Bearer sk-nobody-00000000' }))
  t.match(strange, { tenant: null, times: { refused_by: 'auth' } })
  const broken = await local.ask({
    path: '/v1/chat/completions',
    headers: json,
    body: Buffer.from('{"model": ') as never
  })
  t.equal((await lifeOf(local, broken))['times'].refused_by, undefined, 'a body that is none is refused by the core')
  let limited: ReceivedReply
  do limited = await asking(local)
  while (limited.status === 200)
  t.match(await lifeOf(local, limited), { error_code: 'rate_limit_rpm', times: { refused_by: 'ratelimit' } })

  const shown = await local.admin('/admin/v1/chain')
  t.same(
    shown.plugins.map(({ name }: { name: string }) => name),
    ['auth', 'guard', 'quota', 'ratelimit', 'route', 'usage-meter', 'log']
  )
  const of = (name: string): any => shown.plugins.find((plugin: { name: string }) => plugin.name === name)
  t.match(of('guard'), { hooks: ['onRequest'], skipped: true, answered: 1, defaults: { secret: 'dflt' }, options: {} })
  t.same(
    of('guard')
      .refused.map(({ code, count }: { code: string; count: number }) => `${code} ${count}`)
      .sort(),
    ['content_blocked 1', 'internal_error 1']
  )
  t.ok(of('guard').took_p50_ms >= 15 && of('guard').took_p99_ms >= of('guard').took_p50_ms)
  t.ok(of('auth').took_p50_ms < of('guard').took_p50_ms)
  t.same(of('auth').refused, [{ code: 'invalid_api_key', count: 1 }])
  t.ok(of('ratelimit').refused.some(({ code }: { code: string }) => code === 'rate_limit_rpm'))
  t.match(of('quota'), { needs: ['caller'], skipped: false })
  t.ok(of('auth').provides.includes('caller'))
})

t.test('a budget that is spent is refused by quota', async (t) => {
  const local = await gateway(t, { tenants: { acme: { budget: { usd: 0.000001, per: 'day' } } } })
  const life = await lifeOf(local, await local.chat())
  t.match(life, { status: 429, times: { refused_by: 'quota' }, reason: { by: 'budget' } })
})

t.test('figures stay over a reload, and options are shown without secrets', async (t) => {
  const local = await open(t)
  await lifeOf(local, await asking(local, { 'x-refuse': '1' }))
  local.configure({
    chain: chain.map((entry) => (entry === 'guard' ? { guard: { secret: '${GUARD}' } } : entry))
  })
  const { ok } = await local.gateway.reload('SIGHUP')
  t.ok(ok)
  const { plugins: shown } = await local.admin('/admin/v1/chain')
  t.same(shown[1].refused, [{ code: 'content_blocked', count: 1 }])
  t.notMatch(JSON.stringify(shown), /hush/, 'a variable is shown as it is written')
})

t.test('a realtime session has an attempt with its handshake, and its end', async (t) => {
  const local = await gateway(t)
  const client = await openRealtime(t, local, { model: 'demo' })
  client.socket.close()
  await client.closed
  const life = await lifeOf(local, client as { headers: Record<string, string> })
  const [attempt] = stepsOf(life, 'attempt') as [Step]
  t.match(attempt, { status: 101, channel: 'demo' })
  t.ok(attempt['head_ms'] >= 0 && attempt['head_ms'] <= attempt.duration_ms)
  t.ok(whats(life).includes('end'))
})

t.test('a response in the background is shown when it has ended, with its attempt', async (t) => {
  const local = await gateway(t, {
    models: { demo: { price: { input: 1, output: 2 }, state: 'gateway' } },
    state: { key: 'a secret of the operator that nobody else knows' }
  })
  const reply = await local.ask({
    path: '/v1/responses',
    body: { model: 'demo', input: 'Hi', background: true }
  })
  t.equal(reply.json().status, 'queued')
  const life = await lifeOf(local, reply)
  t.same(whats(life), ['received', 'body', 'attempt', 'end', 'settled'], 'no client was shown it')
  t.match(stepsOf(life, 'attempt')[0], { channel: 'demo', status: 200, outcome: 'answered' })
  t.match(stepsOf(life, 'end')[0], { outcome: 'completed' })
})

t.test('messages are shown where a response is kept, to those who manage, and it is noted who looked', async (t) => {
  const local = await gateway(t, {
    admin: { token: 'the token of the owner' },
    models: { demo: { price: { input: 1, output: 2 }, state: 'gateway' } },
    state: { key: 'a secret of the operator that nobody else knows' }
  })
  const by =
    (token: string) =>
    (method: string, path: string, body?: unknown): Promise<ReceivedReply> =>
      ask(t, local.adminUrl, {
        method,
        path: `/admin/v1${path}`,
        headers: { authorization: `Bearer ${token}` },
        ...(body !== undefined && { body })
      })
  const root = by('the token of the owner')
  const kept = await local.ask({ path: '/v1/responses', body: { model: 'demo', input: 'What is <b>kept</b>?' } })
  const unkept = await local.ask({ path: '/v1/responses', body: { model: 'demo', input: 'Gone', store: false } })
  const below = ({ headers }: ReceivedReply): string => `/requests/${headers['x-request-id']}/messages`
  const shown = (await root('GET', below(kept))).json()
  t.match(shown, { kept: 'response', id: kept.json().id, why_not: null, tenant: 'acme' })
  t.match(JSON.stringify(shown.input), /What is <b>kept/)
  t.same(shown.output.output, kept.json().output)
  t.match((await root('GET', below(unkept))).json(), {
    kept: null,
    input: null,
    output: null,
    why_not: /Nothing is kept/
  })
  const [entry] = (await root('GET', '/audit?action=request.read_messages')).json().data
  t.match(entry, { object: kept.headers['x-request-id'], tenant: 'acme', after: { response: kept.json().id } })
  for (const [name, role, tenant, status] of [
    ['ta', 'tenant_admin', 'acme', 200],
    ['va', 'viewer', 'acme', 403],
    ['v', 'viewer', undefined, 403],
    ['tb', 'tenant_admin', 'zeta', 404]
  ] as const) {
    if (tenant === 'zeta') await root('POST', '/tenants', { name: 'zeta' })
    const { token } = (await root('POST', '/operators', { name, role, ...(tenant && { tenant }) })).json()
    t.equal((await by(token)('GET', below(kept))).status, status, `${role} of ${tenant ?? 'all'}`)
    const life = await by(token)('GET', below(kept).replace('/messages', ''))
    t.equal(life.status, tenant === 'zeta' ? 404 : 200)
    if (tenant === 'acme') {
      t.same(whats(life.json()), ['received', 'body', 'shown', 'end', 'settled'], 'no attempts')
      for (const hidden of ['attempts', 'channel', 'times', 'decision']) t.notOk(hidden in life.json(), hidden)
      t.notMatch(life.text, /plugin|"channel/)
    }
  }
  t.equal((await root('GET', '/requests/none-such')).status, 404)
})
