// The main thread's side of the writer thread: hands it the full segments of the commit log, and tries again when it
// fails.
import type { BatchLog, Handed } from '../log/batch-log.ts'
import { Resident } from '../threads/resident.ts'
import { Thread } from '../threads/thread.ts'
import type { SealedVolume, WriterOptions } from './feed.ts'
import type { Snapshot } from './snapshot.ts'
import { StoreWriter } from './writer-thread.ts'
import type { WriterMessage, WriterRequest } from './writer-thread.ts'

/** The delays before another try after a failure, in milliseconds: the first one, and the longest. */
const firstRetry = 50
const lastRetry = 1000

/** The thread that writes one store. */
export type WriterThread = Thread<WriterRequest, WriterMessage>

/** Who writes one store as long as there is nothing to apply. */
export type ResidentWriter = Resident<WriterRequest, WriterMessage>

/** Starts a writer thread. The process does not exit while it runs. */
export function writerThread(options: WriterOptions): WriterThread {
  return new Thread('writer-thread', options, true)
}

/**
 * Begins to write a store in this thread, which opens it before this returns. A thread of its own would take half as
 * long again to start as all else, and many a gateway has nothing to write for hours.
 */
export function residentWriter(options: WriterOptions): ResidentWriter {
  return new Resident((say) => new StoreWriter(options, say))
}

/** The owner of an applier, which is told how each segment went. */
export interface ApplierHost {
  /** A segment is in the database, which took `seconds`. The applier is idle again. */
  applied(seconds: number): void
  failed(error: string): void
  /** Called with an error when the upkeep of files fails, and with undefined when it works again. */
  upkeep(of: 'upkeep' | 'keeping', error: string | undefined): void
  sealed(volume: SealedVolume): void
  /** Request records were deleted to make room on a full disk. */
  relieved(): void
}

/** Has one segment at a time applied, and repeats it until that succeeds. */
export class Applier {
  /** The number of the last batch in the database. */
  applied: number
  readonly #options: WriterOptions
  readonly #log: BatchLog
  readonly #host: ApplierHost
  #thread: WriterThread | ResidentWriter | undefined
  #handed: Handed | undefined
  #waiting: { batch: number; tell: () => void }[] = []
  #retry: NodeJS.Timeout | undefined
  #retryDelay = firstRetry
  /** Whether a writer of the database has failed. */
  #doubted = false
  #closed = false

  /** `thread` must have reported already that it opened the database. */
  constructor(
    thread: WriterThread | ResidentWriter,
    options: WriterOptions,
    snapshot: Snapshot,
    log: BatchLog,
    host: ApplierHost
  ) {
    this.#options = { ...options, log: snapshot.log }
    this.#log = log
    this.#host = host
    this.applied = snapshot.batch
    this.#listen(thread)
  }

  /** Whether no segment is being applied. */
  get idle(): boolean {
    return this.#handed === undefined
  }

  /**
   * Hands the active segment of the log to the thread. Call it only while {@link idle}, and while nothing is being
   * appended.
   */
  hand(): void {
    this.#handed = this.#log.turn()
    if (this.#handed) this.#send()
  }

  /** Resolves when a batch is in the database, or at the next failure. */
  reached(batch: number): Promise<void> {
    if (this.applied >= batch) return Promise.resolve()
    return new Promise((tell) => this.#waiting.push({ batch, tell }))
  }

  /** Resolves all promises of {@link reached}. */
  release(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const { tell } of waiting) tell()
  }

  /**
   * Ends the thread. What it has not applied stays in the log. `whole` says that everything is applied, so that the
   * thread can mark the store as closed.
   */
  async close(whole: boolean): Promise<void> {
    this.#closed = true
    clearTimeout(this.#retry)
    if (whole) this.#thread?.ask('seal')
    await this.#thread?.end()
  }

  #send(): void {
    // To apply a segment takes long, and this thread has requests to serve.
    if (this.#thread instanceof Resident) {
      void this.#thread.end()
      this.#thread = undefined
    }
    this.#thread ??= this.#listen(writerThread({ ...this.#options, doubted: this.#doubted }))
    this.#thread.ask(this.#handed!)
  }

  #listen<Running extends WriterThread | ResidentWriter>(thread: Running): Running {
    this.#thread = thread
    thread.on('message', (message) => {
      if (message.kind === 'failed' || (message.kind === 'upkeep' && message.error !== undefined)) this.#doubted = true
      if (message.kind === 'applied') this.#applied(message.seconds, message.spent)
      else if (message.kind === 'failed') this.#failed(message.error)
      else if (message.kind === 'upkeep') this.#host.upkeep(message.of, message.error)
      else if (message.kind === 'sealed') this.#host.sealed(message.volume)
      else if (message.kind === 'relieved') this.#host.relieved()
    })
    thread.on('over', (reason) => {
      this.#thread = undefined
      this.#doubted = true
      if (this.#handed && !this.#retry && !this.#closed) this.#failed(reason)
    })
    return thread
  }

  #applied(seconds: number, spent: readonly string[]): void {
    const handed = this.#handed!
    this.#handed = undefined
    this.#retryDelay = firstRetry
    this.#log.free(handed, spent)
    this.applied = handed.last
    const waiting = this.#waiting
    this.#waiting = waiting.filter(({ batch }) => batch > handed.last)
    for (const { batch, tell } of waiting) if (batch <= handed.last) tell()
    this.#host.applied(seconds)
  }

  #failed(error: string): void {
    this.#host.failed(error)
    this.release()
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      this.#send()
    }, this.#retryDelay)
    this.#retryDelay = Math.min(this.#retryDelay * 2, lastRetry)
  }
}
