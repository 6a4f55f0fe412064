// How durations are spread: how many fall between steps that grow by a fifth, so that sums of any length stay small.

/** How many steps there are from a duration to its double: a percentile is wrong by a tenth at most. */
const stepsOfDouble = 4
/** The highest step: about twelve days. */
const last = 30 * stepsOfDouble

/** Durations in milliseconds, counted by steps. */
export class Spread {
  readonly #counts = new Map<number, number>()

  /** Reads what {@link Spread.text} has written. */
  static read(text: string): Spread {
    const spread = new Spread()
    if (text !== '')
      for (const pair of text.split(' ')) {
        const colon = pair.indexOf(':')
        spread.#add(Number(pair.slice(0, colon)), Number(pair.slice(colon + 1)))
      }
    return spread
  }

  add(ms: number): void {
    this.#add(stepOf(ms), 1)
  }

  /** Takes one away that was added, here or to what this will be added to. */
  remove(ms: number): void {
    this.#add(stepOf(ms), -1)
  }

  /** Adds another one. */
  join(other: Spread): void {
    for (const [step, count] of other.#counts) this.#add(step, count)
  }

  /** `<step>:<count>` with spaces between them, in the order of the steps; empty for none. */
  get text(): string {
    return this.#sorted()
      .map(([step, count]) => `${step}:${count}`)
      .join(' ')
  }

  /** The duration that so large a share, from 0 to 1, does not exceed; null when there are none. */
  quantile(share: number): number | null {
    const sorted = this.#sorted()
    let left = share * sorted.reduce((sum, [, count]) => sum + count, 0)
    for (const [step, count] of sorted) {
      left -= count
      // In the middle of the step, by the factor.
      if (left <= 0) return Math.round(2 ** ((step - 0.5) / stepsOfDouble) * 10) / 10
    }
    return null
  }

  #add(step: number, count: number): void {
    const sum = (this.#counts.get(step) ?? 0) + count
    if (sum === 0) this.#counts.delete(step)
    else this.#counts.set(step, sum)
  }

  #sorted(): [step: number, count: number][] {
    return [...this.#counts].sort(([one], [other]) => one - other)
  }
}

function stepOf(ms: number): number {
  return ms <= 1 ? 0 : Math.min(Math.ceil(Math.log2(ms) * stepsOfDouble), last)
}
