// Stops what a start has begun, in reverse order.
import type { Logger } from '../telling/log.ts'
import { thrownText } from '../thrown.ts'

/** The functions that stop what was started. They run in reverse order. */
export class Stops {
  readonly #log: Logger
  readonly #closes: (() => Promise<unknown>)[] = []

  constructor(log: Logger) {
    this.#log = log
  }

  add(close: () => Promise<unknown>): void {
    this.#closes.push(close)
  }

  /** Never rejects: an error is logged, and the remaining services are stopped. */
  async run(): Promise<void> {
    for (const close of this.#closes.splice(0).reverse()) {
      await close().catch((error: unknown) =>
        this.#log.error('a service could not be stopped', { error: thrownText(error) })
      )
    }
  }
}
