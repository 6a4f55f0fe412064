// Checks a journal in segments, for `verify`: its files, what they add up to, and the database that is made of it.
import { basename } from 'node:path'
import { readHead } from '../database/head.ts'
import type { Head } from '../database/head.ts'
import type { Damage } from '../files/damage.ts'
import { readRows } from '../files/sqlite.ts'
import type { Database } from '../files/sqlite.ts'
import { volumeFolder } from '../journal/volume.ts'
import { Fold } from '../segments/fold.ts'
import { hasJournal } from '../segments/folder.ts'
import { framesBehind, historyAt, sourcesOf } from '../segments/frames.ts'
import { lastBatch, surveyJournal } from '../segments/journal-survey.ts'
import type { JournalSurvey } from '../segments/journal-survey.ts'
import { checkVolume } from '../segments/sealing.ts'
import { Volume } from '../segments/volume.ts'
import type { Batch } from '../rows/batch.ts'
import { pastHours } from '../upkeep/past-hours.ts'
import type { Report } from './invariants.ts'

/** How many times a journal that goes on being written is looked at until it looks damaged. */
const looks = 5

/** How many batches are folded between two reports of progress. */
const stride = 1024

/**
 * Checks the journal of a database, if it has one: all volumes as a whole, that the frames follow each other from the
 * first one, and that checkpoint and database have the same place and the same money. A gateway may be running.
 */
export function checkSegments(
  database: Database,
  file: string,
  report: Report,
  progress: (batches: number, of: number) => void
): void {
  const folder = volumeFolder(file)
  if (!hasJournal(folder)) return
  const found = survey(folder)
  for (const { file: path, text } of [...found.damage, ...found.passed]) report('I18', basename(path), text)
  if (found.damage.length > 0) return
  const last = lastBatch(found)
  const head = readHead(database)
  const fold = new Fold()
  const each = ({ number }: Batch): void => {
    if (number % stride === 0) progress(number, last)
    if (number === found.fold.place.batch) compareCheckpoint(found.fold, fold, report)
    if (number === head.batch) compareDatabase(database, head, fold, report)
  }
  // A segment whose volume is there is not read: the volume stands for it.
  const sealed = new Set(found.volumes.map(({ contents }) => contents.ordinal))
  const segments = found.segments.filter((segment) => !sealed.has(segment.head.ordinal))
  try {
    for (const { source } of sourcesOf({ volumes: found.volumes, segments })) {
      if (source instanceof Volume) {
        const wrong = checkVolume(source, fold, each)
        if (wrong === undefined) continue
        report('I18', basename(source.path), wrong)
        // What follows it has nothing to go on from.
        if (fold.place.batch !== source.contents.last) return
      } else
        for (const { batch, head: segment } of framesBehind({ volumes: [], segments: [source] }, fold.place.batch)) {
          fold.add(batch, segment)
          each(batch)
        }
    }
  } catch (error) {
    report('I10', 'journal', (error as Error).message)
  }
  if (head.history !== '' && historyAt(found, head.batch) !== head.history && head.batch <= last)
    report('I18', basename(file), `has batch ${head.batch} of history ${head.history}, which the journal does not have`)
}

/** Surveys a folder that may be written to meanwhile: what was under way at one look is there at the next. */
function survey(folder: string): JournalSurvey {
  let failure: unknown
  let found: JournalSurvey | undefined
  for (let look = 0; look < looks; look++) {
    try {
      found = surveyJournal(folder)
      if (found.damage.length === 0) return found
    } catch (error) {
      failure = error
    }
  }
  if (found) return found
  const damage: Damage[] = [{ file: folder, text: `cannot be read: ${(failure as Error).message}` }]
  return { ...nothing, damage }
}

const nothing: JournalSurvey = {
  fold: new Fold(),
  stretches: [],
  segments: [],
  volumes: [],
  sound: [],
  ordinal: 1,
  unused: [],
  passed: [],
  damage: []
}

/** Compares the state of a checkpoint with what was folded from the first batch on. */
function compareCheckpoint(checkpoint: Fold, fold: Fold, report: Report): void {
  const name = `checkpoint ${fold.place.batch}`
  for (const [what, value] of Object.entries(fold.place))
    if (checkpoint.place[what as keyof Fold['place']] !== value)
      report(
        'I10',
        name,
        `says ${what} ${checkpoint.place[what as keyof Fold['place']]} where the journal has ${value}`
      )
  compareMoney(name, moneyOf(checkpoint), moneyOf(fold), report)
}

/** Compares the database with the journal up to the batch that it has. */
function compareDatabase(database: Database, head: Head, fold: Fold, report: Report): void {
  const { seq, hash, audits, auditHash } = fold.place
  if (head.seq !== seq || head.hash !== hash)
    report('I10', `journal ${head.seq}`, `ends with ${head.hash} where the segments end with row ${seq} and ${hash}`)
  if (head.audits !== audits || head.auditHash !== auditHash)
    report('I16', 'audit', `ends with entry ${head.audits} where the segments end with entry ${audits}`)
  // The database has balances of an earlier batch while it is being written.
  if (head.balancedBatch !== head.batch) return
  const stored: Money = new Map()
  for (const { scope, window, posted, pending } of readRows(database, 'SELECT * FROM balance'))
    put(stored, `${scope as string} ${window as string}`, posted as bigint, pending as bigint)
  const past = pastHours(database)
  const right = moneyOf(fold)
  for (const name of right.keys()) if (past(name)) right.delete(name)
  compareMoney('balance', stored, right, report)
}

/** What was charged and what is held, by scope and window. */
type Money = Map<string, { readonly posted: bigint; readonly pending: bigint }>

function moneyOf(fold: Fold): Money {
  const money: Money = new Map()
  for (const { scope, window, posted, pending } of fold.balances) put(money, `${scope} ${window}`, posted, pending)
  return money
}

function put(money: Money, name: string, posted: bigint, pending: bigint): void {
  if (posted !== 0n || pending !== 0n) money.set(name, { posted, pending })
}

function compareMoney(what: string, found: Money, right: Money, report: Report): void {
  const none = { posted: 0n, pending: 0n }
  for (const name of new Set([...found.keys(), ...right.keys()])) {
    const [one, other] = [found.get(name) ?? none, right.get(name) ?? none]
    if (one.posted !== other.posted)
      report('I1', `${what} ${name}`, `has ${one.posted} posted where the segments make ${other.posted}`)
    if (one.pending !== other.pending)
      report('I2', `${what} ${name}`, `has ${one.pending} pending where the segments make ${other.pending}`)
  }
}
