// An admin and a viewer of one tenant in a browser and by the admin API: whatever they open, nothing that belongs to
// another tenant is in it. Everything of the other one has a name that tells.
import t from 'tap'
import type { Test } from 'tap'
import { places } from '../../core/admin/console/app/places.ts'
import { openPage } from '../kit/browser.ts'
import type { Page } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { ask, connect } from '../kit/client.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

const owner = 'the token of the owner'
/** What is in every name of the other tenant. */
const foreign = /quokka/i

type Call = (method: string, path: string, body?: unknown) => Promise<ReceivedReply>

function caller(t: Test, { adminUrl }: LocalGateway, token: string): Call {
  return (method, path, body) =>
    ask(t, adminUrl, {
      method,
      path,
      headers: { authorization: `Bearer ${token}` },
      ...(body !== undefined && { body })
    })
}

interface Made {
  readonly local: LocalGateway
  readonly root: Call
  /** Tokens of an admin and of a viewer of the tenant wombat. */
  readonly admin: string
  readonly viewer: string
  /** A request of the other tenant. */
  readonly request: string
  /** Makes the other tenant do something more: a request, one that is refused, and a change. */
  more(): Promise<void>
  /** Makes a request of the own tenant. */
  own(): Promise<void>
}

/** Two tenants, each with a project, a member, a key, a model of its own, budgets, requests, refusals and changes. */
async function twoTenants(t: Test): Promise<Made> {
  const price = { input: 1, output: 2 }
  const tenant = (name: string): object => ({
    models: [`${name}-*`],
    budget: { usd: 1, per: 'month', alerts: [50] },
    projects: { [`${name}-project`]: { budget: { usd: 0.5, per: 'day' }, members: { [`${name}-member`]: {} } } }
  })
  const local = await gateway(t, {
    admin: { token: owner },
    channels: { demo: { models: { 'quokka-model': 'demo', 'wombat-model': 'demo' } } },
    models: { 'quokka-model': { price }, 'wombat-model': { price } },
    tenants: { quokka: tenant('quokka'), wombat: tenant('wombat') }
  })
  const root = caller(t, local, owner)
  const made = async (path: string, body: object): Promise<any> => {
    const reply = await root('POST', path, body)
    if (reply.status !== 201) throw new Error(reply.text)
    return reply.json()
  }
  const keys: Record<string, string> = {}
  const say = (name: string, model: string): Promise<ReceivedReply> =>
    ask(t, local.url, {
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${keys[name]}`, 'x-request-id': `${name}-own-id` },
      body: {
        model,
        max_tokens: 20,
        metadata: { team: `${name}-tag` },
        messages: [{ role: 'user', content: `${name} words` }]
      }
    })
  for (const name of ['quokka', 'wombat']) {
    const belongs = { tenant: name, project: `${name}-project`, member: `${name}-member` }
    keys[name] = (await made('/admin/v1/keys', { ...belongs, name: `${name}-key`, tags: { owner: `${name}-tag` } })).key
    await made('/admin/v1/operators', { name: `${name}-operator`, role: 'tenant_admin', tenant: name })
    await say(name, `${name}-model`)
    await say(name, `${name}-none-such`)
  }
  const token = async (name: string, role: string): Promise<string> =>
    (await made('/admin/v1/operators', { name, role, tenant: 'wombat' })).token
  const admin = await token('wombat-admin', 'tenant_admin')
  const viewer = await token('wombat-viewer', 'viewer')
  const records = async (): Promise<{ request_id: string }[]> =>
    (await root('GET', '/admin/v1/requests?tenant=quokka')).json().data
  await eventually(async () => (await records()).length === 2, 60_000)
  const more = async (): Promise<void> => {
    await say('quokka', 'quokka-model')
    await say('quokka', 'quokka-none-such')
    await root('PATCH', '/admin/v1/keys/quokka-key', { tags: { more: 'quokka-more' } })
  }
  const own = async (): Promise<void> => void (await say('wombat', 'wombat-model'))
  return { local, root, admin, viewer, request: (await records())[0]!.request_id, more, own }
}

interface Described {
  readonly paths: Readonly<
    Record<
      string,
      Readonly<Record<string, { parameters?: readonly { name: string; in: string; required?: boolean }[] }>>
    >
  >
}

t.test('no answer of the admin API tells an actor of one tenant of another', async (t) => {
  const { local, admin, viewer, request, root } = await twoTenants(t)
  const described = (await root('GET', '/admin/openapi.json')).json() as Described
  const names = (path: string, of: string): string =>
    path
      .replace('{tenant}', of)
      .replace('{project}', `${of}-project`)
      .replace('{member}', `${of}-member`)
      .replace('{key}', `${of}-key`)
      .replace('{operator}', `${of}-operator`)
      .replace('{model}', `${of}-model`)
      .replace('{request_id}', request)
      // What is of no tenant.
      .replace(/\{\w+(\.\.\.)?\}/, 'none')
  const paths = Object.entries(described.paths).filter(([path]) => path.startsWith('/admin/v1/'))
  const actors = Object.entries({ admin, viewer }).map(([who, token]) => ({ who, call: caller(t, local, token) }))
  let answered = 0
  // All is read before anything is tried: the log of a tenant has what its actors were refused, by the name they gave.
  for (const { who, call } of actors)
    for (const [path, methods] of paths) {
      if (!('get' in methods)) continue
      const own = await call('GET', names(path, 'wombat') + (path.endsWith('/live') ? '?since=begin' : ''))
      if (own.status !== 200) continue
      answered++
      t.notMatch(own.text, foreign, `${who}: GET ${path}`)
    }
  for (const { who, call } of actors)
    for (const [path, methods] of paths) {
      const about = path.includes('{')
      if ('get' in methods) {
        const others = await call('GET', about ? names(path, 'quokka') : `${path}?tenant=quokka`)
        t.ok([400, 403, 404].includes(others.status), `${who}: GET ${path} of the other is ${others.status}`)
      }
      // Whoever has the secret of a key is asked for nothing more.
      for (const method of ['post', 'put', 'patch', 'delete'].filter((one) => one in methods)) {
        if (!about || path.includes('/secret/')) continue
        const reply = await call(method.toUpperCase(), names(path, 'quokka'), method === 'delete' ? undefined : {})
        t.ok([403, 404].includes(reply.status), `${who}: ${method} ${path} of the other is ${reply.status}`)
      }
    }
  t.ok(answered > 20, `${answered} answers were read`)
  const still = (await root('GET', '/admin/v1/keys/quokka-key')).json()
  t.match(still, { state: 'active', revoked: null }, 'and nothing of the other was changed')
})

t.test('no page tells an actor of one tenant of another, and nothing that happens live', async (t) => {
  const { local, admin, viewer, request } = await twoTenants(t)
  const pages: Record<string, Page> = {}
  for (const [who, token] of Object.entries({ admin, viewer })) {
    const page = await openPage(t, `${local.adminUrl}/console/`)
    pages[who] = page
    const answers: Promise<string>[] = []
    page.on('response', (reply) => {
      const { pathname } = new URL(reply.url())
      if (pathname.startsWith('/admin/') && pathname !== '/admin/openapi.json' && !pathname.endsWith('/live'))
        answers.push(reply.text().catch(() => ''))
    })
    await page.getByLabel('Token').fill(token)
    await page.getByLabel('Token').press('Enter')
    await page.locator('.live-state', { hasText: 'live' }).waitFor()
    const own = ['keys/wombat-key', 'tenants/wombat/wombat-project', 'models/wombat-model']
    for (const path of [...places.map((place) => place.path), ...own]) {
      await page.goto(`${local.adminUrl}/console/${path}`)
      await page.locator('main h1').first().waitFor()
      await eventually(async () => (await page.locator('main .waiting, main [aria-busy="true"]').count()) === 0, 60_000)
      t.notMatch(await page.content(), foreign, `${who}: ${path}`)
    }
    t.ok(answers.length > 20, `${answers.length} answers were read`)
    for (const text of await Promise.all(answers)) t.notMatch(text, foreign, text.slice(0, 60))
  }
  for (const [who, page] of Object.entries(pages)) {
    for (const path of [`requests/${request}`, 'keys/quokka-key', 'tenants/quokka', 'models/quokka-model']) {
      await page.goto(`${local.adminUrl}/console/${path}`)
      const said = page.getByRole('alert').first()
      await said.waitFor()
      t.match(await said.textContent(), /Status 40[34]/, `${who}: ${path} is refused`)
    }
  }
})

t.test('nothing that happens to another tenant comes live', async (t) => {
  const { local, admin, more, own } = await twoTenants(t)
  const page = await openPage(t, `${local.adminUrl}/console/`)
  await page.getByLabel('Token').fill(admin)
  await page.getByLabel('Token').press('Enter')
  await page.locator('.live-state', { hasText: 'live' }).waitFor()
  const stream = (await connect(t, local.adminUrl)).send({
    path: '/admin/v1/live?topics=overview,requests,troubles',
    headers: { authorization: `Bearer ${admin}` }
  })
  await stream.head()
  await more()
  // What is of the tenant itself comes after it, on the same stream.
  await own()
  await stream.body('wombat-key')
  t.notMatch(Buffer.concat(stream.reads.map(({ bytes }) => bytes)).toString(), foreign, 'the stream')
  t.notMatch(await page.content(), foreign, 'the page')
})
