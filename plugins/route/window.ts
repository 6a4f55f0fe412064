// Counts two kinds of events over the last ten seconds, in slots of one second.

const slots = 10

/**
 * A sliding count. `now`: milliseconds of a monotonic clock. A time before the current second counts as the current
 * second.
 */
export class Window {
  readonly #all = Array.from({ length: slots }, () => 0)
  readonly #marked = Array.from({ length: slots }, () => 0)
  #second = 0

  /** Counts one event. Marked events are also part of all events. */
  add(now: number, marked: boolean): void {
    this.#turn(now)
    const slot = this.#second % slots
    this.#all[slot]!++
    if (marked) this.#marked[slot]!++
  }

  all(now: number): number {
    this.#turn(now)
    return sum(this.#all)
  }

  marked(now: number): number {
    this.#turn(now)
    return sum(this.#marked)
  }

  clear(): void {
    this.#all.fill(0)
    this.#marked.fill(0)
  }

  #turn(now: number): void {
    const second = Math.floor(now / 1000)
    if (second <= this.#second) return
    if (second - this.#second >= slots) this.clear()
    else {
      for (let old = this.#second + 1; old <= second; old++) {
        this.#all[old % slots] = 0
        this.#marked[old % slots] = 0
      }
    }
    this.#second = second
  }
}

function sum(counts: readonly number[]): number {
  let total = 0
  for (const count of counts) total += count
  return total
}
