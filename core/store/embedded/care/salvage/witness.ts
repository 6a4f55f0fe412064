// What else knows of batches that a journal has lost: its checkpoints, the footers of its volumes, and the database.
import { existsSync, statSync } from 'node:fs'
import { readHead } from '../../database/head.ts'
import type { Head } from '../../database/head.ts'
import { connectAlone, readRows } from '../../files/sqlite.ts'
import type { Database, Value } from '../../files/sqlite.ts'
import { withFile } from '../../files/reading.ts'
import { volumeFolder } from '../../journal/volume.ts'
import { noteIn } from '../../log/segment.ts'
import { survey } from '../../recovery/survey.ts'
import { documentColumns, workColumns } from '../../rows/batch.ts'
import type { Start } from '../../segments/chain.ts'
import { CheckpointDamage, readCheckpoint } from '../../segments/checkpoint.ts'
import type { Fold } from '../../segments/fold.ts'
import { listNumbered, reachPath } from '../../segments/folder.ts'
import { Volume, VolumeDamage } from '../../segments/volume.ts'

/** What was there behind one batch. */
export interface Witness {
  readonly batch: number
  /** The last row of the journal. */
  readonly seq: number
  /** What was charged, in nano-dollars by `<scope> <window>`. */
  readonly posted?: ReadonlyMap<string, bigint>
  /** What a start needs besides money. Work may be all of it, or what was open. */
  readonly contents?: Pick<Fold, 'prices' | 'documents' | 'works'>
}

/** All that is known beside the frames. */
export interface Testimony {
  /** In the order of their batches. */
  readonly witnesses: readonly Witness[]
  /** The last batch that anything says was written, by history. */
  readonly claims: ReadonlyMap<string, number>
  /** The starts that the database knows. */
  readonly starts: readonly Start[]
}

/** Hears all that is beside the frames of a store. What is damaged says nothing. */
export function hear(file: string): Testimony {
  const folder = volumeFolder(file)
  const witnesses: Witness[] = []
  const claims = new Map<string, number>()
  const claim = (history: string, batch: number): void =>
    void claims.set(history, Math.max(claims.get(history) ?? 0, batch))
  for (const { kind, path } of listNumbered(folder)) {
    try {
      if (kind === 'volume') witnesses.push(byFooter(new Volume(path)))
      else if (kind === 'checkpoint') {
        const fold = readCheckpoint(path)
        witnesses.push(byState(fold))
        claim(fold.place.history, fold.place.batch)
      }
    } catch (error) {
      if (!(error instanceof VolumeDamage || error instanceof CheckpointDamage)) throw error
    }
  }
  const noted = existsSync(reachPath(folder)) ? withFile(reachPath(folder), (fd) => noteIn(fd, 0)) : undefined
  if (noted) claim(noted.history, noted.batch)
  const starts: Start[] = []
  const database = openSound(file)
  try {
    if (database) {
      const head = readHead(database)
      claim(head.history, head.batch)
      witnesses.push(...byDatabase(database, head))
      for (const row of readRows(database, 'SELECT boot_id, lower(hex(history)) AS history FROM boot'))
        starts.push({ boot: Number(row['boot_id']), history: String(row['history']) })
    }
  } finally {
    database?.close()
  }
  return { witnesses: witnesses.sort((one, other) => one.batch - other.batch), claims, starts }
}

function byFooter({ contents }: Volume): Witness {
  return { batch: contents.last, seq: contents.seq }
}

function byState(fold: Fold): Witness {
  const { batch, seq } = fold.place
  const posted = new Map([...fold.balances].map((sum) => [`${sum.scope} ${sum.window}`, sum.posted]))
  return { batch, seq, posted, contents: fold }
}

/** Balances in the database may be of an earlier batch than all else. */
function byDatabase(database: Database, head: Head): Witness[] {
  const posted = new Map<string, bigint>()
  for (const row of readRows(database, 'SELECT scope, window, posted FROM balance'))
    posted.set(`${row['scope'] as string} ${row['window'] as string}`, row['posted'] as bigint)
  const prices = new Map<string, string>()
  for (const row of readRows(database, 'SELECT version, json FROM price'))
    prices.set(row['version'] as string, row['json'] as string)
  const rows = (sql: string, columns: readonly string[], named: number): Map<string, Value[]> => {
    const found = new Map<string, Value[]>()
    for (const row of readRows(database, sql)) {
      const values = columns.map((name) => (typeof row[name] === 'bigint' ? Number(row[name]) : row[name]!))
      found.set(values.slice(0, named).join('\0'), values)
    }
    return found
  }
  const contents = {
    prices,
    documents: rows('SELECT * FROM document ORDER BY number', documentColumns, 2),
    works: rows('SELECT * FROM work', workColumns, 3)
  }
  return [
    { batch: head.balancedBatch, seq: head.balancedSeq, posted },
    { batch: head.batch, seq: head.seq, contents }
  ]
}

/** The database, if it is whole as far as a start would see. */
function openSound(file: string): Database | undefined {
  const { head, damage } = survey(file)
  if (head === undefined || head.history === '' || damage.length > 0) return undefined
  // Where there is no write-ahead log, reading makes none.
  return connectAlone(file, (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0)
}
