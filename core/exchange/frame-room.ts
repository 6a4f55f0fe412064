// The memory of one direction of a session: what has come off its socket and is not on its way to the other side yet.
import type { BodyMemory } from '../bodies/body-memory.ts'

/** So many bytes each direction has for itself: frames of this size always find room. */
const ownBytes = 64 * 1024

/** What is beyond is taken from the memory of all bodies, of which half is left to those who cannot do without. */
export class FrameRoom {
  readonly #memory: BodyMemory
  #come = 0
  #taken = 0

  constructor(memory: BodyMemory) {
    this.#memory = memory
  }

  /** So many bytes more have come, of frames that are whole or not. False: there is no room for them. */
  take(bytes: number): boolean {
    this.#come += bytes
    const more = this.#come - ownBytes - this.#taken
    if (more <= 0) return true
    if (!this.#memory.takeSpare(more)) return false
    this.#taken += more
    return true
  }

  /** All whole frames that came are on their way. */
  empty(): void {
    this.#come = 0
    if (this.#taken === 0) return
    this.#memory.give(this.#taken)
    this.#taken = 0
  }
}
