// Moves the oldest rows of the journal into sealed volumes, and deletes them from the database when the volume's file
// is on disk.
import { entryColumns } from '../rows/batch.ts'
import type { Committer } from '../database/committer.ts'
import { genesis } from '../journal/journal.ts'
import type { Bounds } from './retention.ts'
import { readRows } from '../files/sqlite.ts'
import type { Statement } from '../files/sqlite.ts'
import { volumeOf, VolumeWriter } from '../journal/volume.ts'
import type { Volume } from '../journal/volume.ts'

/** How much of the journal stays in the database, and how many rows a volume has. */
export interface JournalBounds extends Bounds {
  rows: number
}

/** The approximate number of bytes of a row, with its index entry. */
const rowBytes = 430
/** How many rows one slice adds to a volume, and how many it deletes from the database. */
const rowsSealed = 500
const rowsCut = 1000

/** The sealing of the journal through one connection. */
export class Sealing {
  readonly #committer: Committer
  readonly #folder: string
  readonly #bounds: JournalBounds
  readonly #sealed: (volume: Volume) => void
  readonly #sql: { rows: Statement; time: Statement; insert: Statement; cut: Statement }
  /** The last sealed row, its hash, and the first row that is still in the database. */
  #last: number
  #hash: string
  #first: number
  #writer: VolumeWriter | undefined

  /** `sealed` is called with each new volume. */
  constructor(committer: Committer, folder: string, bounds: JournalBounds, sealed: (volume: Volume) => void) {
    const { database } = committer
    this.#committer = committer
    this.#folder = folder
    this.#bounds = bounds
    this.#sealed = sealed
    const [row] = readRows(database, 'SELECT * FROM volume ORDER BY first DESC LIMIT 1')
    const volume = row && volumeOf(row)
    this.#last = volume?.last ?? 0
    this.#hash = volume?.hash ?? genesis
    this.#first = Number(database.prepare('SELECT min(seq) AS first FROM journal').get()!['first'] ?? this.#last + 1)
    this.#sql = {
      rows: database.prepare(
        `SELECT seq, boot_id, hash, ${entryColumns.join(', ')} FROM journal WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ${rowsSealed}`
      ),
      time: database.prepare('SELECT ts_ms FROM journal WHERE seq = ?'),
      insert: database.prepare(
        'INSERT INTO volume (first, last, bytes, file, sha256, previous, hash, oldest, newest, sealed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'
      ),
      cut: database.prepare('DELETE FROM journal WHERE seq < ?')
    }
    this.#sql.rows.setReadBigInts(true)
  }

  /** Does a slice of the work; returns whether there was any. `now` is in Unix milliseconds. */
  slice(now: number): boolean {
    if (this.#first <= this.#last) this.#cut()
    else if (this.#writer) this.#write(this.#writer)
    else if (this.#due(now)) this.#writer = new VolumeWriter(this.#folder, this.#last + 1, this.#hash)
    else return false
    return true
  }

  /** Gives up an unfinished volume. */
  stop(): void {
    this.#writer?.abandon()
    this.#writer = undefined
  }

  /**
   * Whether a whole volume of rows is too old or too much. The last row of the journal stays, because the head is
   * checked against it.
   */
  #due(now: number): boolean {
    const { seq, balancedSeq } = this.#committer.head
    const { age, size, rows } = this.#bounds
    const last = this.#last + rows
    if (last > balancedSeq || last >= seq) return false
    return (seq - this.#last) * rowBytes > size || Number(this.#sql.time.get(last)!['ts_ms']) < now - age
  }

  #write(writer: VolumeWriter): void {
    const last = this.#last + this.#bounds.rows
    writer.add(this.#sql.rows.all(writer.last, last) as Parameters<VolumeWriter['add']>[0])
    if (writer.last < last) return
    this.#writer = undefined
    const volume = writer.seal(Date.now())
    const { first, bytes, file, sha256, previous, hash, oldest, newest, sealed } = volume
    const blob = (hex: string): Buffer => Buffer.from(hex, 'hex')
    this.#committer.alter(() =>
      this.#sql.insert.run(first, last, bytes, file, blob(sha256), blob(previous), blob(hash), oldest, newest, sealed)
    )
    this.#last = last
    this.#hash = hash
    this.#sealed(volume)
  }

  #cut(): void {
    const first = Math.min(this.#first + rowsCut, this.#last + 1)
    this.#committer.alter(() => this.#sql.cut.run(first))
    this.#first = first
  }
}
