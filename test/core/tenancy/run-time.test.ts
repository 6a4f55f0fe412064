// Tenants, projects, members and keys that are made, changed, rotated and closed while the gateway runs.
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { startGateway } from '../../../core/container.ts'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { silentLog } from '../../../core/telling/log.ts'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { gateway } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'

type Call = (method: string, path: string, body?: unknown) => Promise<ReceivedReply>

/** Requests to the admin API; paths are below `/admin/v1`. */
function adminOf(t: Test, { adminUrl }: Pick<LocalGateway, 'adminUrl'>): Call {
  return (method, path, body) =>
    ask(t, adminUrl, { method, path: `/admin/v1${path}`, ...(body !== undefined && { body }) })
}

/** The status of a chat completion with some key. */
async function chat(t: Test, { url }: Pick<LocalGateway, 'url'>, key: string, model = 'demo'): Promise<number> {
  const body = { model, messages: [{ role: 'user', content: 'Hi' }] }
  const reply = await ask(t, url, {
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${key}` },
    body
  })
  return reply.status
}

const code = (reply: ReceivedReply): string => `${reply.status} ${reply.json().error?.code}`

t.test('a tenant is made with all below it, used, changed, switched off and closed', async (t) => {
  const local = await gateway(t, { tenants: { acme: { projects: { web: {} } } } })
  const admin = adminOf(t, local)
  const made = await admin('POST', '/tenants', { name: 'late', models: ['demo'], tags: { plan: 'gold' } })
  t.equal(made.status, 201)
  t.match(made.json(), { name: 'late', scope: 'tenant:late', source: 'store', state: 'active', tags: { plan: 'gold' } })
  t.equal(
    (await admin('POST', '/projects', { tenant: 'late', name: 'app', budget: { usd: 3, per: 'day' } })).status,
    201
  )
  t.equal((await admin('POST', '/members', { tenant: 'late', project: 'app', name: 'eve' })).status, 201)
  const issued = await admin('POST', '/keys', { tenant: 'late', project: 'app', member: 'eve', name: 'eve' })
  const { key } = issued.json()
  t.equal(await chat(t, local, key), 200)
  t.match((await admin('GET', '/balances?scope=project:late/app')).json().data, [{ limit_usd: '3' }, {}])

  t.equal((await admin('PATCH', '/tenants/late', { models: ['other'] })).status, 200)
  t.equal(await chat(t, local, key), 404, 'a model that the tenant has no more')
  await admin('PATCH', '/tenants/late', { models: null })
  t.equal(await chat(t, local, key), 200, 'null takes a setting out')
  await admin('PATCH', '/members/late/app/eve', { endpoints: ['models'] })
  t.equal(await chat(t, local, key), 403)
  await admin('PATCH', '/members/late/app/eve', { endpoints: null, enabled: false })
  t.equal(await chat(t, local, key), 401)
  t.match((await admin('GET', '/keys/eve')).json(), { state: 'unowned' })
  await admin('PATCH', '/members/late/app/eve', { enabled: true })
  t.equal(await chat(t, local, key), 200)
  const tagged = await admin('PATCH', '/tenants/late', { tags: { team: 'x' } })
  t.strictSame(tagged.json().tags, { plan: 'gold', team: 'x' }, 'tags are merged')
  t.strictSame((await admin('PATCH', '/tenants/late', { tags: { plan: null } })).json().tags, { team: 'x' })

  t.match((await admin('DELETE', '/tenants/late')).json(), { state: 'closed', closed: /^20/ })
  t.equal(await chat(t, local, key), 401)
  t.match(code(await admin('PATCH', '/tenants/late', { models: null })), '409 tenant_closed')
  t.match(code(await admin('POST', '/tenants', { name: 'late' })), '409 tenant_exists')
  t.match((await admin('POST', '/projects', { tenant: 'late', name: 'more' })).json(), {
    error: { param: 'tenant', message: 'the tenant "late" is closed.' }
  })
  t.match((await admin('GET', '/projects/late/app')).json(), { state: 'unowned' })
})

t.test('what the file declares is read-only, and names never clash', async (t) => {
  const local = await gateway(t, { tenants: { acme: { projects: { web: { members: { alice: {} } } } } } })
  const admin = adminOf(t, local)
  for (const [kind, path] of [
    ['tenant', '/tenants/acme'],
    ['project', '/projects/acme/web'],
    ['member', '/members/acme/web/alice'],
    ['key', '/keys/test']
  ] as const) {
    t.equal(code(await admin('PATCH', path, { models: ['x'] })), `409 ${kind}_read_only`, path)
    t.equal(code(await admin('DELETE', path)), `409 ${kind}_read_only`, path)
  }
  t.equal(code(await admin('POST', '/keys/test/rotate', {})), '409 key_read_only')
  t.equal(code(await admin('POST', '/projects', { tenant: 'acme', name: 'web' })), '409 project_exists')
  t.equal((await admin('POST', '/projects', { tenant: 'acme', name: 'app' })).status, 201, 'below a tenant of the file')
  t.equal((await admin('POST', '/tenants', { name: 'late' })).status, 201)
  local.configure({ tenants: { acme: {}, late: {} } })
  const refused = await local.gateway.reload('test')
  t.match(refused, {
    ok: false,
    problems: [{ message: 'a tenant late is in the store too, maybe closed: choose another name' }]
  })
  for (const [path, expected] of [
    ['/tenants/lat', '404 tenant_not_found'],
    ['/projects/acme', '404 route_not_found'],
    ['/projects/acme/apq', '404 project_not_found'],
    ['/members/acme/web/bob', '404 member_not_found'],
    ['/tenants/%2e%2e', '404 tenant_not_found']
  ] as const)
    t.equal(code(await admin('GET', path)), expected, path)
  t.match((await admin('GET', '/tenants/lat')).json().error.message, /did you mean "late"\?/)
})

t.test('a key is rotated with an overlap, and again when the answer was lost', async (t) => {
  const local = await gateway(t, { tenants: { acme: {} } })
  const admin = adminOf(t, local)
  const works = async (secret: string): Promise<boolean> => (await chat(t, local, secret)) === 200
  const first = (await admin('POST', '/keys', { tenant: 'acme', name: 'ci', budget: { usd: 5, per: 'day' } })).json()
  const rotated = (await admin('POST', '/keys/ci/rotate', { overlap: '24h', rotation: 'may' })).json()
  t.not(rotated.key, first.key)
  t.match(rotated, { name: 'ci', secrets: [{ until: null }, { until: /^20/ }], budget: [{ usd: '5' }] })
  t.ok(await works(first.key))
  t.ok(await works(rotated.key))
  const again = (await admin('POST', '/keys/ci/rotate', { overlap: '24h', rotation: 'may' })).json()
  t.ok(await works(again.key))
  t.ok(await works(first.key), 'the first secret is still valid')
  t.notOk(await works(rotated.key), 'the one that was lost is replaced')
  t.strictSame(again.secrets[1], rotated.secrets[1])
  const last = (await admin('POST', '/keys/ci/rotate', {})).json()
  t.same([await works(first.key), await works(again.key), await works(last.key)], [false, false, true])
  t.match((await admin('POST', '/keys/ci/rotate', { overlap: '1y' })).json(), { error: { param: 'overlap' } })
  t.match((await admin('GET', '/balances?scope=key:ci')).json().data, [{ posted_usd: /./ }, {}], 'what was spent stays')
  await admin('DELETE', '/keys/ci')
  t.equal(code(await admin('POST', '/keys/ci/rotate', {})), '409 key_revoked')
  t.equal(code(await admin('PATCH', '/keys/ci', { enabled: true })), '409 key_revoked')
})

t.test('a key of the file works whatever becomes of one in the store with the same secret', async (t) => {
  const local = await gateway(t, { tenants: { acme: {} } })
  const admin = adminOf(t, local)
  const { key } = (await admin('POST', '/keys', { tenant: 'acme', name: 'made' })).json()
  // Who moves a key into the file keeps its secret, and gives it another name.
  local.configure({ tenants: { acme: {} }, keys: [{ name: 'moved', key, tenant: 'acme' }] })
  t.match(await local.gateway.reload('test'), { ok: true })
  t.equal(await chat(t, local, key), 200)
  await admin('PATCH', '/keys/made', { models: ['other'] })
  t.equal(await chat(t, local, key), 200, 'changes of the other one are not for it')
  await admin('POST', '/keys/made/rotate', {})
  t.equal(await chat(t, local, key), 200)
  await admin('DELETE', '/keys/made')
  t.equal(await chat(t, local, key), 200)
})

t.test('tags of several patches are together no more than those of one', async (t) => {
  const local = await gateway(t, { tenants: { acme: {} } })
  const admin = adminOf(t, local)
  await admin('POST', '/keys', { tenant: 'acme', name: 'ci' })
  await admin('POST', '/tenants', { name: 'late' })
  const tags = (from: number, many: number): object => ({
    tags: Object.fromEntries(Array.from({ length: many }, (_, i) => [`t${from + i}`, 'x']))
  })
  for (const path of ['/keys/ci', '/tenants/late']) {
    t.equal((await admin('PATCH', path, tags(0, 16))).status, 200)
    t.match(await admin('PATCH', path, tags(16, 1)).then((reply) => ({ status: reply.status, ...reply.json() })), {
      status: 400,
      error: { param: 'tags', message: /^tags are 17: at most 16 are kept/ }
    })
    const swap = { tags: { t0: null, t16: 'x' } }
    t.equal((await admin('PATCH', path, swap)).status, 200, 'one for another')
  }
})

t.test('patterns of models with limits are bounded, also over several patches and in the file', async (t) => {
  const local = await gateway(t, { tenants: { acme: {} } })
  const admin = adminOf(t, local)
  const patterns = (from: number, to: number): object => ({
    limits: { models: Object.fromEntries(Array.from({ length: to - from }, (_, i) => [`m${from + i}*`, { rpm: 1 }])) }
  })
  const tooMany = (reply: ReceivedReply): void => {
    t.equal(code(reply), '400 invalid_field')
    t.match(reply.json().error, {
      param: 'limits.models',
      message: 'limits.models has 101 patterns: at most 100 are kept.'
    })
  }
  tooMany(await admin('POST', '/keys', { tenant: 'acme', name: 'k', ...patterns(0, 101) }))
  t.equal((await admin('POST', '/keys', { tenant: 'acme', name: 'k', ...patterns(0, 60) })).status, 201)
  t.equal((await admin('PATCH', '/keys/k', patterns(60, 100))).status, 200)
  tooMany(await admin('PATCH', '/keys/k', patterns(100, 101)))
  t.equal((await admin('PATCH', '/keys/k', { limits: { models: { 'm0*': null, x: { rpm: 1 } } } })).status, 200)
  local.configure({ tenants: { acme: patterns(0, 101) } })
  t.match(await local.gateway.reload('test'), {
    ok: false,
    problems: [{ message: /tenants\.acme\.limits\.models: has more than 100 patterns/ }]
  })
})

t.test('what the admins of a tenant make is bounded, and others may make more for them', async (t) => {
  const perTenant = { keys: 2, projects: 1, members: 1 }
  const headers = { authorization: 'Bearer the token of the owner' }
  const setup = { admin: { token: 'the token of the owner' }, tenants: { acme: {}, zeta: {} } }
  const local = await gateway(t, { ...setup, limits: { per_tenant: perTenant } })
  const post = (path: string, body: object, token = headers): Promise<ReceivedReply> =>
    ask(t, local.adminUrl, { path: `/admin/v1${path}`, headers: token, body })
  const made = await post('/operators', { name: 'tara', role: 'tenant_admin', tenant: 'acme' })
  const tara = { authorization: `Bearer ${made.json().token}` }
  const things: [path: string, kind: string, body: (name: string, tenant?: string) => object][] = [
    ['/projects', 'projects', (name, tenant = 'acme') => ({ tenant, name })],
    ['/members', 'members', (name, tenant = 'acme') => ({ tenant, project: 'p0', name })],
    ['/keys', 'keys', (name, tenant = 'acme') => ({ tenant, name: `${tenant}-${name}` })]
  ]
  for (const [path, kind, body] of things) {
    t.equal((await post(path, body('p0', 'zeta'))).status, 201, 'what is of another tenant does not count')
    const bound = perTenant[kind as keyof typeof perTenant]
    for (let at = 0; at < bound; at++) t.equal((await post(path, body(`p${at}`), tara)).status, 201)
    const refused = await post(path, body('more'), tara)
    t.equal(code(refused), `409 too_many_${kind}`)
    t.match(refused.json().error, {
      param: 'tenant',
      message: new RegExp(`^The tenant acme has ${bound} ${kind} in the store.* limits\\.per_tenant\\.${kind}`)
    })
    t.equal((await post(path, body('more'))).status, 201, 'by the owner')
  }
  local.configure({ ...setup, limits: { per_tenant: { ...perTenant, keys: 4 } } })
  t.match(await local.gateway.reload('test'), { ok: true }, 'without a restart')
  t.equal((await post('/keys', { tenant: 'acme' }, tara)).status, 201)
})

t.test('a change is refused whole, with the field', async (t) => {
  const local = await gateway(t, { tenants: { acme: {} } })
  const admin = adminOf(t, local)
  await admin('POST', '/keys', { tenant: 'acme', name: 'ci', limits: { rpm: 5, tpm: 100 } })
  const before = (await admin('GET', '/keys/ci')).json()
  for (const [patch, param] of [
    [{ limits: { rpm: 0 } }, 'limits.rpm'],
    [{ models: ['a'], budget: { usd: 1, per: 'eon' } }, 'budget.per'],
    [{ expires: '2001-01-01' }, 'expires'],
    [{ tags: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`t${i}`, 'x'])) }, 'tags'],
    [{ tenant: 'other' }, 'tenant'],
    [{ name: 'other' }, 'name'],
    [{ endpoints: ['chta'] }, 'endpoints'],
    [{ budget: { usd: null } }, 'budget'],
    [{ key: 'sk-own' }, 'key']
  ] as const) {
    const reply = await admin('PATCH', '/keys/ci', patch)
    t.match({ status: reply.status, ...reply.json().error }, { status: 400, param }, JSON.stringify(patch))
  }
  for (const patch of [[], 'x', 5, null])
    t.equal((await admin('PATCH', '/keys/ci', patch)).status, 400, JSON.stringify(patch))
  t.strictSame((await admin('GET', '/keys/ci')).json(), before)
  const after = (await admin('PATCH', '/keys/ci', { limits: { rpm: null, rps: 1 } })).json()
  t.strictSame(after.limits, { tpm: 100, rps: 1 }, 'limits are merged')
})

t.test(
  'every change is in the audit log with who made it, what it was and what it is, and without a secret',
  async (t) => {
    const local = await gateway(t, { tenants: { acme: {} } })
    const admin = adminOf(t, local)
    const { key } = (
      await admin('POST', '/keys', { tenant: 'acme', name: 'ci', budget: { usd: 1, per: 'day' } })
    ).json()
    const rotated = (await admin('POST', '/keys/ci/rotate', {})).json()
    await admin('PATCH', '/keys/ci', { budget: { usd: 2, per: 'day' } })
    await admin('PATCH', '/keys/ci', { budget: { usd: 0, per: 'eon' } })
    await admin('DELETE', '/keys/ci')
    await admin('DELETE', '/keys/ci')
    await admin('POST', '/tenants', { name: 'late' })
    await local.gateway.close()
    const again = await startGateway({ config: local.file, log: silentLog })
    t.teardown(() => again.close())
    const store = join(local.file, '..', 'sluice.db')
    const { openStore } = await import('../../../core/store/embedded/store.ts')
    await again.close()
    const opened = await openStore({ file: store, durability: 'process' })
    const entries = [...(await opened.documents.audit({ limit: 100 }))].reverse()
    await opened.close()
    t.match(
      entries.map(({ entry }) => entry),
      [
        { action: 'key.create', actor_kind: 'local', object_kind: 'key', object: 'ci', before: null },
        { action: 'key.rotate' },
        { action: 'key.change', before: { budget: [{ usd: '1' }] }, after: { budget: [{ usd: '2' }] } },
        { action: 'key.revoke', before: { state: 'active', revoked: null }, after: { state: 'revoked' } },
        { action: 'tenant.create', object: 'late' }
      ]
    )
    t.equal(entries.length, 5, 'what changed nothing is not there')
    t.notOk(JSON.stringify(entries).includes(key.slice(8, 40)))
    t.notOk(JSON.stringify(entries).includes(rotated.key.slice(8, 40)))
    t.strictSame(verify(store), [])
  }
)
