// Nodes that come and go: others end what was left open, who comes back writes nothing twice, and some holds go on.
import { readdirSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import type { Scope } from '../../../../../../core/catalogue/caller.ts'
import type { BudgetReached, BudgetWatcher } from '../../../../../../core/store/ledger.ts'
import { beginWork, brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import { DatabaseProxy } from '../../../../../kit/database-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../../../kit/postgres.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { noon, scope } from '../../../embedded/sample.ts'
import { charge, correctionsIn, endsIn, hold, refusal, requestFor } from '../oracle.ts'

const key = scope('key', 'laptop', 1000n)
const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), key]
const now = (): number => noon

function test(what: string, run: (t: Test) => Promise<void>): void {
  void t.test(what, { skip: postgresMissing, timeout: 300_000 }, run)
}

test('a node that stands still past its lease is fenced, and nothing happens twice', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const lease = 4000
  const folder = logFolder(t)
  const still = await moneyNode(t, proxy.url(url), 'still', { folder, lease, now })
  const other = await moneyNode(t, url, 'other', { folder: logFolder(t), lease, now })
  const [asked, unasked, ended, detached, late] = await Promise.all(
    Array.from({ length: 5 }, () => hold(still.ledger, scopes, 100n))
  )
  asked!.dispatched('openai')
  ended!.dispatched('openai')
  await Promise.all([asked!.durable, ended!.durable, detached!.detach(noon + 60_000)])
  await beginWork(url, detached!.requestId)

  proxy.stand()
  await ended!.settle(charge(7))
  await eventually(async () => (await endsIn(url)).size === 4, 30_000)
  t.same(
    other.records.map(({ request_id }) => request_id).sort(),
    [asked!, unasked!, ended!, late!].map(({ requestId }) => requestId).sort()
  )
  late!.dispatched('openai')
  const shown = late!.durable
  proxy.goOn()
  await t.rejects(shown, { code: 'billing_unavailable' }, 'nothing is shown that is not charged for')
  await late!.settle(charge(3))
  await asked!.settle(charge(9))
  await eventually(
    () =>
      hold(still.ledger, scopes, 1n).then(
        (one) => one.void().then(() => true),
        () => false
      ),
    20_000
  )
  await unasked!.void()
  await still.ledger.detached(detached!.requestId)!.settle(charge(5))
  await still.flush()
  const ends = await endsIn(url)
  t.same(
    [asked!, unasked!, ended!, detached!].map(({ requestId }) => ends.get(requestId)),
    [['settle 20 recovered'], ['void 0'], ['settle 20 recovered'], ['settle 5 upstream']],
    'each has the end that was first'
  )
  await eventually(async () => Object.keys(await correctionsIn(url)).length === 3, 20_000)
  t.same(
    await correctionsIn(url),
    { [ended!.requestId]: -13, [asked!.requestId]: -11, [late!.requestId]: 3 },
    'and is charged what it came to'
  )
  const { posted } = (await still.ledger.balances({ scope: 'tenant:acme' })).find(({ window }) => window === 'total')!
  t.equal(posted, 7n + 9n + 3n + 5n)
  await eventually(() => readdirSync(folder).length === 0, 20_000)
  t.pass('the log is free again')
  t.same(await brokenIn(url), [])
})

test('a start ends what its node has left open, but for what goes on', async (t) => {
  const url = await moneyBook()
  const folder = logFolder(t)
  const first = await moneyNode(t, url, 'one', { folder, now })
  const [asked, unasked, kept, detached] = await Promise.all(
    Array.from({ length: 4 }, () => hold(first.ledger, scopes, 100n))
  )
  for (const one of [asked!, kept!, detached!]) {
    one.dispatched('openai')
    one.delivered(30)
  }
  await Promise.all([asked!.durable, kept!.durable, detached!.detach(noon + 1000)])
  await first.flush()
  await first.kill()

  const second = await moneyNode(t, url, 'one', {
    folder,
    now,
    kept: [{ requestId: kept!.requestId, part: '', costs: undefined }]
  })
  const ends = await endsIn(url)
  t.same(
    [asked!, unasked!, kept!, detached!].map(({ requestId }) => ends.get(requestId)),
    [['settle 50 recovered'], ['void 0'], undefined, undefined]
  )
  const found = second.ledger.detached(detached!.requestId)!
  t.match(found, { amount: 100n, sent: { delivered: true, usage: { input: 10, output: 30 } } })
  await found.settle(charge(33))
  const goingOn = second.ledger.open.find(({ requestId }) => requestId === kept!.requestId)!
  await goingOn.settle(charge(40))
  await second.flush()
  const after = await endsIn(url)
  t.same(after.get(kept!.requestId), ['settle 40 upstream'])
  t.same(after.get(detached!.requestId), ['settle 33 upstream'])
  t.same(await brokenIn(url), [])
})

