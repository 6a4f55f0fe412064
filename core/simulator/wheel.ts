// Wakes any number of paced answers with one timer.

/** Something that waits for its time. */
export interface Sleeper {
  /** Called once per {@link Wheel.arm}. */
  wake(): void
}

interface Entry {
  due: number
  sleeper: Sleeper
}

const slotCount = 512

/**
 * A hashed timer wheel of one-millisecond slots: arming costs a push, and all sleepers of a millisecond wake together.
 * The timer runs only while somebody sleeps.
 */
export class Wheel {
  readonly #slots: Entry[][] = Array.from({ length: slotCount }, () => [])
  #timer: NodeJS.Timeout | undefined
  #turned = 0
  #sleeping = 0

  /** Wakes the sleeper at `due` (of `performance.now()`), or in the next millisecond when that is past. */
  arm(sleeper: Sleeper, due: number): void {
    if (!this.#timer) {
      this.#turned = Math.floor(performance.now())
      this.#timer = setInterval(() => this.#turn(), 1)
    }
    const slot = Math.max(Math.ceil(due), this.#turned + 1)
    this.#slots[slot % slotCount]!.push({ due: slot, sleeper })
    this.#sleeping++
  }

  /** Forgets everybody. */
  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#sleeping = 0
    for (const slot of this.#slots) slot.length = 0
  }

  #turn(): void {
    const now = Math.floor(performance.now())
    // A turn later than one round has to look at every slot once, no more.
    let tick = Math.max(this.#turned, now - slotCount)
    while (tick < now) {
      this.#turned = ++tick
      const slot = this.#slots[tick % slotCount]!
      if (slot.length > 0) this.#wake(slot, now)
    }
    if (this.#sleeping === 0) this.stop()
  }

  #wake(slot: Entry[], now: number): void {
    // Entries added while waking, for a later round, go behind these.
    const entries = slot.splice(0)
    for (const entry of entries) {
      if (entry.due > now) {
        slot.push(entry)
        continue
      }
      this.#sleeping--
      entry.sleeper.wake()
    }
  }
}
