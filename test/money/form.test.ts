// Gateways whose file asks for a journal in segments: a new store, one that is there, and workers over it.
import { existsSync, readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { sluice } from '../kit/command.ts'
import { gateway } from '../kit/gateway.ts'
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

for (const workers of [1, 2])
  t.test(`a store that is there goes on in segments, with ${workers} workers`, async (t) => {
    const sqlite = join(folder(t), 'sluice.db')
    const before = await live(t, sqlite, 'database', workers)
    t.notOk(existsSync(`${sqlite}.journal`))
    const moved = await live(t, sqlite, 'segments', workers)
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

t.test('a new store begins in segments, and no file brings it back', async (t) => {
  const sqlite = join(folder(t), 'sluice.db')
  t.equal((await live(t, sqlite, 'segments', 1)).ids.length, 3)
  t.ok(existsSync(`${sqlite}.journal`))
  await t.rejects(live(t, sqlite, 'database', 1), { message: /is in segments, .*leave it out/ })
})
