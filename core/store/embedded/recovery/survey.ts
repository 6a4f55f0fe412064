// The survey: inspects all files of a store before anything is written, to find the batches that only the commit log
// has, and what is damaged or missing.
import { closeSync, existsSync, fstatSync, openSync, statSync } from 'node:fs'
import { entryColumns } from '../rows/batch.ts'
import { historyLeft, readHead } from '../database/head.ts'
import { isReadSide } from '../database/read-side.ts'
import type { Head } from '../database/head.ts'
import type { Damage } from '../files/damage.ts'
import { scanFrames } from '../log/frame-reader.ts'
import { entryHash } from '../journal/journal.ts'
import { canonicalPath } from '../files/lock.ts'
import { baseOf, framesAt, readNote, readSegmentHead, segmentPaths } from '../log/segment.ts'
import type { SegmentHead } from '../log/segment.ts'
import { connect, isUnreadable, openForReading } from '../files/sqlite.ts'
import type { Database, Value } from '../files/sqlite.ts'
import { compareWriteAhead, versionAfter } from '../files/write-ahead.ts'

/** Undamaged frames that follow each other in a segment. */
export interface Run {
  path: string
  /** The positions in the file of the first byte, and of the byte after the last. */
  from: number
  to: number
  first: number
  last: number
}

/** A frame with a sound head and a damaged payload. */
export interface Broken {
  path: string
  from: number
  to: number
  number: number
}

/** The frames of one history in a commit log. */
export interface LogSurvey {
  runs: readonly Run[]
  broken: readonly Broken[]
  /** The last batch that is known to have been written, and the path of the file that shows it. */
  reach: number
  witness: string
}

/** The result of a survey. */
export interface Survey {
  /** The stored head; undefined when there is no store yet, or it cannot be read. */
  head: Head | undefined
  log: LogSurvey
  /** Empty when the store can start. */
  damage: readonly Damage[]
}

/**
 * Inspects the files of a store that nobody has open.
 * @throws Error when the database cannot be read for a reason other than damage, or a newer version wrote it
 */
export function survey(file: string): Survey {
  const mismatch = mismatchOf(file)
  if (mismatch) return { head: undefined, log: nothing, damage: [mismatch] }
  if (sizeOf(file) === 0) return { head: undefined, log: nothing, damage: orphans(file) }
  // A rollback journal is left when a start was killed in its first moments. Only a writer can undo its changes.
  const database = sizeOf(`${file}-journal`) > 0 ? connect(file) : openForReading(file)
  try {
    if (!hasHead(database)) return { head: undefined, log: nothing, damage: orphans(file) }
    const head = readHead(database)
    // The first start of this database did not complete, so nothing can have been written to a log.
    if (head.history === '') return { head, log: nothing, damage: checkUnbegun(file) }
    const log = surveyLog(file, head.history, head.batch)
    const damage = checkHead(database, file, head)
    for (const query of readAtStart) database.prepare(query).all()
    readDocuments(database)
    return {
      head,
      log,
      damage: [...damage, ...checkSegments(database, file, head, log), ...checkRuns(file, head, log)]
    }
  } catch (error) {
    if (!isUnreadable(error)) throw error
    return {
      head: undefined,
      log: nothing,
      damage: [{ file, text: `cannot be read: ${(error as Error).message}`, unsound: true }]
    }
  } finally {
    database.close()
  }
}

/**
 * Counts the batches that only the commit log has, and finds what is damaged or missing, while a gateway may be
 * running.
 */
export function surveyBeside(given: string): { batches: number; damage: Damage[] } {
  const file = canonicalPath(given)
  const database = openForReading(file)
  try {
    for (;;) {
      database.exec('BEGIN')
      const head = readHead(database)
      const own = checkPages(database, file, head)
      database.exec('COMMIT')
      if (head.history === '') return { batches: 0, damage: [...own, ...checkUnbegun(file)] }
      // The log is searched twice. A batch that the first search knows of must be found by the second one, or be in the
      // database after it: otherwise it was not overwritten but lost.
      const before = surveyLog(file, head.history, head.batch)
      const log = { ...surveyLog(file, head.history, head.batch), reach: before.reach, witness: before.witness }
      const after = readHead(database)
      if (after.history !== head.history) continue
      const damage = [...own, ...checkSegments(database, file, head, before), ...checkRuns(file, after, log)]
      return { batches: Math.max(0, log.reach - after.batch), damage }
    }
  } finally {
    database.close()
  }
}

/**
 * What a start reads. It is read here first, because a start that fails to read it would already have changed the
 * files.
 */
