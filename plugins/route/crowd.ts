// Requests that wait because every channel of their model is full.

import type { Allowance } from '../../core/contract/contract.ts'

/** Nobody is told of what another process gives back, so it is looked for at least so often, in milliseconds. */
const longestSleep = 250

/** The place of one request among those who wait. */
export interface Place {
  /** Resolves after so many milliseconds, when something was given back, or when the client leaves. Never rejects. */
  sleep(ms: number): Promise<void>
  /** Called once, when it waits no more. */
  leave(): void
}

interface Waiting {
  readonly channels: ReadonlySet<string>
  /** Undefined while it is awake. */
  wake: (() => void) | undefined
}

/** Those who wait. One per thread, shared among generations. */
export class Crowd {
  /** In the order in which they came. */
  readonly #waiting = new Set<Waiting>()
  readonly #room: Allowance

  /** `room`: how many wait in all threads. */
  constructor(room: Allowance) {
    this.#room = room
  }

  /**
   * Begins to wait for one of these channels; undefined when `most` wait already. `signal`: of the client.
   */
  join(channels: ReadonlySet<string>, signal: AbortSignal, most: number): Place | undefined {
    if (!this.#room.take(1, most)) return undefined
    const own: Waiting = { channels, wake: undefined }
    this.#waiting.add(own)
    return {
      sleep: (ms) =>
        new Promise((resolve) => {
          const wake = (): void => {
            own.wake = undefined
            clearTimeout(timer)
            signal.removeEventListener('abort', wake)
            resolve()
          }
          const timer = setTimeout(wake, Math.min(ms, longestSleep))
          own.wake = wake
          signal.addEventListener('abort', wake)
          if (signal.aborted) wake()
        }),
      leave: () => {
        if (this.#waiting.delete(own)) this.#room.give(1)
      }
    }
  }

  /** Something of this channel was given back: who has waited longest for it looks again. */
  wake(channel: string): void {
    for (const one of this.#waiting) {
      if (!one.wake || !one.channels.has(channel)) continue
      one.wake()
      return
    }
  }
}
