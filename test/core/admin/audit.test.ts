// The audit log: an entry for every change, pages, filters, exports, and that nothing which is written there can be
// anything but text.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { startGateway } from '../../../core/container.ts'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { silentLog } from '../../../core/telling/log.ts'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { sluice } from '../../kit/command.ts'
import { gateway } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'

type Call = (method: string, path: string, body?: unknown, token?: string) => Promise<ReceivedReply>

function adminOf(t: Test, { adminUrl }: Pick<LocalGateway, 'adminUrl'>): Call {
  return (method, path, body, token) =>
    ask(t, adminUrl, {
      method,
      path: `/admin/v1${path}`,
      ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }),
      ...(body !== undefined && { body })
    })
}

t.test('every change is an entry with who, from where, before and after, and no secret', async (t) => {
  const local = await gateway(t)
  const admin = adminOf(t, local)
  const secrets: string[] = []
  const done = async (method: string, path: string, body?: unknown): Promise<ReceivedReply> => {
    const reply = await admin(method, path, body)
    t.ok(reply.status < 300, `${method} ${path} ${reply.text}`)
    const { key, token } = reply.json()
    for (const secret of [key, token]) if (secret !== undefined) secrets.push(secret)
    return reply
  }
  await done('POST', '/tenants', { name: 'late', budget: { usd: 5, per: 'day' } })
  await done('PATCH', '/tenants/late', { budget: { usd: 6, per: 'day' } })
  await done('POST', '/projects', { tenant: 'late', name: 'web' })
  await done('POST', '/members', { tenant: 'late', project: 'web', name: 'eve' })
  await done('POST', '/keys', { tenant: 'late', name: 'ci' })
  await done('PATCH', '/keys/ci', { models: ['demo'] })
  await done('POST', '/keys/ci/rotate', { overlap: '1h' })
  const deleted = await done('DELETE', '/keys/ci')
  await done('DELETE', '/members/late/web/eve')
  await done('POST', '/operators', { name: 'carol', role: 'viewer' })
  await done('PATCH', '/operators/carol', { role: 'operator' })
  await done('POST', '/operators/carol/tokens', {})
  await done('DELETE', '/operators/carol')
  await done('PATCH', '/channels/demo', { drain: true })
  await done('POST', '/reload')
  await local.gateway.reload('SIGHUP')
  const { data, head, next } = (await admin('GET', '/audit')).json()
  t.same(data.map((entry: Record<string, unknown>) => entry['action']).reverse(), [
    'tenant.create',
    'tenant.change',
    'project.create',
    'member.create',
    'key.create',
    'key.change',
    'key.rotate',
    'key.revoke',
    'member.close',
    'operator.create',
    'operator.change',
    'operator.rotate',
    'operator.revoke',
    'channel.switch',
    'config.reload',
    'config.reload'
  ])
  t.match(data[0], { actor_kind: 'gateway', actor: 'SIGHUP', address: null, outcome: 'done' })
  t.match(data[1], { actor_kind: 'local', actor: 'this machine', address: '127.0.0.1', object_kind: 'config' })
  const change = data.at(-2)
  t.match(change, { before: { budget: [{ usd: '5' }] }, after: { budget: [{ usd: '6' }] }, tenant: 'late' })
  const revoke = data.find((entry: Record<string, unknown>) => entry['action'] === 'key.revoke')
  t.equal(revoke.request_id, deleted.headers['x-request-id'], 'the answer says the id of the request')
  t.equal(next, null)
  t.same(head, { seq: data[0].seq, hash: data[0].hash })
  t.equal(secrets.length, 4)
  for (const secret of secrets) t.notOk(JSON.stringify(data).includes(secret))
})

