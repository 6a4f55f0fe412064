// The prices that holds were made at, of all nodes.
import { parsePrice, renderPrice } from '../../../../money/price.ts'
import type { Price } from '../../../../money/price.ts'
import type { Sale } from '../../../ledger.ts'
import type { Lane } from '../../database/lane.ts'

/** Numbers are given before rows can be seen, so that one may be seen later than a greater one: read again. */
const overlap = 1000n

/** All prices of the book in memory: a row each time somebody changes what a model costs. */
export class Prices {
  readonly #lane: Lane
  readonly #json = new Map<string, string>()
  readonly #known = new WeakSet<Price>()
  /** Versions that the database refuses. */
  readonly #refused = new Set<string>()
  #last = 0n

  constructor(lane: Lane) {
    this.#lane = lane
  }

  readonly find = (version: string): Price | undefined => {
    const json = this.#json.get(version)
    return json === undefined ? undefined : parsePrice(version, json)
  };

  /**
   * Those of a sale that are not in the book yet.
   * @throws Error when a version stands for another price in the book, or the database refuses it
   */
  *fresh({ price, costs }: Sale): Generator<Price> {
    for (const one of [price, ...(costs?.values() ?? [])]) {
      if (this.#known.has(one) && this.#refused.size === 0) continue
      if (this.#refused.has(one.version))
        throw new Error(`the database refuses the price version ${JSON.stringify(one.version)}`)
      const json = renderPrice(one)
      const stored = this.#json.get(one.version)
      if (stored !== undefined && stored !== json)
        throw new Error(
          `the price version ${one.version} is ${stored} in the ledger and ${json} now: a price that changes needs another version`
        )
      this.#known.add(one)
      if (stored !== undefined) continue
      this.#json.set(one.version, json)
      yield one
    }
  }

  /** The database refuses a version: no request is made at it any more. */
  refuse(version: string): void {
    this.#refused.add(version)
  }

  /** Reads what other nodes have added. */
  async refresh(): Promise<void> {
    const { rows } = await this.#lane.query<{ version: string; json: string; number: bigint }>(
      'select version, json, number from sluice.price where number > $1',
      [this.#last - overlap]
    )
    for (const { version, json, number } of rows) {
      if (!this.#json.has(version)) this.#json.set(version, json)
      if (number > this.#last) this.#last = number
    }
  }
}
