// Brings a damaged store to a state that starts: what `sluice ledger repair` shows, and does when it is told to.
import { closeSync, existsSync, mkdirSync, openSync, renameSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { entryColumns, holdColumns } from './batch.ts'
import type { Batch } from './batch.ts'
import { Committer } from './committer.ts'
import { historyLeft, readHead } from './head.ts'
import type { Damage } from './damage.ts'
import { readFrames } from './frame-reader.ts'
import { migrate } from './schema.ts'
import { baseOf, readSegmentHead, segmentPaths, syncDirectory } from './segment.ts'
import type { SegmentHead } from './segment.ts'
import { connectAlone, openDatabase } from './sqlite.ts'
import type { Database, Value } from './sqlite.ts'
import { checkHead, hasHead, missingBatches, nothing, survey, surveyLog } from './survey.ts'
import type { LogSurvey } from './survey.ts'

/** Batches, and what they charge in nano-dollars. */
export interface Share {
  batches: number
  charges: number
  amount: bigint
}

/** What is wrong, and what a repair does about it. */
export interface RepairPlan {
  damage: readonly Damage[]
  /** The database is sound, at least without its write-ahead log; else a new one is begun. */
  base: 'whole' | 'without its write-ahead log' | 'new'
  /** What of the commit log goes into the database. */
  saved: Share
  /** Ranges of batches, both ends included, that are nowhere. What they charged is not known. */
  lost: readonly (readonly [first: number, last: number])[]
  /** What the log has of a history that is not this database's, as that which a backup has left. */
  foreign: Share
  /** The commit log is there: what it does not tell of was never acknowledged. */
  endKnown: boolean
  /** Files that are put aside, with what could not be read of them. */
  aside: readonly string[]
}

/** What is to be applied: frames of one history behind a batch. */
interface Source {
  history: string
  after: number
  log: LogSurvey
  /** The history began where the database ends, and what its start did to the database is lost. */
  begun: boolean
  /** The commit log has its end. */
  endKnown: boolean
  /** How far the database knows a history that the log may have more of, which is not its own any more. */
  left?: { history: string; batch: number } | undefined
}

/**
 * Looks at a store that this process owns; changes nothing. Undefined when nothing is wrong with it.
 * @throws Error when no sound state can be made of what there is
 */
export function planRepair(file: string): RepairPlan | undefined {
  const damage = damageIn(file)
  if (damage.length === 0) return undefined
  const base = baseFor(file, damage)
  const source = sourceOf(file, base)
  const wal = `${file}-wal`
  const aside = [...segmentPaths(file), ...(base === 'whole' ? [] : [wal]), ...(base === 'new' ? [file] : [])].filter(
    (path) => statSync(path, { throwIfNoEntry: false })?.size
  )
  const saved = share(batchesOf(source))
  const foreign = new Set(
    segmentPaths(file)
      .flatMap((path) => headOf(path)?.history ?? [])
      .filter((history) => history !== source.history)
  )
  const { left, endKnown } = source
  return {
    damage,
    base,
    saved,
    lost: missingBatches(source.log, source.after),
    endKnown,
    aside,
    foreign: share(
      [...foreign].flatMap((history) => {
        const after = history === left?.history ? left.batch : 0
        return [...batchesOf({ history, after, log: surveyLog(file, history, after) })]
      })
    )
  }
}

/**
 * Does what the plan says; the next start ends what is open. Returns the folder where files were put aside. `now`: Unix
 * milliseconds.
 */
export function repair(file: string, plan: RepairPlan, now: number): string {
  const folder = `${file}.damaged-${new Date(now).toISOString().replaceAll(/[:.]/g, '-')}`
  mkdirSync(folder, { mode: 0o700 })
  const source = sourceOf(file, plan.base)
  const [one, two] = segmentPaths(file)
  const putAside = (paths: readonly string[]): void => {
    for (const path of paths) if (existsSync(path)) renameSync(path, join(folder, basename(path)))
    syncDirectory(folder)
    syncDirectory(dirname(file))
  }
  putAside(plan.aside.filter((path) => path !== one && path !== two))
  const database = openDatabase(file, 'power', (opened) => migrate(opened, file))
  try {
    const committer = new Committer(database)
    save(committer, source)
    // From here on the store needs no log: a repair that is killed before the next line has done its work.
    committer.alter((head) =>
      Object.assign(head, {
        open: false,
        batch: Math.max(head.batch, source.history === head.history ? source.log.reach : 0)
      })
    )
  } finally {
    database.close()
  }
  putAside([one, two])
  return folder
}

/** What a start sees, and of a database that it would open what SQLite finds in all of its pages. */
function damageIn(file: string): readonly Damage[] {
  const { damage, head } = survey(file)
  if (damage.length > 0 || !head) return damage
  const found = lookAt(file, true)
  return found === 'sound' ? [] : [{ file, text: `is damaged: ${found}`, unsound: true }]
}

/** What there is to begin with. @throws Error when there is a database and no state of it is sound */
function baseFor(file: string, damage: readonly Damage[]): RepairPlan['base'] {
  if (!statSync(file, { throwIfNoEntry: false })?.size) return 'new'
  const mixed = damage.some(({ unsound }) => unsound)
  const found = lookAt(file, !mixed)
  if (found === 'sound') return mixed ? 'without its write-ahead log' : 'whole'
  if (found === 'empty') return 'new'
  throw new Error(
    `${damage.map((one) => `${one.file} ${one.text}`).join('; ')}. No state of the database is sound: ${found}. Bring back a backup (\`sluice ledger backup\` makes them); nothing was changed`
  )
}

/** Whether the pages of a database are those of one moment, else what is wrong. */
function lookAt(file: string, withLog: boolean): string {
  const database = connectAlone(file, withLog)
  try {
    if (!hasHead(database)) return 'empty'
    const [finding] = Object.values(database.prepare('PRAGMA integrity_check(1)').get()!)
    if (finding !== 'ok') return String(finding)
    return checkHead(database, file, readHead(database))[0]?.text ?? 'sound'
  } catch (error) {
    return (error as Error).message
  } finally {
    database.close()
  }
}

/**
 * Where frames for the database are: those of its own history or of the one that began where it ends, and for a new
 * database those of the log's. A backup, and a copy of a store that was closed, take none: what the log has is of a
 * store that went on without them.
 */
function sourceOf(file: string, base: RepairPlan['base']): Source {
  const heads = segmentPaths(file).flatMap((path) => headOf(path) ?? [])
  const of = (history: string, after: number, begun: boolean): Source => {
    const log = surveyLog(file, history, after)
    return { history, after, log, begun, endKnown: log.reach >= after && heads.some((one) => one.history === history) }
  }
  if (base === 'new') return of(heads[0]?.history ?? '', 0, false)
  const database = connectAlone(file, base === 'whole')
  try {
    const head = readHead(database)
    const left = historyLeft(database, head)
    const next = left === undefined && heads.find((one) => one.history !== head.history && one.base === baseOf(head))
    if (next) return of(next.history, 0, true)
    if (head.open) return of(head.history, head.batch, false)
    const known = { history: left ?? head.history, batch: head.batch }
    return { history: '', after: head.batch, log: nothing, begun: false, endKnown: true, left: known }
  } finally {
    database.close()
  }
}

function headOf(path: string): SegmentHead | undefined {
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return undefined
  return reading(path, readSegmentHead)
}

function reading<T>(path: string, work: (fd: number) => T): T {
  const fd = openSync(path, 'r')
  try {
    return work(fd)
  } finally {
    closeSync(fd)
  }
}

/** The batches that there are, each once, in their order. */
function* batchesOf({ history, after, log }: Pick<Source, 'history' | 'after' | 'log'>): Generator<Batch> {
  let last = after
  for (const run of [...log.runs].sort((a, b) => a.first - b.first)) {
    const fd = openSync(run.path, 'r')
    try {
      for (const { batch } of run.last > last ? readFrames(fd, history, last, run.from) : []) {
        if (batch.number > run.last) break
        last = batch.number
        yield batch
      }
    } finally {
      closeSync(fd)
    }
  }
}

const [kindColumn, amountColumn] = [entryColumns.indexOf('kind'), entryColumns.indexOf('amount')]
const priceColumn = holdColumns.indexOf('price_version')

function share(batches: Iterable<Batch>): Share {
  const sum = { batches: 0, charges: 0, amount: 0n }
  for (const { entries } of batches) {
    sum.batches++
    for (let i = 0; i < entries.length; i += entryColumns.length) {
      if (entries[i + kindColumn] !== 'settle') continue
      sum.charges++
      sum.amount += entries[i + amountColumn] as bigint
    }
  }
  return sum
}

/**
 * Ids of rows that holds have when the batches between are lost: beyond all that a store gives, so that later batches
 * do not mean them.
 */
const strangeIds = 2 ** 40

/**
 * Applies what there is. Behind a gap each batch stands for itself: balances follow from the journal, and holds from
 * who is not in it.
 */
function save(committer: Committer, source: Source): void {
  const { database } = committer
  let last = source.after
  let gaps = 0
  for (const batch of batchesOf(source)) {
    if (batch.number > last + 1 || (source.begun && gaps === 0)) {
      gaps++
      committer.alter(() =>
        database.exec(`UPDATE reservation SET id = id + ${strangeIds * gaps} WHERE id < ${strangeIds}`)
      )
    }
    last = batch.number
    committer.add(gaps === 0 ? batch : alone(database, batch))
    committer.commit()
  }
  if (gaps === 0) return
  committer.alter(() =>
    database.exec(`
    DELETE FROM reservation WHERE EXISTS (
      SELECT 1 FROM journal WHERE journal.request_id = reservation.request_id AND journal.part = reservation.part AND class = 'terminal')`)
  )
}

/** What of a batch does not need those before it. A hold whose price was lost cannot be ended, and is left out. */
function alone(database: Database, batch: Batch): Batch {
  const known = database.prepare('SELECT 1 FROM price WHERE version = ?')
  const opened: Value[] = []
  for (let i = 0; i < batch.opened.length; i += holdColumns.length) {
    const hold = batch.opened.slice(i, i + holdColumns.length)
    const price = hold[priceColumn] as string
    if (known.get(price) || batch.prices.includes(price)) opened.push(...hold)
  }
  return { ...batch, opened, moves: [], balanced: false }
}
