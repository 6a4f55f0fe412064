// Sessions that are begun by a token: from which pages, what their cookies are good for, and what ends them.
import { once } from 'node:events'
import { request as open } from 'node:http'
import type { IncomingMessage } from 'node:http'
import t from 'tap'
import type { Test } from 'tap'
import { newToken } from '../../../core/admin/access/tokens.ts'
import { startGateway } from '../../../core/container.ts'
import type { Logger } from '../../../core/telling/log.ts'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { gateway } from '../../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'

const owner = 'the token of the owner'

const quiet: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => quiet }

const code = (reply: ReceivedReply): string => `${reply.status} ${reply.json().error?.code ?? ''}`.trim()

/** A page of the listener in a browser, which keeps one cookie. */
class Page {
  cookie = ''
  csrf = ''
  readonly #t: Test
  readonly #url: string
  readonly headers: Record<string, string>

  /** `origin` is the address that the browser shows; `host` is what the listener gets for it. */
  constructor(t: Test, { adminUrl }: LocalGateway, origin = adminUrl, host = new URL(origin).host) {
    this.#t = t
    this.#url = adminUrl
    this.headers = { origin, host, 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
  }

  async ask(method: string, path: string, body?: unknown, more: Record<string, string> = {}): Promise<ReceivedReply> {
    const headers = {
      ...this.headers,
      ...(this.cookie !== '' && { cookie: this.cookie }),
      ...(this.csrf !== '' && { 'x-sluice-csrf': this.csrf }),
      ...more
    }
    const reply = await ask(this.#t, this.#url, { method, path, headers, ...(body !== undefined && { body }) })
    const set = reply.headers['set-cookie']
    if (set !== undefined) this.cookie = /Max-Age=0/.test(set) ? '' : set.split(';', 1)[0]!
    return reply
  }

  async signIn(token: string): Promise<ReceivedReply> {
    const reply = await this.ask('POST', '/admin/v1/session', { token })
    if (reply.status === 201) this.csrf = reply.json().csrf
    return reply
  }

  self(): Promise<ReceivedReply> {
    return this.ask('GET', '/admin/v1/session')
  }
}

async function guarded(t: Test, more: Overrides = {}): Promise<LocalGateway> {
  return gateway(t, { admin: { token: owner, ...more }, tenants: { acme: {}, zeta: {} } })
}

/** Makes an operator; resolves with its token. */
async function operator(t: Test, { adminUrl }: LocalGateway, settings: object): Promise<string> {
  const headers = { authorization: `Bearer ${owner}` }
  return (await ask(t, adminUrl, { method: 'POST', path: '/admin/v1/operators', headers, body: settings })).json().token
}

const asOwner = (t: Test, { adminUrl }: LocalGateway, method: string, path: string, body?: unknown) =>
  ask(t, adminUrl, {
    method,
    path: `/admin/v1${path}`,
    headers: { authorization: `Bearer ${owner}` },
    ...(body !== undefined && { body })
  })

t.test('admin.token begins a session of the owner, whose cookie no script and no other site can use', async (t) => {
  const local = await guarded(t)
  const page = new Page(t, local)
  t.match((await page.ask('GET', '/admin/sign-in')).json(), { token: true, oidc: false, private: true })
  t.equal(code(await page.self()), '401 missing_admin_token')
  const begun = await page.signIn(`  ${owner}\n`)
  t.equal(begun.status, 201, begun.text)
  const { port } = new URL(local.adminUrl)
  t.match(
    begun.headers['set-cookie'],
    new RegExp(`^__Host-sluice_admin_${port}=[\\w-]{43}; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=43200$`)
  )
  const self = (await page.self()).json()
  t.match(self, { kind: 'token', id: 'admin.token', role: 'owner', tenant: null, how: 'admin_token', csrf: page.csrf })
  t.ok(self.may.includes('POST /admin/v1/keys') && self.may.includes('POST /admin/v1/reload'))
  t.equal(Date.parse(self.expires) - Date.parse(self.began), 12 * 3_600_000)
  t.ok(Date.parse(self.idle_ends) <= Date.parse(self.expires))
  t.equal((await page.ask('POST', '/admin/v1/keys', { tenant: 'acme', name: 'made-by-page' })).status, 201)
  const { data } = (await page.ask('GET', '/admin/v1/audit')).json()
  t.match(data[0], { action: 'key.create', actor_kind: 'token', actor: 'admin.token' })
  t.match(data[1], { action: 'session.begin', object: self.session })
  const everything = JSON.stringify(data) + JSON.stringify(local.lines) + begun.text
  t.notOk(everything.includes(page.cookie.split('=')[1]!), 'the id of the session is nowhere else')
  t.notOk(everything.includes(owner))
})

t.test('an operator’s session may do what the operator may, and ends with the operator or its token', async (t) => {
  const local = await guarded(t)
  const seer = new Page(t, local)
  t.equal((await seer.signIn(await operator(t, local, { name: 'v', role: 'viewer', tenant: 'acme' }))).status, 201)
  const self = (await seer.self()).json()
  t.match(self, { kind: 'operator', id: 'v', role: 'viewer', tenant: 'acme', how: 'operator_token' })
  t.ok(self.may.includes('GET /admin/v1/keys') && !self.may.includes('GET /admin/v1/channels'))
  t.notOk(self.may.includes('POST /admin/v1/keys'))
  t.equal(code(await seer.ask('POST', '/admin/v1/keys', { tenant: 'acme' })), '403 role_not_allowed')
  t.equal(code(await seer.ask('GET', '/admin/v1/keys?tenant=zeta')), '403 role_not_allowed')
  for (const [name, end] of [
    ['revoked', () => asOwner(t, local, 'DELETE', '/operators/revoked')],
    ['disabled', () => asOwner(t, local, 'PATCH', '/operators/disabled', { enabled: false })],
    ['rotated', () => asOwner(t, local, 'POST', '/operators/rotated/tokens', {})]
  ] as const) {
    const page = new Page(t, local)
    await page.signIn(await operator(t, local, { name, role: 'operator' }))
    t.equal((await page.self()).status, 200)
    await end()
    const over = await page.self()
    t.equal(code(over), '401 session_over', name)
    t.equal(page.cookie, '', 'the browser forgets it')
  }
  const short = new Page(t, local)
  await short.signIn(await operator(t, local, { name: 'short', role: 'operator', lifetime: '10m' }))
  const real = Date.now
  t.teardown(() => void (Date.now = real))
  Date.now = () => real() + 11 * 60_000
  t.equal(code(await short.self()), '401 session_over', 'its token has expired')
  t.equal((await seer.self()).status, 200)
})

t.test(
  'all refused sign-ins look alike, five of an address may fail in a minute, and the audit log knows',
  async (t) => {
    const local = await guarded(t)
    const whole = await operator(t, local, { name: 'gone', role: 'operator' })
    await asOwner(t, local, 'DELETE', '/operators/gone')
    const page = new Page(t, local)
    const replies: ReceivedReply[] = []
    for (const token of ['a guess', whole, whole.slice(0, -1), newToken().token]) replies.push(await page.signIn(token))
    t.same(new Set(replies.map(({ status }) => status)), new Set([401]))
    t.equal(new Set(replies.map(({ text }) => text)).size, 1)
    t.ok(replies.every(({ headers }) => headers['set-cookie'] === undefined))
    t.equal((await page.signIn(owner)).status, 201, 'one that succeeds does not count')
    t.equal(code(await page.signIn('another guess')), '401 sign_in_refused')
    const late = await page.signIn(owner)
    t.equal(code(late), '429 too_many_sign_ins')
    t.match(late.headers['retry-after'], /^[1-9]\d?$/)
    const { data } = (await asOwner(t, local, 'GET', '/audit?action=sign_in.refuse')).json()
    t.ok(
      data.some(({ why }: { why: string }) => /operator gone is revoked/.test(why)),
      JSON.stringify(data)
    )
    const many = new Page(t, await guarded(t))
    const rush = await Promise.all(Array.from({ length: 20 }, (_, i) => many.signIn(`guess ${i}`)))
    t.equal(rush.filter(({ status }) => status === 401).length, 5, 'at one time too')
    t.equal(rush.filter(({ status }) => status === 429).length, 15)
  }
)

t.test('nobody signs in, or uses a session, from a page of another origin', async (t) => {
  const local = await guarded(t)
  const { port } = new URL(local.adminUrl)
  const strangers: Record<string, string>[] = [
    { origin: `http://127.0.0.1:${Number(port) - 1}`, 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.test', 'sec-fetch-site': 'cross-site' },
    { origin: 'null' },
    { origin: `http://localhost:${port}` },
    { 'sec-fetch-site': 'none' }
  ]
  const page = new Page(t, local)
  for (const more of strangers)
    t.equal(code(await page.ask('POST', '/admin/v1/session', { token: owner }, more)), '403 origin_not_allowed')
  t.equal(
    code(await page.ask('POST', '/admin/v1/session', { token: owner }, { 'content-type': 'text/plain' })),
    '415 unsupported_media_type'
  )
  const rebound = { host: `evil.test:${port}`, origin: `http://evil.test:${port}` }
  t.equal(code(await page.ask('POST', '/admin/v1/session', { token: owner }, rebound)), '403 host_not_allowed')
  t.equal(code(await page.ask('GET', '/admin/sign-in', undefined, rebound)), '403 host_not_allowed')
  t.equal(code(await page.ask('GET', '/admin/v1/session', undefined, rebound)), '403 host_not_allowed')
  const bare = await ask(t, local.adminUrl, {
    method: 'POST',
    path: '/admin/v1/session',
    headers: { 'content-type': 'application/json' },
    body: { token: owner }
  })
  t.equal(code(bare), '403 origin_not_allowed', 'a page has to say where it comes from')
  await page.signIn(owner)
  for (const more of strangers) {
    t.equal(code(await page.ask('POST', '/admin/v1/reload', {}, more)), '403 origin_not_allowed')
    if (more['sec-fetch-site'] !== 'none')
      t.equal(code(await page.ask('GET', '/admin/v1/keys', undefined, more)), '403 origin_not_allowed')
  }
  t.equal(code(await page.ask('GET', '/admin/v1/keys', undefined, rebound)), '403 host_not_allowed')
  t.equal(code(await page.ask('POST', '/admin/v1/reload', {}, { 'x-sluice-csrf': 'x' })), '403 csrf_missing')
  const cookies = page.cookie
  page.cookie = `${cookies}; ${cookies}`
  t.equal(code(await page.self()), '401 missing_admin_token', 'a cookie that is there twice is nobody’s')
  page.cookie = cookies
  t.equal((await page.self()).status, 200)
})

t.test(
  'behind a proxy the listener is known by admin.origins, and its cookie is as safe as the way to it',
  async (t) => {
    const origins = ['https://console.example', 'http://plain.example:8000']
    const local = await guarded(t, { origins })
    const safe = new Page(t, local, 'https://console.example')
    const begun = await safe.signIn(owner)
    t.match(begun.headers['set-cookie'], /^__Host-sluice_admin=.*; Secure;/)
    t.equal((await safe.self()).status, 200)
    t.equal(
      code(await safe.ask('POST', '/admin/v1/reload', {}, { origin: 'http://console.example' })),
      '403 origin_not_allowed'
    )
    const plain = new Page(t, local, 'http://plain.example:8000')
    t.match((await plain.ask('GET', '/admin/sign-in')).json(), { private: false })
    const open = await plain.signIn(owner)
    t.match(open.headers['set-cookie'], /^sluice_admin_8000=[^;]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+$/)
    plain.headers['host'] = 'console.example'
    t.equal(code(await plain.self()), '401 missing_admin_token', 'what came in clear does not count by https')
    for (const wrong of [
      'https://a.example/',
      'a.example',
      'ftp://a.example',
      'https://A.example',
      'https://a.example:443'
    ])
      await t.rejects(guarded(t, { origins: [wrong] }), { message: /gateway\.yaml:\d+:\d+.*must be an origin/s }, wrong)
  }
)

t.test('sessions are listed and ended, one’s own by everybody', async (t) => {
  const local = await guarded(t)
  const root = new Page(t, local)
  await root.signIn(owner)
  const token = await operator(t, local, { name: 'ta', role: 'tenant_admin', tenant: 'acme' })
  const one = new Page(t, local)
  const other = new Page(t, local)
  await one.ask('GET', '/admin/sign-in')
  await one.signIn(token)
  await other.ask('POST', '/admin/v1/session', { token }, { 'user-agent': 'a browser'.repeat(100) })
  const own = (await one.ask('GET', '/admin/v1/sessions')).json().data
  t.same(
    own.map(({ id, how }: Record<string, string>) => [id, how]),
    [
      ['ta', 'operator_token'],
      ['ta', 'operator_token']
    ]
  )
  t.ok(own.some(({ agent }: { agent: string }) => agent.length === 200))
  const all = (await root.ask('GET', '/admin/v1/sessions')).json().data
  t.equal(all.length, 3)
  const roots = all.find(({ id }: { id: string }) => id === 'admin.token').session
  t.equal(code(await one.ask('DELETE', `/admin/v1/sessions/${roots}`)), '404 session_not_found')
  const mine = (await one.self()).json().session
  const others = own.find(({ session }: { session: string }) => session !== mine).session
  t.equal((await one.ask('DELETE', `/admin/v1/sessions/${others}`)).status, 200)
  t.equal(code(await other.self()), '401 session_over')
  t.equal((await root.ask('DELETE', `/admin/v1/sessions/${mine}`)).status, 200)
  t.equal(code(await one.self()), '401 session_over')
  const before = root.cookie
  await root.signIn(owner)
  t.not(root.cookie, before)
  const again = new Page(t, local)
  again.cookie = before
  t.equal(code(await again.self()), '401 session_over', 'a new sign-in ends the session that the browser had')
  t.equal((await root.ask('POST', '/admin/logout', {})).json().signed_out, true)
  t.equal(root.cookie, '')
})

t.test('sessions are over when idle, in the end, and when admin.token is another one', async (t) => {
  const local = await guarded(t, { session: { idle: '10m', total: '1h' } })
  const real = Date.now
  t.teardown(() => void (Date.now = real))
  const page = new Page(t, local)
  await page.signIn(owner)
  for (let minutes = 8; minutes < 60; minutes += 8) {
    Date.now = () => real() + minutes * 60_000
    t.equal((await page.self()).status, 200, `after ${minutes} minutes`)
  }
  const { cookie } = page
  Date.now = () => real() + 61 * 60_000
  t.equal(code(await page.self()), '401 session_over', 'in all')
  Date.now = real
  const idle = new Page(t, local)
  await idle.signIn(owner)
  Date.now = () => real() + 11 * 60_000
  t.equal(code(await idle.self()), '401 session_over')
  Date.now = real
  page.cookie = cookie
  const { host } = new URL(local.adminUrl)
  await local.gateway.close()
  for (const [token, expected] of [
    [owner, 200],
    ['another token of the owner', 401]
  ] as const) {
    local.configure({ admin: { token }, tenants: { acme: {}, zeta: {} } })
    const next = await startGateway({ config: local.file, log: quiet })
    const later = new Page(t, { ...local, adminUrl: next.adminUrl! }, `http://${host}`)
    later.cookie = cookie
    t.equal((await later.self()).status, expected, token)
    await next.close()
  }
})

t.test('an answer that goes on ends with the session that asked for it', async (t) => {
  const local = await guarded(t)
  const page = new Page(t, local)
  await page.signIn(owner)
  const stream = open(`${local.adminUrl}/admin/v1/live`, { headers: { ...page.headers, cookie: page.cookie } })
  stream.end()
  const [reply] = (await once(stream, 'response')) as [IncomingMessage]
  t.equal(reply.statusCode, 200)
  let ended = false
  reply.resume().once('end', () => (ended = true))
  await page.ask('POST', '/admin/logout', {})
  await eventually(() => ended)
})

t.test('without admin.token the owner needs no session on this machine, and pages of others get nothing', async (t) => {
  const local = await gateway(t)
  const page = new Page(t, local)
  t.match((await page.self()).json(), { kind: 'local', role: 'owner', how: 'none', csrf: null, session: null })
  t.equal((await page.ask('POST', '/admin/v1/keys', { tenant: 'acme' })).status, 201)
  const { port } = new URL(local.adminUrl)
  const more = { origin: `http://127.0.0.1:${Number(port) - 1}`, 'sec-fetch-site': 'same-site' }
  t.equal(code(await page.ask('POST', '/admin/v1/keys', { tenant: 'acme' }, more)), '403 origin_not_allowed')
  t.equal(code(await page.signIn('any')), '401 sign_in_refused')
})
