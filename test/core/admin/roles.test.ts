// The role matrix: every route of the admin API with every role, on what is of its own tenant and of another one. The
// cases are made from the table of routes: a route that is added is tried by all roles without anybody thinking of it.
import t from 'tap'
import type { Test } from 'tap'
import { roles } from '../../../core/admin/access/roles.ts'
import type { Role } from '../../../core/admin/access/roles.ts'
import type { Route } from '../../../core/admin/api/contract.ts'
import { routes } from '../../../core/admin/routes.ts'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { gateway, testKey } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'

const owner = 'the token of the owner'
const path = '/admin/v1'

type Call = (method: string, path: string, body?: unknown) => Promise<ReceivedReply>

/** Requests with a token; paths are below `/admin/v1`. */
function caller(t: Test, { adminUrl }: LocalGateway, token: string): Call {
  return (method, below, body) =>
    ask(t, adminUrl, {
      method,
      path: below.startsWith('/admin') || !below.startsWith('/') ? below : path + below,
      headers: { authorization: `Bearer ${token}` },
      ...(body !== undefined && { body })
    })
}

/** The JSON of a reply; of a file, its text. */
const said = (reply: ReceivedReply): any =>
  reply.headers['content-type'] === 'application/json' ? reply.json() : { text: reply.text }

const code = (reply: ReceivedReply): string => `${reply.status} ${said(reply).error?.code ?? ''}`.trim()

/** What actors may be, as the matrix has them: unbound, and bound to the tenant acme. */
const actors: readonly { name: string; role: Role; tenant?: string }[] = [
  { name: 'o', role: 'owner' },
  { name: 'op', role: 'operator' },
  { name: 'v', role: 'viewer' },
  { name: 'va', role: 'viewer', tenant: 'acme' },
  { name: 'ta', role: 'tenant_admin', tenant: 'acme' }
]

/** A gateway with two tenants of the store, and a token for each actor. */
async function twoTenants(t: Test): Promise<{ local: LocalGateway; by: Record<string, Call> }> {
  const local = await gateway(t, { admin: { token: owner } })
  const by: Record<string, Call> = { root: caller(t, local, owner) }
  inUse = local.gateway.config.hash
  for (const tenant of ['acme', 'zeta']) requestOf[tenant] = await furnish(local, by['root']!, tenant)
  for (const actor of actors) {
    const made = await by['root']!('POST', '/operators', actor)
    if (made.status !== 201) throw new Error(made.text)
    by[actor.name] = caller(t, local, made.json().token)
  }
  return { local, by }
}

/**
 * Makes a tenant with a project `web`, a member `m` and a key that is called like the tenant; what is there stays.
 * Returns the id of a request that the key has made.
 */
async function furnish(local: LocalGateway, root: Call, tenant: string): Promise<string> {
  await root('POST', '/tenants', { name: tenant })
  await root('POST', '/projects', { tenant, name: 'web' })
  await root('POST', '/members', { tenant, project: 'web', name: 'm' })
  const { key } = (await root('POST', '/keys', { tenant, project: 'web', name: `${tenant}-key` })).json()
  const headers = { authorization: `Bearer ${key}` }
  return (await local.ask({ path: '/v1/models', headers })).headers['x-request-id']!
}

/** The id of a request of each tenant. */
const requestOf: Record<string, string> = {}

/** The hash of the configuration of the latest gateway. */
let inUse = ''

/** A path of a route about a tenant, with names that there are. */
function pathOf(route: Route, tenant: string): string {
  return route.path
    .replace('{tenant}', tenant)
    .replace('{project}', 'web')
    .replace('{member}', 'm')
    .replace('{key}', `${tenant}-key`)
    .replace('{operator}', 'v')
    .replace('{channel}', 'demo')
    .replace('{model}', 'demo')
    .replace('{session}', 'none')
    .replace('{hash}', inUse)
    .replace('{path...}', 'v1/models')
    .replace('{request_id}', requestOf[tenant] ?? '')
}

/** A live stream would not end: what it says is asked for once. */
const once = (path: string): string => path.replace(/\/live(\?|$)/, '/live?since=0&').replace(/&$/, '')

/** Bodies that are refused as such: so a call that comes through changes nothing, and is seen to come through. */
const body = (route: Route, tenant: string): unknown => {
  if (route.method === 'GET' || route.method === 'DELETE') return undefined
  return { '\u0000': 0, ...(route.path.endsWith('/explain') ? { key: `${tenant}-key` } : { tenant }) }
}

