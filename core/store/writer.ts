// The main thread's side of the writer: gathers operations into batches, has one under way at a time, and outlasts disk failures.
import { once } from 'node:events'
import type { Worker } from 'node:worker_threads'
import { GatewayError } from '../errors.ts'
import type { Batch } from './batch.ts'
import { Draft } from './draft.ts'
import type { Hold } from './hold.ts'
import { Slots } from './slots.ts'
import type { Durability } from './sqlite.ts'
import { startThread } from './thread.ts'
import type { Snapshot, WriterMessage, WriterOptions } from './writer-thread.ts'

/** What operators see of a store. Counters only grow. */
export interface StoreHealth {
  /** False while the disk fails: new reservations are refused. */
  healthy: boolean
  /** Of the last failure; stays after it was healed. */
  lastError: string | undefined
  failures: number
  commits: number
  /** Operations committed, and how many were in the last batch. */
  operations: number
  lastBatch: number
  /** Spent by the writer thread in commits, and in the last one. */
  commitSeconds: number
  lastCommitSeconds: number
  /** Operations not on disk yet, and about how many bytes they hold. */
  queued: number
  queuedBytes: number
  /** Request records that were not kept, because the disk failed or was too slow. */
  droppedRecords: number
  /** Holds that a crash had left open and that were ended at start. */
  recovered: number
}

/** Reservations are refused above this many operations, or bytes, that wait for the batch after the one under way. */
const queueLimit = { ops: 20_000, bytes: 64 * 1024 * 1024 }

/** This many open exchanges make a batch wait for company. */
const crowd = 8

/** Milliseconds. */
const firstRetry = 50
const lastRetry = 1000
/** How long a failing disk is waited for before those who wait for durability are told; shorter failures go unnoticed. */
const patience = 2000
/** How long what is not urgent waits: balances, which the journal implies, and how far streams have come. */
const laziness = 1000
/** How long closing waits for a disk that fails. */
const farewell = 5000

/** A writer's clock and pace. */
export interface WriterTiming {
  now: () => number
  /**
   * A commit costs some 200 µs of CPU whatever is in it. So while many exchanges are open, which may join it, a batch starts
   * this many milliseconds after the last one did; after a pause, and while there is no crowd, it starts at once.
   */
  spacing: number
}

/** The queue of one store. Nothing is acknowledged before it is committed, and nothing that was taken is given up. */
export class Writer {
  readonly health: StoreHealth = {
    healthy: true, lastError: undefined, failures: 0, commits: 0, operations: 0, lastBatch: 0, commitSeconds: 0, lastCommitSeconds: 0,
    queued: 0, queuedBytes: 0, droppedRecords: 0, recovered: 0
  }
  /** Exchanges with money held, counted by the book: those who may join a batch. */
  exchanges = 0
  /** Told of the holds whose end has become durable. */
  onEnded: (ended: readonly Hold[]) => void = () => {}
  /** Asked to add the balances to a batch, with the first one and then about once a second. */
  onBalance: (batch: Batch) => void = () => {}
  readonly #options: WriterOptions
  readonly #now: () => number
  readonly #spacing: number
  #thread: Worker | undefined
  #draft = new Draft()
  #flight: { draft: Draft; batch: Batch } | undefined
  readonly #slots: Slots
  #number: number
  #written: number
  #awake = false
  /** When the last batch left, by `performance.now()`. */
  #left = 0
  #later: NodeJS.Timeout | undefined
  /** The next batch carries the balances. */
  #due = false
  #retry: NodeJS.Timeout | undefined
  #retryDelay = firstRetry
  #failingSince: number | undefined
  #closing = false
  #closed = false

  private constructor(thread: Worker, options: WriterOptions, snapshot: Snapshot, { now, spacing }: WriterTiming) {
    this.#options = { ...options, boot: snapshot.boot }
    this.#now = now
    this.#spacing = spacing
    this.#slots = new Slots(snapshot.lastHold)
    this.#number = snapshot.batch
    this.#written = snapshot.written
    this.health.recovered = snapshot.recovered
    this.#listen(thread)
  }

  /**
   * Starts the thread, which opens the file, brings its schema up to date and ends what a crash left open.
   * @throws Error when the file can not be opened or was written by a newer version
   */
  static async open(file: string, durability: Durability, timing: WriterTiming): Promise<{ writer: Writer; snapshot: Snapshot }> {
    const options: WriterOptions = { file, durability, now: timing.now(), boot: undefined }
    const thread = startThread('writer-thread', options)
    const [message] = (await once(thread, 'message')) as [WriterMessage]
    if (message.kind === 'open') return { writer: new Writer(thread, options, message.snapshot, timing), snapshot: message.snapshot }
    await thread.terminate()
    throw new Error(message.kind === 'failed' ? message.error : message.kind)
  }

  /** The batch that is being gathered, for work that was admitted before. Follow it by `wake`. */
  get draft(): Draft {
    return this.#draft
  }

