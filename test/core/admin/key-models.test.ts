// Which models a key may use, and which layer refuses the others.
import t from 'tap'
import { ask } from '../../kit/client.ts'
import { gateway } from '../../kit/gateway.ts'

const owner = 'the token of the owner'
const price = { input: 1, output: 1 }

t.test(
  'each model says which layer refuses it, the outermost first, and none that the tenant lacks to its own',
  async (t) => {
    const { adminUrl } = await gateway(t, {
      admin: { token: owner },
      channels: {
        demo: { protocol: 'simulator', models: { a1: 'demo', a2: 'demo', a3: 'demo', b: 'demo', demo: 'demo' } }
      },
      models: { a1: { price }, a2: { price }, a3: { price }, b: { price } },
      tenants: { acme: { models: ['a*'], projects: { web: { members: { alice: { models: ['a1', 'a2', 'b'] } } } } } }
    })
    const admin = (path: string, token = owner, body?: unknown) =>
      ask(t, adminUrl, {
        ...(body !== undefined && { method: 'POST', body }),
        path: `/admin/v1${path}`,
        headers: { authorization: `Bearer ${token}` }
      })
    await admin('/keys', owner, {
      name: 'k',
      tenant: 'acme',
      project: 'web',
      member: 'alice',
      models: ['a1', 'a3', 'b']
    })
    const { data, layers } = (await admin('/keys/k/models')).json()
    t.same(layers, [
      { layer: 'tenant', scope: 'tenant:acme', patterns: ['a*'] },
      { layer: 'project', scope: 'project:acme/web', patterns: ['*'] },
      { layer: 'member', scope: 'member:acme/web/alice', patterns: ['a1', 'a2', 'b'] },
      { layer: 'key', scope: 'key:k', patterns: ['a1', 'a3', 'b'] }
    ])
    const said = (rows: Record<string, unknown>[]) =>
      Object.fromEntries(rows.map((row) => [row['model'], row['refused_by']]))
    t.same(said(data), { a1: null, a2: 'key', a3: 'member', b: 'tenant', demo: 'tenant' })
    const { token } = (await admin('/operators', owner, { name: 'v', role: 'viewer', tenant: 'acme' })).json()
    t.same(said((await admin('/keys/k/models', token)).json().data), { a1: null, a2: 'key', a3: 'member' })
    t.equal((await admin('/keys/none/models')).status, 404)
  }
)
