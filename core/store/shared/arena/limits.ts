// The limits of one worker: decided at once, in memory that all workers of the gateway share.
import type { Rates } from '../../../catalogue/caller.ts'
import { GatewayError } from '../../../errors.ts'
import type { CountedSet, Decision, Lease, Limits } from '../../limits.ts'
import { Entry, giveBack, take } from '../../memory/entry.ts'
import type { Taken } from '../../memory/entry.ts'
import { longestOf, refusal, statesOf } from '../../memory/verdict.ts'
import { lockOf } from './arena.ts'
import { Directory, locksOf, TableFull } from './directory.ts'
import type { Place } from './directory.ts'
import type { Seat } from './seat.ts'
import { readSet, writeSet } from './set-row.ts'

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

/** Gives back what a request took at the time `began`. */
type GiveBack = (taken: readonly Row[], locks: readonly number[], used: number | undefined, began: number) => void

const noLease: Lease = { release: () => {} }
const tokensOnly: Rates = { tpm: 0 }
const noRates: Rates = {}

/** The limits of the gateway, as the thread of a seat decides by them. */
export class WorkerLimits implements Limits {
  readonly #seat: Seat
  readonly #directory: Directory
  readonly #now: () => number
  readonly #known = new Map<string, Known>()
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

  decide<S extends CountedSet>(sets: readonly S[], tokens: number, within = false): Decision<S> {
    if (sets.length === 0) return { admitted: true, states: [], lease: noLease }
    const { longest, entries, lease } = this.#under(sets, ({ known, locks }, now) => {
      const entries = this.#read(sets, known, now)
      const longest = longestOf(sets, entries, tokens, within)
      const taken = longest
        ? []
        : sets.map(({ rates }, at) => rowOf(known[at]!, take(entries[at]!, rates, tokens, !within)))
      this.#write(sets, known)
      return { longest, entries, lease: new WorkerLease(taken, locks, now, this.#giveBack) }
    })
    // The entries are this worker's own, so that nobody has to wait while the states are made of them.
    const states = statesOf(sets, entries, tokens, within)
    return longest ? refusal(states, longest) : { admitted: true, states, lease }
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
  readonly #giveBack: GiveBack = (taken, locks, used, began) =>
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

function rowOf({ place: { row } }: Known, { entry, slot, tokens, level }: Taken): Row {
  return { entry, slot, tokens, level, row }
}

class WorkerLease implements Lease {
  readonly #taken: readonly Row[]
  readonly #locks: readonly number[]
  readonly #began: number
  readonly #giveBack: GiveBack
  #released = false

  constructor(taken: readonly Row[], locks: readonly number[], began: number, giveBack: GiveBack) {
    this.#taken = taken
    this.#locks = locks
    this.#began = began
    this.#giveBack = giveBack
  }

  release(used: number | undefined): void {
    if (this.#released) return
    this.#released = true
    this.#giveBack(this.#taken, this.#locks, used, this.#began)
  }
}
