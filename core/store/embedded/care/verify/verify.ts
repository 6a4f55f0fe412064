// Checks the ledger of a store against its invariants, on a read-only connection, for `sluice ledger verify`.
import { basename } from 'node:path'
import { Accounts } from './accounts.ts'
import type { Checking, Progress } from './checking.ts'
import { readHead } from '../../database/head.ts'
import { readPrice } from '../../database/due.ts'
import type { Breach, InvariantName, Report } from './invariants.ts'
import { checkSchema } from '../../database/migration.ts'
import { canonicalPath } from '../../files/lock.ts'
import { attempt, checkFile, checkIntegers, checkWritten } from './soundness.ts'
import { openForReading, readRows } from '../../files/sqlite.ts'
import type { Database } from '../../files/sqlite.ts'
import { checkSegments } from './journal-check.ts'
import { checkRecordsAlone, checkStored } from './stored-check.ts'
import { SpendSums } from '../../database/spend-sums.ts'
import { surveyBeside } from '../../recovery/survey.ts'
import { volumeFolder } from '../../journal/volume.ts'
import { hasJournal } from '../../segments/folder.ts'

/**
 * Reads the file of a store once, and returns every row that breaks one of the {@link invariants} that a file can show.
 * A gateway may be running on it. Pending money is compared only when the balances are up to date: a running gateway
 * writes them every second or every few seconds, and a start after a crash brings them up to date.
 * @throws Error when the file is not a store of this version
 */
export function verify(given: string, progress: Progress = () => {}): Breach[] {
  const database = openForReading(given)
  try {
    checkSchema(database, given)
    database.exec('BEGIN')
    const breaches: Breach[] = []
    const report: Report = (invariant, row, message, drift) =>
      void breaches.push({ invariant, row, message, ...(drift !== undefined && { drift_nano: String(drift) }) })
    const [file, head] = [canonicalPath(given), readHead(database)]
    const check = (names: readonly InvariantName[], run: () => void): void => attempt(names, run, report)
    progress('file')
    check(['I17'], () => checkFile(database, report))
    const checking: Checking = {
      database,
      file,
      head,
      prices: new Map(),
      accounts: new Accounts(report),
      spend: new SpendSums(),
      report,
      progress,
      check
    }
    check(['I4'], () => {
      for (const { version, json } of readRows(database, 'SELECT * FROM price'))
        checking.prices.set(version, readPrice(json))
      progress('price', checking.prices.size)
    })
    const segmented = hasJournal(volumeFolder(file))
    // With a journal in segments, records are compared with that.
    const compared = segmented && checkSegments(checking)
    if (!segmented) checkStored(checking)
    check(['I12'], () => checkOutbox(database, report))
    check(['I11'], () => checkIntegers(database, report))
    check(['I16'], () => progress('request', checkWritten(database, report)))
    if (!compared) checkRecordsAlone(checking)
    check(['I18'], () => {
      for (const { file: path, text } of surveyBeside(file).damage) report('I18', basename(path), text)
    })
    return breaches
  } finally {
    database.close()
  }
}

/** Checks I12. */
function checkOutbox(database: Database, report: Report): void {
  for (const row of readRows(database, 'SELECT seq FROM outbox'))
    report('I12', `outbox ${row['seq']}`, 'was not delivered')
}
