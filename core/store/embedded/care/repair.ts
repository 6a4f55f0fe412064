// The repair of a damaged store, for `sluice ledger repair`: plans it, and carries it out on request.
import { existsSync, mkdirSync, renameSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { holdColumns } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import { Committer } from '../database/committer.ts'
import { historyLeft, readHead } from '../database/head.ts'
import type { Damage } from '../files/damage.ts'
import { withFile } from '../files/reading.ts'
import { batchesOf } from '../recovery/replay.ts'
import { migrate } from '../database/migration.ts'
import { syncDirectory } from '../files/directory.ts'
import { baseOf, readSegmentHead, segmentPaths } from '../log/segment.ts'
import type { SegmentHead } from '../log/segment.ts'
import { volumeFolder } from '../journal/volume.ts'
import { hasJournal } from '../segments/folder.ts'
import { SpendTable } from '../database/spend-table.ts'
import { batchesInJournal, batchesOfJournal, damageBeside, makeAnew } from './journal-repair.ts'
import { leaving, planSalvage, salvage } from './salvage/salvage.ts'
import type { Salvage } from './salvage/salvage.ts'
import type { Loss } from './salvage/mending.ts'
import { Share } from './share.ts'
import { counted, toldAs } from './tell.ts'
import type { Reached, Tell } from './tell.ts'
import { fillTraffic } from './verify/traffic-check.ts'
import { connectAlone, openDatabase } from '../files/sqlite.ts'
import type { Database, Value } from '../files/sqlite.ts'
import { checkHead, hasHead, missingBatches, nothing, survey, surveyLog } from '../recovery/survey.ts'
import type { LogSurvey } from '../recovery/survey.ts'

/** What is wrong with a store, and what a repair would do about it. */
export interface RepairPlan {
  damage: readonly Damage[]
  /**
   * The database that the repair starts from: the whole one, the one without its write-ahead log when only that is
   * sound, or a new one; `anew` where all that it should have is in the journal, from which it is made again, and
   * `mended` where that has to be mended before.
   */
  base: 'whole' | 'without its write-ahead log' | 'new' | 'anew' | 'mended'
  /** The batches of the commit log that the repair applies. */
  saved: Share
  /** Ranges of batches, both ends included, that no file has. What they charged is not known. */
  lost: readonly (readonly [first: number, last: number])[]
  /** What else is known of them, where the journal is in segments. */
  loss?: Loss
  /**
   * The batches that the log has of other histories, such as the one that a backup was copied from. They are not
   * applied.
   */
  foreign: Share
  /** Whether the end of the commit log is there: then no batch after the last one in it was ever acknowledged. */
  endKnown: boolean
  /** The files that are moved aside, because not everything in them could be used. */
  aside: readonly string[]
}

/** The batches to apply: those of one history after the batch `after`. */
interface Source {
  history: string
  after: number
  log: LogSurvey
  /**
   * Whether the history began where the database ends, so that the changes of that start are missing from the database.
   */
  begun: boolean
  /** Whether the end of the commit log is there. */
  endKnown: boolean
  /**
   * The history that this database, a backup, was copied from, and the last batch that it has of it. The log may have
   * more of it, which does not belong to this database.
   */
  left?: { history: string; batch: number } | undefined
}

/**
 * Inspects a store that this process owns, without changing it. Returns undefined when nothing is wrong.
 * @throws Error when no sound state can be made of the files
 */
export function planRepair(file: string, tell: Tell = () => {}): RepairPlan | undefined {
  if (hasJournal(volumeFolder(file))) return planAnew(file, tell)
  tell('looking at the commit log')
  const damage = damageIn(file, tell)
  if (damage.length === 0) return undefined
  tell('looking for a sound state of the database')
  const base = baseFor(file, damage)
  const source = sourceOf(file, base)
  const wal = `${file}-wal`
  const aside = [...segmentPaths(file), ...(base === 'whole' ? [] : [wal]), ...(base === 'new' ? [file] : [])].filter(
    (path) => statSync(path, { throwIfNoEntry: false })?.size
  )
  const saved = Share.of(counted(batchesOf(source), batchesIn(source), toldAs(tell, 'reading the commit log')))
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
    foreign: Share.of(
      [...foreign].flatMap((history) => {
        const after = history === left?.history ? left.batch : 0
        return [...batchesOf({ history, after, log: surveyLog(file, history, after) })]
      })
    )
  }
}

/** The plan for a store whose journal is in segments; undefined when nothing is wrong. */
function planAnew(file: string, tell: Tell): RepairPlan | undefined {
  tell('looking at the journal')
  const found = planSalvage(file, tell)
  if (found) return planMended(file, found)
  const unfit = damageBeside(file)
  const damage = unfit ? [unfit] : damageIn(file, tell)
  if (damage.length === 0) return undefined
  const aside = ['', '-wal', '-shm'].map((ending) => `${file}${ending}`).filter((path) => existsSync(path))
  const told = toldAs(tell, 'reading the journal')
  const saved = Share.of(counted(batchesOfJournal(file), batchesInJournal(file), told))
  return { damage, base: 'anew', saved, lost: [], endKnown: true, foreign: new Share(), aside }
}

