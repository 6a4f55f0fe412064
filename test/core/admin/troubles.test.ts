// What is wrong now, by the admin API: each kind with how bad it is, since when, and where it is mended.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../../kit/client.ts'
import { gateway, testKey } from '../../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { head, Upstream } from '../../kit/upstream.ts'

interface Shown {
  id: string
  kind: string
  severity: string
  since: string | null
  text: string
  remedy: string
  link: string
  tenant: string | null
}

/** The troubles of a kind, when there are some; those of the test's own file are none. */
async function found(local: LocalGateway, kind: string, withinMs = 10_000): Promise<Shown[]> {
  let troubles: Shown[] = []
  await eventually(async () => {
    troubles = (await local.admin('/admin/v1/troubles')).data.filter((one: Shown) => one.kind === kind)
    return troubles.length > 0
  }, withinMs)
  return troubles
}

/** A JSON Web Token that ends in so many days. */
function tokenFor(days: number): string {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'none' })}.${part({ exp: Math.floor(Date.now() / 1000 + days * 86_400) })}.signature`
}

const since = (troubles: readonly Shown[]): boolean =>
  troubles.every((one) => one.since !== null && Math.abs(Date.now() - Date.parse(one.since)) < 600_000)

t.test('a channel that is ejected, and a model that has no other', async (t) => {
  const upstream = await Upstream.start(t)
  upstream.always(head(500, { 'content-length': '0' }))
  const local = await gateway(t, {}, { upstreams: { one: upstream } })
  t.notMatch((await local.admin('/admin/v1/troubles')).data, [{ kind: 'channel_out' }])
  for (let i = 0; i < 5; i++) await local.chat()
  const [channel] = await found(local, 'channel_out')
  t.match(channel, { severity: 'warning', link: 'channels/one', tenant: null, text: /^The channel one is ejected: / })
  const [model] = await found(local, 'model_out')
  t.match(model, { severity: 'critical', link: 'channels?model=test-model' })
  t.ok(since([channel!, model!]))
  const { data } = await local.admin('/admin/v1/troubles')
  t.equal(data[0].kind, 'model_out', 'the worst comes first')
  const { health } = await local.admin('/admin/v1/channels/one')
  t.equal(health.since, channel!.since, 'the channel says the same')
})

t.test('budgets that are nearly used up, and for each tenant its own', async (t) => {
  const owner = 'the token of the owner'
  // What one request to the simulator costs is asked of one.
  const first = await gateway(t)
  const reply = await first.chat()
  const cost = Number((await first.record(reply)).cost_nano)
  const usd = (requests: number, percent: number): string => ((cost * requests * 100) / percent / 1e9).toFixed(9)
  const local = await gateway(t, {
    admin: { token: owner },
    tenants: { acme: { budget: { usd: usd(3, 85), per: 'total' } }, zeta: {} }
  })
  const admin = async (path: string, token: string): Promise<any> =>
    (await ask(t, local.adminUrl, { path, headers: { authorization: `Bearer ${token}` } })).json()
  // A hold is for more than a request costs: the budget is raised to let them in, and lowered again.
  local.configure({ admin: { token: owner }, tenants: { acme: { budget: { usd: 1, per: 'total' } }, zeta: {} } })
  await local.gateway.reload('SIGHUP')
  for (let i = 0; i < 3; i++) t.equal((await local.chat()).status, 200)
  local.configure({
    admin: { token: owner },
    tenants: { acme: { budget: { usd: usd(3, 85), per: 'total' } }, zeta: {} }
  })
  await local.gateway.reload('SIGHUP')
  const budgets = async (token: string): Promise<Shown[]> =>
    (await admin('/admin/v1/troubles', token)).data.filter(({ kind }: Shown) => kind === 'budget')
  await eventually(async () => (await budgets(owner)).length === 1, 10_000)
  t.match(await budgets(owner), [
    { severity: 'notice', tenant: 'acme', link: 'tenants/acme', text: /the tenant acme in all is used up to 8[45] %/ }
  ])
  const tokens: Record<string, string> = {}
  for (const tenant of ['acme', 'zeta']) {
    const made = await ask(t, local.adminUrl, {
      path: '/admin/v1/operators',
      headers: { authorization: `Bearer ${owner}` },
      body: { name: `v-${tenant}`, role: 'viewer', tenant }
    })
    tokens[tenant] = made.json().token
  }
  t.same(
    (await admin('/admin/v1/troubles', tokens['acme']!)).data.map(({ kind }: Shown) => kind),
    ['budget']
  )
  t.same((await admin('/admin/v1/troubles', tokens['zeta']!)).data, [])
})

t.test('very many budgets of one tenant hide none of another', async (t) => {
  const owner = 'the token of the owner'
  const names = Array.from({ length: 205 }, (_, n) => `k${n}`)
  const fileOf = (usd: number): Overrides => ({
    admin: { token: owner },
    tenants: { acme: { budget: { usd: 2 * usd, per: 'total' } }, zeta: {} },
    keys: [
      { name: 'own', key: testKey, tenant: 'acme' },
      ...names.map((name) => ({ name, key: `sk-${name}`, tenant: 'zeta', budget: { usd, per: 'total' } }))
    ]
  })
  const local = await gateway(t, fileOf(100))
  const admin = async (path: string, token: string, body?: object): Promise<any> =>
    (
      await ask(t, local.adminUrl, { path, headers: { authorization: `Bearer ${token}` }, ...(body && { body }) })
    ).json()
  const body = { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
  const chat = (key: string): ReturnType<typeof ask> =>
    ask(t, local.url, { path: '/v1/chat/completions', headers: { authorization: `Bearer ${key}` }, body })
  for (const key of [testKey, ...names.map((name) => `sk-${name}`)]) t.equal((await chat(key)).status, 200)
  // Each key has used more than all of its budget, and the tenant acme half of its own, which is then 85 %.
  const cost = Number((await admin('/admin/v1/requests?limit=1', owner)).data[0].cost_nano) / 1e9
  const file = fileOf(Number((cost / 2).toFixed(9)))
  const acme = { budget: { usd: Number((cost / 0.85).toFixed(9)), per: 'total' } }
  local.configure({ ...file, tenants: { acme, zeta: {} } })
  t.equal((await local.gateway.reload('SIGHUP')).ok, true)
  const budgets = async (token: string): Promise<Shown[]> =>
    (await admin('/admin/v1/troubles', token)).data.filter(({ kind }: Shown) => kind === 'budget')
  await eventually(async () => (await budgets(owner)).length > 0, 10_000)
  t.same(new Set((await budgets(owner)).map(({ tenant }) => tenant)), new Set(['zeta']), 'the worst of all')
  t.equal((await budgets(owner)).length, 200)
  const { token } = await admin('/admin/v1/operators', owner, { name: 'v', role: 'viewer', tenant: 'acme' })
  t.match(await budgets(token), [{ tenant: 'acme', text: /the tenant acme in all/ }])
})

t.test('a reload that was refused, until one is not', async (t) => {
  const local = await gateway(t)
  local.configure({ models: { broken: 1 } })
  await local.gateway.reload('SIGHUP')
  const [trouble] = await found(local, 'reload')
  t.match(trouble, { severity: 'warning', link: 'configuration', text: /models\.broken|broken/ })
  t.ok(since([trouble!]))
  local.configure({})
  await local.gateway.reload('SIGHUP')
  await eventually(
    async () => !(await local.admin('/admin/v1/troubles')).data.some(({ kind }: Shown) => kind === 'reload'),
    10_000
  )
})

t.test('credentials that end, and models that do', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(
    t,
    {
      channels: {
        one: { credential: tokenFor(5) },
        two: { credential: tokenFor(1) },
        three: { credential: tokenFor(90) }
      },
      models: {
        'test-model': {
          deprecated: { since: '2026-01-01', sunset: new Date(Date.now() + 5 * 86_400_000), replacement: 'test-model' }
        }
      }
    },
    { upstreams: { one: upstream, two: upstream, three: upstream } }
  )
  const credentials = await found(local, 'credential')
  t.same(
    credentials.map(({ severity, link }) => [severity, link]),
    [
      ['critical', 'channels/two'],
      ['warning', 'channels/one']
    ]
  )
  t.match(await found(local, 'deprecation'), [{ severity: 'warning', link: 'models/test-model', text: /is to end on/ }])
})

t.test('a webhook that takes no alerts', async (t) => {
  const webhook = await Upstream.start(t)
  webhook.always(head(500, { 'content-length': '0' }))
  const local = await gateway(t, {
    alerts: { url: webhook.url.href, secrets: ['a secret of the test that is long enough'], private: true },
    tenants: { acme: { budget: { usd: 0.05, per: 'total', alerts: [1] } } }
  })
  for (let i = 0; i < 5; i++) t.equal((await local.chat()).status, 200)
  const [trouble] = await found(local, 'alerts')
  t.match(trouble, { severity: 'warning', text: /takes none: 1 waits/ })
  t.ok(since([trouble!]))
})

t.test('backups that fail', async (t) => {
  const folder = (test: Test): string => join(test.testdirName, 'backups')
  const local = await gateway(t, { store: { backups: { to: folder(t), every: '1m' } } })
  mkdirSync(t.testdirName, { recursive: true })
  writeFileSync(folder(t), 'a file where the folder should be')
  const [trouble] = await found(local, 'backup', 60_000)
  t.match(trouble, { severity: 'warning', text: /^Backups fail: / })
})
