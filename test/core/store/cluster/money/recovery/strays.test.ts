// Holds of a node that its memory lost or never had, and what its log and its clock make of those that it finds.
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../../../core/store/cluster/database/database.ts'
import { Logbook } from '../../../../../../core/store/cluster/requests/logbook.ts'
import { SpendBook } from '../../../../../../core/store/cluster/spend/spend-book.ts'
import type { SpendSum } from '../../../../../../core/store/spend.ts'
import type { Logger } from '../../../../../../core/telling/log.ts'
import { silentLog } from '../../../../../../core/telling/log.ts'
import { beginWork, brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import { DatabaseProxy } from '../../../../../kit/database-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../../../kit/postgres.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { noon, price, scope, used } from '../../../embedded/sample.ts'
import { charge, correctionsIn, endsIn, hold } from '../oracle.ts'

const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), scope('key', 'laptop', 1_000_000n)]
const now = (): number => noon

function test(what: string, run: (t: Test) => Promise<void>): void {
  void t.test(what, { skip: postgresMissing, timeout: 300_000 }, run)
}

test('holds that a node has without knowing it are ended, and adopted ones gone on with', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const gone = await moneyNode(t, url, 'gone', { folder: logFolder(t), now })
  const [asked, detached] = await Promise.all([hold(gone.ledger, scopes, 100n), hold(gone.ledger, scopes, 100n)])
  asked.dispatched('openai')
  await Promise.all([asked.durable, detached.detach(noon + 60_000)])
  await beginWork(url, detached.requestId)
  await gone.kill()
  const node = await moneyNode(t, proxy.url(url), 'one', { folder: logFolder(t), lease: 3000, now })
  let losing = true
  proxy.loses = (sent) =>
    losing && ['money_adopt', 'money_take_over'].some((one) => sent.includes(one)) && proxy.lost < 2
  await t.rejects(node.adopt(detached.requestId))
  await server.sql(`update sluice.node set expires = clock_timestamp() where name = 'gone'`, url)
  await eventually(async () => (await endsIn(url)).has(asked.requestId), 60_000)
  losing = false
  t.equal(proxy.lost, 2, 'both answers were lost')
  t.same((await endsIn(url)).get(asked.requestId), ['settle 20 recovered'])
  await eventually(() => node.ledger.detached(detached.requestId) !== undefined, 30_000)
  await node.ledger.detached(detached.requestId)!.settle(charge(7))
  t.same((await endsIn(url)).get(detached.requestId), ['settle 7 upstream'])
  t.same(await brokenIn(url), [])
})

test('who was fenced adopts nothing', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const one = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const two = await moneyNode(t, url, 'two', { folder: logFolder(t), now })
  const made = await hold(one.ledger, scopes, 100n)
  await made.detach(noon + 60_000)
  await server.sql(`update sluice.node set epoch = epoch + 1, batch = 0 where name = 'two'`, url)
  await t.rejects(two.adopt(made.requestId), { code: 'SL001' })
  t.same(await server.sql('select node from sluice.hold', url), [{ node: 'one' }])
  await made.void()
})

test('what a log has that was freed too late turns no progress back', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const folder = logFolder(t)
  const node = await moneyNode(t, proxy.url(url), 'one', { folder, now })
  const made = await hold(node.ledger, scopes, 1000n)
  proxy.stand()
  made.dispatched('openai')
  made.delivered(30)
  await made.durable
  const copy = mkdtempSync(join(tmpdir(), 'sluice-copy-'))
  t.teardown(() => rmSync(copy, { recursive: true }))
  cpSync(folder, copy, { recursive: true })
  t.equal(readdirSync(copy).length, 2, 'progress is in the log')
  proxy.goOn()
  await node.flush()
  await eventually(() => readdirSync(folder).length === 0, 20_000)
  t.pass('which goes when the database has it')
  made.delivered(500)
  await eventually(async () => {
    const [row] = await server.sql('select delivered::int from sluice.hold', url)
    return row.delivered === 500
  }, 20_000)
  await node.kill()
  cpSync(copy, folder, { recursive: true })
  await moneyNode(t, url, 'one', { folder, now })
  t.same((await endsIn(url)).get(made.requestId), ['settle 520 recovered'])
  t.same(readdirSync(folder), [])
  t.same(await brokenIn(url), [])
})

test('a clock that is wrong ends no detached hold before its time', async (t) => {
  const url = await moneyBook()
  const folder = logFolder(t)
  const time = Date.now()
  const node = await moneyNode(t, url, 'one', { folder })
  const made = await hold(node.ledger, scopes, 100n, { time })
  await made.detach(time + 3_600_000)
  await node.close()
  const right = Date.now
  t.teardown(() => (Date.now = right))
  Date.now = () => right() + 7_200_000
  const again = await moneyNode(t, url, 'one', { folder })
  t.match(again.trouble, { text: /differs from that of the database by 7\d+ s/, refuses: true })
  Date.now = right
  t.same(await endsIn(url), new Map())
  await again.ledger.detached(made.requestId)!.settle(charge(5))
  t.same((await endsIn(url)).get(made.requestId), ['settle 5 upstream'])
})

