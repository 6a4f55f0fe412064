// A live stream of the gateway, which comes back by itself whatever ended it. Tabs share one in live-worker.ts; where
// the browser has no shared workers, each tab that is seen has its own. It knows nothing of pages.

/** What somebody who watches is told. */
export type LiveMessage =
  /** An event, with its data as JSON has it. */
  | { readonly kind: 'event'; readonly name: string; readonly data: unknown }
  /** Whether the stream is connected; `since`: in Unix milliseconds. */
  | { readonly kind: 'state'; readonly connected: boolean; readonly since: number }

/** The events of the stream. */
const names = ['tick', 'requests', 'troubles', 'config', 'reset', 'missed', 'end'] as const

/** Milliseconds until the next attempt: from the first to the longest, doubled each time, and some by chance. */
const firstPause = 1000
const longestPause = 30_000
/** How many ticks are kept for whoever joins. */
const ticksKept = 300
/** A stream that says nothing for so many milliseconds is dead: a tick or a comment comes sooner. */
const silentMs = 40_000

/** One stream, and what it said lately. */
export class LiveSource {
  readonly #url: string
  readonly #tell: (message: LiveMessage) => void
  readonly #ticks: unknown[] = []
  readonly #latest = new Map<string, unknown>()
  #stream: EventSource | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #pause = firstPause
  #state: LiveMessage & { kind: 'state' } = { kind: 'state', connected: false, since: Date.now() }
  #closed = false

  constructor(url: string, tell: (message: LiveMessage) => void) {
    this.#url = url
    this.#tell = tell
    this.#open()
  }

  /** What was said until now, for somebody who joins. */
  get past(): LiveMessage[] {
    return [
      ...this.#ticks.map((data): LiveMessage => ({ kind: 'event', name: 'tick', data })),
      ...[...this.#latest].map(([name, data]): LiveMessage => ({ kind: 'event', name, data })),
      this.#state
    ]
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#stream?.close()
  }

  #open(): void {
    const stream = (this.#stream = new EventSource(this.#url))
    this.#listenFor(silentMs)
    stream.onopen = () => {
      this.#pause = firstPause
      this.#turn(true)
    }
    stream.onerror = () => {
      this.#turn(false)
      // The browser comes back by itself from a stream that ended, and never from an answer that is no stream.
      if (stream.readyState === EventSource.CLOSED) this.#again()
    }
    for (const name of names) stream.addEventListener(name, (event) => this.#take(name, event as MessageEvent<string>))
  }

  #take(name: string, { data }: MessageEvent<string>): void {
    this.#listenFor(silentMs)
    const said: unknown = JSON.parse(data)
    if (name === 'tick') {
      this.#ticks.push(said)
      if (this.#ticks.length > ticksKept) this.#ticks.shift()
    } else if (name === 'troubles' || name === 'config') this.#latest.set(name, said)
    this.#tell({ kind: 'event', name, data: said })
  }

  #listenFor(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#turn(false)
      this.#again()
    }, ms)
  }

  #again(): void {
    this.#stream?.close()
    clearTimeout(this.#timer)
    if (this.#closed) return
    this.#timer = setTimeout(() => this.#open(), this.#pause * (0.75 + Math.random() / 2))
    this.#pause = Math.min(this.#pause * 2, longestPause)
  }

  #turn(connected: boolean): void {
    if (this.#state.connected === connected) return
    this.#state = { kind: 'state', connected, since: Date.now() }
    this.#tell(this.#state)
  }
}
