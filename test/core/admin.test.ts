// The operator's listener: health, who may come in, and every resource, on a whole gateway.
import { createHash } from 'node:crypto'
import fs, { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { startGateway } from '../../core/container.ts'
import { openDatabase } from '../../core/store/embedded/files/sqlite.ts'
import { silentLog } from '../../core/telling/log.ts'
import { formatDollars, parseDollars } from '../../core/money/money.ts'
import { ask, connect } from '../kit/client.ts'
import type { ReceivedReply, RequestParts } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { bytes, head, until, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'

const chatPath = '/v1/chat/completions'
const model = 'demo'
const hello = { model, messages: [{ role: 'user', content: 'Hi' }] }
const tree = {
  acme: {
    models: ['*'],
    budget: { usd: 100, per: 'month' },
    projects: {
      web: {
        budget: { usd: 10, per: 'day' },
        members: { alice: { models: ['demo'], budget: { usd: 1, per: 'total' } } }
      }
    }
  },
  other: {}
}

type Admin = (method: string, path: string, parts?: RequestParts) => Promise<ReceivedReply>

/** Requests to the admin listener of a gateway. */
function adminOf(t: Test, { adminUrl }: Pick<LocalGateway, 'adminUrl'>): Admin {
  return (method, path, parts = {}) => ask(t, adminUrl, { ...parts, method, path })
}

/** A chat completion with some key. */
function chatWith(t: Test, { url }: LocalGateway, key: string): Promise<ReceivedReply> {
  return ask(t, url, { path: chatPath, headers: { authorization: `Bearer ${key}` }, body: hello })
}

/** A chat completion: a thousand tokens in, five hundred out. */
const answer = {
  id: 'c',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500 }
}

/** The answer's head at once, its body when something has happened. */
function answerAfter(event: Promise<unknown>): Step[] {
  const body = JSON.stringify(answer)
  return [
    head(200, { 'content-type': 'application/json', 'content-length': String(body.length) }),
    until(event),
    bytes(body)
  ]
}

const refusal = (reply: ReceivedReply): Record<string, string> => ({
  status: String(reply.status),
  ...reply.json().error
})

t.test(
  'health and metrics are open, unknown paths and methods are refused in JSON, and nothing may be cached',
  async (t) => {
    const local = await gateway(t, { admin: { token: 'a-token' } })
    const admin = adminOf(t, local)
    for (const path of ['/healthz', '/livez', '/readyz', '/readyz?verbose']) {
      const reply = await admin('GET', path)
      t.equal(reply.status, 200, path)
      t.strictSame(reply.json(), { status: 'ok' })
      t.match(reply.headers, {
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'content-type': 'application/json'
      })
    }
    const metrics = await admin('GET', '/metrics')
    t.match(metrics.headers['content-type'], /^text\/plain; version=0\.0\.4/)
    t.match(metrics.text, /^sluice_config_last_reload_successful 1$/m)
    const open = await admin('GET', '/metrics', { headers: { accept: 'application/openmetrics-text; version=1.0.0' } })
    t.match(open.headers['content-type'], /^application\/openmetrics-text/)
    t.match(open.text, /# EOF\n$/)

    const client = await connect(t, local.adminUrl)
    client.write('HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')
    t.equal((await client.head()).start[1], '200')
    t.match(refusal(await admin('GET', '/helthz')), {
      status: '404',
      type: 'not_found_error',
      code: 'route_not_found',
      message: /Did you mean \/healthz\?/
    })
    for (const path of ['//healthz', '/healthz/', '/./healthz', '/%68ealthz', '/Healthz', '/v1/models'])
      t.equal((await admin('GET', path)).status, 404, path)
    const wrong = await admin('POST', '/healthz')
    t.match(refusal(wrong), { status: '405', code: 'method_not_allowed' })
    t.equal(wrong.headers['allow'], 'GET, HEAD')
  }
)

t.test('readiness turns while the gateway drains, and the admin API answers until the end', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(t, {}, { upstreams: { first: upstream } })
  const go = Promise.withResolvers<void>()
  upstream.script(...answerAfter(go.promise))
  const client = await local.openChat()
  await upstream.request()
  const closed = local.gateway.close({ drain: true })
  const admin = adminOf(t, local)
  const ready = await admin('GET', '/readyz')
  t.equal(ready.status, 503)
  t.match(ready.json(), { status: 'unavailable', reasons: [/^draining/] })
  t.equal((await admin('GET', '/healthz')).status, 200)
  t.equal((await admin('GET', '/admin/v1/requests')).status, 200)
  go.resolve()
  t.equal((await client.reply()).status, 200)
  t.strictSame(await closed, { cut: 0 })
  await t.rejects(admin('GET', '/healthz'))
})

t.test(
  'readiness turns while the disk takes no commits, keys are refused then, and all is well afterwards',
  async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const local = await gateway(t, { tenants: tree, store: { sqlite: file, durability: 'process' } })
    const admin = adminOf(t, local)
    await local.chat()
    const { write } = fs
    const mend = (): void => {
      fs.write = write
      syncBuiltinESMExports()
    }
    t.teardown(mend)
    fs.write = ((...call: unknown[]) =>
      process.nextTick(
        call.at(-1) as (error: Error) => void,
        new Error('ENOSPC: no space left on device, write')
      )) as typeof write
    syncBuiltinESMExports()
    const waiting = local.chat()
    await eventually(async () => (await admin('GET', '/readyz')).status === 503)
    const ready = await admin('GET', '/readyz')
    t.match(ready.json(), {
      status: 'unavailable',
      reasons: [/^store: the commit log cannot be written: new requests are refused; the disk is full, since 20/]
    })
    t.notMatch(ready.text, 'sluice.db', 'which anybody may read, so it has no paths')
    const refused = await admin('POST', '/admin/v1/keys', { body: { tenant: 'acme', name: 'late' } })
    t.match(refusal(refused), { status: '503', code: 'billing_unavailable' })
    t.equal(refused.headers['retry-after'], '1')
    mend()
    await eventually(async () => (await admin('GET', '/readyz')).status === 200)
    await waiting
    t.equal((await admin('POST', '/admin/v1/keys', { body: { tenant: 'acme', name: 'late' } })).status, 201)
  }
)

