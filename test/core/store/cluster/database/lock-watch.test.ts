// Who holds the locks that a change of the schema waits for: who works is waited for, and who does nothing is named.
import t from 'tap'
import type { Test } from 'tap'
import { readAddress } from '../../../../../core/store/cluster/database/address.ts'
import { LockWatch } from '../../../../../core/store/cluster/database/lock-watch.ts'
import { Lane } from '../../../../../core/store/cluster/database/lane.ts'
import { migrate } from '../../../../../core/store/cluster/database/migrations.ts'
import type { Migration, MigrateOptions } from '../../../../../core/store/cluster/database/migrations.ts'
import type { LogFields } from '../../../../../core/telling/log.ts'
import { silentLog } from '../../../../../core/telling/log.ts'
import { startPgBouncer } from '../../../../kit/pgbouncer.ts'
import { Postgres, postgresMissing, sharedPostgres } from '../../../../kit/postgres.ts'
import { eventually } from '../../../../kit/probe.ts'
import { lacks } from '../../../../kit/programs.ts'

const migrations: Migration[] = [
  { number: 1, name: 'one', sql: 'create table sluice.thing (id int)', minProgram: 0 },
  { number: 2, name: 'two', sql: 'alter table sluice.thing add column more int', minProgram: 0 }
]

const lock = 'lock table sluice.thing in share mode'

interface Scene {
  readonly url: string
  readonly lane: Lane
  readonly lines: LogFields[]
  readonly log: MigrateOptions['log']
  /** Another program, which runs a statement in a transaction and keeps that open until the test is over. */
  hold(sql: string): Promise<void>
}

/** A database with the first change. `via`: by way of which URL the program reaches it. */
async function scene(t: Test, url: string, via = url): Promise<Scene> {
  const lane = new Lane(readAddress(via), 'waiter', 2)
  const other = new Lane(readAddress(url), 'a forgotten script', 1)
  const over = Promise.withResolvers<void>()
  const lines: LogFields[] = []
  await migrate(lane, migrations.slice(0, 1))
  const hold = (sql: string): Promise<void> =>
    new Promise((resolve, reject) => {
      other
        .transaction(async ({ query }) => {
          await query(sql)
          resolve()
          await over.promise
        })
        .catch(reject)
    })
  t.teardown(async () => {
    over.resolve()
    await Promise.all([lane.close(), other.close()])
  })
  return { url, lane, lines, log: { ...silentLog, info: (_message, fields = {}) => void lines.push(fields) }, hold }
}

async function idleIsNamed(t: Test, { lane, lines, log, hold }: Scene): Promise<void> {
  await hold(lock)
  await t.rejects(migrate(lane, migrations, { log, times: { look: 100, tell: 200, idle: 4000 } }), {
    message:
      /^the schema of the database cannot be changed: process \d+ of PostgreSQL \(application a forgotten script, role sluice, client local\) holds a lock on sluice.thing and has been idle in a transaction for \d+ seconds: end its transaction, or the process: select pg_terminate_backend\(\d+\)$/
  })
  t.match(lines[0], {
    lock: 'sluice.thing',
    held_by: [
      { application: 'a forgotten script', state: 'idle in transaction', command: 'lock table', held_seconds: Number }
    ]
  })
}

t.test('who holds a lock and does nothing is named, with the remedy', { skip: postgresMissing }, async (t) => {
  await idleIsNamed(t, await scene(t, await (await sharedPostgres()).database()))
})

t.test(
  'also behind a pooler that gives each transaction another connection',
  { skip: postgresMissing || lacks('pgbouncer') },
  async (t) => {
    const server = await sharedPostgres()
    const through = await startPgBouncer(t, server)
    const url = await server.database()
    await idleIsNamed(t, await scene(t, url, through(url)))
  }
)

t.test('who is at work is waited for, however long that takes', { skip: postgresMissing }, async (t) => {
  const server = await sharedPostgres()
  const { url, lane, lines, log } = await scene(t, await server.database())
  const working = server.sql(`begin; ${lock}; select pg_sleep(20); commit`, url)
  // Behind one that waits itself: who it waits for decides.
  const locks = async (mode: string, granted: boolean): Promise<boolean> =>
    (
      await lane.query(
        `select from pg_locks where relation = 'sluice.thing'::regclass and mode = $1 and granted = $2`,
        [mode, granted]
      )
    ).count === 1
  await eventually(() => locks('ShareLock', true))
  const behind = server.sql('begin; lock table sluice.thing; commit', url)
  await eventually(() => locks('AccessExclusiveLock', false))
  await migrate(lane, migrations, { log, times: { look: 100, tell: 200, idle: 8000 } })
  await Promise.all([working, behind])
  t.equal((await lane.query('select more from sluice.thing')).count, 0)
  t.match(lines[0], { lock: 'sluice.thing', held_by: [{ state: 'active' }] })
})

t.test('a prepared transaction is found, which has no process', { skip: postgresMissing }, async (t) => {
  const server = await Postgres.start(t, { settings: { max_prepared_transactions: '2' } })
  const { url, lane, log } = await scene(t, await server.database())
  await server.sql(`begin; ${lock}; prepare transaction 'left'`, url)
  await t.rejects(migrate(lane, migrations, { log, times: { look: 100, tell: 200, idle: 4000 } }), {
    message: /a prepared transaction has held a lock on sluice.thing for \d+ seconds: find it in pg_prepared_xacts/
  })
  await server.sql(`rollback prepared 'left'`, url)
  await migrate(lane, migrations)
})

t.test('what was in the way of one change is not in the way of the next', { skip: postgresMissing }, async (t) => {
  const server = await sharedPostgres()
  const { url, lane, log } = await scene(t, await server.database())
  const watch = new LockWatch(lane, log!, { look: 20, tell: 200, idle: 0 })
  const locked = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const other = new Lane(readAddress(url), 'other', 1)
  const holding = other.transaction(
    async ({ query }) => {
      await query(lock)
      locked.resolve()
      await held.promise
    },
    { deadline: 100_000 }
  )
  await locked.promise
  const changing = lane.transaction(
    async (transaction) => {
      await watch.watch(transaction)
      await transaction.query('alter table sluice.thing add column more int')
    },
    { deadline: 100_000 }
  )
  await eventually(() => watch.problem !== undefined)
  held.resolve()
  await Promise.all([holding, changing])
  watch.rest()
  await lane.transaction((transaction) => watch.watch(transaction))
  t.equal(watch.problem, undefined)
  await watch.close()
  await other.close()
})