test('a correction is in the record of its request though its node was killed before it could tell', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const folder = logFolder(t)
  const node = await moneyNode(t, proxy.url(url), 'one', { folder, now })
  const made = await hold(node.ledger, scopes, 100n)
  made.dispatched('openai')
  await made.durable
  await node.flush()
  proxy.stand()
  await made.settle(charge(500))
  proxy.cut()
  await node.kill()
  proxy.goOn()
  const database = await Database.open({ url, name: 'log' })
  const requests = new Logbook(database, { age: 86_400_000, size: 2 ** 40 }, now)
  t.teardown(() => requests.close().then(() => database.close()))
  const spend = new SpendBook(database, now)
  const costOf = async (): Promise<string> => (await requests.find(made.requestId))!.record.cost_nano
  await (await moneyNode(t, url, 'one', { folder: logFolder(t), now, requests })).close()
  await requests.idle()
  // Nobody is told of the correction.
  const again = await moneyNode(t, url, 'one', { folder, now, requests })
  await again.flush()
  await eventually(() => readdirSync(folder).length === 0, 20_000)
  await again.close()
  t.equal(await costOf(), '20')
  const page = await spend.query({ by: [], equal: {}, limit: 1 })
  t.match(page.sums, [{ requests: 1, charge: 500n }])
  t.equal(await costOf(), '500')
  const [point] = await requests.traffic({ span: 'hour', from: 0, to: 1e7, every: 1e7 })
  t.match(point!.sums, { requests: 1, output: 500, cost: '500' })
})

test('an end that comes too late from a log corrects the estimate, once, with its record and the sums', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const folder = logFolder(t)
  const node = await moneyNode(t, proxy.url(url), 'one', { folder, now })
  const made = await Promise.all(Array.from({ length: 3 }, () => hold(node.ledger, scopes, 100n)))
  const [asked, unasked, same] = made
  asked!.dispatched('openai')
  await asked!.durable
  await node.flush()
  proxy.stand()
  unasked!.dispatched('openai')
  await Promise.all([asked!.settle(charge(500)), unasked!.settle(charge(7)), same!.void()])
  proxy.cut()
  await node.kill()
  proxy.goOn()
  const copy = mkdtempSync(join(tmpdir(), 'sluice-copy-'))
  t.teardown(() => rmSync(copy, { recursive: true }))
  cpSync(folder, copy, { recursive: true })
  const database = await Database.open({ url, name: 'log' })
  const requests = new Logbook(database, { age: 86_400_000, size: 2 ** 40 }, now)
  t.teardown(() => requests.close().then(() => database.close()))
  const spend = new SpendBook(database)
  const spent = async (): Promise<SpendSum> => (await spend.query({ by: [], equal: {}, limit: 1 })).sums[0]!
  const other = await moneyNode(t, url, 'one', { folder: logFolder(t), now, requests })
  await other.close()
  await requests.idle()
  t.match((await requests.find(asked!.requestId))!.record, { cost_nano: '20', usage: { input: 10, output: 0 } })
  t.match(await spent(), { requests: 3, charge: 20n, usage: { input: 10, output: 0 } })
  const told: unknown[] = []
  const log: Logger = {
    ...silentLog,
    warn: (message, fields) => void told.push([message, fields?.['charged_nano'], fields?.['would_be_nano']]),
    child: () => log
  }
  for (let start = 0; start < 2; start++) {
    const corrected = (id: string): void => requests.corrected(id)
    const again = await moneyNode(t, url, 'one', { folder, now, log, requests, corrected })
    await again.flush()
    await eventually(() => readdirSync(folder).length === 0, 20_000)
    await again.close()
    await requests.idle()
    for (const [one, amount] of [
      [asked, 500],
      [unasked, 7]
    ] as const)
      t.match((await requests.find(one!.requestId))!.record, {
        status: 500,
        cost_nano: String(amount),
        usage: used(amount),
        usage_source: 'upstream',
        price_version: price.version
      })
    t.match((await requests.find(same!.requestId))!.record, { cost_nano: '0', usage: null })
    t.match(await spent(), { requests: 3, charge: 507n, usage: used(507) })
    const [point] = await requests.traffic({ span: 'hour', from: 0, to: 1e7, every: 1e7 })
    t.match(point!.sums, { requests: 3, input: 0, output: 507, cost: '507' })
    cpSync(copy, folder, { recursive: true })
  }
  t.same(
    told.filter((one) => String(one).includes('corrected')).map((one) => (one as unknown[]).slice(1)),
    [
      ['20', '500'],
      ['0', '7']
    ]
  )
  const ends = await endsIn(url)
  t.same(
    made.map(({ requestId }) => ends.get(requestId)),
    [['settle 20 recovered'], ['void 0'], ['void 0']]
  )
  t.same(await correctionsIn(url), { [asked!.requestId]: 480, [unasked!.requestId]: 7 })
  t.same(await server.sql('select distinct posted::int from sluice.balance where posted <> 0', url), [{ posted: 507 }])
  t.same(await brokenIn(url), [])
})