t.test('pages and filters select entries, and refuse what they do not know', async (t) => {
  const local = await gateway(t)
  const admin = adminOf(t, local)
  for (let i = 0; i < 7; i++) await admin('POST', '/keys', { tenant: 'acme', name: `k${i}` })
  await admin('DELETE', '/keys/k3')
  const entries = async (query: string): Promise<Record<string, any>[]> =>
    (await admin('GET', `/audit?${query}`)).json().data
  const seqs: number[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: any = (await admin('GET', `/audit?limit=3${cursor === '' ? '' : `&cursor=${cursor}`}`)).json()
    seqs.push(...page.data.map(({ seq }: { seq: number }) => seq))
    cursor = page.next
  }
  t.same(seqs, [8, 7, 6, 5, 4, 3, 2, 1])
  t.same(
    (await entries('object=k3')).map(({ action }) => action),
    ['key.revoke', 'key.create']
  )
  t.equal((await entries('action=key.create')).length, 7)
  t.equal((await entries('action=key.create&object=k3&object_kind=key')).length, 1)
  t.equal((await entries('actor=nobody')).length, 0)
  t.equal((await entries('tenant=acme')).length, 8)
  const [newest] = await entries('limit=1')
  t.equal((await entries('since=2999-01-01')).length, 0)
  t.equal((await entries('until=2000-01-01')).length, 0)
  t.ok((await entries(`until=${newest!['time']}`)).length >= 7)
  for (const query of ['cursor=x', 'cursor=0', 'since=soon', 'limit=0', 'why=x', 'seq=1'])
    t.equal((await admin('GET', `/audit?${query}`)).status, 400, query)
  for (const text of ["' OR 1=1 --", '$.actor', '"', "k3'; DROP TABLE audit; --", '%', '\\'])
    for (const name of ['actor', 'action', 'object_kind', 'object', 'tenant'])
      t.same(await entries(`${name}=${encodeURIComponent(text)}`), [], `${name}=${text}`)
  t.equal((await entries('')).length, 8, 'and all is still there')
})

t.test('names and filters stay text: in SQL, in lines of the log and in tables', async (t) => {
  const local = await gateway(t, { admin: { token: 'the token of the owner' } })
  const call = adminOf(t, local)
  const admin: Call = (method, path, body, token = 'the token of the owner') => call(method, path, body, token)
  const { token } = (await admin('POST', '/operators', { name: 'v', role: 'viewer', tenant: 'acme' })).json()
  const odd = [
    `=HYPERLINK("http://x.example")`,
    `x\n{"level":"error","message":"forged"}`,
    `'; DROP TABLE audit; --`,
    '\u202Egnp.exe',
    '+1,-1\r\n"a"'
  ]
  for (const name of odd) {
    const path = encodeURIComponent(name)
    t.equal((await admin('DELETE', `/keys/${path}`, undefined, token)).status, 403)
    t.equal((await admin('GET', `/keys/${path}`, undefined, token)).status, 404)
    for (const [list, body] of [
      ['keys', { tenant: 'acme', name }],
      ['operators', { name, role: 'viewer' }],
      ['projects', { tenant: 'acme', name }]
    ] as const)
      t.equal((await admin('POST', `/${list}`, body)).status, 400, `${list}: ${name}`)
    for (const list of ['keys?', 'operators?', 'requests?', 'balances?', 'spend?by=key&', 'audit?'])
      t.same((await admin('GET', `/${list}tenant=${path}`)).json().data, [], `${list}: ${name}`)
  }
  await eventually(async () => (await admin('GET', '/audit?outcome=refused')).json().data.length === 2 * odd.length)
  t.notOk(local.lines.some(({ message }) => message === 'forged'))
  await local.gateway.close()
  const csv = await sluice(['audit', 'export', '--format', 'csv', '--config', local.file])
  t.equal(csv.code, 0, csv.err)
  for (const cell of csv.out.split(/,|\r\n/)) t.notMatch(cell, /^"?[=+@]|^"?-(?!\d)/, cell)
  const lines = (await sluice(['audit', 'export', '--outcome', 'refused', '--config', local.file])).out
    .trim()
    .split('\n')
  t.equal(lines.length, 2 * odd.length)
  t.ok(lines.every((line) => JSON.parse(line).outcome === 'refused'))
  const list = await sluice(['audit', 'list', '--limit', '3', '--config', local.file])
  t.equal(list.out.trim().split('\n').length, 4)
  t.match(list.err, /The newest of all entries is 11, with the hash [0-9a-f]{64}\./)
})

t.test('the hash of the newest entry covers all before it, and verify finds what was changed', async (t) => {
  const local = await gateway(t)
  const admin = adminOf(t, local)
  for (let i = 0; i < 3; i++) await admin('POST', '/keys', { tenant: 'acme', name: `k${i}` })
  const { data, head } = (await admin('GET', '/audit')).json()
  t.equal(new Set(data.map(({ hash }: { hash: string }) => hash)).size, 3)
  t.match(head.hash, /^[0-9a-f]{64}$/)
  t.not(head.hash, createHash('sha256').update('').digest('hex'))
  await local.gateway.close()
  t.same(verify(join(local.file, '..', 'sluice.db')), [])
  const again = await startGateway({ config: local.file, log: silentLog })
  t.teardown(() => again.close())
  const after = (await adminOf(t, { adminUrl: again.adminUrl! })('GET', '/audit')).json()
  t.same(after.head, head, 'and stays after a restart')
})
