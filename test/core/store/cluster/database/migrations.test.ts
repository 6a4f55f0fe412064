// Changes of the schema: each runs once however many programs start, and what is newer is refused in clear words.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { readAddress } from '../../../../../core/store/cluster/database/address.ts'
import { Database } from '../../../../../core/store/cluster/database/database.ts'
import { Lane } from '../../../../../core/store/cluster/database/lane.ts'
import { locks } from '../../../../../core/store/cluster/database/locks.ts'
import { checkProgram, migrate, readMigrations } from '../../../../../core/store/cluster/database/migrations.ts'
import type { Migration } from '../../../../../core/store/cluster/database/migrations.ts'
import { openMoney } from '../../../../../core/store/cluster/money/money.ts'
import { Presence } from '../../../../../core/store/cluster/presence.ts'
import { LedgerBook } from '../../../../../core/store/cluster/ledger-book.ts'
import { brokenIn } from '../../../../kit/cluster-money.ts'
import { postgresMissing, sharedPostgres } from '../../../../kit/postgres.ts'
import { eventually } from '../../../../kit/probe.ts'
import { scope } from '../../embedded/sample.ts'
import { charge, endsIn, hold } from '../money/oracle.ts'

const change = (number: number, sql: string, minProgram = 0): Migration => ({
  number,
  name: `n${number}`,
  sql,
  minProgram
})
const first = change(1, 'create table sluice.thing (id int); insert into sluice.thing values (1)')
const second = change(2, 'insert into sluice.thing values (2)')

async function emptyLane(t: Test): Promise<{ lane: Lane; url: string }> {
  const url = await (await sharedPostgres()).database()
  const lane = new Lane(readAddress(url), 'test', 5)
  t.teardown(() => lane.close())
  return { lane, url }
}

t.test('each change runs once, in order, whoever starts at the same time', { skip: postgresMissing }, async (t) => {
  const { lane } = await emptyLane(t)
  await Promise.all(Array.from({ length: 5 }, () => migrate(lane, [first, second])))
  await migrate(lane, [first, second, change(4, 'insert into sluice.thing values (4)')])
  t.same((await lane.query('select id from sluice.thing order by id')).rows, [{ id: 1 }, { id: 2 }, { id: 4 }])
})

t.test('a change that fails leaves nothing, and those before it stay', { skip: postgresMissing }, async (t) => {
  const { lane } = await emptyLane(t)
  const broken = change(2, 'insert into sluice.thing values (2); insert into sluice.nowhere values (1)')
  await t.rejects(migrate(lane, [first, broken]), { code: '42P01' })
  await migrate(lane, [first, second])
  t.same((await lane.query('select id from sluice.thing order by id')).rows, [{ id: 1 }, { id: 2 }])
})

t.test('a newer schema is refused only where it needs a newer program', { skip: postgresMissing }, async (t) => {
  const { lane } = await emptyLane(t)
  await migrate(lane, [first, second])
  await migrate(lane, [first])
  await checkProgram(lane, [first])
  await migrate(lane, [first, second, change(3, 'drop table sluice.thing', 2)])
  await checkProgram(lane, [first, second])
  const refused = { message: /newer Sluice.*knows change 2, and this one knows 1/ }
  await t.rejects(checkProgram(lane, [first]), refused)
  await t.rejects(migrate(lane, [first]), refused)
  await t.rejects(migrate(lane, [first, change(2, 'select 1')]), { message: /change 2 .* another text/ })
})

t.test('a change that waits for a lock lets others pass, and is tried again', { skip: postgresMissing }, async (t) => {
  const { lane, url } = await emptyLane(t)
  const server = await sharedPostgres()
  await migrate(lane, [first])
  const held = server.sql('begin; lock table sluice.thing; select pg_sleep(3); commit', url)
  await eventually(
    async () =>
      (
        await server.sql(
          `select 1 from pg_locks where mode = 'AccessExclusiveLock' and granted and relation = 'sluice.thing'::regclass`,
          url
        )
      ).length > 0
  )
  await migrate(lane, [first, second])
  await held
  t.equal((await lane.query('select 1 from sluice.thing')).count, 2)
})

