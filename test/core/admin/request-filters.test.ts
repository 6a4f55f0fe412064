// What the request log is filtered by: values that are offered, of one tenant for its actors alone, and filters that
// leave out what others select.
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { gateway, testKey } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'

const owner = 'the token of the owner'

async function twoTenants(t: Test) {
  const local = await gateway(t, {
    admin: { token: owner },
    tenants: {
      wombat: { projects: { 'wombat-project': { tags: { cost: 'wombat-1' }, members: { 'wombat-member': {} } } } },
      quokka: { projects: { 'quokka-project': { tags: { cost: 'quokka-1' }, members: { 'quokka-member': {} } } } }
    },
    keys: [
      { name: 'wombat-key', key: testKey, tenant: 'wombat', project: 'wombat-project', tags: { team: 'wombat-2' } },
      { name: 'quokka-key', key: 'sk-quokka-0000000000000', tenant: 'quokka' }
    ]
  })
  const as = (token: string, method: string, path: string, body?: object): Promise<ReceivedReply> =>
    ask(t, local.adminUrl, { method, path, headers: { authorization: `Bearer ${token}` }, ...(body && { body }) })
  const made = await as(owner, 'POST', '/admin/v1/operators', { name: 'ta', role: 'viewer', tenant: 'wombat' })
  return { local, as, admin: (made.json() as { token: string }).token }
}

t.test('names that requests can have are offered, those of one tenant alone to its actors', async (t) => {
  const { as, admin } = await twoTenants(t)
  for (const name of ['wombat', 'quokka']) {
    const made = await as(owner, 'POST', '/admin/v1/keys', { tenant: name, name: `${name}-made`, tags: { x: name } })
    t.equal(made.status, 201)
  }
  const all = (await as(owner, 'GET', '/admin/v1/requests/filters')).json() as Record<string, string[]>
  t.same(all['key'], ['wombat-key', 'quokka-key', 'wombat-made', 'quokka-made'])
  t.same(all['project'], ['wombat-project', 'quokka-project'])
  t.same(all['member'], ['wombat-member', 'quokka-member'])
  t.same(all['tag'], ['cost', 'cost=wombat-1', 'cost=quokka-1', 'team', 'team=wombat-2', 'x', 'x=wombat', 'x=quokka'])
  const own = await as(admin, 'GET', '/admin/v1/requests/filters')
  t.notMatch(own.text, /quokka/)
  t.match(own.json(), {
    key: ['wombat-key', 'wombat-made'],
    project: ['wombat-project'],
    member: ['wombat-member'],
    tag: ['cost', 'cost=wombat-1', 'team', 'team=wombat-2', 'x', 'x=wombat']
  })
  t.same(
    Object.keys(own.json() as object).filter((name) => ['model', 'tenant', 'channel'].includes(name)),
    []
  )
})

t.test('no more names are offered than a page can show', async (t) => {
  const members = Object.fromEntries(Array.from({ length: 700 }, (_, number) => [`m${number}`, {}]))
  const local = await gateway(t, { tenants: { acme: { projects: { web: { members } } } } })
  const { member } = await local.admin('/admin/v1/requests/filters')
  t.equal(member.length, 500)
})

t.test('what a filter would select is left out, in lists, counts and files', async (t) => {
  const { local, as, admin } = await twoTenants(t)
  const say = (model: string): Promise<unknown> =>
    ask(t, local.url, {
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${testKey}` },
      body: { model, messages: [{ role: 'user', content: 'Hi' }] }
    })
  await say('demo')
  await say('demo')
  await say('none-such')
  const models = async (query: string, token = owner): Promise<unknown[]> =>
    ((await as(token, 'GET', `/admin/v1/requests?${query}`)).json() as { data: { model: string }[] }).data.map(
      ({ model }) => model
    )
  await eventually(async () => (await models('')).length === 3)
  const other = (await models('')).find((model) => model !== 'demo')
  for (const query of ['not_status=2xx', 'not_outcome=completed', 'not_model=demo', 'not_channel=demo'])
    t.same(await models(query), [other], query)
  for (const query of ['not_code=model_not_found', 'not_status=404', 'model=demo&not_tag=none', 'not_status=4xx'])
    t.same(await models(query), ['demo', 'demo'], query)
  for (const query of [
    'not_tenant=wombat',
    'not_key=wombat-key',
    'not_tag=team',
    'not_tag=team=wombat-2',
    'not_project=wombat-project',
    'not_endpoint=chat',
    'status=200&not_status=200'
  ])
    t.same(await models(query), [], query)
  t.equal((await models('not_member=alice&not_tag=team=other')).length, 3, 'what has none of it stays')
  const totals = (await as(owner, 'GET', '/admin/v1/requests/totals?not_model=demo')).json()
  t.match(totals, { requests: 1, refused: 1 })
  const file = await as(owner, 'GET', '/admin/v1/export/requests?not_status=2xx')
  t.equal(file.text.trim().split('\r\n').length, 2, 'a line of names, and one request')
  const refused = await as(owner, 'GET', '/admin/v1/requests?not_status=9')
  t.match(refused.json(), { error: { param: 'not_status', message: /not_status is "9": it must be like 429 or 4xx/ } })

  t.equal((await models('not_status=4xx', admin)).length, 2)
  for (const path of ['requests?', 'requests/totals?', 'export/requests?']) {
    const closed = await as(admin, 'GET', `/admin/v1/${path}not_channel=demo`)
    t.match(closed.json(), { error: { code: 'role_not_allowed' } }, `${path}: how the gateway is set up is not told`)
  }
  t.same(await models('not_tenant=quokka&not_key=quokka-key', admin), await models('', admin))
})
