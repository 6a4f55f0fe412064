// Anchors of the journal, which show that the end of a chain was taken away; and what is removed of what is past.
import { chownSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../../../core/store/cluster/database/database.ts'
import { Anchors } from '../../../../../../core/store/cluster/money/journal/anchors.ts'
import { inTurn } from '../../../../../../core/store/cluster/requests/stand-ins.ts'
import { PastWindows } from '../../../../../../core/store/cluster/money/balances/past-windows.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import { postgresMissing, serverUser, sharedPostgres } from '../../../../../kit/postgres.ts'
import { noon, scope } from '../../../embedded/sample.ts'
import { charge, hold } from '../oracle.ts'

const tenant = scope('tenant', 'acme', 1_000_000n, 'month')
const now = (): number => noon

function test(what: string, run: (t: Test) => Promise<void>): void {
  void t.test(what, { skip: postgresMissing, timeout: 300_000 }, run)
}

async function databaseOf(t: Test, url: string): Promise<Database> {
  const database = await Database.open({ url, name: 'test' })
  t.teardown(() => database.close())
  return database
}

test('one node a minute anchors the chains that have grown, and a chain that lost its end shows it', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const sql = (text: string): Promise<any[]> => server.sql(text, url)
  const { changes } = await databaseOf(t, url)
  const anchors = new Anchors(changes)
  const one = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const two = await moneyNode(t, url, 'zwei \u{1F600}', { folder: logFolder(t), now })
  const end = async (node: typeof one): Promise<void> => (await hold(node.ledger, [tenant], 10n)).settle(charge(1))
  await anchors.write(true)
  t.same(await sql('select from sluice.anchor'), [], 'nothing is anchored where there is nothing')
  await Promise.all([end(one), end(two)])
  await anchors.write(true)
  await anchors.write(true)
  await end(one)
  await anchors.write(true)
  const others = [new Anchors(changes), new Anchors(changes)]
  await end(one)
  await Promise.all(others.map((other) => other.write()))
  t.same(
    await sql('select anchor::int, epoch, seq::int, node from sluice.anchor_head order by anchor, node'),
    [
      { anchor: 1, epoch: 1, seq: 1, node: 'one' },
      { anchor: 1, epoch: 1, seq: 1, node: 'zwei \u{1F600}' },
      { anchor: 2, epoch: 1, seq: 2, node: 'one' }
    ],
    'what has grown, and not twice in a minute'
  )
  t.same(await brokenIn(url), [])

  const found = async (): Promise<string[]> =>
    (await brokenIn(url)).map((one) => {
      const { invariant, row, message } = one as Record<'invariant' | 'row' | 'message', string>
      return `${invariant} ${row} ${message}`
    })
  await t.rejects(sql('delete from sluice.anchor'), /only appended to/)
  // Somebody takes the last two rows of a chain away, and makes its head and the balances fit.
  const off = (table: string): string => `alter table sluice.${table} disable trigger user;`
  await sql(`${off('journal')} ${off('journal_2026_11_21')}
    delete from sluice.journal where node = 'one' and seq > 1;
    update sluice.journal_chain c set seq = j.seq, hash = j.hash from sluice.journal j where j.node = 'one' and c.node = 'one';
    update sluice.balance set posted = posted - 2`)
  t.same(await found(), ['I10 journal one 1 2 is not what anchor 2 has, or is missing'])
  await sql(`${off('anchor')} ${off('anchor_head')} update sluice.anchor_head set seq = 1, hash = (
    select hash from sluice.journal where node = 'one') where anchor = 2`)
  t.same(await found(), [
    'I10 anchor 2 is not what was hashed when it was written',
    'I10 journal one 1 1 is behind what anchor 1 or one before has'
  ])
  await sql('delete from sluice.anchor where number = 1; delete from sluice.anchor_head where anchor = 2')
  t.same(
    (await found()).filter((one) => !/not what was hashed/.test(one)),
    [
      'I10 anchor 2 follows anchor 0: anchors between are missing',
      'I10 anchor 2 does not continue the hash of the anchor before'
    ]
  )
})