function planMended(file: string, { damage, loss, saved, foreign }: Salvage): RepairPlan {
  const { gaps } = loss
  const lost = gaps.map(({ first, last }) => [first, last] as const)
  const aside = leaving(file).map((name) => join(dirname(file), name))
  return { damage, base: 'mended', saved, lost, loss, foreign, aside, endKnown: gaps.at(-1)?.until !== undefined }
}

/**
 * Carries out a plan. The next start then ends the open holds. Returns the folder that files were moved aside to. `now`
 * is in Unix milliseconds.
 */
export function repair(file: string, plan: RepairPlan, now: number, tell: Tell = () => {}): string {
  tell('putting files aside')
  const folder = `${file}.damaged-${new Date(now).toISOString().replaceAll(/[:.]/g, '-')}`
  mkdirSync(folder, { mode: 0o700 })
  const putAside = (paths: readonly string[]): void => {
    for (const path of paths) if (existsSync(path)) renameSync(path, join(folder, basename(path)))
    syncDirectory(folder)
    syncDirectory(dirname(file))
  }
  if (plan.base === 'mended') {
    salvage(file, folder, now, tell)
    return folder
  }
  if (plan.base === 'anew') {
    putAside(plan.aside)
    makeAnew(file, toldAs(tell, 'making the database anew'))
    return folder
  }
  const source = sourceOf(file, plan.base)
  const [one, two] = segmentPaths(file)
  putAside(plan.aside.filter((path) => path !== one && path !== two))
  const database = openDatabase(file, 'power', (opened) => migrate(opened, file))
  try {
    const committer = new Committer(database)
    save(committer, source, toldAs(tell, 'applying the commit log'))
    tell('closing the database')
    // From here on the store needs no log: if the process is killed now, the repair is complete but for moving the log
    // aside.
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

/**
 * Adds the spend of a sound store up anew from its journal.
 * @throws Error when the file of a volume is missing or was changed
 */
export function repairSpend(file: string, tell: Tell = () => {}): void {
  const database = openDatabase(file, 'power', (opened) => migrate(opened, file))
  try {
    const told = toldAs(tell, 'adding spend up')
    new Committer(database).alter((head) => {
      database.exec('DELETE FROM spend_day; DELETE FROM spend_month; DELETE FROM spender')
      new SpendTable(database).fill(database, file, (entries) => told(entries, head.seq))
    })
  } finally {
    database.close()
  }
}

/** Adds the traffic of a sound store up anew from its request records, as far back as there are some. */
export function repairTraffic(file: string, tell: Tell = () => {}): void {
  const database = openDatabase(file, 'power', (opened) => migrate(opened, file))
  try {
    const of = Number(database.prepare('SELECT count(*) AS records FROM request').get()!['records'])
    const told = toldAs(tell, 'adding traffic up')
    new Committer(database).alter((head) => fillTraffic(database, head, (records) => told(records, of)))
  } finally {
    database.close()
  }
}

/** The damage that a start would find. If it finds none, the first finding of SQLite's check of all pages. */
function damageIn(file: string, tell: Tell): readonly Damage[] {
  const { damage, head } = survey(file)
  if (damage.length > 0 || !head) return damage
  tell('checking all pages of the database')
  const found = lookAt(file, true)
  return found === 'sound' ? [] : [{ file, text: `is damaged: ${found}`, unsound: true }]
}

/**
 * Decides which database the repair starts from.
 * @throws Error when there is a database and no state of it is sound
 */
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

/** Returns `sound`, `empty` when there is no store in the file, or what is wrong with the database. */
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
 * Finds the batches for a database: those of its own history, or of the history that began where it ends; for a new
 * database, those of the log's history. A backup and a copy of a closed store get none, because the log belongs to a
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
  return withFile(path, readSegmentHead)
}

const priceColumn = holdColumns.indexOf('price_version')

/** How many batches there are to apply. */
function batchesIn({ log, after }: Source): number {
  let [number, next] = [0, after + 1]
  for (const { first, last } of [...log.runs].sort((a, b) => a.first - b.first)) {
    number += Math.max(0, last - Math.max(first, next) + 1)
    next = Math.max(next, last + 1)
  }
  return number
}

/**
 * Behind lost batches, holds from before get ids beyond this one, which no store gives, so that later batches do not
 * change them by mistake.
 */
const strangeIds = 2 ** 40

/**
 * Applies the batches. From the first gap on, the moves of balances in a batch are ignored, as the start computes them
 * from the journal, and holds whose end is in the journal are deleted.
 */
function save(committer: Committer, source: Source, reached: Reached): void {
  const { database } = committer
  let last = source.after
  let gaps = 0
  for (const batch of counted(batchesOf(source), batchesIn(source), reached)) {
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

/**
 * Returns the part of a batch that does not depend on earlier batches. Holds at a lost price are left out, as they
 * could not be ended.
 */
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