t.test('a database that another process holds shows in readiness, and turns nobody away', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const local = await gateway(t, { tenants: tree, store: { sqlite: file, durability: 'process' } })
  const admin = adminOf(t, local)
  const other = openDatabase(file, 'process')
  other.exec('BEGIN IMMEDIATE')
  t.equal((await local.chat()).status, 200)
  await eventually(async () => (await admin('GET', '/readyz')).json().status === 'degraded')
  const ready = await admin('GET', '/readyz')
  t.equal(ready.status, 200)
  t.match(ready.json(), {
    reasons: [
      /^store: the database cannot be written: what is charged is kept in the commit log; another process holds the database, since 20/
    ]
  })
  t.equal((await local.chat()).status, 200)
  other.close()
  await eventually(async () => (await admin('GET', '/readyz')).json().status === 'ok')
})

t.test('the request log is listed newest first, filtered by every field and walked page by page', async (t) => {
  const local = await gateway(t, {
    tenants: tree,
    keys: [
      { name: 'test', key: testKey, tenant: 'acme' },
      { name: 'second', key: 'sk-second', tenant: 'other' }
    ]
  })
  const admin = adminOf(t, local)
  const began = new Date().toISOString()
  const ids: string[] = []
  for (let i = 0; i < 7; i++) {
    const reply = i % 3 === 2 ? await chatWith(t, local, 'sk-second') : await local.chat()
    ids.unshift(reply.headers['x-request-id']!)
  }
  await eventually(async () => (await local.admin('/admin/v1/requests')).data.length === 7)
  const idsOf = async (query: string): Promise<string[]> =>
    (await local.admin(`/admin/v1/requests?${query}`)).data.map((record: any) => record.request_id)
  t.strictSame(await idsOf(''), ids)
  t.strictSame(
    await idsOf('key=second'),
    ids.filter((_, at) => at === 1 || at === 4)
  )
  t.strictSame(await idsOf('tenant=other&key=test'), [], 'conditions hold together')
  t.strictSame((await idsOf('tenant=acme')).length, 5)
  t.strictSame(await idsOf(`request_id=${ids[3]}`), [ids[3]])
  t.strictSame(await idsOf('model=demo'), ids)
  t.strictSame(await idsOf(`since=${began}`), ids)
  t.strictSame(await idsOf('since=2100-01-01'), [])
  for (const query of [
    'status=200',
    'status=2xx',
    'outcome=completed',
    'endpoint=chat',
    'until=2100-01-01',
    'cost_min=0&cost_max=5',
    'duration_min=0ms&duration_max=1d'
  ])
    t.strictSame(await idsOf(query), ids, query)
  for (const query of [
    'status=4xx',
    'status=201',
    'outcome=failed',
    'code=internal_error',
    'endpoint=embeddings',
    'project=web',
    'member=alice',
    'channel=nowhere',
    'tag=team',
    'until=2020-01-01',
    'cost_min=1',
    'duration_min=1d'
  ])
    t.strictSame(await idsOf(query), [], query)

  const walked: string[] = []
  let cursor: string | null = null
  let pages = 0
  do {
    const page: { data: { request_id: string }[]; next: string | null } = await local.admin(
      `/admin/v1/requests?limit=3${cursor === null ? '' : `&cursor=${cursor}`}`
    )
    walked.push(...page.data.map((record) => record.request_id))
    cursor = page.next
    pages++
  } while (cursor !== null)
  t.strictSame(walked, ids)
  t.equal(pages, 3)

  const [record] = (await local.admin(`/admin/v1/requests?request_id=${ids[0]}`)).data
  t.match(record, {
    tenant: 'acme',
    key: 'test',
    model: 'demo',
    endpoint: 'chat',
    status: 200,
    outcome: 'completed',
    usage_source: 'upstream',
    streamed: false
  })
  t.equal(record.cost_usd, formatDollars(BigInt(record.cost_nano)))
  // How the cost came about: each class at its price, in dollars per million, rounded half up once.
  t.match(record, { price_version: /./, reserved_nano: /^\d+$/ })
  const parts: bigint = record.cost_lines.reduce(
    (sum: bigint, line: any) => sum + BigInt(line.units) * parseDollars(line.usd_per_million)!,
    0n
  )
  t.equal(String((parts + 500_000n) / 1_000_000n), record.cost_nano)
  t.strictSame(
    record.cost_lines.map((line: any) => [line.class, line.units]),
    [
      ['input', record.usage.input],
      ['output', record.usage.output]
    ]
  )

  for (const [query, param, message] of [
    ['limt=3', 'limt', /unknown parameter "limt", did you mean "limit"\?/],
    ['limit=0', 'limit', /from 1 to 1000/],
    ['limit=1001', 'limit', /"1001"/],
    ['limit=ten', 'limit', /"ten"/],
    ['limit=1e2', 'limit', /limit/],
    ['since=yesterday', 'since', /"yesterday"/],
    ['since=1', 'since', /since/],
    ['since=2026-02-30', 'since', /since/],
    ['cursor=abc', 'cursor', /cursor/],
    ['cursor=-1', 'cursor', /cursor/],
    ['key=', 'key', /empty/],
    ['key=a&key=b', 'key', /twice/],
    ['status=4x', 'status', /429 or 4xx/],
    ['status=600', 'status', /429 or 4xx/],
    ['cost_min=cheap', 'cost_min', /US dollars/],
    ['duration_max=long', 'duration_max', /500ms, 2s/],
    ['until=tomorrow', 'until', /"tomorrow"/],
    [`${'x'.repeat(200)}=1`, `${'x'.repeat(39)}…`, /unknown/]
  ] as const) {
    t.match(
      refusal(await admin('GET', `/admin/v1/requests?${query}`)),
      { status: '400', code: 'invalid_field', param, message },
      query.slice(0, 40)
    )
  }
})

