// What actors of one tenant share with all others: the numbers by which lists go on, and the places for files.
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { get, request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { openStore } from '../../../core/store/embedded/store.ts'
import { ask } from '../../kit/client.ts'
import { gateway, testKey } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { record } from '../store/embedded/sample.ts'

const owner = 'the token of the owner'

async function twoTenants(t: Test, more: object = {}) {
  const local = await gateway(t, {
    ...more,
    admin: { token: owner },
    tenants: { wombat: {}, quokka: {} },
    keys: [
      { name: 'w', key: testKey, tenant: 'wombat' },
      { name: 'q', key: 'sk-quokka-0000000000000', tenant: 'quokka' }
    ]
  })
  const call = async (token: string, path: string, body?: object): Promise<any> => {
    const method = body ? 'POST' : 'GET'
    const headers = { authorization: `Bearer ${token}` }
    return (await ask(t, local.adminUrl, { method, path, headers, ...(body && { body }) })).json()
  }
  const { token } = await call(owner, '/admin/v1/operators', { name: 'v', role: 'viewer', tenant: 'wombat' })
  const say = (key: string): Promise<unknown> =>
    ask(t, local.url, {
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${key}` },
      body: { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
    })
  return { local, call, say, viewer: token as string }
}

t.test('where a list goes on does not tell actors of one tenant how much there is of others', async (t) => {
  const { call, say, viewer } = await twoTenants(t)
  const all = async (): Promise<number> => (await call(owner, '/admin/v1/requests')).data.length
  await say(testKey)
  for (let place = 0; place < 7; place++) await say('sk-quokka-0000000000000')
  await say(testKey)
  await eventually(async () => (await all()) === 9)
  const numbers = (cursor: string): number[] =>
    [cursor, Buffer.from(cursor, 'base64url').toString('latin1')].flatMap((text) =>
      [...text.matchAll(/^\d+$/g)].map(([digits]) => Number(digits))
    )
  for (const list of ['/admin/v1/requests', '/admin/v1/audit']) {
    if (list.endsWith('audit')) for (const name of ['a', 'b', 'c']) await call(viewer, `/admin/v1/keys/${name}`)
    const pages: any[] = [await call(viewer, `${list}?limit=1`)]
    t.same(numbers(pages[0].next), [], `${list}: no number is in it`)
    const again = await call(viewer, `${list}?limit=1`)
    t.not(again.next, pages[0].next, `${list}: nor can two be compared`)
    pages.push(await call(viewer, `${list}?limit=1&cursor=${pages[0].next}`))
    t.not(JSON.stringify(pages[1].data), JSON.stringify(pages[0].data), `${list}: it goes on there`)
    t.match(
      await call(viewer, `${list}?limit=1&cursor=12`),
      { error: { param: 'cursor' } },
      `${list}: others are refused`
    )
    const own = (await call(owner, `${list}?limit=1`)).next
    t.match(await call(viewer, `${list}?limit=1&cursor=${own}`), { error: { param: 'cursor' } })
  }
})

t.test('a cursor of one list tells nothing by another one, and is none of another tenant', async (t) => {
  const { call, say, viewer } = await twoTenants(t)
  const { token: other } = await call(owner, '/admin/v1/operators', { name: 'o', role: 'viewer', tenant: 'quokka' })
  for (const key of [testKey, testKey, 'sk-quokka-0000000000000', 'sk-quokka-0000000000000']) await say(key)
  await eventually(async () => (await call(owner, '/admin/v1/requests')).data.length === 4)
  for (const name of ['a', 'b', 'c']) await call(viewer, `/admin/v1/keys/${name}`)
  const lists = ['requests', 'audit', 'keys', 'balances', 'spend?by=key'].map((name) => `/admin/v1/${name}`)
  const asked = (list: string, more: string): string => `${list}${list.includes('?') ? '&' : '?'}${more}`
  const cursors: string[] = []
  for (const list of lists.slice(0, 2)) {
    const { next } = await call(viewer, asked(list, 'limit=1'))
    t.ok(next, list)
    cursors.push(next)
    t.match(await call(other, asked(list, `limit=1&cursor=${next}`)), { error: { param: 'cursor' } }, `${list}: of one`)
  }
  for (const [place, cursor] of cursors.entries())
    for (const list of lists.filter((_, other) => other !== place)) {
      const answer = await call(viewer, asked(list, `limit=1&cursor=${cursor}`))
      t.match(answer, { error: { param: 'cursor' } }, list)
      t.ok(answer.error.message.includes(cursor.slice(0, 30)), `${list}: what was sent is said, and not what is in it`)
    }
})

t.test('live streams and runs of actors of one tenant leave room for those of others', async (t) => {
  const { local, call } = await twoTenants(t)
  const enter = async (name: string, tenant: string): Promise<string> =>
    (await call(owner, '/admin/v1/operators', { name, role: 'tenant_admin', tenant })).token
  const own = await Promise.all(Array.from({ length: 17 }, (_, place) => enter(`w${place}`, 'wombat')))
  const other = await enter('q', 'quokka')
  const open = async (token: string, path: string, body?: object): Promise<number> => {
    const asked = request(`${local.adminUrl}${path}`, {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) },
      agent: false
    })
    t.teardown(() => asked.destroy())
    asked.on('error', () => {}).end(body && JSON.stringify(body))
    const [reply] = (await once(asked, 'response')) as [IncomingMessage]
    reply.on('error', () => {})
    return reply.statusCode!
  }
  const fill = async (path: string, times: number, body?: object): Promise<number> => {
    let opened = 0
    for (const token of own) for (let n = 0; n < times; n++) if ((await open(token, path, body)) === 200) opened++
    return opened
  }
  t.equal(await fill('/admin/v1/live', 4), 16, 'a tenant has 16 streams, whoever of it asks')
  t.equal(await open(other, '/admin/v1/live'), 200)
  t.equal(await open(owner, '/admin/v1/live'), 200)
  const content = '[[simulator {"cut": "stall", "after_events": 4}]]'
  const endless = { model: 'demo', messages: [{ role: 'user', content }], stream: true }
  const run = (key: string): string => `/admin/v1/playground/keys/${key}/v1/chat/completions`
  t.equal(await fill(run('w'), 2, endless), 12, 'and 12 runs')
  t.equal(await open(other, run('q'), endless), 200)
  t.equal(await open(owner, run('q'), endless), 200)
})

t.test('files that actors of one tenant do not read leave room for those of others', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-shared-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const sqlite = join(folder, 'sluice.db')
  const store = await openStore({ file: sqlite, durability: 'process' })
  // More than the sockets of both ends keep.
  for (let place = 0; place < 20_000; place++) store.requests.append(record({ tenant: 'wombat' }))
  await store.close()
  const { local, call, viewer } = await twoTenants(t, { store: { sqlite } })
  const { token: other } = await call(owner, '/admin/v1/operators', { name: 'o', role: 'viewer', tenant: 'quokka' })
  const open = async (token: string): Promise<number> => {
    const asked = get(`${local.adminUrl}/admin/v1/export/requests?format=jsonl`, {
      headers: { authorization: `Bearer ${token}` },
      agent: false
    })
    t.teardown(() => asked.destroy())
    asked.on('error', () => {})
    const [reply] = (await once(asked, 'response')) as [IncomingMessage]
    reply.on('error', () => {})
    return reply.statusCode!
  }
  t.equal(await open(viewer), 200)
  t.equal(await open(viewer), 200)
  t.equal(await open(viewer), 429, 'a tenant has two places')
  t.equal(await open(other), 200)
  t.equal(await open(owner), 200, 'and one is left for who runs the gateway')
})

t.test('an encoding that a browser refuses is not taken for the files of the console', async (t) => {
  const local = await gateway(t)
  for (const [accepted, encoding] of [
    ['br;q=0, gzip', 'gzip'],
    ['br;q=0, gzip; q=0.000', undefined],
    ['br;q=0.5', 'br'],
    ['GZIP', 'gzip']
  ] as const) {
    const reply = await ask(t, local.adminUrl, { path: '/console/', headers: { 'accept-encoding': accepted } })
    t.equal(reply.headers['content-encoding'], encoding, accepted)
  }
})
