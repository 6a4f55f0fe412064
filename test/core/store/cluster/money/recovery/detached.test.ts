// Detached holds whose gateway is killed before the work is written that they are for.
import { readdirSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import { beginWork, brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import { DatabaseProxy } from '../../../../../kit/database-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../../../kit/postgres.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { noon, scope } from '../../../embedded/sample.ts'
import { charge, correctionsIn, endsIn, hold } from '../oracle.ts'

const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), scope('key', 'laptop', 1_000_000n)]
const now = (): number => noon
const later = noon + 172_800_000

function test(what: string, run: (t: Test) => Promise<void>): void {
  void t.test(what, { skip: postgresMissing, timeout: 300_000 }, run)
}

test('of a node that is gone a detached hold without work is ended by estimate, once', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const gone = await moneyNode(t, url, 'gone', { folder: logFolder(t), now })
  const [asked, unasked, going] = await Promise.all(Array.from({ length: 3 }, () => hold(gone.ledger, scopes, 100n)))
  for (const one of [asked!, going!]) one.dispatched('openai')
  await Promise.all([asked!, unasked!, going!].map((one) => one.detach(later)))
  await beginWork(url, going!.requestId)
  await gone.kill()
  const nodes = await Promise.all(
    ['one', 'two'].map((name) => moneyNode(t, url, name, { folder: logFolder(t), lease: 3000, now }))
  )
  await server.sql(`update sluice.node set expires = clock_timestamp() where name = 'gone'`, url)
  await eventually(async () => (await endsIn(url)).size === 2, 60_000)
  t.same(
    nodes.flatMap(({ records }) => records.map(({ request_id }) => request_id)).sort(),
    [asked!.requestId, unasked!.requestId].sort()
  )
  t.equal(await nodes[0]!.adopt(going!.requestId), true, 'what has work waits for whoever takes it over')
  await nodes[0]!.ledger.detached(going!.requestId)!.settle(charge(7))
  const ends = await endsIn(url)
  t.same(
    [asked!, unasked!, going!].map(({ requestId }) => ends.get(requestId)),
    [['settle 20 recovered'], ['void 0'], ['settle 7 upstream']]
  )
  t.same(await brokenIn(url), [])
})

test('what a start finds detached without work is ended by estimate when a lease is over, and what has work is not', async (t) => {
  const url = await moneyBook()
  const folder = logFolder(t)
  const first = await moneyNode(t, url, 'one', { folder, now })
  const [left, going] = await Promise.all([hold(first.ledger, scopes, 100n), hold(first.ledger, scopes, 100n)])
  left.dispatched('openai')
  await Promise.all([left.detach(later), going.detach(later)])
  await beginWork(url, going.requestId)
  await first.kill()
  const again = await moneyNode(t, url, 'one', { folder, lease: 1500, now })
  const own = await hold(again.ledger, scopes, 100n)
  await own.detach(later)
  await beginWork(url, own.requestId)
  await eventually(async () => (await endsIn(url)).has(left.requestId), 60_000)
  t.same((await endsIn(url)).get(left.requestId), ['settle 20 recovered'])
  await again.ledger.detached(going.requestId)!.settle(charge(7))
  await own.settle(charge(8))
  await again.flush()
  t.equal((await endsIn(url)).size, 3)
  t.same(await brokenIn(url), [])
})

test('however late, the hold of open work waits for whoever takes the work over, who knows how far it was', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const gone = await moneyNode(t, url, 'gone', { folder: logFolder(t), now })
  const [asked, left] = await Promise.all([hold(gone.ledger, scopes, 100n), hold(gone.ledger, scopes, 100n)])
  for (const one of [asked, left]) one.dispatched('openai')
  await Promise.all([asked, left].map((one) => one.detach(noon)))
  asked.delivered(30)
  await beginWork(url, asked.requestId)
  await gone.flush()
  await gone.kill()
  const other = await moneyNode(t, url, 'other', { folder: logFolder(t), lease: 3000, now: () => noon + 1 })
  await server.sql(`update sluice.node set expires = clock_timestamp() where name = 'gone'`, url)
  await eventually(async () => (await endsIn(url)).size === 1, 60_000)
  t.equal(await other.adopt(asked.requestId), true)
  const found = other.ledger.detached(asked.requestId)!
  t.match(found.sent, { channel: 'openai', delivered: true, usage: { input: 10, output: 30 } })
  await found.void()
  const ends = await endsIn(url)
  t.same(
    [asked, left].map(({ requestId }) => ends.get(requestId)),
    [['void 0'], ['settle 20 recovered']]
  )
  t.same(await brokenIn(url), [])
})

