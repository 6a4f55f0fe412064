// Computes money and limits independently of the product, with fractions of bigints and the published algorithms.

/** An exact number. */
export class Fraction {
  readonly top: bigint
  readonly bottom: bigint

  constructor(top: bigint, bottom = 1n) {
    this.top = top
    this.bottom = bottom
  }

  /** Parses a decimal number such as `0.0375` or `12`. */
  static of(decimal: string): Fraction {
    const [whole = '0', digits = ''] = decimal.split('.')
    return new Fraction(BigInt(whole + digits), 10n ** BigInt(digits.length))
  }

  plus({ top, bottom }: Fraction): Fraction {
    return new Fraction(this.top * bottom + top * this.bottom, this.bottom * bottom)
  }

  times({ top, bottom }: Fraction): Fraction {
    return new Fraction(this.top * top, this.bottom * bottom)
  }

  /** Rounds to the nearest integer, halves up. Only for numbers that are not negative. */
  rounded(): bigint {
    const whole = this.top / this.bottom
    const rest = this.top % this.bottom
    return rest * 2n >= this.bottom ? whole + 1n : whole
  }

  /** Negative, zero or positive, when this is less than, equal to or more than the other. */
  compare({ top, bottom }: Fraction): number {
    const [here, there] = [this.top * bottom, top * this.bottom]
    return here < there ? -1 : here > there ? 1 : 0
  }
}

/** Units of each class, as an upstream counted them. Each unit is in one class only. */
export type Units = Readonly<Record<string, number>>

/** Prices in dollars as decimals: per million units, or per unit for classes that are counted singly. */
export type Dollars = Readonly<Record<string, string>>

const singly = new Set(['request', 'image', 'second', 'search', 'tool_call'])

/** The cost of units in nano-dollars: one exact sum, rounded once. */
export function nanoCost(units: Units, dollars: Dollars): bigint {
  let sum = new Fraction(0n)
  for (const [name, price] of Object.entries(dollars)) {
    const each = Fraction.of(price).times(new Fraction(1n, singly.has(name) ? 1n : 1_000_000n))
    sum = sum.plus(each.times(new Fraction(BigInt(units[name] ?? 0))))
  }
  return sum.times(new Fraction(1_000_000_000n)).rounded()
}

/**
 * The generic cell rate algorithm as virtual scheduling (ITU-T I.371): each admitted unit moves a theoretical arrival
 * time on by one interval. Times are whole microseconds.
 */
export class ArrivalOracle {
  readonly #interval: Fraction
  readonly #burst: Fraction
  #due = new Fraction(0n)

  /** `limit`: units per window, which may all come at once. `window`: microseconds. */
  constructor(limit: number, window: number) {
    this.#interval = new Fraction(BigInt(window), BigInt(limit))
    this.#burst = new Fraction(BigInt(window))
  }

  /** Whether units that come now would be admitted. Only `take` takes them. */
  admits(now: number, units = 1): boolean {
    return this.#next(now, units).compare(new Fraction(BigInt(now)).plus(this.#burst)) <= 0
  }

  take(now: number, units = 1): void {
    this.#due = this.#next(now, units)
  }

  #next(now: number, units: number): Fraction {
    const at = new Fraction(BigInt(now))
    const from = this.#due.compare(at) > 0 ? this.#due : at
    return from.plus(this.#interval.times(new Fraction(BigInt(units))))
  }
}

/** A concurrency limit as a plain count: the places taken minus those given back. */
export class SlotOracle {
  readonly #limit: number
  taken = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  admits(): boolean {
    return this.taken < this.#limit
  }
}