/** The rule of the matrix in words of its own, by which the table is judged. */
function expected(route: Route, role: Role, bound: boolean, own: boolean): 'in' | '403' | '404' | 'none' {
  const [what = ''] = route.path.replace(/^\/admin\/(?:v1\/)?/, '').split('/')
  const writes = route.method !== 'GET'
  // Those of one's own: there is none of that name.
  if (what === 'sessions') return writes && role !== 'owner' && role !== 'operator' ? '404' : 'in'
  const levels = ['projects', 'members', 'keys']
  // Whoever names a key must be who could give it a new secret; whoever has the secret could use it anyway.
  if (route.path.includes('/playground/')) {
    if (route.path.includes('/secret/') || role === 'owner' || role === 'operator') return 'in'
    return role === 'viewer' ? '403' : own ? 'in' : '404'
  }
  if (route.method === 'PUT' && what === 'config' && role === 'operator') return '403'
  if (role === 'owner' || role === 'operator') return 'in'
  if (['session', 'logout', 'openapi.json'].includes(what)) return 'in'
  // What a reload would change stands in a file that is not in use yet: it is for whoever may reload it.
  const closed = /\/config\/(diff|file)$|\/messages$/.test(route.path)
  const sees = (!writes && !closed) || ['explain', 'what-if'].includes(what)
  if (role === 'viewer' && !sees) return '403'
  if (!bound) return 'in'
  if (what === 'explain') return own ? 'in' : '404'
  if (what === 'what-if') return own ? 'in' : '403'
  if (route.path.endsWith('/requests/filters')) return 'in'
  if (writes && (role !== 'tenant_admin' || !levels.includes(what))) return '403'
  if (['capabilities'].includes(what)) return 'in'
  const seen = ['tenants', 'balances', 'requests', 'spend', 'export', 'audit', 'models', 'live', 'troubles', 'overview']
  if (![...levels, ...seen].includes(what)) return '403'
  if (own) return 'in'
  return route.path.includes('{') && what !== 'models' ? '404' : '403'
}

t.test('every route of the admin API has a rule, and lets in whom it should', async (t) => {
  const { by } = await twoTenants(t)
  for (const route of routes) {
    if (route.access === 'anyone') {
      const what = `${route.method} ${route.path}`
      t.ok(what === 'POST /admin/v1/session' || !route.path.startsWith('/admin/v1/'), `${what} is for anyone`)
      continue
    }
    if (route.method === 'DELETE') continue
    for (const { name, role, tenant } of actors) {
      for (const about of ['acme', 'zeta']) {
        const query = route.query?.includes('tenant') && route.method === 'GET' ? `?tenant=${about}` : ''
        const reply = await by[name]!(route.method, once(pathOf(route, about) + query), body(route, about))
        const wanted = expected(route, role, tenant !== undefined, about === 'acme')
        const what = `${role}${tenant ? ' of acme' : ''}: ${route.method} ${route.path} about ${about} is ${wanted}`
        if (wanted === 'in') t.notOk([401, 403, 500].includes(reply.status) || /not_found/.test(code(reply)), what)
        else t.match(code(reply), wanted === '403' ? '403 role_not_allowed' : /^404 \w+_not_found$/, what)
      }
    }
  }
})

t.test('every route that deletes lets in whom it should', async (t) => {
  const { by } = await twoTenants(t)
  for (const route of routes.filter(({ method, access }) => method === 'DELETE' && access !== 'anyone')) {
    for (const { name, role, tenant } of actors) {
      for (const about of ['zeta', 'acme']) {
        const wanted = expected(route, role, tenant !== undefined, about === 'acme')
        if (wanted === 'in') continue
        const reply = await by[name]!('DELETE', pathOf(route, about))
        t.match(code(reply), wanted === '403' ? '403 role_not_allowed' : /^404 \w+_not_found$/, `${name} ${route.path}`)
      }
    }
  }
  for (const below of ['/members/acme/web/m', '/projects/acme/web', '/keys/acme-key'])
    t.equal((await by['ta']!('DELETE', below)).status, 200, `a tenant admin may delete ${below}`)
  t.equal((await by['op']!('DELETE', '/tenants/zeta')).status, 200)
  t.match(
    (await by['root']!('GET', '/keys/zeta-key')).json(),
    { revoked: null, state: 'unowned' },
    'and the key of the other tenant is still there'
  )
})