t.test('balances show what was charged, what is held and what is left, for every budget from the start', async (t) => {
  const upstream = await Upstream.start(t)
  const keys = [
    { name: 'test', key: testKey, tenant: 'acme', project: 'web', member: 'bob', budget: { usd: '0.5', per: 'day' } }
  ]
  const tenants = {
    acme: { budget: { usd: 100, per: 'month' }, projects: { web: { members: { bob: {} } } } },
    other: { budget: { usd: 7, per: 'total' } }
  }
  const local = await gateway(t, { tenants, keys }, { upstreams: { first: upstream } })
  const rows = async (query = ''): Promise<Record<string, any>> =>
    Object.fromEntries(
      (await local.admin(`/admin/v1/balances${query}`)).data.map(({ scope, window, ...row }: any) => [
        `${scope} ${window}`,
        row
      ])
    )
  const today = new Date().toISOString().slice(0, 10)
  const untouched = { posted_usd: '0', posted_nano: '0', pending_usd: '0', pending_nano: '0', alerts: [], told: null }
  t.strictSame(await rows(), {
    [`key:test ${today}`]: {
      limit_usd: '0.5',
      limit_nano: '500000000',
      ...untouched,
      left_usd: '0.5',
      left_nano: '500000000',
      tenant: 'acme'
    },
    [`tenant:acme ${today.slice(0, 7)}`]: {
      limit_usd: '100',
      limit_nano: '100000000000',
      ...untouched,
      left_usd: '100',
      left_nano: '100000000000',
      tenant: 'acme'
    },
    'tenant:other total': {
      limit_usd: '7',
      limit_nano: '7000000000',
      ...untouched,
      left_usd: '7',
      left_nano: '7000000000',
      tenant: 'other'
    }
  })

  const go = Promise.withResolvers<void>()
  upstream.script(...answerAfter(go.promise))
  const client = await local.openChat()
  await upstream.request()
  const during = (await rows())[`key:test ${today}`]
  t.ok(BigInt(during.pending_nano) > 2_000_000n, 'held while it runs')
  t.equal(BigInt(during.left_nano), 500_000_000n - BigInt(during.pending_nano))
  go.resolve()
  const reply = await client.reply()
  // A thousand at one dollar a million, five hundred at two.
  t.equal((await local.record(reply)).cost_nano, '2000000')
  const after = await rows()
  t.match(after[`key:test ${today}`], {
    posted_usd: '0.002',
    posted_nano: '2000000',
    pending_nano: '0',
    left_nano: '498000000'
  })
  for (const id of [
    `tenant:acme ${today.slice(0, 7)}`,
    'tenant:acme total',
    'project:acme/web total',
    'member:acme/web/bob total',
    'key:test total'
  ]) {
    t.equal(after[id].posted_nano, '2000000', id)
  }
  t.match(
    after['key:test total'],
    { limit_usd: null, limit_nano: null, left_usd: null, left_nano: null },
    'the budget is for a day'
  )

  t.strictSame(Object.keys(await rows('?scope=key:test')), [`key:test ${today}`, 'key:test total'])
  t.strictSame(Object.keys(await rows('?tenant=other')), ['tenant:other total'])
  t.strictSame(await rows('?scope=key:nobody'), {})
  local.configure({ tenants, keys: [{ ...keys[0], budget: { usd: 3, per: 'day' } }] })
  t.match(await local.gateway.reload('test'), { ok: true })
  t.equal((await rows())[`key:test ${today}`].left_nano, '2998000000', 'a new limit counts at once')
})

