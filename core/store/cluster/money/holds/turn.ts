// What the ledger has queued in one turn of the event loop, for what must not be seen before it.
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Something of a request that is to be written, and when it is. */
interface Queued {
  readonly requestId: string
  readonly durable: Promise<void>
}

/** What was queued in the present turn. */
export class Turn {
  #queued: Queued[] | undefined

  /** Adds something of this turn, and returns its promise. Nobody has to wait for it. */
  add(requestId: string, durable: Promise<void>): Promise<void> {
    durable.catch(ignore)
    this.#ofNow().push({ requestId, durable })
    return durable
  }

  /**
   * Resolves when all that is queued for a request in this turn is durable, also what is added after this call. Rejects
   * as that does.
   */
  async durable(requestId: string): Promise<void> {
    const queued = this.#ofNow()
    await nextTurn()
    for (const one of queued) if (one.requestId === requestId) await one.durable
  }

  #ofNow(): Queued[] {
    if (!this.#queued) {
      this.#queued = []
      setImmediate(() => (this.#queued = undefined))
    }
    return this.#queued
  }
}

function ignore(): void {}
