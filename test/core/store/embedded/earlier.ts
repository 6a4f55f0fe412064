// Makes the store of an earlier version of one of this version: takes its newest migrations back.
import { openDatabase } from '../../../../core/store/embedded/files/sqlite.ts'

/** What takes a migration back, by its number. */
const undo: Readonly<Record<number, string>> = {
  4: 'ALTER TABLE reservation DROP COLUMN pieces;',
  5: ['journal.tags', 'journal.cost', 'journal.cost_price', 'reservation.tags', 'reservation.cost_price']
    .map((column) => `ALTER TABLE ${column.replace('.', ' DROP COLUMN ')};`)
    .join('\n'),
  6: `DROP TABLE document; DROP TABLE audit;
    ALTER TABLE head DROP COLUMN audits; ALTER TABLE head DROP COLUMN audit_hash;
    ALTER TABLE head RENAME COLUMN documents TO keys;
    CREATE TABLE key (name TEXT PRIMARY KEY, sha256, hint, tenant, project, member, models, endpoints, limits,
      budget_limit, budget_per, expires, created, revoked, crc);`,
  7: 'DROP TABLE spend_day; DROP TABLE spend_month; DROP TABLE spender;',
  8: 'SELECT 1;',
  9: 'DROP TABLE request_facts;',
  10: ['object', 'actor', 'tenant', 'action', 'object_kind', 'outcome']
    .map((name) => `DROP INDEX audit_${name};`)
    .join(' '),
  11: 'DROP TABLE traffic_minute; DROP TABLE traffic_hour;',
  12: 'DROP TABLE journal_origin;',
  // Records stay as they are: their rows are read in both ways.
  13: 'SELECT 1;',
  14: `CREATE TABLE request_block (block INTEGER NOT NULL, field TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (block, field, value)) STRICT, WITHOUT ROWID;`
}

/** Brings a store that nobody has open back to a version of its schema. Keys made at run time are lost. */
export function rewind(file: string, version: number): void {
  const database = openDatabase(file, 'process')
  try {
    const { newest } = database.prepare('SELECT max(version) AS newest FROM schema_migrations').get()!
    for (let last = Number(newest); last > version; last--) {
      const sql = undo[last]
      if (sql === undefined)
        throw new Error(`nothing takes migration ${last} back: add it to test/core/store/embedded/earlier.ts`)
      database.exec(sql)
    }
    database.prepare('DELETE FROM schema_migrations WHERE version > ?').run(version)
  } finally {
    database.close()
  }
}