test('an anchor waits for nobody who writes or corrects records', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  await (await hold(node.ledger, [tenant], 10n)).settle(charge(1))
  const database = await databaseOf(t, url)
  await database.changes.transaction(async (transaction) => {
    await inTurn(transaction, 'corrects')
    await new Anchors(database.changes).write(true)
  })
  t.same(await server.sql('select number::int from sluice.anchor', url), [{ number: 1 }])
})

test('hours that no budget looks at are removed, and the book is whole without them', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const sql = (text: string): Promise<any[]> => server.sql(text, url)
  const rolling = scope('key', 'laptop', 1000n, '366d')
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const time = noon - 500 * 86_400_000
  await (await hold(node.ledger, [tenant, rolling], 10n, { time })).settle(charge(5))
  const open = await hold(node.ledger, [tenant, rolling], 10n, { time: time + 3_600_000 })
  await (await hold(node.ledger, [tenant, rolling], 10n)).settle(charge(7))
  await sql(`with made as (insert into sluice.cell (scope, "window", hour)
      select 'key:laptop', to_char(to_timestamp(hour * 3600) at time zone 'UTC', 'YYYY-MM-DD"T"HH24'), hour
        from generate_series(${Math.floor(noon / 3_600_000) - 10_300}, ${Math.floor(noon / 3_600_000) - 1}) hour returning id)
    insert into sluice.balance (id) select id from made;
    insert into sluice.told values ('key:laptop', 'month', '2026-09', 50, 1000), ('key:laptop', 'month', '2026-11', 50, 1000),
      ('key:laptop', '7d', '7d 2026-09-30', 50, 1000), ('key:laptop', '7d', '7d 2026-10-01', 50, 1000), ('key:laptop', 'total', 'total', 50, 1000)`)
  const { changes } = await databaseOf(t, url)
  const past = new PastWindows(changes, now)
  for (let i = 0; await past.sweep(); i++) if (i > 20) throw new Error('it never ends')
  const hours = await sql(
    `select hour, b.posted::int, b.pending::int from sluice.cell join sluice.balance b using (id)
      where hour is not null and (hour < ${Math.floor(noon / 3_600_000) - 10_271} or b.posted > 0) order by hour`
  )
  t.same(
    hours.map(({ hour, ...row }) => row),
    [
      { posted: 0, pending: 10 },
      { posted: 7, pending: 0 }
    ],
    'an hour that something is held in stays'
  )
  t.same(await sql('select "window" from sluice.told order by 1'), [
    { window: '2026-11' },
    { window: '7d 2026-10-01' },
    { window: 'total' }
  ])
  t.same(await brokenIn(url), [])
  await open.settle(charge(3))
  t.same(await brokenIn(url), [])
  t.equal(await node.ledger.affordable([rolling], noon), 993n)
})

test('a day of the journal that is over may be moved to another disk', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const day = 86_400_000
  const over = await hold(node.ledger, [tenant], 10n, { time: noon - day })
  const late = await hold(node.ledger, [tenant], 10n, { time: noon - day })
  await over.settle(charge(1))
  const disk = join(server.folder, 'disk')
  mkdirSync(disk)
  if (serverUser) chownSync(disk, serverUser.uid, serverUser.gid)
  await server.sql(`create tablespace cheap location '${disk}'`)
  const partition = `journal_${new Date(noon - day).toISOString().slice(0, 10).replaceAll('-', '_')}`
  await server.sql(`alter table sluice.${partition} set tablespace cheap`, url)
  await late.settle(charge(2))
  await (await hold(node.ledger, [tenant], 10n)).settle(charge(3))
  const placed = `select count(*)::int as rows from sluice.${partition}`
  t.same(await server.sql(placed, url), [{ rows: 2 }])
  t.same(await brokenIn(url), [])
})
