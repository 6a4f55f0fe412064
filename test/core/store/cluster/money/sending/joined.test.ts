// Holds that slices have admitted and that end before they leave: they are written with their ends, and are never open.
import t from 'tap'
import type { Test } from 'tap'
import type { Reservation } from '../../../../../../core/store/ledger.ts'
import { usualSizing } from '../../../../../../core/store/cluster/money/slices/slice.ts'
import { Hold } from '../../../../../../core/store/embedded/balance/hold.ts'
import { chance } from '../../../../../kit/chance.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import type { MoneyNode } from '../../../../../kit/cluster-money.ts'
import { DatabaseProxy } from '../../../../../kit/database-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../../../kit/postgres.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { noon, scope } from '../../../embedded/sample.ts'
import { charge, correctionsIn, endsIn, hold, requestFor } from '../oracle.ts'

const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop', 10n ** 12n)]
const now = (): number => noon
/** On a busy machine two requests are seconds apart. */
const patient = { lease: 120_000, sizing: { ...usualSizing, idle: 120_000 } }

function test(what: string, run: (t: Test) => Promise<void>): void {
  void t.test(what, { skip: postgresMissing, timeout: 300_000 }, run)
}

interface Setting {
  readonly url: string
  readonly proxy: DatabaseProxy
  readonly node: MoneyNode
  readonly folder: string
  sql(query: string): Promise<any[]>
}

async function setting(t: Test): Promise<Setting> {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const folder = logFolder(t)
  const node = await moneyNode(t, proxy.url(url), 'one', { folder, now, ...patient })
  return { url, proxy, node, folder, sql: (query) => server.sql(query, url) }
}

/** Holds an amount in memory: slices are asked for until they carry it. */
async function early({ ledger }: MoneyNode, requestId?: string): Promise<Reservation> {
  for (;;) {
    const made = ledger.reserve(requestFor(scopes, 100n, requestId === undefined ? {} : { requestId }))
    if (made instanceof Hold) return made
    await (await made).void()
  }
}

test('a hold that ends before anybody waits for it is one batch with its end', async (t) => {
  const { url, proxy, node, sql } = await setting(t)
  await (await early(node)).void()
  const made = await early(node)
  let batches = 0
  proxy.keeps = (sent) => {
    if (sent.includes(made.requestId)) batches++
    return false
  }
  made.dispatched('openai')
  const ended = made.settle(charge(7))
  const open = await early(node)
  await ended
  t.equal(batches, 1)
  await open.durable
  t.same((await endsIn(url)).get(made.requestId), ['settle 7 upstream'])
  t.same(
    await sql('select request_id from sluice.hold'),
    [{ request_id: open.requestId }],
    'one that has not ended is open'
  )
  const [tenant] = await sql(`select posted::int, pending::int from sluice.balance b join sluice.cell c using (id)
    where c.scope = 'tenant:acme' and c."window" = 'total'`)
  t.same(tenant, { posted: 7, pending: 100 })
  t.same(await brokenIn(url), [])
  await open.settle(charge(3))
  const given = await early(node)
  await given.void()
  t.same((await endsIn(url)).get(given.requestId), ['void 0'])
  t.same(await brokenIn(url), [])
})

test('one that nobody waits for and that does not end is written within moments', async (t) => {
  const { node, sql } = await setting(t)
  const { requestId } = await early(node)
  await eventually(async () => (await sql(`select from sluice.hold where request_id = '${requestId}'`)).length === 1)
})

test('answers that are lost change nothing twice', async (t) => {
  const { url, proxy, node } = await setting(t)
  const { below } = chance(17)
  const expected = new Map<string, string[]>()
  await (await early(node)).void()
  await node.flush()
  for (const [id, ends] of await endsIn(url)) expected.set(id, ends)
  proxy.loses = (sent) => sent.includes('money_batch') && below(3) === 0
  for (let round = 0; round < 12 || proxy.lost < 3; round++) {
    const asked = await Promise.all(Array.from({ length: 10 }, () => hold(node.ledger, scopes, 100n)))
    await Promise.all(
      asked.map((one, i) => {
        expected.set(one.requestId, [`settle ${i} upstream`])
        return one.settle(charge(i))
      })
    )
  }
  proxy.loses = () => false
  await node.flush()
  t.same(await endsIn(url), expected)
  t.same(await brokenIn(url), [])
})

test('one whose name is taken is not charged, and its answer is not shown; all others are', async (t) => {
  const { url, node } = await setting(t)
  const other = await moneyNode(t, url, 'two', { folder: logFolder(t), now })
  const taken = await hold(other.ledger, scopes, 100n)
  await taken.durable
  const [first, second, third] = [await early(node), await early(node, taken.requestId), await early(node)]
  const ends = [first, second, third].map((one, i) => one.settle(charge(i + 1)))
  await t.rejects(ends[1]!, { code: 'billing_unavailable' })
  await Promise.all([ends[0], ends[2]])
  const found = await endsIn(url)
  t.same(
    [first, second, third].map(({ requestId }) => found.get(requestId)),
    [['settle 1 upstream'], undefined, ['settle 3 upstream']]
  )
  await taken.settle(charge(9))
  t.same((await endsIn(url)).get(taken.requestId), ['settle 9 upstream'])
  t.same(await brokenIn(url), [])
})

