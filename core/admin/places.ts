// Places for what takes long, such as files and live streams: bounded for each actor, for each tenant, for all tenants
// together and in all, so that nobody keeps them from others, nor tenants from who runs the gateway.
import type { Actor } from './api/audit.ts'

/** How many places there are in all, for actors of tenants, for those of one tenant, and for one actor or session. */
export interface PlaceBounds {
  readonly all: number
  readonly tenants: number
  readonly tenant: number
  readonly one: number
}

/** Places of one kind. */
export class Places {
  readonly #bounds: PlaceBounds
  readonly #whoOf: (by: Actor) => string
  readonly #taken = new Set<{ readonly tenant: string | null; readonly who: string }>()

  /** `whoOf`: what tells one actor or session from others. */
  constructor(bounds: PlaceBounds, whoOf = ({ kind, id }: Actor): string => `${kind} ${id}`) {
    this.#bounds = bounds
    this.#whoOf = whoOf
  }

  /** The bound that keeps an actor from one more place; undefined when there is room. */
  lacking(by: Actor): keyof PlaceBounds | undefined {
    const bounds = this.#bounds
    const taken = [...this.#taken]
    const who = this.#whoOf(by)
    if (taken.filter((one) => one.who === who).length >= bounds.one) return 'one'
    if (by.tenant !== null) {
      if (taken.filter(({ tenant }) => tenant === by.tenant).length >= bounds.tenant) return 'tenant'
      if (taken.filter(({ tenant }) => tenant !== null).length >= bounds.tenants) return 'tenants'
    }
    return taken.length >= bounds.all ? 'all' : undefined
  }

  /** Takes a place, whether there is room or not. Returns what gives it back, once. */
  take(by: Actor): () => void {
    const place = { tenant: by.tenant, who: this.#whoOf(by) }
    this.#taken.add(place)
    return () => void this.#taken.delete(place)
  }
}
