// Bounds what waits for a collector, and counts what is lost.
import type { Logger } from '../telling/log.ts'
import type { PluginMetrics } from '../telling/metrics.ts'

/** What is exported. */
export type Signal = 'traces' | 'metrics' | 'logs'

/** Milliseconds between two lines of the log about one signal. */
const quiet = 60_000

/** What an exporter says when it is done. */
interface Result {
  code: number
  error?: Error
}

/** An exporter of the SDK: of a list of spans or log records, or of all metrics. */
interface Exporter {
  export(items: never, done: (result: Result) => void): void
}

/** One per signal. */
export class Gate {
  readonly #signal: Signal
  readonly #most: number
  readonly #lost
  readonly #log: Logger
  #waiting = 0
  #unsaid = 0
  #said = -Infinity

  /** `most`: how many items may wait. */
  constructor(signal: Signal, most: number, { metrics, log }: { metrics: PluginMetrics; log: Logger }) {
    this.#signal = signal
    this.#most = most
    this.#log = log
    this.#lost = metrics.counter({
      name: 'telemetry_lost_total',
      help: 'Spans, log records and exports of metrics that the collector did not get.',
      labels: ['signal', 'reason']
    })
  }

  /** Whether another item may wait. One that may not is counted as lost. */
  admits(): boolean {
    if (this.#waiting < this.#most) {
      this.#waiting++
      return true
    }
    this.#lose(1, 'queue', `${this.#most} wait already`)
    return false
  }

  /** Counts what becomes of the exports of an exporter, which then reports nothing but successes to the SDK. */
  watch<E extends Exporter>(exporter: E): E {
    const send = exporter.export.bind(exporter)
    exporter.export = (items: unknown, done: (result: Result) => void) => {
      const size = Array.isArray(items) ? items.length : 1
      send(items as never, ({ code, error }) => {
        this.#waiting = Math.max(0, this.#waiting - size)
        if (code !== 0) this.#lose(size, 'export', String(error?.message ?? 'the collector refused it').slice(0, 300))
        done({ code: 0 })
      })
    }
    return exporter
  }

  #lose(count: number, reason: 'queue' | 'export', why: string): void {
    this.#lost.add({ signal: this.#signal, reason }, count)
    this.#unsaid += count
    const now = performance.now()
    if (now - this.#said < quiet) return
    this.#said = now
    this.#log.warn('telemetry is lost; requests are not concerned', { signal: this.#signal, lost: this.#unsaid, why })
    this.#unsaid = 0
  }
}
