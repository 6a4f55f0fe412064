// The limits of one worker: decided at once, in memory that all workers of the gateway share.
import type { Rates } from '../../../catalogue/caller.ts'
import { GatewayError } from '../../../errors.ts'
import type { CountedSet, Decision, Lease, Limits } from '../../limits.ts'
import { Bucket } from '../../memory/bucket.ts'
import { Entry, giveBack, take } from '../../memory/entry.ts'
import type { Taken } from '../../memory/entry.ts'
import type { KeptLease, KeptLimits } from '../../memory/limits.ts'
import { longestOf, refusal, statesOf } from '../../memory/verdict.ts'
import { lockOf } from './arena.ts'
import { Directory, locksOf, TableFull } from './directory.ts'
import type { Place } from './directory.ts'
import type { Seat } from './seat.ts'
import { Roster } from '../../../watchdog/roster.ts'
import { rateNames, rateWindows, readSet, writeSet } from './set-row.ts'

/** How many sets a worker knows the rows of. When they are more, it looks them up anew. */
const mostKnown = 100_000

/** A set as this worker knows it. Its entry is what was in the row at the latest decision. */
interface Known {
  readonly place: Place
  readonly entry: Entry
}

/** Sets that are decided on together. */
interface Group {
  readonly known: readonly Known[]
  /** In ascending order. It is one, unless a name has come from another home. */
  readonly locks: readonly number[]
}

/** What a request has taken, with the rows. */
type Row = Taken & { readonly row: number }

/** What a lease needs of its limits. */
interface LeaseKeeper {
  /** Gives back what a request took at the time `began`. */
  giveBack(taken: readonly Row[], locks: readonly number[], used: number | undefined, began: number): void
  /** Called once. Returns whether what it has is here, and is to be given back. */
  over(lease: WorkerLease, used: number | undefined): boolean
}

const noLease: Lease = { release: () => {} }
const tokensOnly: Rates = { tpm: 0 }
const allRates: Rates = { rps: 0, rpm: 0, tpm: 0 }
const noRates: Rates = {}

