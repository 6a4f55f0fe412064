// Work that a gateway has lost to another one, and work that a server lacks which took over, in a real PostgreSQL.
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { WorkList } from '../../../../core/store/cluster/works/work-list.ts'
import { DatabaseProxy } from '../../../kit/database-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'
import { noon, work } from '../embedded/sample.ts'

const skip = postgresMissing
const owner = { tenant: 'acme', project: 'web' }
const done = { status: 'succeeded', ended: noon, expires: noon + 1e9 } as const
const failed = { ...done, status: 'failed' } as const
const refused = { code: 'task_under_way' }
/** Of gateways that renew theirs, and take over what others do not. */
const lease = 4000
/** Of one that does not look at its own during a test. */
const longLease = 600_000

async function node(t: Test, url: string, leaseFor = lease): Promise<WorkList> {
  const database = await Database.open({ url })
  const list = await WorkList.open(database, () => noon, { lease: leaseFor })
  t.teardown(async () => {
    await list.close()
    await database.close()
  })
  return list
}

async function sqlOf(url: string): Promise<(text: string) => Promise<any[]>> {
  const server = await sharedPostgres()
  return (text) => server.sql(text, url)
}

/** A gateway whose work another one takes over, while it hears nothing. */
async function overtaken(
  t: Test,
  ids: readonly string[]
): Promise<{ one: WorkList; other: WorkList; url: string; wake(): void }> {
  const server = await sharedPostgres()
  const url = await server.book()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const one = await node(t, proxy.url(url))
  await Promise.all(ids.map((id) => one.put(work(id))))
  const other = await node(t, url)
  let taken = 0
  other.onTaken = () => taken++
  proxy.stand()
  await eventually(() => taken === ids.length)
  const wake = (): void => {
    proxy.cut()
    proxy.goOn()
  }
  return { one, other, url, wake }
}

t.test('who has found out that its work is lost writes nothing over what another has ended', { skip }, async (t) => {
  const { one, other, wake } = await overtaken(t, ['put', 'result', 'note'])
  await other.keepResult(work('result'), Buffer.from('of the other'))
  await Promise.all(['put', 'result', 'note'].map((id) => other.put(work(id, failed))))
  wake()
  await eventually(() => one.open().length === 0)
  await t.rejects(one.keepResult(work('result'), Buffer.from('late')), refused)
  await t.rejects(one.put(work('put', { seen: { status: 'succeeded' } })), refused)
  await t.rejects(one.put(work('put', done)), refused, 'and again')
  one.note(work('note', { progress: 50 }))
  t.same(one.open(), [])
  await t.rejects(one.put(work('note', done)), refused)
  for (const id of ['put', 'result', 'note']) t.match(await other.find(owner, id), { status: 'failed' })
  t.equal(String(await other.result(work('result'))), 'of the other')
})

t.test('work that comes back to the gateway that has lost it is its own again', { skip }, async (t) => {
  const { one, other, wake } = await overtaken(t, ['a'])
  wake()
  await eventually(() => one.open().length === 0)
  let back = false
  one.onTaken = () => (back = true)
  await other.close()
  await eventually(() => back)
  await one.put(work('a', done))
  t.match(await other.find(owner, 'a'), { status: 'succeeded' })
})

t.test('work that was deleted after another has ended it does not come back', { skip }, async (t) => {
  const { one, other, url, wake } = await overtaken(t, ['a', 'b'])
  const sql = await sqlOf(url)
  for (const id of ['a', 'b']) {
    await other.put(work(id, done))
    await other.forget(work(id, done))
  }
  wake()
  // One is written before the gateway has looked, and of the other it finds out by itself.
  await t.rejects(one.put(work('a', { progress: 99 })), refused)
  await t.rejects(one.keepResult(work('a'), Buffer.from('late')), refused)
  await eventually(() => one.open().length === 0)
  t.same(await sql('select id from sluice.work'), [])
  t.same(await sql('select id from sluice.work_result'), [])
  await sql(`update sluice.work_gone set at = at - interval '2 days' where id = 'a'`)
  while (await other.sweepGone());
  t.same(await sql('select id from sluice.work_gone'), [{ id: 'b' }])
})

t.test('work that a server lacks which took over is put back by the gateway that has it', { skip }, async (t) => {
  const url = await (await sharedPostgres()).book()
  const sql = await sqlOf(url)
  const one = await node(t, url)
  const other = await node(t, url)
  await one.put(work('a', { status: 'in_progress' }))
  one.note(work('a', { status: 'in_progress', progress: 40 }))
  await sql('delete from sluice.work')
  await eventually(async () => (await other.find(owner, 'a')) !== undefined)
  t.match(await other.find(owner, 'a'), { status: 'in_progress', progress: 40 })
  await one.put(work('a', done))
  t.match(await other.find(owner, 'a'), { status: 'succeeded' })
})

t.test('nothing that is written of it before that is thrown away', { skip }, async (t) => {
  const url = await (await sharedPostgres()).book()
  const sql = await sqlOf(url)
  const one = await node(t, url, longLease)
  const other = await node(t, url, longLease)
  for (const id of ['open', 'ended', 'kept']) await one.put(work(id))
  await sql('delete from sluice.work')
  await one.put(work('open', { progress: 7 }))
  t.match(await other.find(owner, 'open'), { progress: 7 })
  t.match(one.current(owner, 'open'), { progress: 7 })
  await one.put(work('ended', done))
  t.match(await other.find(owner, 'ended'), { status: 'succeeded' })
  await one.keepResult(work('kept'), Buffer.from('result'))
  await one.put(work('kept', done))
  t.equal(String(await other.result(work('kept'))), 'result')
})
