// Counts the memory of one direction of a session: bytes received and not yet sent to the other side.
import type { BodyMemory } from '../../bodies/body-memory.ts'

/** Bytes that each direction has for itself, so that frames up to this size always find room. */
const ownBytes = 64 * 1024

/** Further bytes count against the memory for request bodies, of which sessions may fill half. */
export class FrameRoom {
  readonly #memory: BodyMemory
  #come = 0
  #taken = 0

  constructor(memory: BodyMemory) {
    this.#memory = memory
  }

  /** Counts bytes that were received, of whole and of unfinished frames. False: there is no room for them. */
  take(bytes: number): boolean {
    this.#come += bytes
    const more = this.#come - ownBytes - this.#taken
    if (more <= 0) return true
    if (!this.#memory.takeSpare(more)) return false
    this.#taken += more
    return true
  }

  /** Gives the room back, when all whole frames have been sent on. */
  empty(): void {
    this.#come = 0
    if (this.#taken === 0) return
    this.#memory.give(this.#taken)
    this.#taken = 0
  }
}
