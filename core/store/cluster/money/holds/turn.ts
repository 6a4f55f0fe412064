// What the ledger has queued in one turn of the event loop, for what must not be seen before it.
import { setImmediate as nextTurn } from 'node:timers/promises'

/** What was queued in the present turn, as promises of its being durable. */
export class Turn {
  #queued: Promise<void>[] | undefined

  /** Adds something of this turn, and returns it. Nobody has to wait for it. */
  add(durable: Promise<void>): Promise<void> {
    durable.catch(ignore)
    this.#ofNow().push(durable)
    return durable
  }

  /** Resolves when all of this turn is durable, also what is added to it after this call. Rejects as that does. */
  async durable(): Promise<void> {
    const queued = this.#ofNow()
    await nextTurn()
    await Promise.all(queued)
  }

  #ofNow(): Promise<void>[] {
    if (!this.#queued) {
      this.#queued = []
      setImmediate(() => (this.#queued = undefined))
    }
    return this.#queued
  }
}

function ignore(): void {}
