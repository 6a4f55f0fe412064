// The writer: makes operations durable. It collects them into batches, writes one batch at a time to the commit log,
// and tries again when the disk fails.
import type { GatewayError } from '../../../errors.ts'
import { Applier, residentWriter, writerThread } from './applier.ts'
import type { ResidentWriter, WriterThread } from './applier.ts'
import type { Batch } from '../rows/batch.ts'
import type { BatchLog } from '../log/batch-log.ts'
import { company, Draft, lag } from './draft.ts'
import type { Drafts } from './draft.ts'
import { FrameEncoder } from '../log/frame.ts'
import type { Hold } from '../balance/hold.ts'
import { RowIds } from '../rows/row-ids.ts'
import { giveSpare, isFull } from '../files/spare.ts'
import { unavailable } from './unavailable.ts'
import { newHealth } from './store-health.ts'
import type { StoreHealth } from '../../store.ts'
import type { Troubles } from '../files/troubles.ts'
import type { WriterOptions } from './feed.ts'
import { openLog } from './open-log.ts'
import { Turns } from './turns.ts'
import type { Snapshot } from './snapshot.ts'

/**
 * New requests are refused while the commit log has more bytes than this, because the database has not been written for
 * minutes.
 */
const logLimit = 256 * 1024 * 1024

/** The delays before another try of a failed write to the log, in milliseconds: the first one, and the longest. */
const firstRetry = 50
const lastRetry = 1000
/**
 * How long the disk may fail, in milliseconds, before those who wait for durability are told. Shorter failures go
 * unnoticed.
 */
const patience = 2000
/**
 * How far the database may be behind the log: milliseconds, and bytes of frames where nothing is being applied. A
 * transaction writes whole pages of sums, twice, so rarer ones write less. A start after a kill applies that much, so
 * one that is made of a journal, which a start knows without it, may be further behind. Whoever reads has it brought up
 * to date first.
 */
const lazinessOf = {
  log: { delay: 1000, bytes: 4 * 1024 * 1024 },
  journal: { delay: 5000, bytes: 8 * 1024 * 1024 }
} as const
/** How long what streams have delivered waits to be written, in milliseconds: a crash charges what is on disk. */
const lateness = 250
/** How long closing waits for a failing disk, in milliseconds. */
const farewell = 5000

interface Flight {
  draft: Draft
  batch: Batch
  frame: Buffer
  /** Whether it has the balances, and is the last of its segment. */
  turns: boolean
  began: number
}

/** The writer of one store. Nothing is acknowledged before it is on disk, and nothing that was accepted is dropped. */
export class Writer implements Drafts {
  readonly health: StoreHealth = newHealth()
  /** Called with the holds whose end has become durable. */
  onEnded: (ended: readonly Hold[]) => void = () => {}
  /** Called with each batch that the database is brought up to, to add the balances to it. */
  onBalance: (batch: Batch) => void = () => {}
  readonly #file: string
  readonly #now: () => number
  readonly #log: BatchLog
  readonly #encoder: FrameEncoder
  readonly #applier: Applier
  readonly #troubles: Troubles
  readonly #laziness: (typeof lazinessOf)['log' | 'journal']
  #draft = new Draft()
  #flight: Flight | undefined
  readonly #rowIds: RowIds
  #number: number
  #written: number
  readonly #turns = new Turns(() => this.#cut(true))
  /** Whether somebody waits for the draft. */
  #awaited = false
  #soon: NodeJS.Timeout | undefined
  #late: NodeJS.Timeout | undefined
  #later: NodeJS.Timeout | undefined
  /** Whether the next batch is the last of its segment. */
  #due = false
  /** Whether the active segment is to be applied. */
  #full = false
  #retryDelay = firstRetry
  #retry: NodeJS.Timeout | undefined
  #failingSince: number | undefined
  #closing = false
  #closed = false

