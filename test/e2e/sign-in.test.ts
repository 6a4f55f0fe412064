// Sign-in by OpenID Connect against a real provider, oidc-provider, in this process; and the sessions that it begins.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import type { Grant } from '../../core/admin/access/roles.ts'
import { ask } from '../kit/client.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'

const owner = 'the token of the owner'

/** Claims by account, which a test may change. */
type Accounts = Record<string, Record<string, unknown>>

/** Starts a provider; resolves with its issuer. */
async function provider(t: Test, accounts: Accounts): Promise<string> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  // Its types are a package of their own, which nothing else needs.
  const { Provider } = (await import('oidc-provider' as string)) as {
    Provider: new (issuer: string, options: object) => { callback(): (request: unknown, response: unknown) => void }
  }
  const running = new Provider(issuer, {
    clients: [
      {
        client_id: 'sluice',
        client_secret: 'the secret of the client',
        // The gateway takes a free port later, and a native client may come back to any port of a loopback address.
        application_type: 'native',
        redirect_uris: ['http://127.0.0.1/admin/callback'],
        grant_types: ['authorization_code'],
        response_types: ['code']
      }
    ],
    pkce: { required: () => true },
    claims: { openid: ['sub'], profile: ['preferred_username', 'email', 'groups', '_claim_names', 'hasgroups'] },
    conformIdTokenClaims: false,
    cookies: { keys: ['a key of the test'] },
    findAccount: (_context: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, ...accounts[id] })
    })
  })
  server.on('request', running.callback())
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return issuer
}

/** A browser: it keeps cookies, which hosts share whatever their ports, and follows nothing by itself. */
class Browser {
  readonly jar = new Map<string, string>()

  async go(address: string, init: RequestInit = {}): Promise<Response> {
    const cookie = [...this.jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const reply = await fetch(address, {
      redirect: 'manual',
      ...init,
      headers: { ...(cookie !== '' && { cookie }), ...(init.headers as Record<string, string>) }
    })
    for (const line of reply.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
      if (value === '' || /max-age=0|expires=Thu, 01 Jan 1970/i.test(line)) this.jar.delete(name!)
      else this.jar.set(name!, value!)
    }
    return reply
  }

  /** Goes through the forms of the provider; resolves with the address that it sends the browser back to. */
  async through(address: string, account: string): Promise<string> {
    for (let step = 0; step < 12; step++) {
      const reply = await this.go(address)
      const location = reply.headers.get('location')
      if (location !== null) {
        address = new URL(location, address).href
        if (address.includes('/admin/callback')) return address
        continue
      }
      const page = await reply.text()
      const action = /action="([^"]+)"/.exec(page)?.[1]
      const prompt = /name="prompt" value="([^"]+)"/.exec(page)?.[1]
      if (action === undefined || prompt === undefined)
        throw new Error(`no form: ${reply.status} ${page.slice(0, 500)}`)
      const body = new URLSearchParams({ prompt, login: account, password: 'x' })
      const posted = await this.go(new URL(action, address).href, { method: 'POST', body })
      address = new URL(posted.headers.get('location')!, address).href
    }
    throw new Error('too many steps')
  }

  /** Signs in at a gateway; resolves with the answer of the callback. */
  async signIn({ adminUrl }: LocalGateway, account: string, query = ''): Promise<Response> {
    const begun = await this.go(`${adminUrl}/admin/login${query}`)
    if (begun.status !== 302) return begun
    return this.go(await this.through(begun.headers.get('location')!, account))
  }
}

const roles = {
  owner: ['owners'],
  operator: ['ops'],
  viewer: ['staff'],
  tenant_admin: { acme: ['acme-admins'], zeta: ['zeta-admins'] },
  tenant_viewer: { acme: ['acme-staff'], zeta: ['zeta-staff'] }
}

async function both(
  t: Test,
  accounts: Accounts,
  more: object = {}
): Promise<{ local: LocalGateway; issuer: string; root: (method: string, path: string) => Promise<ReceivedReply> }> {
  const issuer = await provider(t, accounts)
  const oidc = { issuer, client_id: 'sluice', client_secret: 'the secret of the client', roles, ...more }
  const local = await gateway(t, { admin: { token: owner, oidc }, tenants: { acme: {}, zeta: {} } })
  const root = (method: string, path: string): Promise<ReceivedReply> =>
    ask(t, local.adminUrl, { method, path: `/admin/v1${path}`, headers: { authorization: `Bearer ${owner}` } })
  return { local, issuer, root }
}

/** What a page of the listener sends along. */
const ours = ({ adminUrl }: LocalGateway): Record<string, string> => ({
  origin: adminUrl,
  'content-type': 'application/json'
})

