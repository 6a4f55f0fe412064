// How much room kept results take, in memory: of whom, and all together.
import type { Row } from './sqlite.ts'

/** Entries that went are remembered by name, so that two who let one go do not count it twice. */
const mostGone = 10_000

/** The count of a store. It begins with what the database says. */
export class Room {
  total = 0
  /** By tenant. */
  readonly #taken = new Map<string, number>()
  readonly #gone = new Set<string>()

  /** `rows`: a tenant each, with its `bytes`. */
  constructor(rows: readonly Row[]) {
    for (const { tenant, bytes } of rows) this.add(tenant as string, Number(bytes))
  }

  /** Bytes of a tenant's. */
  of(tenant: string): number {
    return this.#taken.get(tenant) ?? 0
  }

  /** Whose take most; undefined when there are none. */
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

  /** What was counted goes. `name`: of nothing else, ever. */
  leave(name: string, tenant: string, bytes: number): void {
    if (bytes === 0 || this.#gone.has(name)) return
    this.#gone.add(name)
    if (this.#gone.size > mostGone) this.#gone.delete(this.#gone.values().next().value!)
    this.add(tenant, -bytes)
  }
}