test('where the database refuses an end its hold stays held, and all others are written', async (t) => {
  const { url, node, sql } = await setting(t)
  const made = [await early(node), await early(node), await early(node)]
  // PostgreSQL stores no text with this.
  await Promise.all(made.map((one, i) => one.settle(i === 1 ? { ...charge(5), channel: 'a\0b' } : charge(5))))
  const wrong = made[1]!.requestId
  // On a busy machine its end is in the log of the node before it is refused.
  await eventually(() => node.trouble !== undefined, 60_000)
  t.match(node.trouble, { text: new RegExp(`refuses the end of the request ${wrong}: .* kept in`), refuses: false })
  await node.flush()
  t.same(await sql('select request_id from sluice.hold'), [{ request_id: wrong }])
  const ends = await endsIn(url)
  t.same(
    made.map(({ requestId }) => ends.get(requestId)),
    [['settle 5 upstream'], undefined, ['settle 5 upstream']]
  )
  t.same(await brokenIn(url), [])
})

/** Does what others do that take the node for gone. */
const fence = `update sluice.node set epoch = epoch + 1; select sluice.slices_back_1('one')`

test('a node that was fenced finds what it has written by then, and does not write it again', async (t) => {
  const { url, proxy, node, sql } = await setting(t)
  const made = await early(node)
  proxy.keeps = (sent) => sent.includes('money_batch')
  const end = made.settle(charge(7))
  await eventually(async () => (await endsIn(url)).has(made.requestId))
  await sql(fence)
  proxy.keeps = () => false
  proxy.cut()
  await end
  t.same((await endsIn(url)).get(made.requestId), ['settle 7 upstream'])
  const next = await early(node)
  await next.settle(charge(2))
  t.same((await endsIn(url)).get(next.requestId), ['settle 2 upstream'])
  t.same(await brokenIn(url), [])
})

test('a node that was fenced shows nothing of what it has not written by then', async (t) => {
  const { url, proxy, node, sql } = await setting(t)
  const made = await early(node)
  proxy.stand()
  const end = made.settle(charge(7))
  await sql(fence)
  proxy.cut()
  proxy.goOn()
  await t.rejects(end, { code: 'billing_unavailable' })
  const next = await early(node)
  await next.settle(charge(2))
  const ends = await endsIn(url)
  t.same([ends.get(made.requestId), ends.get(next.requestId)], [undefined, ['settle 2 upstream']])
  t.same(await brokenIn(url), [])
})

for (const settled of ['before it knows', 'when it knows'] as const)
  test(`a hold whose answer was lost and that others have ended is corrected, where it ends ${settled}`, async (t) => {
    const { url, proxy, node, sql } = await setting(t)
    const made = await early(node)
    proxy.keeps = (sent) => sent.includes('money_batch')
    const shown = made.durable
    await eventually(async () => (await sql('select from sluice.hold')).length === 1)
    // Its lease is over for another node, which ends the hold.
    await sql(`update sluice.node set expires = '-infinity' where name = 'one'`)
    await moneyNode(t, url, 'two', { folder: logFolder(t), now, lease: 1500 })
    await eventually(async () => (await endsIn(url)).has(made.requestId))
    made.dispatched('openai')
    const before = settled === 'before it knows' ? made.settle(charge(7)) : undefined
    proxy.keeps = () => false
    proxy.cut()
    if (before) await before
    else {
      await shown.catch(() => {})
      await hold(node.ledger, scopes, 100n).then((next) => next.void())
      await made.settle(charge(7))
    }
    await node.flush()
    await node.close()
    t.same((await endsIn(url)).get(made.requestId), ['void 0'])
    t.same(await correctionsIn(url), { [made.requestId]: 7 })
    t.same(await brokenIn(url), [])
  })

test('of a process that was replaced what another one has found of it is charged by the next start', async (t) => {
  const { url, proxy, node, folder } = await setting(t)
  const made = await early(node)
  made.dispatched('openai')
  proxy.keeps = (sent) => sent.includes('money_batch')
  const shown = made.durable
  await eventually(async () => (await (await sharedPostgres()).sql('select 1 from sluice.hold', url)).length === 1)
  const other = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  await other.close()
  t.same((await endsIn(url)).get(made.requestId), ['settle 20 recovered'])
  proxy.keeps = () => false
  proxy.cut()
  await t.rejects(shown, { code: 'billing_unavailable' })
  await eventually(() => node.trouble?.refuses === true, 60_000)
  await made.settle(charge(7)).catch(() => {})
  await node.close()
  await (await moneyNode(t, url, 'one', { folder, now })).close()
  t.same(await correctionsIn(url), { [made.requestId]: -13 })
  t.same(await brokenIn(url), [])
})

test('of a process that was replaced what was under way and never came is charged by the next start', async (t) => {
  const { url, proxy, node, folder } = await setting(t)
  const made = await early(node)
  made.dispatched('openai')
  proxy.stand()
  const shown = made.durable
  const other = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  await other.close()
  proxy.cut()
  proxy.goOn()
  await t.rejects(shown, { code: 'billing_unavailable' })
  await eventually(() => node.trouble?.refuses === true, 60_000)
  await made.settle(charge(7))
  await node.close()
  await (await moneyNode(t, url, 'one', { folder, now })).close()
  t.same((await endsIn(url)).get(made.requestId), ['settle 7 upstream'], 'it was shown')
  t.same(await brokenIn(url), [])
})
