// What kept results take, as the database counts it, and what this gateway has added since it was asked.
import type { ResultRoom } from '../../works.ts'

/** The count of one gateway. What others add is seen with the next look. */
export class Room implements ResultRoom {
  #counted: ReadonlyMap<string, number> = new Map()
  /** What is being written, by tenant. */
  readonly #coming = new Map<string, number>()
  /** How often something was written. A look that was begun before may or may not have it. */
  written = 0

  get total(): number {
    let sum = 0
    for (const tenant of this.#tenants()) sum += this.of(tenant)
    return sum
  }

  of(tenant: string): number {
    return Math.max(0, (this.#counted.get(tenant) ?? 0) + (this.#coming.get(tenant) ?? 0))
  }

  get largest(): string | undefined {
    let largest: string | undefined
    let most = 0
    for (const tenant of this.#tenants()) {
      const bytes = this.of(tenant)
      if (bytes > most) [largest, most] = [tenant, bytes]
    }
    return largest
  }

  /** What the database has counted. */
  count(counted: ReadonlyMap<string, number>): void {
    this.#counted = counted
  }

  /** Counts bytes that are being written. Call what it returns when they are, or when they are not. */
  expect(tenant: string, bytes: number): (written: boolean) => void {
    if (bytes === 0) return () => {}
    add(this.#coming, tenant, bytes)
    return (written) => {
      add(this.#coming, tenant, -bytes)
      if (!written) return
      this.written++
      const counted = new Map(this.#counted)
      add(counted, tenant, bytes)
      this.#counted = counted
    }
  }

  #tenants(): Set<string> {
    return new Set([...this.#counted.keys(), ...this.#coming.keys()])
  }
}

function add(sums: Map<string, number>, tenant: string, bytes: number): void {
  const sum = (sums.get(tenant) ?? 0) + bytes
  if (sum === 0) sums.delete(tenant)
  else sums.set(tenant, sum)
}