const readAtStart = [
  ...['balance', 'price', 'reservation'].map((table) => `SELECT count(*) FROM ${table}`),
  'SELECT length(json) FROM request ORDER BY seq DESC LIMIT 1024'
]

/** Reads the table of documents; in a store of an earlier version that of keys, of which documents are made. */
function readDocuments(database: Database): void {
  const tables = database.prepare("SELECT name FROM sqlite_master WHERE name IN ('document', 'key')").all()
  for (const { name } of tables) database.prepare(`SELECT count(*) FROM ${name as string}`).all()
}

function mismatchOf(file: string): Damage | undefined {
  if (!existsSync(file)) return undefined
  const fd = openSync(file, 'r')
  try {
    return compareWriteAhead(file, fd)
  } finally {
    closeSync(fd)
  }
}

/** The survey of a log that has nothing for the database. */
export const nothing: LogSurvey = { runs: [], broken: [], reach: 0, witness: '' }

/** Finds the frames of a history in both segments. The payloads of batches up to `after` are not checked. */
export function surveyLog(file: string, history: string, after: number): LogSurvey {
  const runs: Run[] = []
  const broken: Broken[] = []
  let [reach, witness] = [0, '']
  const reached = (batch: number, path: string): void => {
    if (batch > reach) [reach, witness] = [batch, path]
  }
  for (const path of segmentPaths(file)) {
    withSegment(path, (fd) => {
      let run: Run | undefined
      for (const { number, from, to, whole } of scanFrames(fd, history, after, framesAt)) {
        if (!whole) {
          if (number > after) broken.push({ path, from, to, number })
        } else if (run && run.last === number - 1 && run.to === from) Object.assign(run, { last: number, to })
        else runs.push((run = { path, from, to, first: number, last: number }))
        if (whole) reached(number, path)
      }
      reached(readNote(fd, history), path)
    })
  }
  return { runs, broken, reach, witness }
}

/** The size in bytes; 0 when there is no such file. */
function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/** Opens a segment and calls `work`; returns undefined when there is no such file. */
function withSegment<T>(path: string, work: (fd: number) => T): T | undefined {
  if (!existsSync(path)) return undefined
  const fd = openSync(path, 'r')
  try {
    return fstatSync(fd).isFile() ? work(fd) : undefined
  } finally {
    closeSync(fd)
  }
}

/**
 * Returns the batches after `after` that are missing although the log went on behind them, as ranges with both ends
 * included.
 */
export function missingBatches({ runs, reach }: LogSurvey, after: number): [first: number, last: number][] {
  const missing: [number, number][] = []
  let next = after + 1
  for (const { first, last } of [...runs].sort((a, b) => a.first - b.first)) {
    if (last < next) continue
    if (first > next) missing.push([next, first - 1])
    next = last + 1
  }
  if (reach >= next) missing.push([next, reach])
  return missing
}

/** Finds files of a store whose database is missing. */
function orphans(file: string): Damage[] {
  const left = [...segmentPaths(file), `${file}-wal`].filter((path) => sizeOf(path) > 0)
  return left.length === 0
    ? []
    : [
        {
          file,
          text: `is missing or empty, while ${left.join(' and ')} of the store ${left.length === 1 ? 'is' : 'are'} there`
        }
      ]
}

/** Whether a database has ever been a store. */
export function hasHead(database: Database): boolean {
  return database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'head'").get() !== undefined
}

/** Checks that the pages of the database belong together: each transaction writes its number to two pages. */
function checkPages(database: Database, file: string, head: Head): Damage[] {
  const version = Number(database.prepare('PRAGMA user_version').get()!['user_version'])
  if (version === versionAfter(head.writes)) return []
  return [
    {
      file,
      text: `has pages of different moments: transaction ${version} by its first page, and ${head.writes} by its head; its write-ahead log was taken away, or one of the two is older`,
      unsound: true
    }
  ]
}

/** Checks also that the journal ends as the head says. */
export function checkHead(database: Database, file: string, head: Head): Damage[] {
  const pages = checkPages(database, file, head)
  if (pages.length > 0) return pages
  const text = checkLastEntry(database, head)
  return text === undefined ? [] : [{ file, text, unsound: true }]
}

/**
 * Says what is wrong with the last row of the journal, if anything. It must be the row that the head names, where the
 * database has the journal.
 */