t.test('channels show their health and no credential, the configuration no secret at all', async (t) => {
  const bad = await Upstream.start(t)
  const good = await Upstream.start(t)
  const secret = 'very-secret-credential'
  const local = await gateway(
    t,
    {
      admin: { token: '${ADMIN}' },
      channels: {
        bad: { credential: secret, base_url: `${bad.url.href}?version=3`, headers: { 'x-secret': secret } },
        pretend: { protocol: 'simulator', models: { demo: 'demo' }, priority: 5 }
      },
      models: { demo: { price: 'free' } }
    },
    { upstreams: { bad, good }, env: { ADMIN: 'the-admin-secret' } }
  )
  const headers = { authorization: 'Bearer the-admin-secret' }
  const get = async (path: string): Promise<ReceivedReply> => adminOf(t, local)('GET', path, { headers })
  bad.json({ error: 'down' }, { status: 500 })
  good.json(answer)
  t.equal((await local.chat()).status, 200)

  const channels = await get('/admin/v1/channels')
  t.match(channels.json(), {
    next: null,
    data: [
      {
        name: 'bad',
        protocol: 'openai',
        models: { [testModel]: testModel },
        priority: 0,
        weight: 1,
        health: { failures: 1, successes: 0 }
      },
      { name: 'good', priority: 1, health: { state: 'healthy', until: null, failures: 0, successes: 1 } },
      { name: 'pretend', protocol: 'simulator', priority: 5 }
    ]
  })
  const config = await get('/admin/v1/config')
  const { file, hash, last_reload: last, store, config: shown } = config.json()
  t.equal(file, local.file)
  t.equal(store, join(local.file, '..', 'sluice.db'))
  t.equal(hash, createHash('sha256').update(readFileSync(local.file)).digest('hex'))
  t.equal(last, null)
  t.equal(shown.admin.token, '${ADMIN}', 'variables stay as they are written')
  t.equal(shown.channels.bad.credential, '[redacted]')
  for (const { text } of [channels, config]) {
    for (const hidden of [secret, 'the-admin-secret', testKey, 'upstream-secret-of-good'])
      t.notOk(text.includes(hidden), `no ${hidden}`)
  }
})

