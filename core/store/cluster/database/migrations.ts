// Brings the schema of the database up to date: each file of a folder is run once, in the order of the numbers.
import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../../telling/log.ts'
import { silentLog } from '../../../telling/log.ts'
import { DatabaseFault } from './fault.ts'
import type { Lane, Transaction } from './lane.ts'
import { LockWatch } from './lock-watch.ts'
import type { WatchTimes } from './lock-watch.ts'
import { locks } from './locks.ts'

/** The files of the schema of this program. */
export const schemaFolder = join(import.meta.dirname, '../schema')

/** How long one change waits for a lock, so that what waits behind it does not stand still for longer. */
const lockTimeout = '2s'
/** How long one change may run, in milliseconds. */
const changeWithin = 600_000

/** A change of the schema. */
export interface Migration {
  readonly number: number
  readonly name: string
  readonly sql: string
  /** The highest number that a program must know to work with a database that has this change. */
  readonly minProgram: number
}

/**
 * Reads the files of a folder, such as `0012-route.sql`. A line `-- min_program: 12` says that programs which know no
 * change from this number on must not use the database any more; without it, older ones go on.
 * @throws Error when a name is not like this, or a number is there twice
 */
export function readMigrations(folder = schemaFolder): Migration[] {
  const files = readdirSync(folder).sort()
  const found = files.map((file) => {
    const [, number, name] = /^(\d{4})-([a-z]+(?:-[a-z]+)*)\.sql$/.exec(file) ?? []
    if (name === undefined) throw new Error(`${file} in ${folder} is not named like 0012-route.sql`)
    const sql = readFileSync(join(folder, file), 'utf8')
    return { number: Number(number), name, sql, minProgram: Number(/^-- min_program: (\d+)$/m.exec(sql)?.[1] ?? 0) }
  })
  for (const [i, { number }] of found.entries())
    if (found[i + 1]?.number === number) throw new Error(`${folder} has two changes with the number ${number}`)
  return found
}

/** What {@link migrate} may be told besides. */
export interface MigrateOptions {
  readonly log?: Logger | undefined
  /** Of its watch over who holds locks. */
  readonly times?: WatchTimes
}

/**
 * Runs what has not run yet, each change in a transaction of its own; of several programs that start at once, one after
 * the other. It waits for whoever holds a lock for as long as that is at work. `lane` has two connections at least.
 * @throws Error when a newer program made the database unusable for this one, the file of a change is not what ran, or
 * somebody holds a lock for two minutes and does nothing
 */
export async function migrate(
  lane: Lane,
  migrations: readonly Migration[],
  { log = silentLog, times }: MigrateOptions = {}
): Promise<void> {
  const watch = new LockWatch(lane, log, times)
  const run = async (transaction: Transaction): Promise<boolean> => {
    await watch.watch(transaction)
    return runNext(transaction, migrations)
  }
  try {
    for (let done = false; !done;) {
      try {
        done = await lane.transaction(run, { deadline: changeWithin }).finally(() => watch.rest())
      } catch (error) {
        const { problem, hopeless } = watch
        if (problem !== undefined) throw new Error(`the schema of the database cannot be changed: ${problem}`)
        const again = error instanceof DatabaseFault && (error.conflict || error.unknown)
        if (!again || hopeless) throw error
        await sleep(100 + Math.random() * 400)
      }
    }
  } finally {
    await watch.close()
  }
}

/**
 * Checks that a newer program has not changed the schema in a way that this one does not know.
 * @throws Error that says so
 */
export async function checkProgram(lane: Lane, migrations: readonly Migration[]): Promise<void> {
  const { rows } = await lane.query<{ least: number | null }>('select max(min_program) least from sluice.migration')
  refuseOlder(rows[0]?.least ?? 0, migrations)
}

/** Runs the first change that has not run. Returns true when there is none. */
async function runNext(transaction: Transaction, migrations: readonly Migration[]): Promise<boolean> {
  await transaction.query(`set local lock_timeout = '${lockTimeout}'`)
  await transaction.query('select pg_advisory_xact_lock($1)', [locks.schema])
  // Who may not make a schema can use one that is up to date.
  const { rows: made } = await transaction.query(
    `select from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'sluice' and c.relname = 'migration'`
  )
  if (made.length === 0)
    await transaction.query(`
    create schema if not exists sluice;
    create table sluice.migration (
      number int primary key,
      name text not null,
      digest text not null,
      min_program int not null,
      applied timestamptz not null default clock_timestamp()
    )`)
  const { rows } = await transaction.query<{ number: number; digest: string; min_program: number }>(
    'select number, digest, min_program from sluice.migration'
  )
  refuseOlder(Math.max(0, ...rows.map(({ min_program: least }) => least)), migrations)
  const ran = new Map(rows.map(({ number, digest }) => [number, digest]))
  for (const migration of migrations) {
    const digest = hash('sha256', migration.sql)
    const known = ran.get(migration.number)
    if (known === undefined) {
      await transaction.query(migration.sql)
      await transaction.query(
        'insert into sluice.migration (number, name, digest, min_program) values ($1, $2, $3, $4)',
        [migration.number, migration.name, digest, migration.minProgram]
      )
      return false
    }
    if (known !== digest)
      throw new Error(
        `change ${migration.number} (${migration.name}) of the schema ran with another text: restore its file`
      )
  }
  return true
}

function refuseOlder(least: number, migrations: readonly Migration[]): void {
  const newer = newerThan(least, migrations)
  if (newer !== undefined) throw new Error(`${newer}. Start the newer version`)
}

/** Says that a schema which needs a program that knows change `least` is too new for one with these; else undefined. */
export function newerThan(least: number, migrations: readonly Migration[]): string | undefined {
  const known = migrations.at(-1)?.number ?? 0
  if (known >= least) return undefined
  return `the database belongs to a newer Sluice: its schema needs a program that knows change ${least}, and this one knows ${known}`
}
