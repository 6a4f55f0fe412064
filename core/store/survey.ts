// Looks at all files of a store before anything is written: what the commit log has for the database, and what is
// damaged or missing.
import { closeSync, existsSync, fstatSync, openSync, statSync } from 'node:fs'
import { entryColumns } from './batch.ts'
import { historyLeft, readHead } from './head.ts'
import type { Head } from './head.ts'
import type { Damage } from './damage.ts'
import { scanFrames } from './frame-reader.ts'
import { entryHash } from './journal.ts'
import { canonicalPath } from './lock.ts'
import { baseOf, framesAt, readNote, readSegmentHead, segmentPaths } from './segment.ts'
import type { SegmentHead } from './segment.ts'
import { connect, isUnreadable, openForReading } from './sqlite.ts'
import type { Database, Value } from './sqlite.ts'
import { compareWriteAhead, versionAfter } from './write-ahead.ts'

/** Frames that follow each other in a segment. */
export interface Run {
  path: string
  /** Where the first begins, and the last ends. */
  from: number
  to: number
  first: number
  last: number
}

/** A frame whose head is whole and whose payload is not. */
export interface Broken {
  path: string
  from: number
  to: number
  number: number
}

/** What a commit log has of one history. */
export interface LogSurvey {
  runs: readonly Run[]
  broken: readonly Broken[]
  /** The last batch that is known to have been written, and the file that says so. */
  reach: number
  witness: string
}

/** What there is of a store. */
export interface Survey {
  /** As stored; undefined when there is no store yet. */
  head: Head | undefined
  log: LogSurvey
  /** None: the store can start. */
  damage: readonly Damage[]
}

/**
 * Looks at the files of a store that nobody has open.
 * @throws Error when the database cannot be read at all, or a newer version wrote it
 */
export function survey(file: string): Survey {
  const mismatch = mismatchOf(file)
  if (mismatch) return { head: undefined, log: nothing, damage: [mismatch] }
  if (sizeOf(file) === 0) return { head: undefined, log: nothing, damage: orphans(file) }
  // What a crash in its first moments left can only be undone by a writer.
  const database = sizeOf(`${file}-journal`) > 0 ? connect(file) : openForReading(file)
  try {
    if (!hasHead(database)) return { head: undefined, log: nothing, damage: orphans(file) }
    const head = readHead(database)
    // It was not started to the end yet, and nothing can have been written to a log.
    if (head.history === '') return { head, log: nothing, damage: checkUnbegun(file) }
    const log = surveyLog(file, head.history, head.batch)
    const damage = checkHead(database, file, head)
    for (const query of readAtStart) database.prepare(query).all()
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
 * What the commit log of a store has beyond its database, and what is damaged or missing, beside a gateway that may be
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
      // Frames that are known to be written are looked for once more. Those that are not in the database even then
      // cannot have been written over.
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

/** A start that fails because it cannot read these has changed the files by then. */
const readAtStart = ['balance', 'price', 'key', 'reservation']
  .map((table) => `SELECT count(*) FROM ${table}`)
  .concat('SELECT length(json) FROM request ORDER BY seq DESC LIMIT 1024')

function mismatchOf(file: string): Damage | undefined {
  if (!existsSync(file)) return undefined
  const fd = openSync(file, 'r')
  try {
    return compareWriteAhead(file, fd)
  } finally {
    closeSync(fd)
  }
}

/** Of a log that has nothing for a database. */
export const nothing: LogSurvey = { runs: [], broken: [], reach: 0, witness: '' }

/** What the segments have of a history. The payloads of batches up to `after` are not looked at. */
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

/** In bytes; 0 when there is no such file. */
function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/** Does something with a segment that is a file; returns undefined when there is none. */
function withSegment<T>(path: string, work: (fd: number) => T): T | undefined {
  if (!existsSync(path)) return undefined
  const fd = openSync(path, 'r')
  try {
    return fstatSync(fd).isFile() ? work(fd) : undefined
  } finally {
    closeSync(fd)
  }
}

/** The batches after `after` that are nowhere, though the log went on behind them; as ranges, both ends included. */
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

/** Without a database there is no store, and nothing may be left of one. */
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

/** Whether a database has been a store's before. */
export function hasHead(database: Database): boolean {
  return database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'head'").get() !== undefined
}

/** The pages of the database must be of one moment: a transaction writes its number twice. */
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

/** And the journal must end as the head says. */
export function checkHead(database: Database, file: string, head: Head): Damage[] {
  const pages = checkPages(database, file, head)
  if (pages.length > 0) return pages
  const text = checkLastEntry(database, head)
  return text === undefined ? [] : [{ file, text, unsound: true }]
}

/** What is wrong with the last row of the journal, which must be the one that the head names. */
export function checkLastEntry(database: Database, head: Head): string | undefined {
  const statement = database.prepare(
    `SELECT seq, boot_id, lower(hex(prev_hash)) AS previous, ${entryColumns.join(', ')} FROM journal ORDER BY seq DESC LIMIT 1`
  )
  statement.setReadBigInts(true)
  const last = statement.get()
  if (Number(last?.['seq'] ?? 0) !== head.seq)
    return `is damaged: the journal ends at row ${last?.['seq'] ?? 0} instead of ${head.seq}`
  if (!last) return undefined
  const columns = entryColumns.map((name) => last[name] as Value)
  if (entryHash(last['previous'] as string, head.seq, Number(last['boot_id']), columns, 0) === head.hash)
    return undefined
  return `is damaged: row ${head.seq} of the journal does not have the hash it was written with`
}

/** The segments must be those of the last start, unless all that they had is known to be in the database. */
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
 * A database that no start has begun has no batches in its log: else its write-ahead log has lost what that start did.
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

/** Made by a start that began where the database ends, and did not get as far as to begin there. */
function isUnused(file: string, head: Head, { history, base }: SegmentHead): boolean {
  return base === baseOf(head) && surveyLog(file, history, 0).reach === 0
}

/** The log must go on where the database ends, and without a gap. One that was closed needs none. */
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
