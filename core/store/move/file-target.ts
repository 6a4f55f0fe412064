// Makes a store of one machine of a book: beside its name, until all is there and verified.
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Breach } from '../embedded/care/verify/invariants.ts'
import type { Tell } from '../embedded/care/tell.ts'
import { toldOf } from '../embedded/care/verify/checking.ts'
import { verify } from '../embedded/care/verify/verify.ts'
import { Committer } from '../embedded/database/committer.ts'
import { migrate } from '../embedded/database/migration.ts'
import { syncDirectory } from '../embedded/files/directory.ts'
import { canonicalPath, Ownership } from '../embedded/files/lock.ts'
import { resultsFolder } from '../embedded/files/results.ts'
import { openDatabase } from '../embedded/files/sqlite.ts'
import type { Row } from '../embedded/files/sqlite.ts'
import { volumeFolder } from '../embedded/journal/volume.ts'
import { historyBytes } from '../embedded/log/segment.ts'
import { emptyBatch } from '../embedded/rows/batch.ts'
import { countFile } from './file-source.ts'
import { writers } from './file-rows.ts'
import { beginning } from './parts.ts'
import type { Counts, Part, Place, Source, Target } from './parts.ts'

/**
 * How far the move has come, in the database itself until it is complete. `boot`: that of the rows which came from the
 * chains of nodes.
 */
const progressTable = `CREATE TABLE move (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  stamp TEXT NOT NULL,
  identity TEXT NOT NULL,
  progress TEXT NOT NULL,
  boot INTEGER
) STRICT`

/** A store that a book is moved to. */
export class FileTarget implements Target {
  readonly shown: string
  readonly #file: string
  readonly #part: string
  readonly #owner: Ownership
  readonly #committer: Committer
  /** Null before the first row of a node. */
  #boot: number | null = null
  #open = true

  private constructor(given: string, file: string, owner: Ownership) {
    this.shown = given
    this.#file = file
    this.#part = owner.file
    this.#owner = owner
    const database = openDatabase(this.#part, 'power', (opened) => {
      const tables = opened.prepare("SELECT name FROM sqlite_schema WHERE name IN ('move', 'head')").all()
      if (tables.length === 0) opened.exec(progressTable)
      migrate(opened, this.#part)
    })
    this.#committer = new Committer(database, { counting: false })
  }

  /**
   * Makes the store with the ending `.part`, or opens what an earlier move has made.
   * @throws StoreInUse when another command makes it; Error when there is a store of this name
   */
  static open(given: string): FileTarget {
    mkdirSync(dirname(resolve(given)), { recursive: true, mode: 0o700 })
    const file = canonicalPath(given)
    const begun = existsSync(`${file}.part`)
    for (const path of begun ? [file] : [file, volumeFolder(file), resultsFolder(file)])
      if (existsSync(path)) throw new Error(`${path} is there already: give another name, or move it away`)
    const owner = Ownership.take(`${file}.part`)
    try {
      return new FileTarget(given, file, owner)
    } catch (error) {
      owner.release()
      throw error
    }
  }

  async begun(source: Source): Promise<boolean> {
    return this.#isNamed || this.#find(source) !== undefined
  }

  async begin(source: Source): Promise<Place> {
    if (this.#isNamed) return complete
    const move = this.#find(source)
    if (!move)
      this.#committer.database
        .prepare('INSERT INTO move VALUES (1, ?, ?, ?, NULL)')
        .run(source.stamp, source.identity ?? newHistory(), JSON.stringify(beginning))
    this.#boot = move?.boot ?? null
    return move ? (JSON.parse(move.progress) as Place) : beginning
  }

  /** Whether a kill came when the files alone lacked their names. */
  get #isNamed(): boolean {
    return !this.#committer.database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'move'").get()
  }

  #find({ stamp, shown }: Source): { progress: string; boot: number | null } | undefined {
    const move = this.#committer.database.prepare('SELECT stamp, progress, boot FROM move').get()
    if (move && move['stamp'] !== stamp)
      throw new Error(
        `${shown} has changed since the move to ${this.shown} began, as a gateway was started, or it is another book: remove ${this.#part} and begin again`
      )
    return move as { progress: string; boot: number | null } | undefined
  }

  async write(part: Part, rows: readonly Row[], place: Place): Promise<void> {
    const committer = this.#committer
    committer.add(emptyBatch(0, 0))
    const to = { committer, file: this.#part, boot: this.#boot, before: place.done - rows.length }
    writers[part](rows, to)
    committer.database.prepare('UPDATE move SET progress = ?, boot = ?').run(JSON.stringify(place), to.boot)
    committer.commit()
    this.#boot = to.boot
  }

  /** Begins a start of its own, so that the next one of a gateway ends what nobody goes on with. */
  async complete(): Promise<void> {
    const { database, head } = this.#committer
    if (database.prepare('SELECT 1 FROM boot').get()) return
    const { identity } = database.prepare('SELECT identity FROM move').get() as { identity: string }
    const boot = head.boot + 1
    const history = boot === 1 ? identity : newHistory()
    const begin = database.prepare('INSERT INTO boot VALUES (?, unhex(?), ?)')
    const { time } = database
      .prepare(
        'SELECT max((SELECT coalesce(max(time), 0) FROM request), (SELECT coalesce(max(ts_ms), 0) FROM journal)) AS time'
      )
      .get() as { time: number }
    this.#committer.alter((next) => {
      if (boot > 1) begin.run(1, identity, Date.now())
      begin.run(boot, history, Date.now())
      database.prepare('UPDATE reservation SET boot_id = ?').run(boot)
      // The book does not say of which requests it has no record any more.
      Object.assign(next, { boot, history, balancedSeq: next.seq, unrecorded: time })
    })
  }

  async counts(): Promise<Counts> {
    return countFile(this.#committer.database, this.#part)
  }

  async verify(tell: Tell): Promise<readonly Breach[]> {
    return verify(this.#part, toldOf(tell))
  }

  /** Gives the files their names. What a kill leaves in between is given its name by a further move. */
  async giveOver(): Promise<void> {
    const { database } = this.#committer
    this.#committer.alter(() => database.exec('DROP TABLE IF EXISTS move'))
    database.exec('PRAGMA journal_mode = DELETE')
    this.close()
    const [from, to] = [this.#part, this.#file].map(resultsFolder) as [string, string]
    if (existsSync(from)) renameSync(from, to)
    renameSync(this.#part, this.#file)
    syncDirectory(dirname(this.#file))
    rmSync(`${this.#part}.lock`, { force: true })
  }

  /** Stops. What was carried stays, for a further move. */
  close(): void {
    if (!this.#open) return
    this.#open = false
    this.#committer.database.close()
    this.#owner.release()
  }
}

/** The place of a move that lacks the names of its files alone. */
const complete: Place = { part: undefined, done: 0, verified: true }

function newHistory(): string {
  return randomBytes(historyBytes).toString('hex')
}