t.test('actors of a tenant see what is of it in lists, and nothing else', async (t) => {
  const { local, by } = await twoTenants(t)
  await local.chat()
  const root = by['root']!
  await eventually(async () => (await root('GET', '/requests')).json().data.length === 3)
  for (const name of ['ta', 'va']) {
    for (const route of routes) {
      const { access, query = [] } = route
      if (access === 'anyone' || access.tenant?.in !== 'query') continue
      t.ok(query.includes('tenant'), `${route.path} selects by tenant`)
      const reply = said(await by[name]!('GET', once(pathOf(route, 'acme'))))
      const data = reply.data ?? [reply]
      for (const item of data) t.equal(item.tenant ?? 'acme', 'acme', `${route.path}: ${JSON.stringify(item)}`)
      // What an actor of the tenant tried to see is shown to it with the name that it gave.
      const done = data.filter((item: Record<string, unknown>) => item['outcome'] !== 'refused')
      const lines = JSON.stringify(done).replaceAll(/[^\\]+,refused,.*?\\r\\n/g, '')
      t.notMatch(lines, /zeta/, route.path)
    }
    const names = async (below: string): Promise<string[]> =>
      (await by[name]!('GET', below)).json().data.map((item: { name: string }) => item.name)
    t.same(await names('/tenants'), ['acme'])
    t.same(await names('/keys'), ['acme-key', 'test'])
    const [record] = (await by[name]!('GET', '/requests')).json().data
    t.match(record, { tenant: 'acme', status: 200 })
    t.notOk('attempts' in record || 'channel' in record, 'not by which channel')
    t.match(code(await by[name]!('GET', '/requests?tenant=zeta')), '403 role_not_allowed')
  }
  t.equal((await root('GET', '/keys')).json().data.length, 3)
})

t.test('what there is not and what is of another tenant are answered alike', async (t) => {
  const { by } = await twoTenants(t)
  const ta = by['ta']!
  const alike = async (method: string, there: string, not: string, send?: unknown): Promise<void> => {
    const [one, other] = [await ta(method, there, send), await ta(method, not, send)]
    const plain = (reply: ReceivedReply, name: string): string => reply.text.replaceAll(name, 'NAME')
    t.equal(one.status, 404, there)
    t.equal(plain(one, there.split('/')[2]!), plain(other, not.split('/')[2]!), `${method} ${there}`)
  }
  await alike('GET', '/keys/zeta-key', '/keys/zeta-kex')
  await alike('PATCH', '/keys/zeta-key', '/keys/zeta-kex', { enabled: false })
  await alike('DELETE', '/keys/zeta-key', '/keys/zeta-kex')
  await alike('POST', '/keys/zeta-key/rotate', '/keys/zeta-kex/rotate', {})
  await alike('GET', '/tenants/zeta', '/tenants/zetb')
  await alike('GET', '/projects/zeta/web', '/projects/zetb/web')
  await alike('DELETE', '/members/zeta/web/m', '/members/zetb/web/m')
  const near = await ta('GET', '/projects/acme/wec')
  t.match(near.json().error.message, /did you mean/i)
  t.notMatch(near.text, /zeta/, 'no names of other tenants are suggested')
  const taken = await ta('POST', '/keys', { name: 'zeta-key', project: 'web' })
  t.match(code(taken), '409 key_exists')
  t.notMatch(taken.json().error.message, /store|gateway.yaml/)
})

t.test('a tenant admin makes and changes what is below its tenant, and never the tenant', async (t) => {
  const { by } = await twoTenants(t)
  const ta = by['ta']!
  t.match(
    (await ta('POST', '/projects', { name: 'own' })).json(),
    { tenant: 'acme', name: 'own' },
    'its tenant is taken'
  )
  t.equal((await ta('POST', '/members', { tenant: 'acme', project: 'own', name: 'eve' })).status, 201)
  const key = await ta('POST', '/keys', { project: 'own', name: 'ci', budget: { usd: 1, per: 'day' } })
  t.match(key.json(), { tenant: 'acme', key: /^sk-/ })
  t.equal((await ta('PATCH', '/keys/ci', { models: ['demo'] })).status, 200)
  t.equal((await ta('POST', '/keys/ci/rotate', {})).status, 200)
  for (const [method, below, send] of [
    ['POST', '/projects', { tenant: 'zeta', name: 'x' }],
    ['POST', '/members', { tenant: 'zeta', project: 'web', name: 'x' }],
    ['POST', '/keys', { tenant: 'zeta', name: 'x' }],
    ['POST', '/keys', { tenant: ['acme'], name: 'x' }],
    ['PATCH', '/tenants/acme', { budget: { usd: 1_000_000, per: 'day' } }],
    ['DELETE', '/tenants/acme', undefined],
    ['POST', '/tenants', { name: 'mine' }],
    ['POST', '/operators', { name: 'x', role: 'tenant_admin', tenant: 'acme' }],
    ['POST', '/reload', undefined]
  ] as const)
    t.match(code(await ta(method, below, send)), '403 role_not_allowed', `${method} ${below} ${JSON.stringify(send)}`)
  for (const send of [{ tenant: 'zeta' }, { name: 'x' }, { project: 'web' }])
    t.match(code(await ta('PATCH', '/keys/ci', send)), /^400/, `a key cannot be moved by ${JSON.stringify(send)}`)
  const names = (await by['root']!('GET', '/keys')).json().data.map((one: { name: string }) => one.name)
  t.notOk(names.includes('x'))
})

