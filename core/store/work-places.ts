// Places of work that is about to begin: taken when its request is admitted, so that all who come at once count.
import type { WorkBounds, WorkPlaces, Works } from './works.ts'

/** Those that one process decides about. */
export class OwnPlaces implements WorkPlaces {
  readonly #works: Pick<Works, 'running' | 'runningOf'>
  /** The tenant, by the id of the request. */
  readonly #taken = new Map<string, string>()

  constructor(works: Pick<Works, 'running' | 'runningOf'>) {
    this.#works = works
  }

  take(id: string, tenant: string, bounds: WorkBounds): keyof WorkBounds | undefined {
    if (this.#works.running + this.#taken.size >= bounds.open) return 'open'
    if (this.#works.runningOf(tenant) + this.#takenOf(tenant) >= bounds.of_tenant) return 'of_tenant'
    this.#taken.set(id, tenant)
    return undefined
  }

  leave(id: string): void {
    this.#taken.delete(id)
  }

  #takenOf(tenant: string): number {
    let count = 0
    for (const whose of this.#taken.values()) if (whose === tenant) count++
    return count
  }
}
