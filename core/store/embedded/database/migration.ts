// Brings databases to the newest schema, and checks that they have it.
import { moveKeys } from '../rows/former-keys.ts'
import { migrations } from './schema.ts'
import { SpendTable } from './spend-table.ts'
import type { Database } from '../files/sqlite.ts'
import { TrafficTable } from './traffic-table.ts'

/** What a migration does besides its SQL, by its number. */
const steps: Readonly<Record<number, (database: Database, file: string) => void>> = {
  6: moveKeys,
  7: (database, file) => new SpendTable(database).fill(database, file),
  11: (database) => new TrafficTable(database).fill(database)
}

/**
 * Brings a database to the newest schema, in one transaction.
 * @throws Error when a newer version of the program wrote it
 */
export function migrate(database: Database, file: string): void {
  database.exec('BEGIN IMMEDIATE')
  try {
    database.exec(
      'CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, applied INTEGER NOT NULL) STRICT'
    )
    const version = Number(
      database.prepare('SELECT coalesce(max(version), 0) AS version FROM schema_migrations').get()!['version']
    )
    if (version > migrations.length) {
      throw new Error(
        `${file} has schema version ${version} and this program knows ${migrations.length}: start the newer program, or give another file`
      )
    }
    for (let next = version; next < migrations.length; next++) {
      database.exec(migrations[next]!)
      steps[next + 1]?.(database, file)
      database.prepare('INSERT INTO schema_migrations VALUES (?, ?)').run(next + 1, Date.now())
    }
    database.exec('COMMIT')
  } catch (error) {
    database.exec('ROLLBACK')
    throw error
  }
}

/**
 * Checks that a database opened for reading has the newest schema; with `older`, that it has one that can be brought up
 * to date.
 * @throws Error when it is no store, or another version of the program wrote it
 */
export function checkSchema(database: Database, file: string, { older = false } = {}): void {
  let version = 0
  try {
    version = Number(database.prepare('SELECT max(version) AS version FROM schema_migrations').get()!['version'])
  } catch (error) {
    throw new Error(`${file} cannot be read as a store: ${(error as Error).message}`)
  }
  if (version === migrations.length || (older && version > 0 && version < migrations.length)) return
  const remedy =
    version > migrations.length ? 'use the newer program' : 'start the gateway once, which brings it up to date'
  throw new Error(`${file} has schema version ${version} and this program knows ${migrations.length}: ${remedy}`)
}
