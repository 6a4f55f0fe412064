// Checks I3 over a whole journal for `verify`: what ended twice, in eight bytes for each end.
import type { Report } from './invariants.ts'

/** How many ends there is room for at first. */
const firstRoom = 65_536

/** The names of ends by their hashes. */
export class EndCheck {
  #hashes = new Float64Array(firstRoom)
  #count = 0

  /** Adds the name of an end. */
  add(name: string): void {
    if (this.#count === this.#hashes.length) {
      const hashes = new Float64Array(2 * this.#count)
      hashes.set(this.#hashes)
      this.#hashes = hashes
    }
    this.#hashes[this.#count++] = hashOf(name)
  }

  /**
   * Reports what ended more than once. `names` gives all names again, which are only asked for where two have one hash:
   * such a hash is most likely an end that was written twice.
   */
  report(names: () => Iterable<string>, report: Report): void {
    const sorted = this.#hashes.subarray(0, this.#count).sort()
    const twice = new Set<number>()
    for (let i = 1; i < sorted.length; i++) if (sorted[i] === sorted[i - 1]) twice.add(sorted[i]!)
    if (twice.size === 0) return
    const ends = new Map<string, number>()
    for (const name of names()) if (twice.has(hashOf(name))) ends.set(name, (ends.get(name) ?? 0) + 1)
    for (const [name, times] of ends) if (times > 1) report('I3', `journal ${name}`, `ends ${times} times`)
  }
}

/** A hash of 53 bits. It need not be one that nobody can aim at: what has the same one is compared by name. */
function hashOf(text: string): number {
  let [low, high] = [1, 2]
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    low = Math.imul(low ^ code, 16_777_619)
    high = Math.imul(high + code, 2_246_822_507) ^ (high >>> 15)
  }
  return (high >>> 11) * 2 ** 32 + (low >>> 0)
}
