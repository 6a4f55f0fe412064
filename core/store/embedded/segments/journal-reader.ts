// Reads what a journal says of money: its entries, as rows, and the state behind them. A gateway may be writing it.
import { entryColumns } from '../rows/batch.ts'
import type { Row, Value } from '../files/sqlite.ts'
import { entryHash, entryWidth, genesis } from '../journal/journal.ts'
import type { Fold } from './fold.ts'
import { framesBehind, framesOf, sealedSourcesOf } from './frames.ts'
import { surveyJournal } from './journal-survey.ts'
import type { JournalSurvey } from './journal-survey.ts'
import type { Contents } from './summary.ts'
import { Volume } from './volume.ts'

/** How many times a journal that goes on being written is looked at until it looks damaged. */
const looks = 5

/** Surveys a folder that may be written to meanwhile: what was under way at one look is there at the next. */
export function surveyWhileWritten(folder: string): JournalSurvey {
  for (let look = 1; ; look++) {
    try {
      const found = surveyJournal(folder)
      if (found.damage.length === 0 || look === looks) return found
    } catch (error) {
      if (look === looks) throw error
    }
  }
}

/** A journal as it was when it was looked at. */
export class JournalReader {
  readonly #found: JournalSurvey
  #state: Fold | undefined
  /** The hashes of the entries of one volume, or behind all volumes, the first of which is behind `after`. */
  #hashes: { readonly after: number; readonly hashes: readonly string[] } | undefined

  /** @throws Error when it is damaged */
  constructor(folder: string) {
    this.#found = surveyWhileWritten(folder)
    const [damage] = this.#found.damage
    if (damage) throw new Error(`${damage.file} ${damage.text}`)
  }

  /** The state behind the last batch. */
  get state(): Fold {
    if (!this.#state) {
      const { fold } = this.#found
      for (const { batch, head } of framesBehind(this.#found, fold.place.batch)) fold.add(batch, head)
      this.#state = fold
    }
    return this.#state
  }

  /**
   * Yields the entries behind `after`, oldest first, as rows of the columns of an entry with `seq`, `boot_id`,
   * `prev_hash` and `hash`. Integers are bigints, hashes hexadecimal. Volumes without a `wanted` entry are not read.
   * @throws Error when one is missing or damaged
   */
  *entries(after = 0, wanted: (contents: Contents) => boolean = () => true): Generator<Row> {
    let [batch, seq, hash] = [0, 0, genesis]
    for (const from of sealedSourcesOf(this.#found)) {
      const contents = from.source instanceof Volume ? from.source.contents : undefined
      if (contents && (contents.seq <= after || !wanted(contents))) {
        ;({ last: batch, seq, hash } = contents)
        continue
      }
      const { boot } = from.head
      for (const { batch: read } of framesOf(from, batch)) {
        const { entries } = read
        for (let i = 0; i < entries.length; i += entryWidth) {
          const previous = hash
          hash = entryHash(previous, ++seq, boot, entries, i)
          if (seq > after)
            yield { seq: BigInt(seq), boot_id: BigInt(boot), prev_hash: previous, hash, ...columnsAt(entries, i) }
        }
        batch = read.number
      }
    }
  }

  /** The hash of an entry, in hexadecimal; undefined when there is none with this number. */
  hashAt(seq: number): string | undefined {
    if (seq < 1) return undefined
    const volumes = this.#found.volumes.map(({ contents }) => contents)
    const end = volumes.find((contents) => contents.seq === seq)
    if (end) return end.hash
    const within = volumes.find((contents) => contents.seqBefore < seq && seq < contents.seq)
    const after = within?.seqBefore ?? volumes.at(-1)?.seq ?? 0
    if (this.#hashes?.after !== after) this.#hashes = { after, hashes: this.#hashesBetween(after, within?.seq) }
    return this.#hashes.hashes[seq - after - 1]
  }

  #hashesBetween(after: number, last = Infinity): string[] {
    const hashes: string[] = []
    for (const { hash } of this.entries(after)) {
      hashes.push(hash as string)
      if (after + hashes.length >= last) break
    }
    return hashes
  }
}

/** The columns of the entry at index `at`, by their names. */
export function columnsAt(entries: readonly Value[], at: number): Row {
  const row: Row = {}
  for (let i = 0; i < entryWidth; i++) {
    const value = entries[at + i]!
    row[entryColumns[i]!] = typeof value === 'number' ? BigInt(value) : value
  }
  return row
}