  private constructor(
    thread: WriterThread | ResidentWriter,
    options: WriterOptions,
    snapshot: Snapshot,
    troubles: Troubles,
    now: () => number
  ) {
    this.#troubles = troubles
    this.#file = options.file
    this.#now = now
    this.#laziness = lazinessOf[options.segments ? 'journal' : 'log']
    this.#encoder = new FrameEncoder(snapshot.log.history)
    this.#rowIds = new RowIds(snapshot.lastHold)
    this.#number = snapshot.batch
    this.#written = snapshot.written
    this.health.recovered = snapshot.recovered.ended
    this.#log = openLog(options, snapshot.log, troubles)
    const { health } = this
    this.#applier = new Applier(thread, options, snapshot, this.#log, {
      applied: (seconds) => {
        health.applies++
        health.applySeconds += seconds
        troubles.over('database')
        if (this.#log.bytes < logLimit) troubles.over('backlog')
        this.#hand()
      },
      failed: (error) => {
        health.failures++
        health.lastError = error
        troubles.begin('database', error)
      },
      upkeep: (of, error) => {
        if (error === undefined) return troubles.over(of)
        health.failures++
        health.lastError = error
        troubles.begin(of, error)
      },
      sealed: ({ file: volume, first, last, bytes }) =>
        troubles.log.info('a volume of the journal was sealed', { volume, first, last, bytes }),
      relieved: () =>
        troubles.log.warn('the disk is nearly full: the oldest request records went to make room', {
          store: options.file,
          remedy: 'make room on the disk, or let the store keep less (store.requests, store.journal)'
        })
    })
  }

  /**
   * Opens the file, brings its schema up to date, applies the rest of the commit log, and ends what a crash left open:
   * in the writer thread where this one is `busy`, else here, and the thread starts with the first segment.
   * @throws Error when the file cannot be opened or was written by a newer version
   */
  static async open(
    store: Pick<WriterOptions, 'file' | 'durability' | 'segments' | 'keeping' | 'kept'>,
    troubles: Troubles,
    now: () => number,
    busy: boolean
  ): Promise<{ writer: Writer; snapshot: Snapshot }> {
    const options: WriterOptions = { ...store, now: now(), log: undefined, doubted: false }
    const thread = busy ? writerThread(options) : residentWriter(options)
    const message = await thread.next()
    try {
      if (message.kind !== 'open') throw new Error(message.kind === 'failed' ? message.error : message.kind)
      return { writer: new Writer(thread, options, message.snapshot, troubles, now), snapshot: message.snapshot }
    } catch (error) {
      await thread.end()
      throw error
    }
  }

  /** The current draft, for operations of requests that were admitted before. Call `wake` after adding to it. */
  get draft(): Draft {
    return this.#draft
  }

  /**
   * The current draft, for new requests.
   * @throws GatewayError `billing_unavailable` while the disk fails, or too much waits for it
   */
  admit(): Draft {
    if (this.full)
      throw unavailable(
        this.#log.bytes < logLimit && this.health.healthy
          ? `${this.#draft.ops} operations wait for the disk`
          : this.health.lastError
      )
    return this.#draft
  }

  /** The number that the current draft will have, and that of the last batch in the database. */
  get next(): number {
    return this.#number + 1
  }

  get applied(): number {
    return this.#applier.applied
  }

  /** Whether what is added to the draft will be on disk within moments, as far as can be known. */
  get keepsUp(): boolean {
    return this.health.healthy && (!this.#flight || performance.now() - this.#flight.began < lag)
  }

  /** Whether new requests are refused. */
  get full(): boolean {
    return this.#closing || !this.health.healthy || this.#draft.full || this.#log.bytes >= logLimit
  }

  /**
   * Sends the draft at the end of this tick of the event loop, or as soon as the batch under way is on disk; a few
   * ticks later when the loop is busy.
   */
  wake(): void {
    this.#awaited = true
    this.#turns.ask(this.#flight !== undefined)
  }

  /** Sends the draft within some milliseconds. It is for operations that nobody waits for. */
  wakeSoon(): void {
    if (!this.#turns.running && !this.#flight) this.#soon ??= setTimeout(this.#lapse, company).unref()
  }

  /** Sends the draft within about a quarter of a second. */
  wakeLater(): void {
    this.#late ??= setTimeout(() => {
      this.#late = undefined
      if (this.#draft.ops > 0) this.wake()
    }, lateness).unref()
    this.#turnLater()
  }

  /** Brings the database up to the log within as long as it may be behind. */
  #turnLater(): void {
    this.#later ??= setTimeout(() => this.#turn(), this.#laziness.delay).unref()
  }

  /** Resolves with true when everything queued until now is in the database; with false when the disk fails. */
  async flushed(): Promise<boolean> {
    if (this.#draft.ops === 0 && !this.#flight && !this.#due && this.#applier.applied === this.#number) return true
    this.#turn()
    const batch = this.#number + 1
    await this.#applier.reached(batch)
    return this.#applier.applied >= batch
  }

  /** The health, with the current queue. */
  report(): StoreHealth {
    const [{ health }, flight] = [this, this.#flight?.draft]
    return {
      ...health,
      healthy: health.healthy && this.#log.bytes < logLimit,
      troubles: this.#troubles.all,
      queued: this.#draft.ops + (flight?.ops ?? 0),
      queuedBytes: this.#draft.bytes + (flight?.bytes ?? 0),
      unappliedBytes: this.#log.bytes
    }
  }

  /**
   * Writes what is left and ends the thread. Nothing may be queued after it. Batches that could not be applied to the
   * database stay in the commit log for the next start.
   * @throws Error when the log could not be written for so long that operations were given up
   */
  async close(): Promise<void> {
    this.#closing = true
    const began = performance.now()
    for (;;) {
      const done = this.flushed()
      await done
      const behind = this.#draft.ops > 0 || this.#flight !== undefined || this.#applier.applied < this.#number
      if (!behind || performance.now() - began > farewell) break
    }
    this.#closed = true
    if (this.#log.bytes > 0) this.#troubles.left(this.#log.bytes)
    const lost = this.#failingSince === undefined ? 0 : this.report().queued
    for (const timer of [this.#soon, this.#late, this.#later, this.#retry]) clearTimeout(timer)
    await this.#applier.close(lost === 0 && this.#log.bytes === 0)
    await this.#log.close()
    if (lost > 0)
      throw new Error(`${this.#file} could not be written, ${lost} operations are lost: ${this.health.lastError}`)
  }

  /** Sends the draft after the delay of `wakeSoon`; where holds come and go, without the youngest. */
  readonly #lapse = (): void => {
    this.#soon = undefined
    if (!this.#turns.running) this.#cut(this.#draft.ended.length > 0)
  }

  /** Makes a batch of the draft and sends it. With `lazily`, holds that can still wait stay in the next draft. */
  #cut(lazily: boolean): void {
    clearTimeout(this.#soon)
    this.#soon = undefined
    this.#awaited = false
    this.#turns.end()
    if (this.#flight || (this.#draft.ops === 0 && !this.#due)) return
    const draft = this.#draft
    if (this.#closed) return void draft.disappoint(unavailable('the store is closed'))
    this.#draft = new Draft()
    this.#written = Math.max(this.#written, this.#now())
    const batch = draft.seal(
      ++this.#number,
      this.#written,
      this.#rowIds,
      lazily && !this.#due ? this.#draft : undefined,
      performance.now() - company
    )
    const turns = this.#due
    if (turns) this.#balance(batch)
    this.#flight = { draft, batch, frame: this.#encoder.encode(batch), turns, began: performance.now() }
    this.#send()
  }

  /** Has the next batch carry the balances and be the last of its segment. */
  #turn(): void {
    this.#due = true
    this.wake()
  }

  #balance(batch: Batch): void {
    this.onBalance(batch)
    this.#due = false
    clearTimeout(this.#later)
    this.#later = undefined
  }

  /** Hands the full segment to the applier, but only between two writes to the log. */
  #hand(): void {
    if (!this.#full || this.#flight || !this.#applier.idle) return
    this.#full = false
    this.#applier.hand()
  }

  #send(): void {
    const { frame, batch } = this.#flight!
    this.#log.append(frame, batch.number, this.#appended)
  }

  /** Tells those who wait that the disk fails. The batch under way is written anew where changes were withdrawn. */
  #disappoint(error: GatewayError): void {
    const flight = this.#flight!
    if (flight.draft.disappoint(error, flight.batch)) flight.frame = this.#encoder.encode(flight.batch)
    this.#draft.disappoint(error)
  }

  readonly #appended = (error: Error | null): void => {
    if (error) this.#failed(error.message)
    else this.#committed()
  }

  #committed(): void {
    const { draft, began, turns } = this.#flight!
    const { health } = this
    const seconds = (performance.now() - began) / 1000
    this.#flight = undefined
    this.#failingSince = undefined
    this.#retryDelay = firstRetry
    health.healthy = true
    this.#troubles.over('log')
    if (this.#log.bytes >= logLimit) this.#troubles.begin('backlog', health.lastError ?? 'the database is too slow')
    health.commits++
    health.operations += draft.ops
    health.lastBatch = draft.ops
    health.commitSeconds += seconds
    health.lastCommitSeconds = seconds
    draft.resolve()
    this.onEnded(draft.ended)
    if (turns) this.#full = true
    else if (this.#applier.idle && this.#log.bytes > this.#laziness.bytes) this.#turn()
    else this.#turnLater()
    this.#hand()
    if (this.#awaited || this.#due) this.wake()
    else if (this.#draft.ops > 0) this.wakeSoon()
  }

  #failed(error: string): void {
    const now = performance.now()
    this.health.healthy = false
    this.health.lastError = error
    this.health.failures++
    this.#troubles.begin('log', error)
    if (isFull(error)) giveSpare(this.#file)
    this.#failingSince ??= now
    if (now - this.#failingSince >= patience) this.#disappoint(unavailable(error))
    this.#applier.release()
    if (this.#closed) return
    this.#retry = setTimeout(() => this.#send(), this.#retryDelay)
    this.#retryDelay = Math.min(this.#retryDelay * 2, lastRetry)
  }
}
