// The limiter of a single process. It decides at once, in memory, with exact leaky buckets and counted concurrency
// slots.
import type { CountedSet, Decision, Lease, Limits } from '../limits.ts'
import { Roster } from '../../watchdog/roster.ts'
import { Bucket, minute, second } from './bucket.ts'
import { Entry, giveBack, take } from './entry.ts'
import type { Taken } from './entry.ts'
import { longestOf, refusal, statesOf } from './verdict.ts'

/** The least time between two sweeps when no set is new, in microseconds. */
const sweepEvery = 1000

/** What a lease needs of its limiter. */
interface LeaseKeeper {
  now(): number
  /** Called once, before it gives back what it has. */
  over(lease: MemoryLease, used: number | undefined): void
}

class MemoryLease implements Lease {
  rosterPlace: number | undefined = undefined
  readonly #taken: readonly Taken[]
  readonly #keeper: LeaseKeeper
  readonly #at: number
  #released = false

  constructor(taken: readonly Taken[], keeper: LeaseKeeper, at: number) {
    this.#taken = taken
    this.#keeper = keeper
    this.#at = at
  }

  /** As the next process takes it over. */
  state(id: string): KeptLease {
    const taken = this.#taken.map(({ entry, slot, tokens, level }) => ({ id: entry.id, slot, tokens, level }))
    return { id, taken, elapsed: this.#keeper.now() - this.#at }
  }

  release(used: number | undefined): void {
    if (this.#released) return
    this.#released = true
    this.#keeper.over(this, used)
    const now = this.#keeper.now()
    for (const taken of this.#taken) giveBack(taken, used, this.#at, now)
  }
}

const noLease: Lease = { release: () => {} }

/** A lease that its process goes on with after the limits have gone to the next one. Times are in microseconds. */
export interface KeptLease {
  /** By which its process names it. */
  readonly id: string
  readonly taken: readonly { id: string; slot: boolean; tokens: number; level: number }[]
  readonly elapsed: number
}

/** Everything that a limiter has in memory, as one process hands it to the next. */
export interface KeptLimits {
  readonly sets: readonly {
    readonly id: string
    readonly leases: number
    readonly buckets: Readonly<Partial<Record<'rps' | 'rpm' | 'tpm', { content: number; limit: number }>>>
  }[]
  readonly leases: readonly KeptLease[]
}

/** The limits of this process alone. Only sets used in the last minutes take memory; there is nothing to close. */
export class MemoryLimits implements Limits {
  readonly #now: () => number
  readonly #keeper: LeaseKeeper
  readonly #entries = new Map<string, Entry>()
  #hand: MapIterator<[string, Entry]>
  #sweptAt = -Infinity
  /** The leases that were not released. */
  readonly #leases = new Roster<MemoryLease>()
  /** The ids of leases that the next process has, and what tells it of their release. */
  #left: { ids: Map<MemoryLease, string>; release: (id: string, used: number | undefined) => void } | undefined

  /** `now` returns whole microseconds of a clock that never goes back. */
  constructor(now: () => number = () => Math.floor(performance.now() * 1000)) {
    this.#now = now
    this.#hand = this.#entries.entries()
    this.#keeper = {
      now,
      over: (lease, used) => {
        this.#leases.delete(lease)
        // Here it is given back as well, as there may be no next process after all.
        const id = this.#left?.ids.get(lease)
        if (id !== undefined) this.#left!.release(id, used)
      }
    }
  }

  /** How many sets have a state. */
  get size(): number {
    return this.#entries.size
  }

  decide<S extends CountedSet>(sets: readonly S[], tokens: number, within = false): Decision<S> {
    const now = this.#now()
    if (now - this.#sweptAt >= sweepEvery) this.#sweep(now)
    const before = this.#entries.size
    const entries = this.#entriesOf(sets, now)
    const longest = longestOf(sets, entries, tokens, within)
    if (longest) return refusal(statesOf(sets, entries, tokens, within), longest)
    const taken = sets.map(({ rates }, at) => take(entries[at]!, rates, tokens, !within))
    // Not before everything is taken: until then a new set is idle, and would be removed.
    for (let added = this.#entries.size - before; added > 0; added--) this.#sweep(now)
    const lease = new MemoryLease(taken, this.#keeper, now)
    this.#leases.add(lease)
    return { admitted: true, states: statesOf(sets, entries, tokens, within), lease }
  }

  /**
   * Hands everything over: from now on `release` is told of leases that are released, by the names that they have in
   * what is returned.
   */
  leave(release: (id: string, used: number | undefined) => void): KeptLimits {
    const now = this.#now()
    const ids = new Map([...this.#leases].map((lease, at) => [lease, String(at)]))
    this.#left = { ids, release }
    const sets = [...this.#entries.values()].map((entry) => ({
      id: entry.id,
      leases: entry.leases,
      buckets: Object.fromEntries(
        (['rps', 'rpm', 'tpm'] as const).flatMap((name) => (entry[name] ? [[name, entry[name].kept(now)]] : []))
      )
    }))
    return { sets, leases: [...ids].map(([lease, id]) => lease.state(id)) }
  }

  /** Takes everything back, because there is no next process. */
  stay(): void {
    this.#left = undefined
  }

  /** Takes over what another process had. Returns its leases by their names. */
  adopt({ sets, leases }: KeptLimits): Map<string, Lease> {
    const now = this.#now()
    for (const { id, leases: slots, buckets } of sets) {
      const [entry] = this.#entriesOf([{ id, rates: {} }], now)
      entry!.leases += slots
      for (const name of ['rps', 'rpm', 'tpm'] as const) {
        const state = buckets[name]
        if (state) entry![name] = new Bucket(name === 'rps' ? second : minute, state.limit, now, state.content)
      }
    }
    return new Map(
      leases.map(({ id, taken, elapsed }) => {
        const own = taken.map(({ id: set, ...rest }) => ({
          ...rest,
          entry: this.#entriesOf([{ id: set, rates: {} }], now)[0]!
        }))
        for (const { entry, tokens } of own) if (tokens > 0) entry.uncorrected++
        const lease = new MemoryLease(own, this.#keeper, now - elapsed)
        this.#leases.add(lease)
        return [id, lease]
      })
    )
  }

  look<S extends CountedSet>(sets: readonly S[], tokens: number): Decision<S> {
    const entries = this.#entriesOf(sets, this.#now())
    const longest = longestOf(sets, entries, tokens, false)
    const states = statesOf(sets, entries, tokens, false)
    return longest ? refusal(states, longest) : { admitted: true, states, lease: noLease }
  }

  #entriesOf(sets: readonly Pick<CountedSet, 'id' | 'rates'>[], now: number): Entry[] {
    return sets.map(({ id, rates }) => {
      let entry = this.#entries.get(id)
      if (!entry) this.#entries.set(id, (entry = new Entry(id)))
      entry.turn(rates, now)
      return entry
    })
  }

  /**
   * Removes idle sets. It looks at two sets for each new one, so that idle ones go at least as fast as new ones come,
   * and at two sets in each millisecond with traffic. So it needs no timer.
   */
  #sweep(now: number): void {
    this.#sweptAt = now
    for (let looked = 0; looked < 2; looked++) {
      const next = this.#hand.next()
      if (next.done) {
        this.#hand = this.#entries.entries()
        return
      }
      const [id, entry] = next.value
      if (entry.idle(now)) this.#entries.delete(id)
    }
  }
}