t.test('a reload is taken over or refused with its problems while the old configuration serves', async (t) => {
  const local = await gateway(t)
  const admin = adminOf(t, local)
  const before = (await local.admin('/admin/v1/config')).hash

  writeFileSync(
    local.file,
    `${readFileSync(local.file, 'utf8').replace('tenant: acme', 'tenant: acmee')}\nnonsense: 1\n`
  )
  const refused = await admin('POST', '/admin/v1/reload')
  t.equal(refused.status, 422)
  const { error, problems, ok, hash } = refused.json()
  t.match(error, { type: 'invalid_request_error', code: 'config_refused' })
  t.match(problems, [
    { place: /gateway\.yaml:\d+:\d+$/, message: /no tenant "acmee", did you mean "acme"\?/ },
    { place: /:\d+:1$/, message: /unknown key/ }
  ])
  t.strictSame([ok, hash], [false, before])
  t.match((await local.admin('/admin/v1/config')).last_reload, { ok: false, reason: 'admin API', problems })
  t.equal((await local.chat()).status, 200, 'the old one serves')
  const ready = await admin('GET', '/readyz')
  t.equal(ready.status, 200)
  t.match(ready.json(), { status: 'degraded', reasons: [/^configuration: the files are refused since 20/] })
  t.notMatch(ready.text, /acmee|nonsense|gateway\.yaml/, 'which anybody may read')

  t.match(await local.admin('/admin/v1/config/diff'), { in_use: before, on_disk: null, changes: [], problems })
  local.configure({ tenants: { acme: {}, fresh: {} } })
  const diff = await local.admin('/admin/v1/config/diff')
  t.match(diff, { in_use: before, changes: [{ kind: 'added', section: 'tenants', name: 'fresh' }], problems: [] })
  t.equal((await local.admin('/admin/v1/config')).hash, before, 'a comparison changes nothing')
  const taken = await admin('POST', '/admin/v1/reload')
  t.equal(taken.status, 200)
  t.match(taken.json(), { ok: true, hash: diff.on_disk, problems: [], changes: ['tenant fresh is added'] })
  t.same(await local.admin('/readyz'), { status: 'ok' })
  const logged = local.lines.find(({ message }) => message === 'the configuration was reloaded')
  t.strictSame(logged?.fields['changes'], ['tenant fresh is added'])
  const after = await local.admin('/admin/v1/config')
  t.not(after.hash, before)
  t.match(after.last_reload, { ok: true, hash: after.hash })
  t.strictSame(
    (await local.admin('/admin/v1/tenants')).data.map(({ name }: any) => name),
    ['acme', 'fresh']
  )
  t.equal((await admin('GET', '/admin/v1/reload')).status, 405)
})

t.test('tenants show their tree with what each may use and spend', async (t) => {
  const local = await gateway(t, { tenants: tree })
  const usual = {
    source: 'file',
    state: 'active',
    enabled: true,
    models: ['*'],
    endpoints: ['*'],
    limits: {},
    budget: [],
    expires: null,
    tags: {},
    created: null,
    changed: null,
    closed: null
  }
  const alice = {
    ...usual,
    name: 'alice',
    tenant: 'acme',
    project: 'web',
    scope: 'member:acme/web/alice',
    models: ['demo'],
    budget: [{ usd: '1', usd_nano: '1000000000', per: 'total' }]
  }
  const web = {
    ...usual,
    name: 'web',
    tenant: 'acme',
    scope: 'project:acme/web',
    budget: [{ usd: '10', usd_nano: '10000000000', per: 'day' }]
  }
  const acme = {
    ...usual,
    name: 'acme',
    tenant: 'acme',
    scope: 'tenant:acme',
    budget: [{ usd: '100', usd_nano: '100000000000', per: 'month' }],
    foreign_references: null
  }
  const other = { ...usual, name: 'other', tenant: 'other', scope: 'tenant:other', foreign_references: null }
  t.strictSame(await local.admin('/admin/v1/tenants'), {
    data: [
      { ...acme, projects: [{ ...web, members: [alice] }] },
      { ...other, projects: [] }
    ],
    next: null
  })
  t.strictSame(await local.admin('/admin/v1/projects'), { data: [web], next: null })
  t.strictSame(await local.admin('/admin/v1/members?tenant=acme&project=web'), { data: [alice], next: null })
  t.strictSame(await local.admin('/admin/v1/members?tenant=other'), { data: [], next: null })
  t.strictSame(await local.admin('/admin/v1/members/acme/web/alice'), alice)
})

