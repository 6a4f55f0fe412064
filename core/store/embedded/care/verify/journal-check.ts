// Checks a journal in segments, for `verify`: its files, what they add up to, and what the database made of that.
import { basename } from 'node:path'
import type { Head } from '../../database/head.ts'
import { readRows } from '../../files/sqlite.ts'
import type { Database, Row } from '../../files/sqlite.ts'
import { entryWidth } from '../../journal/journal.ts'
import { volumeFolder } from '../../journal/volume.ts'
import { rowOf } from '../../recovery/folded-leftovers.ts'
import { entryColumns } from '../../rows/batch.ts'
import type { Batch } from '../../rows/batch.ts'
import { Fold } from '../../segments/fold.ts'
import { framesOf, historyAt, sealedSourcesOf } from '../../segments/frames.ts'
import { nameOf } from '../../segments/holds.ts'
import { surveyWhileWritten } from '../../segments/journal-reader.ts'
import { lastBatch } from '../../segments/journal-survey.ts'
import type { JournalSurvey } from '../../segments/journal-survey.ts'
import { checkVolume } from '../../segments/sealing.ts'
import { Volume } from '../../segments/volume.ts'
import { pastHours } from '../../upkeep/past-hours.ts'
import { checkBalances, checkHolds, offBy } from './balance-check.ts'
import type { Checking } from './checking.ts'
import { stride } from './checking.ts'
import { EndCheck } from './end-check.ts'
import { checkAmount, post } from './entry-check.ts'
import type { Report } from './invariants.ts'
import { checkSpend } from './spend-check.ts'

const at = Object.fromEntries(entryColumns.map((name, i) => [name, i])) as Record<(typeof entryColumns)[number], number>

/**
 * Checks all volumes as a whole, that the frames follow each other from the first one, every entry, and that checkpoint
 * and database have the same place and the same money. A gateway may be running. Returns what the journal adds up to;
 * undefined when it could not be read to its end. Records are not looked at: `record-comparison` does that.
 */
export function checkSegments(checking: Checking): Fold | undefined {
  const { file, head, report, check } = checking
  const fold = new Fold()
  let whole = false
  check(['I3', 'I4', 'I5', 'I7', 'I10', 'I16', 'I18'], () => {
    const found = surveyWhileWritten(volumeFolder(file))
    for (const { file: path, text } of [...found.damage, ...found.passed]) report('I18', basename(path), text)
    if (found.damage.length > 0) return
    whole = new JournalCheck(checking, found, fold).run()
    const last = lastBatch(found)
    if (head.history !== '' && historyAt(found, head.batch) !== head.history && head.batch <= last)
      report(
        'I18',
        basename(file),
        `has batch ${head.batch} of history ${head.history}, which the journal does not have`
      )
  })
  return whole ? fold : undefined
}

/** Checks open holds, balances and spend against what a whole journal adds up to. */
export function checkFold({ database, accounts, spend, report, progress, check }: Checking, fold: Fold): void {
  check(['I9'], () => {
    const holds = [...fold.holds].map(rowOf)
    progress('reservation', checkHolds(holds, fold.place.boot, accounts, report))
  })
  check(['I1', 'I2', 'I6', 'I14'], () => {
    const rows = [...fold.balances].map(({ scope, window, posted, pending, limit = null }): Row => ({
      scope,
      window,
      posted,
      pending,
      limit
    }))
    progress('balance', checkBalances(rows, { whole: true, upToDate: true, past: () => false }, accounts, report))
  })
  check(['I19'], () => checkSpend(database, true, spend, report))
}

/** One reading of a journal, from the first batch on. */
class JournalCheck {
  readonly #checking: Checking
  readonly #found: JournalSurvey
  readonly #fold: Fold
  readonly #ends = new EndCheck()
  #seq = 0
  #batch = 0

  /** Everything is added to `fold`. */
  constructor(checking: Checking, found: JournalSurvey, fold: Fold) {
    this.#checking = checking
    this.#found = found
    this.#fold = fold
  }

  /** Returns whether all of it could be read. */
  run(): boolean {
    const { report, progress } = this.#checking
    const fold = this.#fold
    try {
      for (const from of sealedSourcesOf(this.#found)) {
        // What ends again much later is found by the names of all ends.
        fold.marked()
        if (from.source instanceof Volume) {
          const wrong = checkVolume(from.source, fold, (batch) => this.#add(batch))
          if (wrong !== undefined) report('I18', basename(from.source.path), wrong)
          // What follows it has nothing to go on from.
          if (fold.place.batch !== from.last) return false
        } else
          for (const { batch, head } of framesOf(from, fold.place.batch)) {
            fold.add(batch, head)
            this.#add(batch)
          }
      }
    } catch (error) {
      report('I10', 'journal', (error as Error).message)
      return false
    }
    progress('journal', this.#seq, this.#seq)
    this.#ends.report(() => namesIn(this.#found), report)
    return true
  }

  #add(batch: Batch): void {
    const { database, head, spend, report, progress } = this.#checking
    const { number, entries } = batch
    // The database may be behind.
    const stored = number <= head.batch
    if (Math.floor(this.#seq / stride) < Math.floor((this.#seq + entries.length / entryWidth) / stride))
      progress('journal', this.#seq, Math.max(this.#seq, head.seq))
    if (number - this.#batch >= stride) progress('batch', (this.#batch = number), lastBatch(this.#found))
    for (let i = 0; i < entries.length; i += entryWidth) {
      this.#entry(entries, i)
      if (stored) spend.add(entries, i)
    }
    if (number === this.#found.fold.place.batch) compareCheckpoint(this.#found.fold, this.#fold, report)
    if (number === head.batch) compareDatabase(database, head, this.#fold, report)
  }

  #entry(entries: Batch['entries'], i: number): void {
    const { prices, accounts, report } = this.#checking
    const seq = ++this.#seq
    const name = `journal ${seq}`
    const row: Row = {
      kind: entries[i + at.kind]!,
      scopes: entries[i + at.scopes]!,
      amount: entries[i + at.amount]!,
      reserved: entries[i + at.reserved]!,
      usage_json: entries[i + at.usage_json]!,
      channel: entries[i + at.channel]!,
      price_version: entries[i + at.price_version]!,
      source: entries[i + at.source]!,
      ts_ms: entries[i + at.ts_ms]!,
      cost: entries[i + at.cost]!,
      cost_price: entries[i + at.cost_price]!
    }
    checkAmount(name, row, prices, report)
    post(name, row, true, accounts, report)
    if (entries[i + at.class] !== 'terminal') return
    this.#ends.add(nameOf(entries[i + at.request_id] as string, entries[i + at.part] as string))
  }
}

/** The names of all ends. */
function* namesIn(found: JournalSurvey): Generator<string> {
  for (const from of sealedSourcesOf(found))
    for (const { batch } of framesOf(from, from.head.after))
      for (let i = 0; i < batch.entries.length; i += entryWidth)
        if (batch.entries[i + at.class] === 'terminal')
          yield nameOf(batch.entries[i + at.request_id] as string, batch.entries[i + at.part] as string)
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
      report(
        'I1',
        `${what} ${name}`,
        `has ${one.posted} posted where the segments make ${other.posted}`,
        offBy(one.posted, other.posted)
      )
    if (one.pending !== other.pending)
      report(
        'I2',
        `${what} ${name}`,
        `has ${one.pending} pending where the segments make ${other.pending}`,
        offBy(one.pending, other.pending)
      )
  }
}