t.test('the files are numbered, and a database is opened with them', { skip: postgresMissing }, async (t) => {
  const url = await (await sharedPostgres()).database()
  const [one, other] = await Promise.all([Database.open({ url }), Database.open({ url })])
  const { rows } = await one.reads.query<{ number: number }>('select number from sluice.migration order by number')
  t.same(
    rows.map(({ number }) => number),
    readMigrations().map(({ number }) => number)
  )
  await Promise.all([one.close(), other.close()])
  const server = await sharedPostgres()
  const left = `select 1 from pg_stat_activity where application_name like 'sluice %'`
  await eventually(async () => (await server.sql(left, url)).length === 0)
})

t.test('no two advisory locks have one number, and all are in one list', async (t) => {
  const listed = Object.values(locks).map(String)
  t.equal(new Set(listed).size, listed.length)
  const taken = readMigrations().flatMap(({ sql }) =>
    sql
      .split('\n')
      .flatMap((line) =>
        /advisory/.test(line) ? [/lock\((\d+),|\b(\d{6,})\)/.exec(line)?.slice(1).join('') ?? line] : []
      )
  )
  const ofSchema = [locks.busiest, locks.days, locks.anchors, locks.clientSecrets].map(String)
  t.same([...new Set(taken)].sort(), ofSchema)
})

t.test('gateways of one version and the next serve side by side, and go back', { skip: postgresMissing }, async (t) => {
  const url = await (await sharedPostgres()).database()
  const now = readMigrations()
  const expand = change(
    9001,
    `alter table sluice.hold add column later text; alter table sluice.journal add column later text;
     alter table sluice.node add column later int not null default 0;
     create table sluice.later (id int primary key); insert into sluice.later values (1)`
  )
  const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), scope('key', 'laptop', 1000n)]
  const start = async (node: string, migrations: readonly Migration[]): Promise<() => Promise<void>> => {
    const database = await Database.open({ url, migrations })
    const folder = mkdtempSync(join(tmpdir(), 'sluice-version-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const requests = { append: () => {} }
    const money = await openMoney({ database, node, folder, durability: 'process', patience: 60_000, requests })
    for (let i = 0; i < 3; i++) {
      const held = await hold(money.ledger, scopes, 10n)
      held.dispatched('openai')
      await held.settle(charge(i))
    }
    return async () => {
      const held = await hold(money.ledger, scopes, 10n)
      await held.settle(charge(5))
      await money.close()
      await database.close()
    }
  }
  const older = await start('older', now)
  const newer = await Promise.all(['one', 'two', 'three'].map((node) => start(node, [...now, expand])))
  await older()
  const again = await start('older', now)
  await Promise.all(newer.map((end) => end()))
  const back = await start('one', now)
  await Promise.all([again(), back()])
  t.equal((await endsIn(url)).size, 6 * 4)
  t.same(await brokenIn(url), [])

  const running = await Database.open({ url })
  const presence = await Presence.open(running, 'older', '1.0.0')
  t.teardown(() => presence.close().then(() => running.close()))
  t.equal(presence.outdated, undefined)
  const contract = change(9002, 'alter table sluice.hold drop column later', 9002)
  await (await Database.open({ url, migrations: [...now, expand, contract] })).close()
  const refused = { message: /the database belongs to a newer Sluice.*knows change 9002, and this one knows \d+/ }
  await t.rejects(Database.open({ url, migrations: [...now, expand] }), refused)
  await t.rejects(Database.open({ url }), refused)
  await t.rejects(LedgerBook.open(url), refused)
  await eventually(() => presence.outdated !== undefined, 60_000)
  t.match(presence.outdated, refused.message, 'one that runs is told')
})

t.test('a database that is not there is named without the password', async (t) => {
  const opening = Database.open({ url: 'postgres://me:secret@127.0.0.1:1/book', migrations: [] })
  await t.rejects(opening, { message: /^PostgreSQL cannot be reached \(127\.0\.0\.1:1\/book\)(?!.*secret)/ })
})

t.test('who may make no schema can start on one that is up to date', { skip: postgresMissing }, async (t) => {
  const server = await sharedPostgres()
  const { lane, url } = await emptyLane(t)
  await migrate(lane, [first])
  await server.sql(
    `create role guest login; grant usage on schema sluice to guest; grant select on sluice.migration to guest`,
    url
  )
  const guest = new Lane(readAddress(url.replace('sluice@', 'guest@')), 'test', 1)
  t.teardown(() => guest.close())
  await migrate(guest, [first])
  await t.rejects(migrate(guest, [first, second]), { code: '42501' })
})