t.test('a key works from the moment it is made until it is revoked, and its secret is shown once', async (t) => {
  const local = await gateway(t, { tenants: tree })
  const admin = adminOf(t, local)
  const request = {
    name: 'größe@x+1',
    tenant: 'acme',
    project: 'web',
    member: 'alice',
    models: ['demo'],
    endpoints: ['chat'],
    limits: { rpm: 60, concurrency: 2 },
    budget: { usd: '0.25', per: 'day' },
    expires: '2100-01-01'
  }
  const made = await admin('POST', '/admin/v1/keys', { body: request })
  t.equal(made.status, 201)
  const { key, ...shown } = made.json()
  t.match(key, /^sk-[0-9A-Za-z]{43}$/)
  t.strictSame(
    { ...shown, created: '' },
    {
      ...request,
      source: 'store',
      state: 'active',
      enabled: true,
      tags: {},
      hint: `${key.slice(0, 7)}…${key.slice(-4)}`,
      secrets: [{ hint: `${key.slice(0, 7)}…${key.slice(-4)}`, created: shown.created, until: null }],
      changed: null,
      budget: [{ usd: '0.25', usd_nano: '250000000', per: 'day' }],
      expires: '2100-01-01T00:00:00.000Z',
      created: '',
      revoked: null
    }
  )
  const reply = await chatWith(t, local, key)
  t.equal(reply.status, 200)
  t.match(await local.record(reply), { key: request.name, tenant: 'acme', project: 'web', member: 'alice' })
  t.equal(
    (await ask(t, local.url, { path: '/v1/models', headers: { authorization: `Bearer ${key}` } })).status,
    403,
    'its scope holds'
  )

  const list = await admin('GET', '/admin/v1/keys')
  t.match(list.json(), {
    data: [shown, { name: 'test', source: 'file', state: 'active', hint: null, created: null }].sort((a, b) =>
      a.name < b.name ? -1 : 1
    ),
    next: null
  })
  t.notOk(list.text.includes(key.slice(8, 40)))
  const files = readdirSync(join(local.file, '..'), { recursive: true, withFileTypes: true }).filter(
    (file) => file.isFile() && `${file.parentPath}/${file.name}`.includes('sluice.db')
  )
  t.ok(files.some(({ name }) => name.startsWith('segment-')))
  for (const { parentPath, name } of files)
    t.notOk(readFileSync(join(parentPath, name)).includes(key.slice(8, 40)), `${name} has only its digest`)

  const path = `/admin/v1/keys/${encodeURIComponent(request.name)}`
  const revoked = await admin('DELETE', path)
  t.equal(revoked.status, 200)
  t.match(revoked.json(), { name: request.name, state: 'revoked', revoked: /^20/ })
  t.equal((await chatWith(t, local, key)).status, 401)
  t.strictSame((await admin('DELETE', path)).json(), revoked.json(), 'once more changes nothing')
  t.match(refusal(await admin('POST', '/admin/v1/keys', { body: request })), {
    status: '409',
    code: 'key_exists',
    message: /in the store, revoked/
  })
  t.strictSame(
    local.lines
      .filter(({ message }) => message.startsWith('a key'))
      .slice(0, 2)
      .map(({ message, fields }) => [message, fields['key']]),
    [
      ['a key was made', request.name],
      ['a key was revoked', request.name]
    ]
  )
  t.notOk(JSON.stringify(local.lines).includes(key))
})

