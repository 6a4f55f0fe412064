// Brings the commit log into the database, which is the store: the log keeps a batch only until it is there.
import { randomBytes } from 'node:crypto'
import { ftruncateSync, writeSync } from 'node:fs'
import type { HandedFile } from '../log/commit-log.ts'
import type { Committer } from '../database/committer.ts'
import { isReadSide } from '../database/read-side.ts'
import { migrate } from '../database/migration.ts'
import { volumeFolder } from '../journal/volume.ts'
import { DamagedStore } from '../files/damage.ts'
import type { Database, Durability, Row, Value } from '../files/sqlite.ts'
import { readFrames } from '../log/frame-reader.ts'
import { missingMoves, recover } from '../recovery/recovery.ts'
import { StoredLeftovers, unsealed } from '../recovery/leftovers.ts'
import { applyFrames, replay } from '../recovery/replay.ts'
import { sealedParts } from '../recovery/sealed-parts.ts'
import { survey } from '../recovery/survey.ts'
import { storedBalances } from '../database/stored-balances.ts'
import { baseOf, encodeNote, framesAt, historyBytes, makeSegments, noteAt } from '../log/segment.ts'
import { horizon } from '../../window.ts'
import type { Feed, WriterOptions } from './feed.ts'
import type { Snapshot } from './snapshot.ts'

/** A file larger than this is truncated after it was applied. */
const keptBytes = 16 * 1024 * 1024

/** The feed of one store. */
export class LogFeed implements Feed {
  readonly #options: WriterOptions
  histories: readonly string[]

  constructor(options: WriterOptions) {
    this.#options = options
    this.histories = options.log ? [options.log.history] : []
  }

  get durability(): Durability {
    return this.#options.durability
  }

  prepare(database: Database): void {
    const { file } = this.#options
    if (isReadSide(database))
      throw new Error(
        `${file} is made of the journal in ${volumeFolder(file)}, which is missing: bring that back, or a backup of the store`
      )
    migrate(database, file)
  }

  start(open: () => Committer): Snapshot {
    const { file, durability, now, kept } = this.#options
    const found = survey(file)
    if (found.damage.length > 0) throw DamagedStore.of(file, found.damage)
    const committer = open()
    const { database } = committer
    replay(committer, found.log)
    const log = {
      history: randomBytes(historyBytes).toString('hex'),
      boot: committer.head.boot + 1,
      base: baseOf(committer.head)
    }
    makeSegments(file, durability, log)
    committer.boot(missingMoves(committer), log.history, now)
    this.histories = [log.history]
    const all = (sql: string, ...values: Value[]): Row[] => {
      const statement = database.prepare(sql)
      statement.setReadBigInts(true)
      return statement.all(...values)
    }
    const [newest] = all('SELECT written FROM request ORDER BY seq DESC LIMIT 1')
    const written = Math.max(now, Number(newest?.['written'] ?? 0))
    const sealed = sealedParts(database, file)
    const recovered = recover(new StoredLeftovers(committer, now, kept, sealed), written)
    const held = all('SELECT * FROM reservation ORDER BY id')
    const since = horizon(held.reduce((oldest, row) => Math.min(oldest, Number(row['ts_ms'])), now))
    return {
      log,
      batch: committer.head.batch,
      written,
      recovered,
      lastHold: Number(held.at(-1)?.['id'] ?? 0),
      since,
      balances: storedBalances(database, since),
      prices: all('SELECT * FROM price'),
      documents: all('SELECT kind, id, json FROM document ORDER BY number'),
      open: held,
      parts: [
        ...held.flatMap(({ request_id, part }) =>
          part === '' ? (sealed.get(request_id as string) ?? []).map((row) => ({ request_id, ...row }) as Row) : []
        ),
        ...all(
          `SELECT request_id, amount, usage_json FROM journal WHERE request_id IN (SELECT request_id FROM reservation WHERE part = '')
           AND part <> '' AND class = 'terminal' AND kind = 'settle' AND ${unsealed}`
        )
      ],
      works: all('SELECT json FROM work WHERE open = 1 ORDER BY created'),
      room: all('SELECT tenant, sum(bytes) AS bytes FROM work WHERE bytes IS NOT NULL GROUP BY tenant')
    }
  }

  apply(committer: Committer, { fd, last, path }: HandedFile): string[] {
    const length = applyFrames(committer, readFrames(fd, committer.head.history, committer.head.batch, framesAt))
    if (length > keptBytes) {
      // After truncation nothing else shows how far the log has gone, so the segment gets a note.
      const note = encodeNote(committer.head.history, committer.head.batch)
      writeSync(fd, note, 0, note.length, noteAt)
      ftruncateSync(fd, framesAt)
    }
    if (committer.head.batch < last)
      throw new Error(`${path} is damaged: it ends with batch ${committer.head.batch} instead of ${last}`)
    return []
  }

  /** The next start needs no log then. If the disk fails here, nothing is lost, because the log is still there. */
  close(committer: Committer): void {
    committer.alter((head) => void (head.open = false))
  }

  end(): void {}
}