test('what others have ended is charged what it came to, and what they adopted is theirs', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const time = (): number => noon + 1
  const folder = logFolder(t)
  const still = await moneyNode(t, proxy.url(url), 'still', { folder, lease: 3000, now: time })
  const [going, adopted] = await Promise.all([hold(still.ledger, scopes, 100n), hold(still.ledger, scopes, 100n)])
  for (const one of [going, adopted]) one.dispatched('openai')
  await Promise.all([going.durable, adopted.detach(later)])
  await beginWork(url, adopted.requestId)
  proxy.stand()
  const other = await moneyNode(t, url, 'other', { folder: logFolder(t), lease: 3000, now: time })
  await eventually(async () => (await endsIn(url)).size === 1, 60_000)
  t.equal(await other.adopt(adopted.requestId), true)
  proxy.goOn()
  await eventually(() => still.ledger.detached(adopted.requestId) === undefined, 60_000)
  await Promise.all([going.settle(charge(7)), adopted.settle(charge(8))])
  await eventually(async () => Object.keys(await correctionsIn(url)).length === 1, 60_000)
  t.not(readdirSync(folder).length, 0, 'what others go on with waits for their end')
  await other.ledger.detached(adopted.requestId)!.settle(charge(9))
  await eventually(() => readdirSync(folder).length === 0, 60_000)
  const ends = await endsIn(url)
  t.same(
    [going, adopted].map(({ requestId }) => ends.get(requestId)),
    [['settle 20 recovered'], ['settle 9 upstream']]
  )
  t.same(await correctionsIn(url), { [going.requestId]: -13 })
  t.same(await brokenIn(url), [])
})

test('a hold that another node had meanwhile is this node’s again, and not what it knew of it before', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const [one, two] = await Promise.all(
    ['one', 'two'].map((name) => moneyNode(t, url, name, { folder: logFolder(t), lease: 600_000, now }))
  )
  const [back, fenced, further] = await Promise.all(Array.from({ length: 3 }, () => hold(one!.ledger, scopes, 100n)))
  const all = [back!, fenced!, further!]
  for (const made of all) made.dispatched('openai')
  await Promise.all(all.map((made) => made.detach(later)))
  await beginWork(url, ...all.map(({ requestId }) => requestId))
  const detached = ({ ledger }: typeof one & object, { requestId }: { requestId: string }) => ledger.detached(requestId)
  for (const { requestId } of all) t.equal(await two!.adopt(requestId), true)
  detached(two!, further!)!.delivered(30)
  await two!.flush()

  t.equal(await one!.adopt(back!.requestId), true)
  const again = detached(one!, back!)!
  await back!.settle(charge(3))
  await again.settle(charge(7))
  await one!.flush()
  t.same((await endsIn(url)).get(back!.requestId), ['settle 7 upstream'])

  await server.sql(`update sluice.node set epoch = epoch + 1 where name = 'one'`, url)
  await t.rejects(hold(one!.ledger, scopes, 1n).then(({ durable }) => durable))
  await eventually(() => detached(one!, fenced!) === undefined, 60_000)
  for (const { requestId } of [fenced!, further!]) t.equal(await one!.adopt(requestId), true)
  await detached(one!, fenced!)!.settle(charge(8))
  t.match(detached(one!, further!)!.sent, { delivered: true, usage: { output: 30 } })
  t.equal(await one!.adopt(further!.requestId), true, 'asking again changes nothing')
  t.equal(await two!.adopt(further!.requestId), true)
  await detached(two!, further!)!.settle(charge(9))
  await Promise.all([one!.flush(), two!.flush()])
  const ends = await endsIn(url)
  t.same(
    all.map(({ requestId }) => ends.get(requestId)),
    [['settle 7 upstream'], ['settle 8 upstream'], ['settle 9 upstream']]
  )
  t.same(await correctionsIn(url), {})
  t.same(await brokenIn(url), [])
})

test('what comes back from a node that is gone is ended, also where this node still knew it', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const one = await moneyNode(t, url, 'one', { folder: logFolder(t), lease: 3000, now })
  const made = await hold(one.ledger, scopes, 100n)
  made.dispatched('openai')
  await made.detach(later)
  await beginWork(url, made.requestId)
  const two = await moneyNode(t, url, 'two', { folder: logFolder(t), now })
  t.equal(await two.adopt(made.requestId), true)
  await two.kill()
  await server.sql('delete from sluice.work', url)
  await server.sql(`update sluice.node set expires = clock_timestamp() where name = 'two'`, url)
  await eventually(async () => (await endsIn(url)).size === 1, 60_000)
  t.same((await endsIn(url)).get(made.requestId), ['settle 20 recovered'])
  t.same(await brokenIn(url), [])
})