test('of two processes with one name only the later goes on', async (t) => {
  const url = await moneyBook()
  const first = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const made = await hold(first.ledger, scopes, 100n)
  const second = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  await t.rejects(made.settle(charge(5)), { code: 'billing_unavailable' })
  const { code } = await refusal(hold(first.ledger, scopes, 100n))
  t.equal(code, 'billing_unavailable')
  t.match(first.trouble, { text: /another process has started as the node one/, refuses: true })
  await (await hold(second.ledger, scopes, 100n)).settle(charge(7))
  t.equal(second.trouble, undefined)
  t.same((await endsIn(url)).get(made.requestId), ['void 0'], 'which has ended what the first had left')
  t.same(await brokenIn(url), [])
})

test('what a process has in its log that was replaced is charged by the next start', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const folder = logFolder(t)
  const first = await moneyNode(t, proxy.url(url), 'one', { folder, now })
  const [shown, sent] = await Promise.all(Array.from({ length: 2 }, () => hold(first.ledger, scopes, 100n)))
  for (const made of [shown!, sent!]) made.dispatched('openai')
  await Promise.all([shown!, sent!].map(({ durable }) => durable))
  await first.flush()
  proxy.stand()
  await shown!.settle(charge(7))
  const second = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  t.equal((await endsIn(url)).size, 2, 'the other process has ended all that it left')
  const refused = sent!.settle(charge(8))
  proxy.goOn()
  await eventually(() => first.trouble?.refuses === true, 60_000)
  await refused.catch(() => {})
  await first.close()
  await second.close()
  t.not(readdirSync(folder).length, 0)
  await (await moneyNode(t, url, 'one', { folder, now })).close()
  t.same(await correctionsIn(url), { [shown!.requestId]: -13, [sent!.requestId]: -12 })
  t.same(readdirSync(folder), [])
  t.same(await brokenIn(url), [])
})

test('work that another node has taken over settles there', async (t) => {
  const url = await moneyBook()
  const one = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const two = await moneyNode(t, url, 'two', { folder: logFolder(t), now })
  const made = await hold(one.ledger, scopes, 100n)
  const mere = await hold(one.ledger, scopes, 100n)
  made.dispatched('openai')
  await made.detach(noon + 60_000)
  await beginWork(url, made.requestId)
  await one.kill()
  t.equal(two.ledger.detached(made.requestId), undefined)
  t.equal(await two.adopt(made.requestId), true)
  t.equal(await two.adopt(mere.requestId), false, 'what is not detached is not adopted')
  await two.ledger.detached(made.requestId)!.settle(charge(60))
  t.equal(two.ledger.detached(made.requestId), undefined)
  t.same((await endsIn(url)).get(made.requestId), ['settle 60 upstream'])
  t.same(await brokenIn(url), [])
})