  /**
   * The batch that is being gathered, for new work.
   * @throws GatewayError `billing_unavailable` while the disk fails, or too much waits for it
   */
  admit(): Draft {
    if (this.full) throw unavailable(this.health.healthy ? `${this.#draft.ops} operations wait for the disk` : this.health.lastError)
    return this.#draft
  }

  /** No new work is taken. */
  get full(): boolean {
    return this.#closing || !this.health.healthy || this.#draft.ops >= queueLimit.ops || this.#draft.bytes >= queueLimit.bytes
  }

  /** Sends the draft at the end of this turn of the loop, or as soon as the batch under way is committed, or its time has come. */
  wake(): void {
    if (this.#awake || this.#flight) return
    this.#awake = true
    const wait = this.exchanges < crowd ? 0 : this.#left + this.#spacing - performance.now()
    if (wait > 0) setTimeout(this.#cut, wait)
    else setImmediate(this.#cut)
  }

  /** Sends the draft and the balances within a second or so. */
  wakeLater(): void {
    this.#later ??= setTimeout(() => {
      this.#due = true
      this.wake()
    }, laziness).unref()
  }

  /** Resolves when all that was gathered until now is on disk. */
  flushed(): Promise<void> {
    if (this.#draft.ops > 0 || this.#due) {
      this.wake()
      return this.#draft.durable
    }
    return this.#flight?.draft.durable ?? Promise.resolve()
  }

  /** Counters, with the queue as it is now. */
  report(): StoreHealth {
    const flight = this.#flight?.draft
    return { ...this.health, queued: this.#draft.ops + (flight?.ops ?? 0), queuedBytes: this.#draft.bytes + (flight?.bytes ?? 0) }
  }

  /**
   * Commits what is left and ends the thread. Nothing may be queued after it.
   * @throws Error when the disk fails for so long that what is left had to be given up
   */
  async close(): Promise<void> {
    this.#closing = true
    this.#due = true
    this.wake()
    let lost = 0
    while (this.#draft.ops > 0 || this.#due || this.#flight) {
      await this.flushed().catch(() => {})
      if (this.#failingSince === undefined || performance.now() - this.#failingSince < farewell) continue
      lost = this.report().queued
      break
    }
    this.#closed = true
    clearTimeout(this.#later)
    clearTimeout(this.#retry)
    if (this.#thread) {
      const gone = once(this.#thread, 'exit')
      this.#thread.postMessage('close')
      await gone
    }
    if (lost > 0) throw new Error(`${this.#options.file} could not be written, ${lost} operations are lost: ${this.health.lastError}`)
  }

  readonly #cut = (): void => {
    this.#awake = false
    if (this.#flight || (this.#draft.ops === 0 && !this.#due)) return
    const draft = this.#draft
    if (this.#closed) return draft.disappoint(unavailable('the store is closed'))
    this.#draft = new Draft()
    this.#written = Math.max(this.#written, this.#now())
    const batch = draft.seal(++this.#number, this.#written, this.#slots)
    if (this.#due) this.#balance(batch)
    this.#flight = { draft, batch }
    this.#left = performance.now()
    this.#send()
  }

  #balance(batch: Batch): void {
    this.onBalance(batch)
    this.#due = false
    clearTimeout(this.#later)
    this.#later = undefined
  }

  #send(): void {
    this.#thread ??= this.#listen(startThread('writer-thread', this.#options))
    this.#thread.postMessage(this.#flight!.batch)
  }

  #listen(thread: Worker): Worker {
    this.#thread = thread
    thread.on('message', (message: WriterMessage) => {
      if (message.kind === 'committed') this.#committed(message.seconds)
      else if (message.kind === 'failed') this.#failed(message.error)
    })
    let reason = 'the writer thread ended'
    thread.on('error', (error) => void (reason = String(error)))
    thread.on('exit', () => {
      this.#thread = undefined
      if (this.#flight && !this.#retry && !this.#closed) this.#failed(reason)
    })
    return thread
  }

  #committed(seconds: number): void {
    const { draft } = this.#flight!
    const { health } = this
    this.#flight = undefined
    this.#failingSince = undefined
    this.#retryDelay = firstRetry
    health.healthy = true
    health.commits++
    health.operations += draft.ops
    health.lastBatch = draft.ops
    health.commitSeconds += seconds
    health.lastCommitSeconds = seconds
    draft.resolve()
    this.onEnded(draft.ended)
    if (this.#draft.ops > 0 || this.#due) this.wake()
  }

  #failed(error: string): void {
    const now = performance.now()
    this.health.healthy = false
    this.health.lastError = error
    this.health.failures++
    this.#failingSince ??= now
    if (now - this.#failingSince >= patience) {
      this.#flight!.draft.disappoint(unavailable(error))
      this.#draft.disappoint(unavailable(error))
    }
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      this.#send()
    }, this.#retryDelay)
    this.#retryDelay = Math.min(this.#retryDelay * 2, lastRetry)
  }
}

function unavailable(cause: string | undefined): GatewayError {
  return new GatewayError('billing_unavailable', 'Requests can not be accounted for at the moment. Try again.', { retryAfterMs: 1000, cause })
}