t.test('keys outlive the process, and go with their owner', async (t) => {
  const local = await gateway(t, { tenants: tree })
  const make = async (body: unknown): Promise<{ name: string; key: string }> =>
    (await adminOf(t, local)('POST', '/admin/v1/keys', { body })).json()
  const first = await make({ tenant: 'acme', project: 'web' })
  t.match(first.name, /^web-[0-9a-f]{8}$/, 'a name is made when none is given')
  const second = await make({ tenant: 'other' })
  await local.gateway.close()

  const again = await startGateway({ config: local.file, log: silentLog })
  t.teardown(() => again.close())
  const next = { ...local, url: again.url, adminUrl: again.adminUrl! }
  t.equal((await chatWith(t, next, first.key)).status, 200)
  t.equal((await chatWith(t, next, second.key)).status, 200)
  local.configure({ tenants: { other: {} }, keys: [{ name: 'test', key: testKey, tenant: 'other' }] })
  // Overrides are merged, so that the tenant of the complete file is to be taken out by hand.
  writeFileSync(local.file, readFileSync(local.file, 'utf8').replace(/^ {2}acme: \{\}\n/m, ''))
  t.match(await again.reload('test'), { ok: true })
  t.equal((await chatWith(t, next, first.key)).status, 401)
  t.equal((await chatWith(t, next, second.key)).status, 200)
  const states = (await adminOf(t, next)('GET', '/admin/v1/keys'))
    .json()
    .data.map(({ name, state }: any) => [name, state])
  t.strictSame(Object.fromEntries(states), { test: 'active', [first.name]: 'unowned', [second.name]: 'active' })
})

t.test('keys of the file are read only, and names are taken once', async (t) => {
  const local = await gateway(t, { tenants: tree })
  const admin = adminOf(t, local)
  t.match(refusal(await admin('DELETE', '/admin/v1/keys/test')), {
    status: '409',
    code: 'key_read_only',
    message: /gateway\.yaml:\d+:\d+: change it there/
  })
  t.equal((await local.chat()).status, 200)
  const create = (body: unknown): Promise<ReceivedReply> => admin('POST', '/admin/v1/keys', { body })
  t.match(refusal(await create({ name: 'test', tenant: 'acme' })), {
    status: '409',
    code: 'key_exists',
    param: 'name',
    message: /gateway\.yaml:\d+:\d+/
  })
  const twins = await Promise.all([create({ name: 'twin', tenant: 'acme' }), create({ name: 'twin', tenant: 'acme' })])
  t.strictSame(twins.map(({ status }) => status).sort(), [201, 409])
  t.match(refusal(await admin('DELETE', '/admin/v1/keys/twim')), {
    status: '404',
    code: 'key_not_found',
    message: /did you mean "twin"\?/
  })
  for (const path of ['/admin/v1/keys/', '/admin/v1/keys/a/b', '/admin/v1/keys/%ff'])
    t.equal((await admin('DELETE', path)).status, 404, path)

  for (let i = 0; i < 5; i++) await create({ name: `many-${i}`, tenant: 'acme' })
  const names: string[] = []
  let cursor = ''
  do {
    const page = await local.admin(`/admin/v1/keys?limit=3${cursor === '' ? '' : `&cursor=${cursor}`}`)
    names.push(...page.data.map(({ name }: any) => name))
    cursor = page.next ?? ''
  } while (cursor !== '')
  t.strictSame(names, ['many-0', 'many-1', 'many-2', 'many-3', 'many-4', 'test', 'twin'])
  t.match(refusal(await admin('GET', '/admin/v1/keys?cursor=!')), { status: '400', param: 'cursor' })
})

