// Checks the ledger of a store against its invariants, on read-only connections, for `sluice ledger verify`.
import { basename } from 'node:path'
import { Accounts } from './accounts.ts'
import type { Checking, Progress } from './checking.ts'
import { Comparing } from './comparing.ts'
import { readHead } from '../../database/head.ts'
import { readPrice } from '../../database/due.ts'
import { breachesOf } from './invariants.ts'
import type { Breach, Report } from './invariants.ts'
import { checkSchema } from '../../database/migration.ts'
import { canonicalPath } from '../../files/lock.ts'
import { attempt, checkFile, checkIntegers, checkWritten } from './soundness.ts'
import { openForReading, readRows } from '../../files/sqlite.ts'
import type { Database } from '../../files/sqlite.ts'
import { checkFold, checkSegments } from './journal-check.ts'
import { compareRecords } from './record-comparison.ts'
import type { RecordsCompared } from './record-comparison.ts'
import { checkRecordsAlone, checkStored } from './stored-check.ts'
import { SpendSums } from '../../database/spend-sums.ts'
import { surveyBeside } from '../../recovery/survey.ts'
import { volumeFolder } from '../../journal/volume.ts'
import { hasJournal } from '../../segments/folder.ts'

/**
 * Reads a store, and returns every row that breaks one of the {@link invariants} that its files can show. A gateway may
 * be running on it. Pending money is compared only when the balances are up to date: a running gateway writes them
 * every second or every few seconds, and a start after a crash brings them up to date.
 * @throws Error when the file is not a store of this version
 */
export function verify(given: string, progress: Progress = () => {}): Breach[] {
  const check = new StoreCheck(given, progress)
  try {
    check.run()
    return check.finish(check.segmented ? compareRecords(check.file, (records) => check.reached(records)) : undefined)
  } finally {
    check.close()
  }
}

/**
 * Likewise, and where the journal is in segments in little more than half the time: a second thread compares request
 * records meanwhile. What ends one of the two ends both.
 * @throws Error also when that thread fails or dies
 */
export async function verifyInThreads(given: string, progress: Progress = () => {}): Promise<Breach[]> {
  let comparing: Comparing | undefined
  const check = new StoreCheck(given, (...step) => {
    // This ends the check that is under way. What it makes of that is not returned.
    if (comparing?.failed === true) throw new Error('the comparison of request records failed')
    progress(...step)
  })
  try {
    if (check.segmented) comparing = new Comparing(check.file)
    check.run()
    return check.finish(await comparing?.found((records) => check.reached(records)))
  } catch (error) {
    // Why it failed says more than what that ended here.
    if (comparing?.failed === true) await comparing.found(() => {})
    throw error
  } finally {
    await comparing?.end()
    check.close()
  }
}

/** The check of one store: all of it but the comparison of request records with a journal in segments. */
class StoreCheck {
  /** The canonical path. */
  readonly file: string
  /** Whether its journal is in segments: then its records are to be compared with that by somebody else. */
  readonly segmented: boolean
  readonly #checking: Checking
  readonly #breaches: Breach[] = []
  /** What is found behind the journal, and is told behind what others find in it. */
  readonly #rest: Breach[] = []
  /** Whether a journal in segments could be read to its end. */
  #whole = false
  /** How many request records the database has. */
  #records = 0

  /** @throws Error when the file is not a store of this version */
  constructor(given: string, progress: Progress) {
    const database = openForReading(given)
    try {
      checkSchema(database, given)
      this.file = canonicalPath(given)
      this.segmented = hasJournal(volumeFolder(this.file))
      database.exec('BEGIN')
      const reporting = reportingTo(this.#breaches)
      this.#checking = {
        database,
        file: this.file,
        head: readHead(database),
        prices: new Map(),
        accounts: new Accounts(reporting.report),
        spend: new SpendSums(),
        ...reporting,
        progress
      }
    } catch (error) {
      database.close()
      throw error
    }
  }

  run(): void {
    const checking = this.#checking
    const behind = { ...checking, ...reportingTo(this.#rest) }
    const { database, prices, report, progress, check } = checking
    progress('file')
    check(['I17'], () => checkFile(database, report))
    check(['I4'], () => {
      for (const { version, json } of readRows(database, 'SELECT * FROM price')) prices.set(version, readPrice(json))
      progress('price', prices.size)
    })
    if (this.segmented) {
      const fold = checkSegments(checking)
      this.#whole = fold !== undefined
      if (fold) checkFold(behind, fold)
    } else checkStored(checking)
    behind.check(['I12'], () => checkOutbox(database, behind.report))
    behind.check(['I11'], () => checkIntegers(database, behind.report))
    behind.check(['I16'], () => void (this.#records = checkWritten(database, behind.report)))
  }

  /** Tells how many records were compared with a journal in segments. */
  reached(records: number): void {
    const { head, progress } = this.#checking
    progress('request', records, Math.max(records, head.requests))
  }

  /** Checks what is left. `compared` is what came of its records. Returns all that was found. */
  finish(compared?: RecordsCompared): Breach[] {
    const { report, progress, check } = this.#checking
    const breaches = this.#breaches
    const whole = this.#whole && compared?.fault === undefined
    const found = compared ? [...compared.breaches, ...(whole ? compared.left : [])] : []
    for (const breach of found) breaches.push(breach)
    // Where the checks of money read all of it, its files have changed, or one of the two reads what is not there.
    if (this.#whole && compared?.fault !== undefined) report('I10', 'journal', compared.fault)
    for (const breach of this.#rest) breaches.push(breach)
    progress('request', this.#records)
    // Without a journal to compare them with.
    if (!whole) checkRecordsAlone(this.#checking)
    check(['I18'], () => {
      for (const { file: path, text } of surveyBeside(this.file).damage) report('I18', basename(path), text)
    })
    return breaches
  }

  close(): void {
    this.#checking.database.close()
  }
}

function reportingTo(breaches: Breach[]): Pick<Checking, 'report' | 'check'> {
  const report = breachesOf(breaches)
  return { report, check: (names, run) => attempt(names, run, report) }
}

/** Checks I12. */
function checkOutbox(database: Database, report: Report): void {
  for (const row of readRows(database, 'SELECT seq FROM outbox'))
    report('I12', `outbox ${row['seq']}`, 'was not delivered')
}
