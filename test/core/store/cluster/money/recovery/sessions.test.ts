// Sessions that a node has left open: the record of each says what all of its turns were charged, whoever ended them,
// in whatever order, and on whatever day.
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../../../core/store/cluster/database/database.ts'
import { Logbook } from '../../../../../../core/store/cluster/requests/logbook.ts'
import type { RequestRecord } from '../../../../../../core/store/requests.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import type { MoneyNode } from '../../../../../kit/cluster-money.ts'
import { postgresMissing, sharedPostgres } from '../../../../../kit/postgres.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { noon, scope } from '../../../embedded/sample.ts'
import { charge, hold } from '../oracle.ts'

t.setTimeout(600_000)

const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), scope('key', 'laptop', 1_000_000n)]
const now = (): number => noon
const day = 86_400_000
/** The end of a session that has begun on the day before, with turns that cost 9 and 7, and 20 by estimate. */
const whole = { cost_nano: '36', usage: { input: 10, output: 16 }, usage_source: 'recovered', recovered: true }

function test(what: string, run: (t: Test) => Promise<void>): void {
  void t.test(what, { skip: postgresMissing, timeout: 300_000 }, run)
}

interface Book {
  url: string
  requests: Logbook
  /** Another node, which ends what others have left and has the request log. */
  begin: (node: string) => Promise<MoneyNode>
  /** Says that a node is gone. */
  gone: (node: string) => Promise<void>
  recordOf: (requestId: string) => Promise<RequestRecord | undefined>
}

async function book(t: Test): Promise<Book> {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const database = await Database.open({ url, name: 'log' })
  const requests = new Logbook(database, { age: 30 * day, size: 2 ** 40 }, now)
  t.teardown(() => requests.close().then(() => database.close()))
  return {
    url,
    requests,
    begin: (node) =>
      moneyNode(t, url, node, {
        folder: logFolder(t),
        lease: 3000,
        now,
        requests,
        corrected: (id) => requests.corrected(id)
      }),
    gone: async (node) =>
      void (await server.sql(`update sluice.node set expires = clock_timestamp() where name = '${node}'`, url)),
    recordOf: async (requestId) => (await requests.find(requestId))?.record
  }
}

/** A session of which a turn has ended on the day before, one on this day, and one goes on. Its node is killed. */
async function left(t: Test, { url }: Book, node: string): Promise<string> {
  const { ledger, flush, kill } = await moneyNode(t, url, node, { folder: logFolder(t), now })
  const { requestId } = await hold(ledger, scopes, 0n, { time: noon - day, streamed: true })
  const [first, second, open] = await Promise.all(
    [noon - day + 1, noon - 1, noon].map((time, turn) =>
      hold(ledger, scopes, 100n, { requestId, part: `turn ${turn + 1}`, time })
    )
  )
  for (const turn of [first!, second!, open!]) turn.dispatched('openai')
  await Promise.all([first!.settle(charge(9)), second!.settle(charge(7)), open!.durable])
  await flush()
  await kill()
  return requestId
}

test('the record has the turns that were charged before, also on other days, and the estimate', async (t) => {
  const all = await book(t)
  const requestId = await left(t, all, 'gone')
  await all.begin('other')
  await all.gone('gone')
  await eventually(async () => (await all.recordOf(requestId)) !== undefined, 60_000)
  await eventually(async () => (await all.recordOf(requestId))!.cost_nano !== '0', 20_000)
  t.match(await all.recordOf(requestId), whole)
  t.same(await brokenIn(all.url), [])
})

test('a turn that is ended behind the record of its session is in it', async (t) => {
  const server = await sharedPostgres()
  const all = await book(t)
  const requestId = await left(t, all, 'gone')
  // Another node that ends some of it, and is slower.
  await (await all.begin('slow')).kill()
  await server.sql(`update sluice.node set expires = clock_timestamp() + interval '1 h' where name = 'slow'`, all.url)
  await server.sql(`update sluice.hold set node = 'slow' where part <> ''`, all.url)
  await all.begin('other')
  await all.gone('gone')
  await eventually(async () => (await all.recordOf(requestId))?.cost_nano === '16', 60_000)
  await all.gone('slow')
  await eventually(async () => (await all.recordOf(requestId))?.cost_nano === '36', 60_000)
  t.match(await all.recordOf(requestId), whole)
  const [point] = await all.requests.traffic({ span: 'hour', from: 0, to: 1e7, every: 1e7 })
  t.match(point!.sums, { requests: 1, input: 10, output: 16, cost: '36' })
  t.same(await brokenIn(all.url), [])
})

test('a turn whose own end comes too late is corrected in the record of its session', async (t) => {
  const all = await book(t)
  const node = await all.begin('slow')
  const { ledger } = node
  const session = await hold(ledger, scopes, 0n, { time: noon - day })
  const { requestId } = session
  const turn = await hold(ledger, scopes, 100n, { requestId, part: 'turn 1' })
  turn.dispatched('openai')
  await turn.durable
  await node.flush()
  const server = await sharedPostgres()
  // Another node takes it for gone, between two of its batches.
  await server.sql(
    `update sluice.node set expires = clock_timestamp() - interval '1 s', epoch = epoch + 1 where name = 'slow'`,
    all.url
  )
  await server.sql(
    `insert into sluice.node (name, start, epoch, joined, batch, expires)
    values ('taker', 'taker', 1, 1, 0, clock_timestamp())`,
    all.url
  )
  await server.sql(`update sluice.hold set node = 'taker'`, all.url)
  await all.begin('taker')
  await eventually(async () => (await all.recordOf(requestId))?.cost_nano === '20', 60_000)
  await Promise.all([turn.settle(charge(7)), session.void()])
  await node.flush()
  await eventually(async () => (await all.recordOf(requestId))?.cost_nano === '7', 60_000)
  t.match(await all.recordOf(requestId), { cost_nano: '7', usage: { input: 0, output: 7 }, usage_source: 'upstream' })
  t.same(await brokenIn(all.url), [])
})
