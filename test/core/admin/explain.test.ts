// Explanations for actors of one tenant: of its own keys, without channels, plugins and anybody else.
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { gateway } from '../../kit/gateway.ts'

const owner = 'the token of the owner'
const hidden = ['answered_by', 'order', 'models', 'excluded', 'upstream', 'skipped_plugins']

type Explain = (body: unknown) => Promise<ReceivedReply>

interface Bench {
  /** By a tenant admin and by a viewer of acme, and by the owner. */
  by: Record<'admin' | 'viewer' | 'owner', Explain>
  refusals(): Promise<Record<string, unknown>[]>
}

async function open(t: Test): Promise<Bench> {
  const local = await gateway(t, {
    admin: { token: owner },
    channels: { 'east-7': { protocol: 'simulator', models: { demo: 'secret-name-upstream' } } },
    models: { demo: { price: { input: 1, output: 2 } } },
    tenants: { acme: { budget: { usd: 3, per: 'day' }, limits: { rpm: 9 } }, zeta: {} },
    keys: [
      { name: 'ours', key: 'sk-ours', tenant: 'acme' },
      { name: 'theirs', key: 'sk-theirs', tenant: 'zeta' }
    ]
  })
  const admin = (token: string, method: string, path: string, body?: unknown): Promise<ReceivedReply> =>
    ask(t, local.adminUrl, {
      method,
      path: `/admin/v1${path}`,
      headers: { authorization: `Bearer ${token}` },
      ...(body !== undefined && { body })
    })
  const explainer = async (role: string): Promise<Explain> => {
    const made = await admin(owner, 'POST', '/operators', { name: role, role, tenant: 'acme' })
    return (body) => admin(made.json().token, 'POST', '/explain', body)
  }
  return {
    by: {
      admin: await explainer('tenant_admin'),
      viewer: await explainer('viewer'),
      owner: (body) => admin(owner, 'POST', '/explain', body)
    },
    refusals: async () => (await admin(owner, 'GET', '/audit?outcome=refused')).json().data
  }
}

t.test('actors of a tenant have requests of its keys explained, without how the gateway is set up', async (t) => {
  const { by } = await open(t)
  for (const body of [
    { key: 'ours', model: 'demo' },
    { key: 'ours', model: 'other' },
    { key: 'ours', endpoint: 'models' },
    {
      key: 'ours',
      path: '/v1/chat/completions',
      headers: { authorization: 'Bearer sk-theirs' },
      body: { model: 'demo' }
    }
  ]) {
    const whole = (await by.owner(body)).json()
    t.equal(whole.caller.tenant, 'acme', 'whatever the headers have')
    const expected = Object.fromEntries(Object.entries(whole).filter(([name]) => !hidden.includes(name)))
    for (const who of ['admin', 'viewer'] as const) {
      const reply = await by[who](body)
      t.equal(reply.status, 200, reply.text)
      const told = reply.json()
      t.same(Object.keys(told), Object.keys(expected))
      t.match({ ...told, budgets: [], limits: [] }, { ...expected, budgets: [], limits: [] })
      t.notMatch(reply.text, /secret-name-upstream|simulator|east-7|zeta|theirs/, JSON.stringify(body))
    }
  }
  const told = (await by.viewer({ key: 'ours', model: 'demo' })).json()
  t.match(told, { outcome: 'sent', budgets: [{ scope: 'tenant:acme' }], limits: [{ scope: 'tenant:acme' }] })
  t.match(told.held.lines, [{ counted: 'prompt', usd_per_million: '1' }, {}], 'at the prices that the tenant pays')
})

t.test('keys of others and requests without one of their own are refused, and nothing is told of others', async (t) => {
  const { by, refusals } = await open(t)
  const refused = async (body: unknown): Promise<string> => {
    const reply = await by.viewer(body)
    t.notMatch(reply.text, /zeta|did you mean/, JSON.stringify(body))
    return `${reply.status} ${reply.json().error.code}`
  }
  const theirs = (await by.viewer({ key: 'theirs', model: 'demo' })).json()
  const none = (await by.viewer({ key: 'theirz', model: 'demo' })).json()
  t.same(JSON.parse(JSON.stringify(theirs).replaceAll('theirs', 'theirz')), none, 'like one that there is not')
  t.equal(await refused({ key: 'theirs' }), '404 key_not_found')
  for (const body of [
    { secret: 'sk-theirs', model: 'demo' },
    { secret: 'sk-ours', model: 'demo' },
    { model: 'demo' },
    { headers: { authorization: 'Bearer sk-theirs' }, model: 'demo' },
    { key: null },
    { key: ['theirs'] },
    { key: { ours: 1 } }
  ])
    t.equal(await refused(body), '403 role_not_allowed', JSON.stringify(body))
  t.equal(await refused({ key: 'ours', secret: 'sk-theirs' }), '400 invalid_field')
  t.equal(await refused([]), '400 invalid_request')
  t.equal(await refused({ key: 'ours', tenant: 'zeta' }), '400 invalid_field')
  t.match((await refusals())[0], { actor: 'viewer', object: 'POST /admin/v1/explain' })
})
