// Where the balances and the sums of hours that a batch is about are among its arguments.
import type { Mirror } from '../balances/mirror.ts'
import { includes } from '../balances/plan.ts'
import type { Hoursum, Limit, Place } from '../balances/plan.ts'

/** From 1 on: first the balances in the order of their ids, then the sums. */
export class Positions {
  readonly ids: readonly bigint[]
  readonly sums: readonly Hoursum[]
  readonly #ofId: ReadonlyMap<bigint, number>
  readonly #ofSum = new Map<string, number>()
  readonly #ofList = new Map<readonly Place[], readonly number[]>()
  readonly #mirror: Mirror

  /** The mirror knows all of the balances. */
  constructor(ids: ReadonlySet<bigint>, sums: Iterable<Hoursum>, mirror: Mirror) {
    this.#mirror = mirror
    this.ids = [...ids].sort((one, other) => (one < other ? -1 : 1))
    this.#ofId = new Map(this.ids.map((id, i) => [id, i + 1]))
    const distinct: Hoursum[] = []
    for (const sum of sums) {
      if (this.#ofSum.has(nameOf(sum))) continue
      distinct.push(sum)
      this.#ofSum.set(nameOf(sum), this.ids.length + distinct.length)
    }
    this.sums = distinct
  }

  /** That of a balance, by its name. */
  of(key: string): number {
    return this.#ofId.get(this.#mirror.get(key)!.id)!
  }

  /** That of what counts against a budget. */
  used({ of }: Pick<Limit, 'of'>): number {
    return 'to' in of ? this.#ofSum.get(nameOf(of))! : this.of(of.key)
  }

  /** Those of a list of balances, which is looked up once. */
  all(places: readonly Place[]): readonly number[] {
    let all = this.#ofList.get(places)
    if (!all) this.#ofList.set(places, (all = places.map(({ key }) => this.of(key))))
    return all
  }

  /** What an amount counts in, sums too. */
  counts(places: readonly Place[]): number[] {
    const sums = this.sums.filter((sum) => places.some((place) => includes(sum, place)))
    return [...this.all(places), ...sums.map((of) => this.used({ of }))]
  }
}

function nameOf({ scope, from, to }: Hoursum): string {
  return `${from} ${to} ${scope}`
}
