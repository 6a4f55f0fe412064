// What an exchange without its client has answered so far, for those who follow it.
import type { Client } from '../../clients/client.ts'
import type { HeaderLines } from '../../wire/response-head.ts'
import type { Watchdog, Watched } from '../../watchdog/watchdog.ts'

/** Grows until it is closed. Who follows it sees all of it, from its beginning. */
export class StreamRecording {
  readonly chunks: Buffer[] = []
  length = 0
  closed = false
  readonly #listeners = new Set<() => void>()

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
    this.#tell()
  }

  /** Calls when there is more, until what is returned is called. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** All of it, as it comes. */
  async *follow(): AsyncGenerator<Buffer> {
    let wake: (() => void) | undefined
    const leave = this.listen(() => wake?.())
    try {
      for (let at = 0; ;) {
        while (at < this.chunks.length) yield this.chunks[at++]!
        if (this.closed) return
        await new Promise<void>((resolve) => (wake = resolve))
      }
    } finally {
      leave()
    }
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
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
    client.onDrain = () => {
      this.#fullSince = undefined
      this.#go()
    }
    client.onGone = () => this.stop()
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
      this.#fullSince = performance.now()
      return
    }
    if (!closed) return
    this.stop()
    client.end()
  }
}