t.test('nobody makes, raises, changes or takes the token of anybody above', async (t) => {
  const { by } = await twoTenants(t)
  const op = by['op']!
  const refused = async (method: string, below: string, send?: unknown): Promise<void> =>
    void t.match(
      code(await op(method, below, send)),
      '403 role_not_allowed',
      `${method} ${below} ${JSON.stringify(send)}`
    )
  await refused('POST', '/operators', { name: 'x', role: 'owner' })
  for (const name of ['op', 'v', 'ta', 'va']) {
    const free = name === 'ta' || name === 'va' ? { tenant: null } : {}
    await refused('PATCH', `/operators/${name}`, { role: 'owner', ...free })
  }
  await refused('PATCH', '/operators/o', { enabled: false })
  await refused('PATCH', '/operators/o', { role: 'viewer' })
  await refused('POST', '/operators/o/tokens', {})
  await refused('DELETE', '/operators/o')
  t.equal((await op('POST', '/operators', { name: 'op2', role: 'operator' })).status, 201, 'one alike may be made')
  t.equal((await op('PATCH', '/operators/v', { role: 'operator' })).status, 200)
  for (const send of [
    { name: 'x', role: 'tenant_admin' },
    { name: 'x', role: 'owner', tenant: 'acme' },
    { name: 'x', role: 'viewer', tenant: 'none-such' },
    { name: 'x', role: 'root' },
    { name: '../x', role: 'viewer' },
    { name: 'x', role: 'viewer', lifetime: '367d' }
  ])
    t.match(code(await by['root']!('POST', '/operators', send)), '400 invalid_field', JSON.stringify(send))
  t.match(code(await by['root']!('PATCH', '/operators/ta', { tenant: null })), '400', 'the result is checked')
  t.match(code(await by['root']!('PATCH', '/operators/v', { role: null })), '400')
})

t.test('a change of an operator holds from its next request on', async (t) => {
  const { by } = await twoTenants(t)
  const root = by['root']!
  t.equal((await by['va']!('GET', '/keys')).status, 200)
  await root('PATCH', '/operators/va', { tenant: 'zeta' })
  t.same(
    (await by['va']!('GET', '/keys')).json().data.map((key: { name: string }) => key.name),
    ['zeta-key']
  )
  await root('PATCH', '/operators/va', { tenant: null })
  t.equal((await by['va']!('GET', '/config')).status, 200)
  await root('PATCH', '/operators/va', { enabled: false })
  t.match(code(await by['va']!('GET', '/keys')), '401 disabled_admin_token')
  await root('DELETE', '/operators/va')
  t.match(code(await by['va']!('GET', '/keys')), '401 revoked_admin_token')
  t.match(code(await root('POST', '/operators/va/tokens', {})), '409 operator_revoked')
  t.match(code(await root('POST', '/operators', { name: 'va', role: 'viewer' })), '409 operator_exists')
  await root('PATCH', '/operators/ta', { tenant: 'zeta' })
  await root('DELETE', '/tenants/zeta')
  t.equal((await by['ta']!('GET', '/tenants/zeta')).json().state, 'closed', 'who has a closed tenant still sees it')
})

t.test('all roles there are take part in the matrix', async (t) => {
  t.same(new Set(actors.map(({ role }) => role)), new Set(roles))
  t.ok(testKey)
  t.end()
})

t.test('a tenant that is no text is refused like one of somebody else', async (t) => {
  const { by } = await twoTenants(t)
  const nested = JSON.parse(`${'['.repeat(4000)}${']'.repeat(4000)}`) as unknown
  for (const tenant of [{ toString: 1, valueOf: 1 }, { toString: null }, [], ['acme'], 5, false, nested]) {
    const name = JSON.stringify(tenant).slice(0, 40)
    for (const kind of ['/projects', '/members', '/keys'])
      t.equal(code(await by['ta']!('POST', kind, { tenant, name: 'odd' })), '403 role_not_allowed', `${kind} ${name}`)
  }
})
