// What an exchange without its client has answered so far, for those who follow it.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '../../clients/client.ts'
import { GatewayError } from '../../errors.ts'
import { isOpen } from '../../store/works.ts'
import type { Told, Work, Works } from '../../store/works.ts'
import type { HeaderLines } from '../../wire/response-head.ts'
import type { Watchdog, Watched } from '../../watchdog/watchdog.ts'

/** About as many bytes are told to another thread at a time. */
const mostTold = 1024 * 1024
/** How often a thread is asked that does not answer, and how many milliseconds later the next time. */
const mostSilences = 12
const askAgain = 500
/** Milliseconds after which who follows an answer hears that there is nothing new. */
const quiet = 2000
/** Whoever follows may end it here. */
const nothing = Buffer.alloc(0)

/** Grows until it is closed. Who follows it sees all of it, from its beginning. */
export class StreamRecording {
  readonly chunks: Buffer[] = []
  length = 0
  closed = false
  /** Resolves when it is closed. */
  readonly over: Promise<void>
  #close!: () => void
  readonly #listeners = new Set<() => void>()

  constructor() {
    this.over = new Promise((resolve) => (this.#close = resolve))
  }

  /** Keeps a copy: what a stream brings lies in memory that is used again. */
  push(bytes: Buffer): void {
    if (bytes.length === 0) return
    this.chunks.push(Buffer.from(bytes))
    this.length += bytes.length
    this.#tell()
  }

  /** Nothing more will come. */
  close(): void {
    this.closed = true
    this.#close()
    this.#tell()
  }

  /** Calls when there is more, until what is returned is called. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** All of it, as it comes, with an empty piece when nothing came for some time. */
  async *follow(): AsyncGenerator<Buffer> {
    for (let at = 0; ;) {
      const { pieces, over } = await this.after(at)
      for (let left = pieces.length; left > 0; left--) yield this.chunks[at++]!
      if (over) return
      if (pieces.length === 0) yield nothing
    }
  }

  /** What comes after its first `from` pieces, some of it, when there is any; nothing when none comes for some time. */
  async after(from: number): Promise<Told> {
    if (this.chunks.length <= from && !this.closed) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, quiet).unref()
      const leave = this.listen(resolve)
      await promise
      leave()
      clearTimeout(timer)
    }
    const pieces: Buffer[] = []
    for (let at = from, bytes = 0; at < this.chunks.length && bytes < mostTold; at++) {
      pieces.push(this.chunks[at]!)
      bytes += this.chunks[at]!.length
    }
    return { pieces, over: this.closed && from + pieces.length === this.chunks.length }
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }
}

/**
 * What another thread answers for work, as it comes, with an empty piece when nothing came for some time; undefined
 * when none does.
 */
export async function followThere(
  work: Work,
  works: Pick<Works, 'told' | 'find'>
): Promise<AsyncIterable<Buffer> | undefined> {
  const first = await works.told(work, 0)
  return first && restThere(first, work, works)
}

/** @throws GatewayError when the thread has ended before its answer was over, or tells nothing for long */
async function* restThere(first: Told, work: Work, works: Pick<Works, 'told' | 'find'>): AsyncGenerator<Buffer> {
  const { seat } = first
  let [at, silences] = [0, 0]
  for (let told: Told | undefined = first; ; told = await works.told(work, at, seat)) {
    if (told) {
      silences = 0
      for (const piece of told.pieces) yield Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
      at += told.pieces.length
      if (told.over) return
      if (told.pieces.length === 0) yield nothing
      continue
    }
    // It may only be busy for some seconds.
    const latest = await works.find(work, work.id)
    if (!latest || !isOpen(latest) || ++silences === mostSilences)
      throw new GatewayError('internal_error', 'What made this answer has ended before its end.')
    yield nothing
    await sleep(askAgain)
  }
}

/** Shows a recording to the client that asked for what is recorded, for as long as that is there; it may leave. */
export class Showing implements Watched {
  rosterPlace: number | undefined = undefined
  readonly client: Client
  readonly #recording: StreamRecording
  readonly #watchdog: Watchdog
  readonly #stall: number
  readonly #unlisten: () => void
  #at = 0
  /** Since when the client takes nothing. */
  #fullSince: number | undefined
  #over = false

  /** `stall`: milliseconds for which a client may read nothing. */
  constructor(client: Client, recording: StreamRecording, watchdog: Watchdog, stall: number) {
    this.client = client
    this.#recording = recording
    this.#watchdog = watchdog
    this.#stall = stall
    this.#unlisten = recording.listen(() => this.#go())
    watchdog.add(this)
    const goOn = (): void => {
      this.#fullSince = undefined
      this.#go()
    }
    const stop = (): void => this.stop()
    client.onDrain = goOn
    client.onGone = stop
  }

  head(status: number, headers: HeaderLines): void {
    if (this.#over) return
    this.client.head(status, headers)
    this.#go()
  }

  check(now: number): void {
    if (this.#fullSince === undefined || now - this.#fullSince <= this.#stall) return
    this.client.cut()
    this.stop()
  }

  /** Whatever comes, the client is not shown it. */
  stop(): void {
    if (this.#over) return
    this.#over = true
    this.#unlisten()
    this.#watchdog.delete(this)
    this.client.onDrain = null
    this.client.onGone = null
  }

  #go(): void {
    const { client } = this
    if (this.#over || !client.headSent || this.#fullSince !== undefined) return
    const { chunks, closed } = this.#recording
    while (this.#at < chunks.length) {
      if (client.write(chunks[this.#at++]!)) continue
      this.#fullSince = this.#watchdog.time()
      return
    }
    if (!closed) return
    this.stop()
    client.end()
  }
}