t.test('a request for a key is checked field by field, and a refused one makes nothing', async (t) => {
  const local = await gateway(t, { tenants: tree })
  const admin = adminOf(t, local)
  const cases: [unknown, string | undefined, RegExp][] = [
    [{}, undefined, /"tenant" is missing/],
    [[], undefined, /JSON object/],
    ['"text"', undefined, /JSON object/],
    [{ tenant: 5 }, 'tenant', /must be text/],
    [{ tenant: 'acm' }, 'tenant', /no tenant "acm", did you mean "acme"\?/],
    [{ tenant: 'acme', project: 'wep' }, 'project', /did you mean "web"\?/],
    [{ tenant: 'acme', project: 'web', member: 'alise' }, 'member', /did you mean "alice"\?/],
    [{ tenant: 'acme', member: 'alice' }, 'project', /a member belongs to one/],
    [{ tenant: 'acme', name: 'a/b' }, 'name', /letters, digits/],
    [{ tenant: 'acme', name: '' }, 'name', /letters, digits/],
    [{ tenant: 'acme', key: 'sk-own-choice-000' }, 'key', /unknown key/],
    [{ tenant: 'acme', models: 'demo' }, 'models', /must be a list/],
    [{ tenant: 'acme', endpoints: ['chta'] }, 'endpoints', /did you mean "chat"\?/],
    [{ tenant: 'acme', limits: { rps: 0 } }, 'limits.rps', /from 1 to/],
    [{ tenant: 'acme', limits: { rps: 1.5 } }, 'limits.rps', /whole number/],
    [{ tenant: 'acme', limits: { rpz: 1 } }, 'limits.rpz', /unknown key, did you mean "rps"\?/],
    [{ tenant: 'acme', budget: { usd: 5 } }, 'budget', /"per" is missing/],
    [{ tenant: 'acme', budget: { usd: -5, per: 'day' } }, 'budget.usd', /an amount of US dollars/],
    [{ tenant: 'acme', budget: { usd: '0.0000000001', per: 'day' } }, 'budget.usd', /exact to the nano-dollar/],
    [
      { tenant: 'acme', budget: { usd: 5, per: '367d' } },
      'budget.per',
      /one of day, week, month, total, or the newest days, from 1d to 366d/
    ],
    [
      {
        tenant: 'acme',
        budget: [
          { usd: 5, per: 'day' },
          { usd: 6, per: 'day' }
        ]
      },
      'budget',
      /two budgets per day: keep one/
    ],
    [{ tenant: 'acme', expires: 'soon' }, 'expires', /a date like/],
    [{ tenant: 'acme', expires: '2020-01-01' }, 'expires', /in the past/],
    [
      { tenant: 'acme', modls: [], limits: { tpm: 'x' } },
      'modls',
      /did you mean "models"\?.* limits\.tpm must be a whole number/
    ],
    [`${'['.repeat(7000)}${']'.repeat(7000)}`, undefined, /JSON object/],
    [`{"tenant":${'['.repeat(7000)}${']'.repeat(7000)}}`, 'tenant', /must be text, not a list/],
    [`{"tenant":"acme","models":${'['.repeat(7000)}${']'.repeat(7000)}}`, 'models.0', /must be text, not a list/],
    [
      `{"tenant":"acme","limits":${'{"rps":'.repeat(2000)}1${'}'.repeat(2000)}}`,
      'limits.rps',
      /must be a whole number, not a map/
    ],
    [`{"tenant":"acme","x":${'{"x":'.repeat(2000)}1${'}'.repeat(2000)}}`, 'x', /unknown key/],
    ['{"tenant":', undefined, /no JSON/],
    [Buffer.from([0x22, 0xff, 0x22]), undefined, /UTF-8/],
    ['', undefined, /missing/]
  ]
  for (const [body, param, message] of cases) {
    const error = refusal(await admin('POST', '/admin/v1/keys', { body }))
    t.match(error, { status: '400', type: 'invalid_request_error', message }, String(message))
    t.equal(error['param'], param)
  }
  t.match(refusal(await admin('POST', '/admin/v1/keys', { body: { tenant: 'x'.repeat(70_000) } })), {
    status: '413',
    code: 'request_too_large'
  })
  t.match(refusal(await admin('POST', '/admin/v1/keys?dry=1', { body: { tenant: 'acme' } })), {
    status: '400',
    param: 'dry'
  })
  const leaver = await connect(t, local.adminUrl)
  leaver.write('POST /admin/v1/keys HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"tenant"').close()
  await leaver.closed
  t.equal((await local.admin('/admin/v1/keys')).data.length, 1)
  t.strictSame(
    local.lines.filter(({ level }) => level === 'error'),
    []
  )
})

t.test('a port that is taken, and a listener that is turned off', async (t) => {
  const first = await gateway(t)
  const port = Number(new URL(first.adminUrl).port)
  const text = readFileSync(first.file, 'utf8').replaceAll('sluice.db', 'second.db')
  const file = join(first.file, '..', 'second.yaml')
  writeFileSync(
    file,
    text.replace(/^admin:\n {2}host: 127.0.0.1\n {2}port: 0/m, `admin:\n  host: 127.0.0.1\n  port: ${port}`)
  )
  await t.rejects(startGateway({ config: file, log: silentLog }), {
    message: `127.0.0.1:${port} is in use by another process. Stop that process, or choose another admin.port.`
  })
  writeFileSync(file, text.replace(/^admin:\n {2}host: 127.0.0.1\n {2}port: 0/m, 'admin: false'))
  const off = await startGateway({ config: file, log: silentLog })
  t.equal(off.adminUrl, undefined)
  await off.close()
})
