// The ledger verified by the admin API while the gateway serves: what it finds, that there is one at a time, and that
// it can be cancelled.
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { openDatabase } from '../../../core/store/embedded/files/sqlite.ts'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { gateway } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'

t.setTimeout(600_000)

const path = '/admin/v1/ledger/verify'
const call = (t: Test, { adminUrl }: LocalGateway, method: string): Promise<ReceivedReply> =>
  ask(t, adminUrl, { method, path })

/** Begins one and waits for its result. */
async function verified(t: Test, local: LocalGateway): Promise<any> {
  const before = (await local.admin(path)).results.length
  t.equal((await call(t, local, 'POST')).status, 202)
  let state: any
  await eventually(async () => {
    state = await local.admin(path)
    return state.running === null && state.results.length > before
  }, 120_000)
  return state.results[0]
}

t.test('a ledger in order holds while requests go on, and the result outlives the gateway', async (t) => {
  const local = await gateway(t)
  for (let n = 0; n < 5; n++) await local.chat()
  const chats = Promise.all([local.chat(), local.chat(), local.chat()])
  const result = await verified(t, local)
  for (const reply of await chats) t.equal(reply.status, 200)
  t.match(result, {
    id: 1,
    by: 'this machine',
    outcome: 'holds',
    broken: 0,
    drift_nano: '0',
    drift_usd: '0',
    why: null
  })
  t.ok(result.checked.journal >= 5)
  t.ok(result.invariants.some(({ name, result }: any) => name === 'I1' && result === 'holds'))
  t.match((await local.admin('/admin/v1/audit?action=ledger.verify')).data, [{ object_kind: 'ledger' }])
  const before = await local.admin(path)
  await local.gateway.close()
  const { file } = local
  const text = readFileSync(file, 'utf8')
  const folder = mkdtempSync(join(tmpdir(), 'sluice-ledger-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  cpSync(join(file, '..'), folder, { recursive: true })
  const next = await gateway(t, text.replaceAll(dirname(file), folder))
  t.same((await next.admin(path)).results, before.results, 'it is there after a restart')
})

for (const form of ['database', 'segments'])
  t.test(`a balance that was changed is named, with how far it is off, with the journal in: ${form}`, async (t) => {
    const local = await gateway(t, {
      store: { sqlite: join(t.testdir(), 'sluice.db'), durability: 'process', journal: { form } },
      tenants: { acme: { budget: { usd: 5, per: 'total' } } }
    })
    await local.chat()
    await verified(t, local)
    const database = openDatabase(local.gateway.config.settings.store.sqlite!, 'process')
    database.exec("UPDATE balance SET posted = posted + 12345 WHERE scope = 'key:test' AND window = 'total'")
    database.close()
    let result: any
    // Balances are compared when the database has those of the last batch.
    await eventually(async () => (result = await verified(t, local)).outcome === 'broken', 120_000)
    t.match(result, { drift_nano: '12345', drift_usd: '0.000012345' })
    t.match(
      result.breaches.find(({ invariant }: any) => invariant === 'I1'),
      { row: 'balance key:test total', drift_nano: '12345' }
    )
    t.equal((await local.chat()).status, 200, 'the gateway goes on')
  })

t.test('there is one at a time, and it can be cancelled', async (t) => {
  const local = await gateway(t)
  t.match((await call(t, local, 'DELETE')).json().error, { code: 'verification_not_running' })
  let tries = 0
  await eventually(async () => {
    tries++
    if ((await call(t, local, 'POST')).status !== 202) return false
    const [second, ended] = [await call(t, local, 'POST'), await call(t, local, 'DELETE')]
    // On a machine that is quick enough one may be over before.
    if (ended.status !== 200 || second.status !== 409) return false
    t.match(second.json().error, { code: 'verification_running' })
    return true
  }, 60_000)
  await eventually(async () => (await local.admin(path)).running === null)
  const { results } = await local.admin(path)
  t.match(results[0], { outcome: 'cancelled', why: 'this machine', checked: null, broken: null })
  for (let n = 0; n < 11; n++) {
    await call(t, local, 'POST')
    await call(t, local, 'DELETE')
    await eventually(async () => (await local.admin(path)).running === null)
  }
  t.equal((await local.admin(path)).results.length, 10, `ten are kept (${tries} tries)`)
})
