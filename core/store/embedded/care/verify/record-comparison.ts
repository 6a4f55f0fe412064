// Compares the request records of a journal in segments with the database and with what the journal charges, for
// `verify`: by itself, so that it can run beside the other checks, in a thread of its own.
import { readHead } from '../../database/head.ts'
import { openForReading } from '../../files/sqlite.ts'
import { entryWidth } from '../../journal/journal.ts'
import { volumeFolder } from '../../journal/volume.ts'
import { entryColumns, recordRow, requestColumns } from '../../rows/batch.ts'
import type { Batch } from '../../rows/batch.ts'
import { framesOf, sealedSourcesOf } from '../../segments/frames.ts'
import { surveyWhileWritten } from '../../segments/journal-reader.ts'
import { stride } from './checking.ts'
import { breachesOf } from './invariants.ts'
import type { Breach, Report } from './invariants.ts'
import { RecordCheck } from './record-check.ts'
import { attempt } from './soundness.ts'

const at = Object.fromEntries(entryColumns.map((name, i) => [name, i])) as Record<(typeof entryColumns)[number], number>

/** What a comparison found of I8, I11, I16 and I20. */
export interface RecordsCompared {
  /** What is wrong with records that were read. */
  readonly breaches: readonly Breach[]
  /** What else is wrong where that was all of the journal: what nothing belongs to, and sums of traffic. */
  readonly left: readonly Breach[]
  /** Why the journal could not be read to its end; undefined when it was. */
  readonly fault: string | undefined
}

/**
 * Compares all records. `file` is the canonical path of the store, which a gateway may be using: it is read in a
 * transaction of its own, and the journal is looked at after that has begun, so it has all batches that the database
 * has there, whichever commit others see. `reached` is called with how many records were read.
 */
export function compareRecords(file: string, reached: (records: number) => void): RecordsCompared {
  const database = openForReading(file)
  try {
    database.exec('BEGIN')
    const head = readHead(database)
    const [found, left]: [Breach[], Breach[]] = [[], []]
    const comparison = new RecordComparison(head.batch, new RecordCheck(database, head, breachesOf(found)), reached)
    try {
      const fault = comparison.run(volumeFolder(file))
      if (fault === undefined)
        attempt(['I8', 'I16', 'I20'], () => comparison.finish(breachesOf(left)), breachesOf(left))
      return { breaches: found, left, fault }
    } finally {
      comparison.close()
    }
  } finally {
    database.close()
  }
}

/** One reading of a journal, from the first batch on. */
class RecordComparison {
  /** The last batch that the database has. */
  readonly #stored: number
  readonly #records: RecordCheck
  readonly #reached: (records: number) => void
  #batch = 0
  #seq = 0
  #count = 0

  constructor(stored: number, records: RecordCheck, reached: (records: number) => void) {
    this.#stored = stored
    this.#records = records
    this.#reached = reached
  }

  /** Returns why it could not be read to its end. */
  run(folder: string): string | undefined {
    try {
      const found = surveyWhileWritten(folder)
      const [damage] = found.damage
      if (damage) return `${damage.file} ${damage.text}`
      for (const from of sealedSourcesOf(found)) {
        for (const { batch, at: begins } of framesOf(from, this.#batch)) this.#add(batch, from.head.ordinal, begins)
        if (this.#batch !== from.last) return `ends with batch ${this.#batch} instead of ${from.last}`
      }
      return undefined
    } catch (error) {
      return (error as Error).message
    }
  }

  finish(report: Report): void {
    this.#records.finish(Date.now(), report)
  }

  close(): void {
    this.#records.close()
  }

  #add({ number, written, entries, records }: Batch, ordinal: number, begins: number): void {
    if (number !== this.#batch + 1) throw new Error(`batch ${number} does not follow batch ${this.#batch}`)
    this.#batch = number
    for (let i = 0; i < entries.length; i += entryWidth) {
      const seq = ++this.#seq
      if (entries[i + at.class] !== 'terminal') continue
      const [id, part] = [entries[i + at.request_id] as string, entries[i + at.part] as string]
      this.#records.end(seq, id, part, entries[i + at.amount] as bigint, entries[i + at.ts_ms] as number)
    }
    const stored = number <= this.#stored ? written : undefined
    const before = this.#count
    this.#count += records.length / requestColumns.length
    for (let i = 0; i < records.length; i += requestColumns.length)
      this.#records.record(
        recordRow(records, i),
        { ordinal, batch: number, at: begins, index: i / requestColumns.length },
        stored
      )
    if (Math.floor(before / stride) < Math.floor(this.#count / stride)) this.#reached(this.#count)
  }
}
