// Gateways and the form of their store: a new one, one that is there and is taken over, and workers over it.
import { existsSync, readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../kit/client.ts'
import { sluice } from '../kit/command.ts'
import { gateway, gatewayFile, spawnGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { folder } from './rig.ts'

/** One life of a gateway on a store: the ids of its requests, oldest first, and what the tenant has spent. */
interface Life {
  readonly ids: readonly string[]
  readonly spent: string
  readonly lines: readonly string[]
}

/** Starts a gateway on a store, has three requests answered, reads what the store has, and ends it. */
async function live(t: Test, sqlite: string, form: string | undefined, workers: number): Promise<Life> {
  const store = { sqlite, ...(form && { journal: { form } }) }
  const all = await gateway(t, { store, tenants: { acme: { budget: { usd: 100, per: 'month' } } } }, { workers })
  for (let i = 0; i < 3; i++) await all.record(await all.chat({ stream: i === 1 }))
  const { data } = await all.admin('/admin/v1/requests')
  const { data: balances } = await all.admin('/admin/v1/balances?scope=tenant:acme')
  await all.gateway.close()
  const verified = await sluice(['ledger', 'verify', '--config', all.file])
  t.match(verified, { code: 0, out: /./ }, verified.err)
  return {
    ids: data.map(({ request_id: id }: { request_id: string }) => id).reverse(),
    spent: balances[0].posted_usd,
    lines: all.lines.map(({ message }) => message)
  }
}

for (const [workers, form] of [
  [1, 'segments'],
  [1, undefined],
  [2, undefined]
] as const)
  t.test(`a store that is there goes on in segments, with ${workers} workers, ${form ? '' : 'un'}asked`, async (t) => {
    const sqlite = join(folder(t), 'sluice.db')
    const before = await live(t, sqlite, 'database', workers)
    t.notOk(existsSync(`${sqlite}.journal`))
    const moved = await live(t, sqlite, form, workers)
    t.ok(moved.lines.includes('the store was taken over: its journal is in segments now'))
    const beside = readdirSync(dirname(sqlite)).filter((name) => name.startsWith(`${basename(sqlite)}.replaced-`))
    t.equal(beside.length, 1, 'what was there is put aside')
    const after = await live(t, sqlite, undefined, workers)
    t.notOk(after.lines.some((line) => line.includes('taken over')))
    t.equal(before.ids.length, 3)
    t.same(moved.ids.slice(0, 3), before.ids, 'all requests are found')
    t.same(after.ids.slice(0, 6), moved.ids)
    t.equal(Number(after.spent).toFixed(9), (3 * Number(before.spent)).toFixed(9))
    t.ok(Number(before.spent) > 0)
  })

t.test('where that fails, the gateway serves, and says so', async (t) => {
  const sqlite = join(folder(t), 'sluice.db')
  await live(t, sqlite, 'database', 1)
  const database = new DatabaseSync(sqlite)
  database.exec('UPDATE balance SET posted = posted + 1')
  database.close()
  const all = await gateway(t, { store: { sqlite } })
  const said = all.lines.find(({ message }) => message.includes('could not be moved into segments'))
  t.match(said, { level: 'warn', fields: { remedy: /store.journal.form/, error: /cannot be taken over: I1/ } })
  t.equal((await all.chat()).status, 200)
  const ready = await all.admin('/readyz')
  t.match(ready, { status: 'degraded', reasons: [/could not be moved into segments.*tried once/] })
  await all.gateway.close()
  t.notOk(existsSync(`${sqlite}.journal`))
})

t.test('a process that takes the place of another moves nothing, and a start after its end does', async (t) => {
  const sqlite = join(folder(t), 'sluice.db')
  const killed = await spawnGateway(t, { store: { sqlite, journal: { form: 'database' } } })
  t.equal((await killed.chat()).status, 200)
  killed.process.kill('SIGKILL')
  await killed.ended
  const running = await spawnGateway(t, { store: { sqlite } })
  await eventually(() => /the journal stays in the database.*was killed/.test(running.output()))
  t.equal((await running.chat()).status, 200)
  t.match(await ask(t, running.adminUrl, { method: 'POST', path: '/admin/v1/upgrade' }), { status: 200 })
  t.equal((await running.chat()).status, 200)
  t.notOk(existsSync(`${sqlite}.journal`))
  process.kill(running.pids().at(-1)!, 'SIGTERM')
  await running.ended
  const moved = await live(t, sqlite, undefined, 1)
  t.ok(moved.lines.includes('the store was taken over: its journal is in segments now'))
  t.equal(moved.ids.length, 6)
})

t.test('a store that a command makes has the form that the file asks for', async (t) => {
  for (const form of ['database', undefined]) {
    const sqlite = join(folder(t), 'sluice.db')
    const file = gatewayFile(t, { store: { sqlite, ...(form && { journal: { form } }) } })
    t.match(await sluice(['keys', 'create', '--name', 'later', '--tenant', 'acme', '--config', file]), { code: 0 })
    t.equal(existsSync(`${sqlite}.journal`), form === undefined)
    t.equal((await live(t, sqlite, form, 1)).ids.length, 3)
  }
})

t.test('a new store begins in segments, and no file brings it back', async (t) => {
  const sqlite = join(folder(t), 'sluice.db')
  t.equal((await live(t, sqlite, undefined, 1)).ids.length, 3)
  t.ok(existsSync(`${sqlite}.journal`))
  await t.rejects(live(t, sqlite, 'database', 1), { message: /is in segments, .*leave it out/ })
})
