// Records of requests whose holds are not in the database yet, or never come there.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { Logbook } from '../../../../core/store/cluster/requests/logbook.ts'
import type { Reservation } from '../../../../core/store/ledger.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../kit/cluster-money.ts'
import type { MoneyNode } from '../../../kit/cluster-money.ts'
import { DatabaseProxy } from '../../../kit/database-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'
import { noon, record, scope, used } from '../embedded/sample.ts'
import { charge, hold } from './money/oracle.ts'

const scopes = [scope('tenant', 'acme')]
const now = (): number => noon
const bounds = { age: 60 * 86_400_000, size: 2 ** 40 }

/** A node whose money goes another way to the database than its records. */
interface Parted {
  readonly node: MoneyNode
  readonly proxy: DatabaseProxy
  sql(query: string): Promise<any[]>
  append(one: Reservation, cost: number): void
  /** Joins as another node, which ends what others leave and writes its records. */
  other(): Promise<MoneyNode>
  /** What the records say that are written: costs and tokens. */
  written(): Promise<unknown[]>
  broken(): Promise<readonly unknown[]>
  close(): Promise<void>
}

async function parted(t: Test): Promise<Parted> {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const database = await Database.open({ url, name: 'log' })
  const log = new Logbook(database, bounds, now)
  t.teardown(() => log.close().then(() => database.close()))
  const uncharged = log.uncharged.bind(log)
  const corrected = log.corrected.bind(log)
  const node = await moneyNode(t, proxy.url(url), 'one', { folder: logFolder(t), now, uncharged, corrected })
  log.follows = () => node.ledger.decided()
  // The balances are known then, so what follows is admitted in memory.
  await (await hold(node.ledger, scopes, 10n)).settle(charge(1))
  await node.flush()
  const sql = (query: string): Promise<any[]> => server.sql(query, url)
  return {
    node,
    proxy,
    sql,
    append: ({ requestId }, cost) =>
      log.append(
        record({
          request_id: requestId,
          time: new Date(noon).toISOString(),
          tenant: 'acme',
          reserved_nano: '10',
          usage: used(cost),
          usage_source: 'upstream',
          cost_nano: String(cost),
          cost_usd: `0.00000000${cost}`
        })
      ),
    async other() {
      const requests = new Logbook(database, bounds, now)
      const corrected = requests.corrected.bind(requests)
      t.teardown(() => requests.close())
      return moneyNode(t, url, 'other', { folder: logFolder(t), now, lease: 3000, requests, corrected })
    },
    written: async () =>
      (await sql('select json from sluice.request order by request_id')).map(({ json }) => {
        const { cost_nano: cost, cost_usd: dollars, usage, usage_source: source } = JSON.parse(json)
        return [cost, dollars, usage?.output ?? null, source]
      }),
    broken: () => brokenIn(url),
    async close() {
      await log.close()
      await node.close()
    }
  }
}

function test(what: string, run: (t: Test) => Promise<void>): void {
  void t.test(what, { skip: postgresMissing, timeout: 300_000 }, run)
}

test('a record is not written before the database has the hold of its request', async (t) => {
  const { node, proxy, append, written, close } = await parted(t)
  proxy.stand()
  const one = await hold(node.ledger, scopes, 10n)
  const settled = one.settle(charge(5))
  append(one, 5)
  await sleep(1000)
  t.same(await written(), [], 'if the gateway were killed now, nobody would know that it was not charged')
  proxy.goOn()
  await settled
  await eventually(async () => (await written()).length > 0)
  t.same(await written(), [['5', '0.000000005', 5, 'upstream']])
  await close()
})

test('a record says nothing of a charge whose hold never came into the database', async (t) => {
  const { node, proxy, sql, append, written, broken, close } = await parted(t)
  const session = await hold(node.ledger, scopes, 0n)
  const turn = await hold(node.ledger, scopes, 10n, { requestId: session.requestId, part: 'turn 1' })
  await turn.settle(charge(3))
  await node.flush()
  proxy.stand()
  const lost = await hold(node.ledger, scopes, 10n)
  const turnLost = await hold(node.ledger, scopes, 10n, { requestId: session.requestId, part: 'turn 2' })
  const shown = lost.durable
  const ends = [lost.settle(charge(5)), turnLost.settle(charge(4))]
  await Promise.all([session.void(), rejoin()])
  for (const one of [shown, ...ends]) await t.rejects(one, { code: 'billing_unavailable' })

  async function rejoin(): Promise<void> {
    append(lost, 5)
    append(session, 7)
    // As others do that have not heard of it for its lease.
    await sql('update sluice.node set epoch = epoch + 1')
    proxy.goOn()
  }
  await eventually(async () => (await written()).length === 2)
  t.same(
    new Set(await written()),
    new Set([
      ['0', '0', null, null],
      ['3', '0.000000003', 3, 'upstream']
    ])
  )
  await node.flush()
  t.same(await broken(), [])
  await close()
})

test('what others have ended is charged what it came to, though its node never heard that the database had it', async (t) => {
  const { node, proxy, sql, append, other, written, broken, close } = await parted(t)
  const ending = await other()
  proxy.loses = (sent) => sent.includes('money_batch')
  const one = await hold(node.ledger, scopes, 10n)
  one.dispatched('openai')
  const shown = one.durable
  await eventually(async () => (await sql('select from sluice.hold')).length === 1)
  const end = one.settle(charge(5))
  append(one, 5)
  proxy.stand()
  await sql(`update sluice.node set expires = clock_timestamp() where name = 'one'`)
  await eventually(async () => (await sql('select from sluice.hold')).length === 0, 30_000)
  await eventually(async () => (await written()).length === 1)
  proxy.loses = () => false
  proxy.goOn()
  await Promise.all([shown, end])
  await eventually(async () => (await sql(`select from sluice.journal where kind = 'adjust'`)).length === 1, 30_000)
  t.same(
    await sql(`select kind, amount::int from sluice.journal where request_id = '${one.requestId}' order by kind`),
    [
      { kind: 'adjust', amount: -15 },
      { kind: 'settle', amount: 20 }
    ]
  )
  await node.flush()
  await ending.flush()
  await close()
  t.same(
    (await written()).map((record) => (record as unknown[])[0]),
    ['5'],
    'and its record says so'
  )
  t.same(await broken(), [])
})
