// Transactions whose program stands still, and those that wait for their locks, on a real PostgreSQL.
import t from 'tap'
import { readAddress } from '../../../../../core/store/cluster/database/address.ts'
import { Group } from '../../../../../core/store/cluster/database/group.ts'
import { Lane } from '../../../../../core/store/cluster/database/lane.ts'
import { locks } from '../../../../../core/store/cluster/database/locks.ts'
import { Session } from '../../../../../core/store/cluster/database/session.ts'
import { postgresMissing, sharedPostgres } from '../../../../kit/postgres.ts'
import { eventually } from '../../../../kit/probe.ts'

const skip = postgresMissing
const lock = `select pg_advisory_xact_lock(${locks.spend})`

t.test('a gateway that stands still in a transaction keeps its locks from nobody for long', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.database()
  const [still, other] = [new Lane(readAddress(url), 'still', 1), new Lane(readAddress(url), 'other', 1)]
  t.teardown(() => Promise.all([still.close(), other.close()]))
  await still.query('create table thing (id int)')
  const [taken, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const stood = t.rejects(
    still.transaction(
      async (transaction) => {
        await transaction.query(lock)
        await transaction.query('insert into thing values (1)')
        taken.resolve()
        await goOn.promise
      },
      { deadline: 3000, wait: 60_000 }
    ),
    { name: 'DatabaseFault', unknown: false }
  )
  await taken.promise
  await other.transaction((transaction) => transaction.query(lock))
  goOn.resolve()
  await stood
  t.same((await still.query('select * from thing', [], { wait: 20_000 })).rows, [], 'and nothing of it is done')
})

t.test('those that wait for a lock leave no process behind, and go on when it is free', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.database(2)
  const holder = await Session.open(readAddress(url), 'holder')
  const lane = new Lane(readAddress(url), 'waiting', 1)
  t.teardown(() => Promise.all([lane.close(), holder.close()]))
  await holder.query(`begin; ${lock}`, undefined, 60_000)
  let tries = 0
  const group = new Group<number>({
    most: 10,
    lasting: true,
    write: () => (tries++, lane.transaction((transaction) => transaction.query(lock)))
  })
  const written = group.add(1)
  written.catch(() => {})
  const processes = `select pid from pg_stat_activity where application_name = 'waiting' and datname = current_database()`
  await eventually(() => tries > 4)
  await eventually(async () => (await server.sql(processes, url)).length <= 1, 10_000)
  await holder.query('rollback', undefined, 60_000)
  await t.resolves(written, 'what is to be kept was kept')
  await group.close()
})

t.test('single statements that wait for a lock leave no process behind either', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.database(2)
  const holder = await Session.open(readAddress(url), 'holder')
  const lane = new Lane(readAddress(url), 'single', 1)
  t.teardown(() => Promise.all([lane.close(), holder.close()]))
  await lane.query('create table thing (id int)')
  await holder.query('begin; lock thing in access exclusive mode', undefined, 60_000)
  const statements: [string, unknown[]?][] = [
    ['select * from thing'],
    ['select * from thing where id = $1', [1]],
    ['insert into thing values ($1)', [1]]
  ]
  for (const [text, values] of [...statements, ...statements])
    await t.rejects(lane.query(text, values, { wait: 60_000 }), { code: '55P03', unknown: false, conflict: true }, text)
  const processes = `select pid from pg_stat_activity where application_name = 'single' and datname = current_database()`
  t.equal((await server.sql(processes, url)).length, 1)
  await holder.query('rollback', undefined, 60_000)
  for (const [text, values] of statements) await lane.query(text, values, { wait: 60_000 })
  t.same((await lane.query('select id from thing')).rows, [{ id: 1 }])
})

t.test('the times of a transaction, and of a statement, are for it alone', { skip }, async (t) => {
  const server = await sharedPostgres()
  const lane = new Lane(readAddress(await server.database()), 'test', 1)
  t.teardown(() => lane.close())
  const times = `select current_setting('idle_in_transaction_session_timeout') as idle, current_setting('lock_timeout') as lock`
  const timesIn = async (limits: { deadline: number; idle?: number }): Promise<unknown> =>
    (await lane.transaction((transaction) => transaction.query(times), limits)).rows[0]
  t.same(await timesIn({ deadline: 50_000 }), { idle: '40s', lock: '40s' })
  t.same(await timesIn({ deadline: 100_000 }), { idle: '48s', lock: '80s' })
  t.same(await timesIn({ deadline: 100_000, idle: 0 }), { idle: '0', lock: '80s' })
  t.same((await lane.query(times)).rows, [{ idle: '0', lock: '48s' }])
  t.same((await lane.query(`${times} where $1 = 1`, [1], { deadline: 5000 })).rows, [{ idle: '0', lock: '4s' }])
  t.same((await lane.query(`select from generate_series(1, $1::int)`, [3])).count, 3)
})