test('a threshold is told once, whichever nodes charge', async (t) => {
  const url = await moneyBook()
  const told: string[] = []
  const watched: Scope = { kind: 'key', id: 'key:laptop', budgets: [{ limit: 1000n, per: 'month', alerts: [50, 90] }] }
  const rolling: Scope = { kind: 'tenant', id: 'tenant:acme', budgets: [{ limit: 1000n, per: '7d', alerts: [50] }] }
  const watcher = (name: string): BudgetWatcher => ({
    told: () => 0,
    scope: () => undefined,
    reached: ({ scope: id, threshold }: BudgetReached) => told.push(`${id} ${threshold} ${name}`) > 0
  })
  const nodes = await Promise.all(
    ['one', 'two', 'three'].map((name) => moneyNode(t, url, name, { folder: logFolder(t), now }))
  )
  for (const [i, { ledger }] of nodes.entries()) ledger.watch(watcher(String(i)))
  const charged = async (amount: number, held = 100n): Promise<void> => {
    await Promise.all(
      nodes.map(async ({ ledger }) => (await hold(ledger, [rolling, watched], held)).settle(charge(amount)))
    )
  }
  const without = (): string[] => told.map((one) => one.slice(0, -2)).sort()
  await charged(100)
  t.same(told, [])
  await charged(100)
  await eventually(() => told.length >= 2)
  await charged(99)
  t.same(without(), ['key:laptop 50', 'tenant:acme 50'])
  await charged(1, 10n)
  await eventually(() => told.length >= 3)
  t.same(without(), ['key:laptop 50', 'key:laptop 90', 'tenant:acme 50'], 'each once')
})

test('prices and balances of one node are those of all', async (t) => {
  const url = await moneyBook()
  const one = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const price = { version: 'other:1', perMillion: { output: 5_000_000n } }
  const made = await hold(one.ledger, scopes, 600n, { price })
  const two = await moneyNode(t, url, 'two', { folder: logFolder(t), now })
  t.same(two.ledger.price('other:1'), price)
  const { code, details } = await refusal(hold(two.ledger, scopes, 500n))
  t.equal(code, 'quota_key_exceeded')
  t.match(details.reason, { scope: 'key:laptop', pending_nano: '600', left_nano: '400' })
  t.equal((await refusal(two.ledger.look(requestFor(scopes, 500n)))).code, 'quota_key_exceeded')
  await t.rejects(
    hold(two.ledger, scopes, 1n, { price: { ...price, perMillion: { output: 6_000_000n } } }),
    /another version/
  )
  await made.void()
  t.same(await two.ledger.balances({ scope: 'key:laptop' }), [
    { scope: 'key:laptop', window: 'total', limit: 1000n, posted: 0n, pending: 0n }
  ])
  t.equal(await two.ledger.affordable(scopes, noon), 1000n)
})

test('a book that was changed by hand shows it', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  for (let i = 1; i < 5; i++) await (await hold(node.ledger, scopes, 100n)).settle(charge(i))
  const open = await hold(node.ledger, scopes, 100n)
  t.same(await brokenIn(url), [])
  const names = async (): Promise<string[]> => [
    ...new Set((await brokenIn(url)).map((breach) => (breach as { invariant: string }).invariant))
  ]
  await t.rejects(server.sql(`update sluice.journal set amount = 0`, url), /only appended to/)
  for (const table of ['journal', 'journal_2026_11_21'])
    await t.rejects(server.sql(`truncate sluice.${table}`, url), /only appended to/)
  await server.sql(`update sluice.balance set posted = posted + 1 where posted > 0`, url)
  t.same(await names(), ['I1'])
  await server.sql(`update sluice.balance set posted = posted - 1 where posted > 0`, url)
  await server.sql(`update sluice.hold set amount = 99`, url)
  t.same(await names(), ['I2'])
  await server.sql(`update sluice.hold set amount = 100`, url)
  const changed = async (sql: string, back: string): Promise<string[]> => {
    await server.sql(`alter table sluice.journal disable trigger user; ${sql}`, url)
    const found = await names()
    await server.sql(back, url)
    return found
  }
  t.same(
    await changed(
      `alter table sluice.journal_2026_11_21 disable trigger user; update sluice.journal set channel = 'other' where seq = 2`,
      `update sluice.journal set channel = 'openai' where seq = 2`
    ),
    ['I10']
  )
  t.same(await names(), [])
  await server.sql(`delete from sluice.journal where seq = 4`, url)
  t.same((await names()).sort(), ['I1', 'I10'], 'also the last row of a chain')
  await open.void().catch(() => {})
})
