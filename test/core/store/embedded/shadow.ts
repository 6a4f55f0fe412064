// Lets a test read entries, open holds and records by SQL, whichever form its store has: what a journal in segments has
// of them is put into tables of the connection, with the names of the tables that lack them there.
import { realpathSync } from 'node:fs'
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { volumeFolder } from '../../../../core/store/embedded/journal/volume.ts'
import { rowOf } from '../../../../core/store/embedded/recovery/folded-leftovers.ts'
import { hasJournal } from '../../../../core/store/embedded/segments/folder.ts'
import type { RecordRow } from '../../../../core/store/embedded/rows/record-text.ts'
import { RecordReader } from '../../../../core/store/embedded/segments/record-reader.ts'
import { JournalReader } from '../../../../core/store/embedded/segments/journal-reader.ts'

/** Does so for a query, if it is of one of these tables. */
export function shadow(database: DatabaseSync, file: string, sql: string): void {
  if (!/\b(journal|reservation|request)\b/.test(sql)) return
  const folder = volumeFolder(realpathSync(file))
  if (!hasJournal(folder)) return
  const reader = new JournalReader(folder)
  database.exec('BEGIN')
  const insert = (table: string, rows: Iterable<Record<string, SQLInputValue>>): void => {
    database.exec(`CREATE TEMP TABLE ${table} AS SELECT * FROM main.${table} LIMIT 0`)
    const statements = new Map<string, StatementSync>()
    for (const row of rows) {
      const names = Object.keys(row)
      const columns = names.join(', ')
      let statement = statements.get(columns)
      if (!statement) {
        statement = database.prepare(
          `INSERT INTO temp.${table} (${columns}) VALUES (${names.map(() => '?').join(', ')})`
        )
        statements.set(columns, statement)
      }
      statement.run(
        ...names.map((name) => (name.endsWith('hash') ? Buffer.from(row[name] as string, 'hex') : row[name]!))
      )
    }
  }
  if (/\bjournal\b/.test(sql)) insert('journal', reader.entries())
  if (/\brequest\b/.test(sql)) {
    const records = new RecordReader(folder)
    const rows = database.prepare('SELECT * FROM main.request').all() as (RecordRow & Record<string, SQLInputValue>)[]
    insert(
      'request',
      rows.map((row) => records.read(row))
    )
  }
  if (/\breservation\b/.test(sql)) insert('reservation', [...reader.state.holds].map(rowOf))
  database.exec('COMMIT')
}
