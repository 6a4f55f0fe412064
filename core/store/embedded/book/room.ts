// Counts in memory how many bytes kept results take, per tenant and in total.
import type { ResultRoom } from '../../works.ts'
import type { Row } from '../files/sqlite.ts'

/**
 * How many names of removed results are remembered, so that two callers that remove the same one do not count it twice.
 */
const mostGone = 10_000

/** The count of one store. It starts with the sums from the database. */
export class Room implements ResultRoom {
  total = 0
  /** The bytes by tenant. */
  readonly #taken = new Map<string, number>()
  readonly #gone = new Set<string>()

  /** `rows` have a tenant each, with its `bytes`. */
  constructor(rows: readonly Row[]) {
    for (const { tenant, bytes } of rows) this.add(tenant as string, Number(bytes))
  }

  /** The bytes by tenant, of those that have some. */
  get tenants(): Iterable<readonly [string, number]> {
    return this.#taken
  }

  /** The bytes of one tenant. */
  of(tenant: string): number {
    return this.#taken.get(tenant) ?? 0
  }

  /** The tenant whose results take most; undefined when there are none. */
  get largest(): string | undefined {
    let most: [string, number] | undefined
    for (const entry of this.#taken) if (!most || entry[1] > most[1]) most = entry
    return most?.[0]
  }

  add(tenant: string, bytes: number): void {
    const taken = this.of(tenant) + bytes
    this.total += bytes
    if (taken > 0) this.#taken.set(tenant, taken)
    else this.#taken.delete(tenant)
  }

  /** Subtracts a removed result, once. No other result may ever have the same name. */
  leave(name: string, tenant: string, bytes: number): void {
    if (bytes === 0 || this.#gone.has(name)) return
    this.#gone.add(name)
    if (this.#gone.size > mostGone) this.#gone.delete(this.#gone.values().next().value!)
    this.add(tenant, -bytes)
  }
}