const errorOf = async (reply: Response): Promise<string> => {
  const { error } = (await reply.json()) as { error: { code: string; message: string } }
  return `${reply.status} ${error.code}: ${error.message}`
}

t.test('somebody signs in, has the role of a group, and is bound to issuer and subject', async (t) => {
  const { local, issuer, root } = await both(t, { alice: { groups: ['ops', 'staff', 'others'], email: 'root@x' } })
  const browser = new Browser()
  const back = await browser.signIn(local, 'alice', '?to=/console/')
  t.equal(back.status, 200, await back.clone().text())
  t.match(back.headers.get('content-type'), /^text\/html/)
  t.match(back.headers.get('content-security-policy'), /default-src 'none'/)
  t.match(await back.text(), /url=\/console\//)
  const cookies = back.headers.getSetCookie()
  t.match(cookies[0], /^__Host-sluice_admin_\d+=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Secure; Max-Age=43200$/)
  const self = (await (await browser.go(`${local.adminUrl}/admin/v1/session`)).json()) as Record<string, unknown>
  t.match(self, {
    kind: 'session',
    id: `${issuer}#alice`,
    name: 'alice',
    role: 'operator',
    tenant: null,
    csrf: /^[\w-]{43}$/
  })
  const [entry] = (await root('GET', '/audit?action=session.begin')).json().data
  t.match(entry, { actor: `${issuer}#alice`, actor_name: 'alice', actor_role: 'operator', address: '127.0.0.1' })
  const id = [...browser.jar.values()].find((value) => value.length === 43)!
  t.notOk((await root('GET', '/audit')).text.includes(id), 'the id of the session is nowhere')
})

t.test('a change by a session needs its csrf, from a page of this listener', async (t) => {
  const { local, root } = await both(t, { alice: { groups: ['ops'] }, carl: { groups: ['staff'] } })
  const browser = new Browser()
  await browser.signIn(local, 'alice')
  const { csrf } = (await (await browser.go(`${local.adminUrl}/admin/v1/session`)).json()) as { csrf: string }
  const post = (headers: Record<string, string>, who = browser): Promise<Response> =>
    who.go(`${local.adminUrl}/admin/v1/keys`, {
      method: 'POST',
      headers: { ...ours(local), ...headers },
      body: '{"tenant":"acme"}'
    })
  const proof = { 'x-sluice-csrf': csrf }
  for (const headers of [{}, { 'x-sluice-csrf': `${csrf}x` }, { 'x-sluice-csrf': csrf.toLowerCase() }])
    t.match(await errorOf(await post(headers as Record<string, string>)), /^403 csrf_missing/, JSON.stringify(headers))
  const { port } = new URL(local.adminUrl)
  for (const headers of [
    { origin: 'https://attacker.example' },
    { origin: 'null' },
    { origin: `http://127.0.0.1:${Number(port) - 1}` },
    { origin: `https://127.0.0.1:${port}` },
    { origin: '' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
    { 'sec-fetch-site': 'cross-site' }
  ])
    t.match(await errorOf(await post({ ...proof, ...headers })), /^403 origin_not_allowed/, JSON.stringify(headers))
  const plain = await post({ ...proof, 'content-type': 'text/plain' })
  t.match(await errorOf(plain), /^415 unsupported_media_type/, 'what a form could send')
  t.equal((await root('GET', '/keys')).json().data.length, 1, 'nothing was made')
  t.equal((await post(proof)).status, 201)
  const carl = new Browser()
  await carl.signIn(local, 'carl')
  t.match(await errorOf(await post(proof, carl)), /^403 csrf_missing/, 'the csrf of somebody else')
  const own = (await (await carl.go(`${local.adminUrl}/admin/v1/session`)).json()) as { csrf: string }
  t.match(await errorOf(await post({ 'x-sluice-csrf': own.csrf }, carl)), /^403 role_not_allowed/)
})

t.test('sessions end: by signing out, by an operator, when idle and when old', async (t) => {
  const { local, root } = await both(t, { alice: { groups: ['acme-admins'] } })
  const session = (browser: Browser): Promise<Response> => browser.go(`${local.adminUrl}/admin/v1/session`)
  const browser = new Browser()
  await browser.signIn(local, 'alice')
  const { csrf, role, tenant } = (await (await session(browser)).json()) as Record<string, string>
  t.same([role, tenant], ['tenant_admin', 'acme'])
  const kept = new Map(browser.jar)
  const out = await browser.go(`${local.adminUrl}/admin/logout`, {
    method: 'POST',
    headers: { ...ours(local), 'x-sluice-csrf': csrf! }
  })
  t.match(await out.json(), { signed_out: true })
  for (const [name, value] of kept) browser.jar.set(name, value)
  t.match(await errorOf(await session(browser)), /^401 session_over/, 'its cookie is worth nothing any more')

  const other = new Browser()
  await other.signIn(local, 'alice')
  const [shown] = (await root('GET', '/sessions')).json().data
  t.match(shown, { how: 'oidc', name: 'alice', role: 'tenant_admin', tenant: 'acme' })
  t.equal((await root('DELETE', `/sessions/${shown.session}`)).status, 200)
  t.match(await errorOf(await session(other)), /^401 session_over/)

  const real = Date.now
  t.teardown(() => void (Date.now = real))
  await other.signIn(local, 'alice')
  Date.now = () => real() + 61 * 60_000
  t.match(await errorOf(await session(other)), /^401 session_over/, 'idle for an hour')
  Date.now = real
  await other.signIn(local, 'alice')
  for (let minutes = 40; minutes < 720; minutes += 40) {
    Date.now = () => real() + minutes * 60_000
    t.equal((await session(other)).status, 200, `in use after ${minutes} minutes`)
  }
  Date.now = () => real() + 721 * 60_000
  t.match(await errorOf(await session(other)), /^401 session_over/, 'twelve hours after the sign-in')
  Date.now = real
})

t.test('who has no mapped group does not come in, nor who is in too many', async (t) => {
  const { local, root } = await both(t, {
    nobody: {},
    other: { groups: ['Owners', 'owners ', 'x'] },
    many: { _claim_names: { groups: 'src1' } },
    flagged: { hasgroups: true },
    two: { groups: ['acme-admins', 'zeta-admins'] },
    one: { groups: 'staff' }
  })
  for (const account of ['nobody', 'other'])
    t.match(await errorOf(await new Browser().signIn(local, account)), /^403 sign_in_refused: No group of/, account)
  for (const account of ['many', 'flagged'])
    t.match(await errorOf(await new Browser().signIn(local, account)), /^403 sign_in_refused: .*app roles/, account)
  t.match(await errorOf(await new Browser().signIn(local, 'two')), /^403 .*acme, zeta: choose one/)
  const browser = new Browser()
  t.equal((await browser.signIn(local, 'two', '?tenant=zeta')).status, 200)
  t.match(await (await browser.go(`${local.adminUrl}/admin/v1/session`)).json(), {
    role: 'tenant_admin',
    tenant: 'zeta'
  })
  t.equal((await new Browser().signIn(local, 'one')).status, 200, 'one group as a text')
  t.match((await root('GET', '/audit?action=sign_in.refuse')).json().data[0], {
    outcome: 'refused',
    address: '127.0.0.1'
  })
})

t.test('groups give roles within a tenant, of which the one that allows most counts', async (t) => {
  const { local } = await both(t, {
    seer: { groups: ['acme-staff'] },
    several: { groups: ['acme-staff', 'zeta-staff'] },
    mixed: { groups: ['zeta-staff', 'acme-admins'] },
    all: { groups: ['acme-staff', 'zeta-staff', 'staff'] },
    first: { groups: ['acme-staff', 'acme-admins'] }
  })
  const self = async (account: string, query = ''): Promise<unknown> => {
    const browser = new Browser()
    const back = await browser.signIn(local, account, query)
    if (back.status !== 200) return errorOf(back)
    const { role, tenant } = (await (await browser.go(`${local.adminUrl}/admin/v1/session`)).json()) as Grant
    return { role, tenant }
  }
  t.same(await self('seer'), { role: 'viewer', tenant: 'acme' })
  t.match(await self('seer', '?tenant=zeta'), /^403 sign_in_refused: No group of seer/)
  t.match(await self('several'), /^403 sign_in_refused: Your groups see acme, zeta: choose one/)
  t.same(await self('several', '?tenant=zeta'), { role: 'viewer', tenant: 'zeta' })
  t.same(await self('mixed'), { role: 'tenant_admin', tenant: 'acme' })
  t.same(await self('mixed', '?tenant=zeta'), { role: 'viewer', tenant: 'zeta' })
  t.same(await self('all'), { role: 'viewer', tenant: null })
  t.same(await self('first'), { role: 'tenant_admin', tenant: 'acme' })

  const seer = new Browser()
  await seer.signIn(local, 'seer')
  const ask = async (path: string, init: RequestInit = {}): Promise<Response> =>
    seer.go(`${local.adminUrl}/admin/v1${path}`, init)
  const tenants = (await (await ask('/tenants')).json()) as { data: { name: string }[] }
  t.same(
    tenants.data.map(({ name }) => name),
    ['acme']
  )
  for (const path of ['/channels', '/config', '/operators', '/keys?tenant=zeta'])
    t.match(await errorOf(await ask(path)), /^403 role_not_allowed/, path)
  const { csrf } = (await (await ask('/session')).json()) as { csrf: string }
  const made = await ask('/keys', {
    method: 'POST',
    headers: { ...ours(local), 'x-sluice-csrf': csrf },
    body: '{"tenant":"acme"}'
  })
  t.match(await errorOf(made), /^403 role_not_allowed/, 'it changes nothing')
})

t.test('what the provider did not send back to this browser is refused', async (t) => {
  const { local } = await both(t, { alice: { groups: ['owners'] } })
  const begin = async (browser: Browser): Promise<string> => {
    const begun = await browser.go(`${local.adminUrl}/admin/login`)
    return browser.through(begun.headers.get('location')!, 'alice')
  }
  const browser = new Browser()
  const address = await begin(browser)
  const changed = (name: string, value: string): string => {
    const url = new URL(address)
    url.searchParams.set(name, value)
    return url.href
  }
  t.match(await errorOf(await new Browser().go(address)), /^403 sign_in_refused: This sign-in did not begin/)
  t.match(await errorOf(await browser.go(changed('state', 'x'))), /^403 sign_in_refused/)
  t.match(await errorOf(await browser.go(changed('code', 'x'))), /^403 sign_in_refused/)
  t.match(await errorOf(await browser.go(changed('iss', 'https://other.example'))), /^403 sign_in_refused/)
  const other = new Browser()
  await begin(other)
  t.match(await errorOf(await other.go(address)), /^403 sign_in_refused/, 'the code of another sign-in')
  t.equal((await browser.go(address)).status, 200)
  t.match(await errorOf(await browser.go(address)), /^403 sign_in_refused/, 'a second time')
  const lure = await new Browser().go(`${local.adminUrl}/admin/login?to=https://attacker.example/`)
  t.equal(lure.status, 302)
  const odd = new Browser()
  const back = await odd.signIn(local, 'alice', `?to=${encodeURIComponent('//attacker.example/"><script>')}`)
  t.notMatch(await back.text(), /attacker/)
})

t.test(
  'a rush of sign-ins that are none does not fill the audit log, nor hide who came from the provider',
  async (t) => {
    const { local, issuer, root } = await both(t, { mallory: {}, eve: { groups: ['others'] } })
    for (let i = 0; i < 130; i++)
      t.equal((await fetch(`${local.adminUrl}/admin/callback?code=${i}&state=x`)).status, 403)
    const entries = async (): Promise<Record<string, unknown>[]> =>
      (await root('GET', '/audit?action=sign_in.refuse&limit=1000')).json().data
    t.same(
      (await entries()).map(({ times }) => times),
      [128, 64, 32, 16, 8, 4, 2, 1],
      'of many alike some have an entry'
    )
    for (const account of ['mallory', 'eve']) {
      t.equal((await new Browser().signIn(local, account)).status, 403)
      const [newest] = await entries()
      t.match(newest, { actor: `${issuer}#${account}`, actor_name: account, why: /^No group of/, times: 1 })
    }
  }
)

t.test('somebody who signs in again and again ends their own sessions, and nobody else’s', async (t) => {
  const { local, root } = await both(t, { alice: { groups: ['ops'] }, bob: { groups: ['staff'] } })
  const status = async (browser: Browser): Promise<number> =>
    (await browser.go(`${local.adminUrl}/admin/v1/session`)).status
  const bob = new Browser()
  await bob.signIn(local, 'bob')
  const alices: Browser[] = []
  for (let i = 0; i < 18; i++) {
    const browser = new Browser()
    t.equal((await browser.signIn(local, 'alice')).status, 200)
    alices.push(browser)
  }
  t.same(await Promise.all(alices.map(status)), [401, 401, ...Array<number>(16).fill(200)], 'the newest sixteen go on')
  t.equal(await status(bob), 200)
  t.equal((await root('GET', '/sessions')).json().data.length, 17)
})

t.test('without a provider nobody can sign in, and one that does not answer is said', async (t) => {
  const plain = await gateway(t, { admin: { token: owner } })
  t.match(await errorOf(await fetch(`${plain.adminUrl}/admin/login`)), /^404 sign_in_not_set_up/)
  const oidc = { issuer: 'http://127.0.0.1:9', client_id: 'sluice', roles }
  const local = await gateway(t, { admin: { token: owner, oidc } })
  t.match(await errorOf(await fetch(`${local.adminUrl}/admin/login`)), /^502 sign_in_unavailable/)
})
