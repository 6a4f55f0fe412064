// Keeps the journal, which is the store, and brings it into the database, which is only read from.
import { randomBytes } from 'node:crypto'
import type { Committer } from '../database/committer.ts'
import { makeReadSide } from '../database/read-side.ts'
import { migrate } from '../database/migration.ts'
import { DamagedStore } from '../files/damage.ts'
import type { Database } from '../files/sqlite.ts'
import { volumeFolder } from '../journal/volume.ts'
import { historyBytes } from '../log/segment.ts'
import { emptyBatch } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import { FoldedLeftovers } from '../recovery/folded-leftovers.ts'
import { recover } from '../recovery/recovery.ts'
import { unfitness } from '../recovery/fitness.ts'
import { FirstSegment } from '../segments/first-segment.ts'
import { framesBehind } from '../segments/frames.ts'
import { Keeper } from '../segments/keeper.ts'
import type { HandedSegments } from '../segments/segment-log.ts'
import { clearFolder, openJournal, resumeJournal } from '../segments/state.ts'
import type { OpenedJournal } from '../segments/state.ts'
import { Slices } from '../upkeep/slices.ts'
import type { Feed, SealedVolume, WriterOptions } from './feed.ts'
import { movesTo } from './folded-moves.ts'
import { snapshotOf } from './folded-snapshot.ts'
import { Indexing } from './indexing.ts'
import { LettingGo } from './letting-go.ts'
import type { Snapshot } from './snapshot.ts'

/** The owner of a feed, which is told how its journal is kept. */
export interface KeepingHost {
  /** Called with an error when a checkpoint or a volume cannot be made, and with undefined when that is over. */
  keeping(error: string | undefined): void
  sealed(volume: SealedVolume): void
}

/** The feed of one store. */
export class JournalFeed implements Feed {
  /** What the database loses with the power is brought into it again. */
  readonly durability = 'process'
  readonly #options: WriterOptions
  readonly #folder: string
  histories: readonly string[]
  #keeper: Keeper | undefined
  readonly #slices: Slices
  /** Undefined where nothing is ever deleted. */
  readonly #lettingGo: LettingGo | undefined

  constructor(options: WriterOptions, host: KeepingHost) {
    const { file, log, keeping, now } = options
    this.#lettingGo = keeping && new LettingGo(keeping, now)
    this.#options = options
    this.#folder = volumeFolder(file)
    this.histories = log && 'previous' in log ? [log.history, log.previous] : []
    this.#slices = new Slices({
      slice: () => this.#keep(host),
      failed: (error) => {
        host.keeping(String(error))
        this.#slices.begin()
      },
      healed: () => host.keeping(undefined)
    })
  }

  prepare(database: Database): void {
    migrate(database, this.#options.file)
    makeReadSide(database)
  }

  start(open: () => Committer): Snapshot {
    const { file, durability, now, kept } = this.#options
    const opened = openJournal(this.#folder, file, durability)
    this.#checkDatabase(opened)
    const { fold } = opened
    const committer = open()
    // One that was just made has no head with a checksum yet.
    if (committer.head.writes === 0) committer.alter(() => {})
    const indexing = new Indexing(committer)
    for (const frame of framesBehind(opened, committer.head.batch)) indexing.take(frame)
    indexing.end()
    clearFolder(this.#folder, opened)
    const { batch: after, boot, history: previous, written: before } = fold.place
    const begun = { history: randomBytes(historyBytes).toString('hex'), boot: Math.max(boot, committer.head.boot) + 1 }
    const first = new FirstSegment(this.#folder, { ...begun, ordinal: opened.ordinal, previous, after }, durability)
    const keeper = (this.#keeper = new Keeper(this.#folder, opened, durability))
    const write = (batch: Batch): void => {
      keeper.follow([first.append({ ...batch, number: fold.place.batch + 1 })], indexing)
      indexing.end()
    }
    const written = Math.max(now, before)
    try {
      const moves = movesTo(fold, committer.database)
      if (moves.length > 0) write({ ...emptyBatch(0, written), balanced: true, moves })
      const recovered = recover(new FoldedLeftovers(fold, now, kept, write), written)
      const log = {
        ...begun,
        previous: fold.place.history,
        after: fold.place.batch,
        ordinal: opened.ordinal + (first.begun ? 1 : 0)
      }
      this.histories = [log.history, log.previous]
      this.#slices.begin()
      return { ...snapshotOf(fold, now), log, written, recovered }
    } finally {
      first.close()
    }
  }

  apply(committer: Committer, { written, last }: HandedSegments): string[] {
    const { file, durability } = this.#options
    this.#keeper ??= new Keeper(this.#folder, resumeJournal(this.#folder, file, durability, last), durability)
    const indexing = new Indexing(committer)
    try {
      this.#keeper.follow(written, indexing)
    } catch (error) {
      // The state may have a part of a batch.
      this.#drop()
      throw error
    }
    indexing.end()
    this.#lettingGo?.look(committer)
    this.#slices.begin()
    return this.#keeper.spent()
  }

  /** The next start has nothing to fold then. If the disk fails here, nothing is lost. */
  close(): void {
    this.#keeper?.checkpoint(true)
  }

  end(): void {
    this.#slices.stop()
    this.#drop()
  }

  #drop(): void {
    this.#keeper?.close()
    this.#keeper = undefined
  }

  /** Makes a checkpoint, or a step of a volume that is due or of one that is thinned. */
  #keep(host: KeepingHost): boolean {
    const keeper = this.#keeper
    if (!keeper) return false
    if (keeper.checkpoint()) return true
    const step = keeper.seal()
    const spare = this.#lettingGo?.spare
    if (!step) return spare !== undefined && keeper.thin(spare)
    if (step.volume) {
      const { path: file, bytes, contents } = step.volume
      host.sealed({ file, first: contents.after + 1, last: contents.last, bytes })
    }
    return true
  }

  /**
   * Checks that the database is one that the journal can go on with, or is not there.
   * @throws Error when it is not: nothing was changed then
   */
  #checkDatabase(opened: OpenedJournal): void {
    const { file } = this.#options
    const unfit = unfitness(file, opened, opened.fold.place.batch)
    if (!unfit) return
    if (unfit.ahead) throw DamagedStore.of(file, [unfit])
    throw new Error(
      `${unfit.file} ${unfit.text}. All that it should have is in ${this.#folder}: run \`sluice ledger repair --apply\`, which puts it aside and makes it anew`
    )
  }
}
