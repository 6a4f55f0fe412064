// The purses of plans whose balances this node knows.
import type { Cell } from '../../../embedded/balance/cell.ts'
import { Purse } from '../../../embedded/balance/purse.ts'
import type { Mirror } from '../balances/mirror.ts'
import type { Plan } from '../balances/plan.ts'

/** Makes each once. */
export class KnownPurses {
  readonly #mirror: Mirror
  readonly #purses = new WeakMap<Plan, Purse>()

  constructor(mirror: Mirror) {
    this.#mirror = mirror
  }

  /** That of a plan; undefined when some of its balances are not known. */
  of(plan: Plan): Purse | undefined {
    let purse = this.#purses.get(plan)
    if (purse) return purse
    const known = plan.places.map(({ key }) => this.#mirror.get(key)?.cell)
    if (known.includes(undefined)) return undefined
    this.#purses.set(plan, (purse = new Purse(plan.texts, plan, known as Cell[], [], [])))
    return purse
  }
}