export function checkLastEntry(database: Database, head: Head): string | undefined {
  if (isReadSide(database)) return undefined
  const statement = database.prepare(
    'SELECT *, lower(hex(prev_hash)) AS previous FROM journal ORDER BY seq DESC LIMIT 1'
  )
  statement.setReadBigInts(true)
  const last = statement.get()
  if (Number(last?.['seq'] ?? 0) !== head.seq)
    return `is damaged: the journal ends at row ${last?.['seq'] ?? 0} instead of ${head.seq}`
  if (!last) return undefined
  // The database may be of an earlier version, which had fewer columns.
  const columns = entryColumns.map((name) => (last[name] ?? null) as Value)
  if (entryHash(last['previous'] as string, head.seq, Number(last['boot_id']), columns, 0) === head.hash)
    return undefined
  return `is damaged: row ${head.seq} of the journal does not have the hash it was written with`
}

/** Checks that the segments are those of the last start, or have nothing that the database lacks. */
function checkSegments(database: Database, file: string, head: Head, log: LogSurvey): Damage[] {
  const earlier = database.prepare('SELECT 1 FROM boot WHERE history = ?')
  const left = historyLeft(database, head)
  const [one, two] = segmentPaths(file)
  const damage = [one, two].flatMap((path): Damage[] => {
    const segment = withSegment(path, readSegmentHead)
    if (!segment)
      return head.open
        ? [{ file: path, text: existsSync(path) ? 'does not begin as a segment of the commit log does' : 'is missing' }]
        : []
    if (segment.history === head.history || isUnused(file, head, segment)) return []
    if (segment.history === left) {
      const { reach } = surveyLog(file, left, head.batch)
      if (reach <= head.batch) return []
      return [
        {
          file: path,
          text: `goes on to batch ${reach} of the store of which ${file} is a backup, which ends with batch ${head.batch}`
        }
      ]
    }
    if (!earlier.get(Buffer.from(segment.history, 'hex'))) {
      return [
        {
          file: path,
          text: `is of start ${segment.boot} of a store that went on without ${file}, which ends with start ${head.boot}: the database is ${left === undefined ? 'older' : 'a backup'}, or another one`
        }
      ]
    }
    return head.open
      ? [
          {
            file: path,
            text: `is older than the database: it is of start ${segment.boot}, and the database of start ${head.boot}`
          }
        ]
      : []
  })
  if (!head.open && log.reach > head.batch) {
    const text = `was closed with batch ${head.batch}, and its log went on to batch ${log.reach}: it is an older copy`
    damage.push({ file, text })
  }
  if (head.open && log.reach < head.batch) {
    damage.push({
      file: one,
      text: `and ${two} ${log.reach === 0 ? 'have no batch' : `end with batch ${log.reach}`}, and the database has batch ${head.batch}: they are older`
    })
  }
  return damage
}

/**
 * Checks a database whose first start did not complete. If a log has batches, the write-ahead log has lost the changes
 * of that start.
 */
function checkUnbegun(file: string): Damage[] {
  return segmentPaths(file).flatMap((path): Damage[] => {
    const segment = withSegment(path, readSegmentHead)
    if (!segment || surveyLog(file, segment.history, 0).reach === 0) return []
    return [
      {
        file: path,
        text: `has batches of start ${segment.boot}, of which ${file} knows nothing: the end of its write-ahead log is missing, or the database is older`
      }
    ]
  })
}

/** Whether a segment was made by a start of this database that was killed before it recorded itself in the database. */
function isUnused(file: string, head: Head, { history, base }: SegmentHead): boolean {
  return base === baseOf(head) && surveyLog(file, history, 0).reach === 0
}

/** Checks that the log continues the database without a gap. A database that was closed needs no log. */
function checkRuns(file: string, head: Head, log: LogSurvey): Damage[] {
  if (!head.open) return []
  return missingBatches(log, head.batch).map(([first, last]) => {
    const batches = first === last ? `batch ${first} is` : `batches ${first} to ${last} are`
    const broken = log.broken.find(({ number }) => number >= first && number <= last)
    if (broken) return { file: broken.path, text: `is damaged at byte ${broken.from}: ${batches} missing` }
    const before = log.runs.find((run) => run.last === first - 1)
    const behind = `${log.witness} says that the log went on to batch ${log.reach}`
    if (before)
      return {
        file: before.path,
        text: `is damaged or cut off behind byte ${before.to}: ${batches} missing, and ${behind}`
      }
    return {
      file,
      text: `ends with batch ${head.batch} of start ${head.boot}: ${batches} missing, and ${behind}; the database, its write-ahead log or a part of the commit log is older, or damaged`
    }
  })
}