/** The limits of the gateway, as the thread of a seat decides by them. */
export class WorkerLimits implements Limits {
  readonly #seat: Seat
  readonly #directory: Directory
  readonly #now: () => number
  readonly #known = new Map<string, Known>()
  /** The leases that were not released. */
  readonly #leases = new Roster<WorkerLease>()
  /** The names of leases that the next process has, and what tells it of their release. */
  #left: { names: Map<WorkerLease, string>; release: (name: string, used: number | undefined) => void } | undefined
  readonly #keeper: LeaseKeeper = {
    giveBack: (...lease) => this.#giveBack(...lease),
    over: (lease, used) => {
      this.#leases.delete(lease)
      const name = this.#left?.names.get(lease)
      if (name === undefined) return true
      this.#left!.release(name, used)
      return false
    }
  }
  /** By the array of the sets, which is the same for the same caller and model. */
  #together = new WeakMap<readonly CountedSet[], Group>()

  /** `now`: whole microseconds of a clock that is the same in all threads, see `clock.ts`. */
  constructor(seat: Seat, now: () => number) {
    this.#seat = seat
    this.#directory = new Directory(seat.arena.sets, seat)
    this.#now = now
  }

  /** The sets whose rows this worker knows, for a hand-over. */
  get names(): IterableIterator<string> {
    return this.#known.keys()
  }

  /**
   * Hands the leases of this thread over: from now on `release` is told of those that are released, by the names that
   * they have in what is returned, which begin with `thread`.
   */
  leave(thread: number, release: (name: string, used: number | undefined) => void): readonly KeptLease[] {
    const now = this.#now()
    const names = new Map([...this.#leases].map((lease, at) => [lease, `${thread} ${at}`]))
    this.#left = { names, release }
    return [...names].map(([lease, name]) => lease.state(name, now))
  }

  /** What is in the sets of these names. */
  kept(names: Iterable<string>): KeptLimits['sets'] {
    const now = this.#now()
    const kept: KeptLimits['sets'][number][] = []
    for (const id of names) {
      const place = this.#directory.look(id)
      if (!place) continue
      const entry = new Entry(id)
      readSet(this.#seat.arena, place.row, entry, allRates)
      const buckets: Partial<Record<(typeof rateNames)[number], { content: number; limit: number }>> = {}
      for (const name of rateNames) {
        const state = entry[name]!.kept(now)
        if (state.content > 0) buckets[name] = state
      }
      if (entry.leases > 0 || Object.keys(buckets).length > 0) kept.push({ id, leases: entry.leases, buckets })
    }
    return kept
  }

  /**
   * Takes over what another process had, before anybody else decides here. Returns its leases by their names.
   * @throws GatewayError when there is no room for it
   */
  adopt({ sets, leases }: KeptLimits): Map<string, Lease> {
    const now = this.#now()
    const places = new Map<string, Place>()
    const placeOf = (id: string): Place => {
      let place = places.get(id)
      // What home a set has is not known to whoever kept it.
      if (!place) places.set(id, (place = this.#place(id, lockOf(id))))
      return place
    }
    for (const { id, leases: slots, buckets } of sets)
      this.#alter(placeOf(id), (entry) => {
        entry.leases += slots
        for (const [at, name] of rateNames.entries()) {
          const state = buckets[name]
          if (state) entry[name] = new Bucket(rateWindows[at]!, state.limit, now, state.content)
        }
      })
    return new Map(
      leases.map(({ id, taken, elapsed }) => {
        const own = taken.map(({ id: set, ...rest }) => ({ ...rest, entry: new Entry(set), row: placeOf(set).row }))
        for (const { entry, tokens } of own)
          if (tokens > 0) this.#alter(placeOf(entry.id), (entry) => void entry.uncorrected++)
        const locks = locksOf(taken.map(({ id: set }) => placeOf(set)))
        const lease = new WorkerLease(own, locks, now - elapsed, this.#keeper)
        this.#leases.add(lease)
        return [id, lease]
      })
    )
  }

  #alter({ row, lock }: Place, change: (entry: Entry) => void): void {
    const entry = new Entry('')
    this.#seat.change([lock], () => {
      readSet(this.#seat.arena, row, entry, allRates)
      change(entry)
      writeSet(this.#seat, row, entry, allRates)
    })
  }

  decide<S extends CountedSet>(sets: readonly S[], tokens: number, within = false): Decision<S> {
    if (sets.length === 0) return { admitted: true, states: [], lease: noLease }
    const { longest, entries, lease } = this.#under(sets, ({ known, locks }, now) => {
      const entries = this.#read(sets, known, now)
      const longest = longestOf(sets, entries, tokens, within)
      const taken = longest
        ? []
        : sets.map(({ rates }, at) => rowOf(known[at]!, take(entries[at]!, rates, tokens, !within)))
      this.#write(sets, known)
      const lease = new WorkerLease(taken, locks, now, this.#keeper)
      return { longest, entries, lease }
    })
    // The entries are this worker's own, so that nobody has to wait while the states are made of them.
    const states = statesOf(sets, entries, tokens, within)
    if (longest) return refusal(states, longest)
    this.#leases.add(lease)
    return { admitted: true, states, lease }
  }

  look<S extends CountedSet>(sets: readonly S[], tokens: number): Decision<S> {
    if (sets.length === 0) return { admitted: true, states: [], lease: noLease }
    const entries = this.#under(sets, ({ known }, now) => {
      const entries = this.#read(sets, known, now)
      // A limit that has changed holds from here on, as if it had been decided.
      this.#write(sets, known)
      return entries
    })
    const longest = longestOf(sets, entries, tokens, false)
    const states = statesOf(sets, entries, tokens, false)
    return longest ? refusal(states, longest) : { admitted: true, states, lease: noLease }
  }

  /** Does the work under the locks of these sets, with their rows. */
  #under<T>(sets: readonly CountedSet[], work: (group: Group, now: number) => T): T {
    for (;;) {
      const group = this.#together.get(sets) ?? this.#find(sets)
      const made = this.#seat.change(group.locks, () =>
        group.known.every(({ place }) => this.#directory.isAt(place))
          ? { of: work(group, this.#time(group.locks)) }
          : undefined
      )
      if (made) return made.of
      // The supervisor has forgotten one of them, as nothing was taken of it.
      this.#together.delete(sets)
      for (const { id } of sets) this.#known.delete(id)
    }
  }

  #find(sets: readonly CountedSet[]): Group {
    if (this.#known.size > mostKnown) {
      this.#known.clear()
      this.#together = new WeakMap()
    }
    const known = sets.map(({ id, home }) => {
      let one = this.#known.get(id)
      if (!one) this.#known.set(id, (one = { place: this.#place(id, lockOf(home)), entry: new Entry(id) }))
      return one
    })
    const group = { known, locks: locksOf(known.map(({ place }) => place)) }
    this.#together.set(sets, group)
    return group
  }

  #place(id: string, lock: number): Place {
    try {
      return this.#directory.find(id, lock)
    } catch (error) {
      if (!(error instanceof TableFull)) throw error
      throw new GatewayError('limits_unavailable', 'Limits cannot be looked up at present. Try again in 1 s.', {
        retryAfterMs: 1000,
        cause: `too many sets of limits are in use: ${error.message}`
      })
    }
  }

  /** The time of a decision, which is never before that of another one under the same locks. */
  #time(locks: readonly number[]): number {
    const { arena } = this.#seat
    let now = this.#now()
    for (const lock of locks) now = Math.max(now, arena.floats[arena.timeAt(lock)]!)
    for (const lock of locks) arena.floats[arena.timeAt(lock)] = now
    return now
  }

  #read(sets: readonly CountedSet[], known: readonly Known[], now: number): Entry[] {
    return sets.map(({ rates }, at) => {
      const { place, entry } = known[at]!
      readSet(this.#seat.arena, place.row, entry, rates)
      entry.turn(rates, now)
      return entry
    })
  }

  #write(sets: readonly CountedSet[], known: readonly Known[]): void {
    for (let at = 0; at < sets.length; at++)
      writeSet(this.#seat, known[at]!.place.row, known[at]!.entry, sets[at]!.rates)
  }

  /**
   * Gives back what a lease has, whoever has the lock: it is released once. Its rows are still there, as nobody forgets
   * a row that something is taken of.
   */
  #giveBack(taken: readonly Row[], locks: readonly number[], used: number | undefined, began: number): void {
    this.#seat.surely(() =>
      this.#seat.change(locks, () => {
        const now = this.#time(locks)
        for (const one of taken) {
          const { row, entry, slot, tokens } = one
          if (!slot && tokens === 0) continue
          const rates = tokens > 0 ? tokensOnly : noRates
          readSet(this.#seat.arena, row, entry, rates)
          giveBack(one, used, began, now)
          writeSet(this.#seat, row, entry, rates)
        }
      })
    )
  }
}

function rowOf({ place: { row } }: Known, { entry, slot, tokens, level }: Taken): Row {
  return { entry, slot, tokens, level, row }
}

class WorkerLease implements Lease {
  rosterPlace: number | undefined = undefined
  readonly #taken: readonly Row[]
  readonly #locks: readonly number[]
  readonly #began: number
  readonly #keeper: LeaseKeeper
  #released = false

  constructor(taken: readonly Row[], locks: readonly number[], began: number, keeper: LeaseKeeper) {
    this.#taken = taken
    this.#locks = locks
    this.#began = began
    this.#keeper = keeper
  }

  /** As the next process takes it over. */
  state(id: string, now: number): KeptLease {
    const taken = this.#taken.map(({ entry, slot, tokens, level }) => ({ id: entry.id, slot, tokens, level }))
    return { id, taken, elapsed: now - this.#began }
  }

  release(used: number | undefined): void {
    if (this.#released) return
    this.#released = true
    if (this.#keeper.over(this, used)) this.#keeper.giveBack(this.#taken, this.#locks, used, this.#began)
  }
}
