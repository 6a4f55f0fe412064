// Ends whose holds the database lacks, as an earlier state of it has come back: what clients saw is charged once.
import { readdirSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import { beginWork, brokenIn, logFolder, moneyNode } from '../../../../../kit/cluster-money.ts'
import { DatabaseProxy } from '../../../../../kit/database-proxy.ts'
import { Postgres, postgresMissing } from '../../../../../kit/postgres.ts'
import { Snapshot } from '../../../../../kit/postgres-snapshot.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { noon, scope } from '../../../embedded/sample.ts'
import { charge, endsBy, hold } from '../oracle.ts'

const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), scope('key', 'laptop', 1_000_000n)]
const now = (): number => noon
const later = noon + 172_800_000

function test(what: string, run: (t: Test) => Promise<void>): void {
  void t.test(what, { skip: postgresMissing, timeout: 300_000 }, run)
}

async function setting(t: Test) {
  const server = await Postgres.start(t)
  const url = await server.database()
  const sql = (query: string): Promise<any[]> => server.sql(query, url)
  return { server, url, sql, ends: () => endsBy(sql) }
}

test('what a node has in its log is charged though the server lacks the hold', async (t) => {
  const { server, url, sql, ends } = await setting(t)
  const folder = logFolder(t)
  const node = await moneyNode(t, url, 'one', { folder, now })
  const snapshot = await Snapshot.take(server)
  await eventually(() =>
    hold(node.ledger, scopes, 1n).then(
      (made) => made.void().then(() => true),
      () => false
    )
  )
  // The price is lost as well.
  const price = { version: 'other:1', perMillion: { output: 1_000_000n } }
  const made = await hold(node.ledger, scopes, 1000n, { price })
  made.dispatched('openai')
  await made.durable
  const given = await hold(node.ledger, scopes, 1000n, { price })
  await given.durable
  await snapshot.restore(async () => {
    await Promise.all([made.settle(charge(70)), given.void()])
    await node.kill()
  })
  t.not(readdirSync(folder).length, 0, 'the ends are in the log')
  const told: string[] = []
  const again = await moneyNode(t, url, 'one', { folder, now, corrected: (id) => void told.push(id) })
  await again.flush()
  await again.close()
  t.same(told.toSorted(), [made, given].map(({ requestId }) => requestId).toSorted(), 'their records are written again')
  const found = await ends()
  t.same(found.get(made.requestId), ['settle 70 upstream'])
  t.same(found.get(given.requestId), ['void 0'])
  t.same(await sql(`select posted::int, pending::int from sluice.balance where posted <> 0 or pending <> 0`), [
    { posted: 70, pending: 0 },
    { posted: 70, pending: 0 },
    { posted: 70, pending: 0 }
  ])
  t.same(await brokenIn(url), [])
  t.same(readdirSync(folder), [], 'nothing is left in the log')
  await (await moneyNode(t, url, 'one', { folder, now })).close()
  t.same(await brokenIn(url), [], 'and it is not charged again')
})

for (const first of ['who ended it', 'who made it'] as const)
  test(`a hold that another node ended, and both are lost, is charged once, where ${first} is back first`, async (t) => {
    const { server, url, sql, ends } = await setting(t)
    const lease = 6000
    const proxy = await DatabaseProxy.start(t, server.socket)
    const one = await moneyNode(t, proxy.url(url), 'one', {
      folder: logFolder(t),
      now,
      lease: first === 'who made it' ? lease : 60_000
    })
    const two = await moneyNode(t, url, 'two', { folder: logFolder(t), now, lease })
    const snapshot = await Snapshot.take(server)
    await eventually(() =>
      hold(one.ledger, scopes, 1n).then(
        (made) => made.void().then(() => true),
        () => false
      )
    )
    const made = await hold(one.ledger, scopes, 1000n)
    made.dispatched('openai')
    await made.detach(later)
    await beginWork(url, made.requestId)
    await two.adopt(made.requestId)
    await two.ledger.detached(made.requestId)!.settle(charge(70))
    await two.flush()
    await snapshot.restore(async () => {
      if (first === 'who ended it') proxy.stand()
    })
    const wake = (node: typeof one): Promise<void> =>
      eventually(() =>
        hold(node.ledger, scopes, 1n).then(
          (made) => made.void().then(() => true),
          () => false
        )
      )
    if (first === 'who ended it') {
      await wake(two)
      await eventually(async () => (await ends()).has(made.requestId), 60_000)
    }
    proxy.cut()
    proxy.goOn()
    await wake(one)
    if (first === 'who made it') await wake(two)
    await eventually(async () => {
      const rows = await sql('select from sluice.hold')
      return rows.length === 0 && (await ends()).has(made.requestId)
    }, 60_000)
    // A correction of an estimate comes with the next beat.
    await eventually(async () => {
      const [row] = await sql(
        `select sum(amount)::int as charged from sluice.journal where request_id = '${made.requestId}'`
      )
      return row.charged === 70
    }, 60_000)
    await Promise.all([one, two].map((node) => node.close()))
    t.same(await brokenIn(url), [])
  })
