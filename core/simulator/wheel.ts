// Wakes any number of paced answers with a single timer.

/** Something that waits to be woken. */
export interface Sleeper {
  /** Called once for each {@link Wheel.arm}. */
  wake(): void
}

interface Entry {
  due: number
  sleeper: Sleeper
}

const slotCount = 512

/**
 * A hashed timer wheel with slots of one millisecond. Arming is one push, and all sleepers of a millisecond wake
 * together. The timer runs only while there are sleepers.
 */
export class Wheel {
  readonly #slots: Entry[][] = Array.from({ length: slotCount }, () => [])
  #timer: NodeJS.Timeout | undefined
  #turned = 0
  #sleeping = 0

  /** Wakes the sleeper at `due` (`performance.now()`), or in the next millisecond if that is past. */
  arm(sleeper: Sleeper, due: number): void {
    if (!this.#timer) {
      this.#turned = Math.floor(performance.now())
      this.#timer = setInterval(() => this.#turn(), 1)
    }
    const slot = Math.max(Math.ceil(due), this.#turned + 1)
    this.#slots[slot % slotCount]!.push({ due: slot, sleeper })
    this.#sleeping++
  }

  /** Forgets all sleepers. */
  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#sleeping = 0
    for (const slot of this.#slots) slot.length = 0
  }

  #turn(): void {
    const now = Math.floor(performance.now())
    // After a delay longer than a round it is enough to look at every slot once.
    let tick = Math.max(this.#turned, now - slotCount)
    while (tick < now) {
      this.#turned = ++tick
      const slot = this.#slots[tick % slotCount]!
      if (slot.length > 0) this.#wake(slot, now)
    }
    if (this.#sleeping === 0) this.stop()
  }

  #wake(slot: Entry[], now: number): void {
    // Entries of later rounds that are added meanwhile stay in the slot.
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
