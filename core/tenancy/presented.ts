// The callers by the keys that clients presented, so that only the first request of each needs a digest.
import type { Caller } from '../catalogue/caller.ts'

/**
 * It holds the keys themselves, so it must never be shown or written. There are no more than valid ones, as only what
 * was found is added.
 */
export class Presented {
  readonly #callers = new Map<string, Caller>()
  /** What was presented by the name of the key: one secret, or two around a rotation. */
  readonly #secrets = new Map<string, readonly string[]>()

  get(secret: string): Caller | undefined {
    return this.#callers.get(secret)
  }

  /** Remembers the caller until its key changes. */
  add(secret: string, caller: Caller): void {
    // A copy, because a key that was cut out of a head would keep the whole head in memory.
    const own = Buffer.from(secret).toString()
    this.#callers.set(own, caller)
    this.#secrets.set(caller.key, (this.#secrets.get(caller.key) ?? []).concat(own))
  }

  /** A key has changed. The others stay, as each would need a digest again. */
  forget(key: string): void {
    for (const secret of this.#secrets.get(key) ?? []) this.#callers.delete(secret)
    this.#secrets.delete(key)
  }

  /** What all keys may do has changed. */
  clear(): void {
    this.#callers.clear()
    this.#secrets.clear()
  }
}
