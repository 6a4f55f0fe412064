// What decides while Redis is gone: this node's share of every limit, or a refusal, or nobody.
import { GatewayError } from '../../../errors.ts'
import type { CountedSet, Decision } from '../../limits.ts'
import { MemoryLimits } from '../../memory/limits.ts'
import type { SharedLease } from './lease.ts'

/** What becomes of requests that limits apply to while Redis is gone. */
export const unavailableModes = ['share', 'refuse', 'allow'] as const
export type OnUnavailable = (typeof unavailableModes)[number]

/** The wait that is told when limits cannot be asked: Redis is asked again four times a second. */
const retryAfterMs = 1000

/** A set with the share of one node, and the set that it is of. */
interface Share<S extends CountedSet> extends CountedSet {
  readonly whole: S
}

/**
 * Decides in memory while Redis is gone. What shares were taken of counts on when it goes again: a Redis that comes and
 * goes gives nobody a share each time.
 */
export class StandIn {
  readonly #mode: OnUnavailable
  readonly #limits = new MemoryLimits()
  #nodes = 1
  #shares = new WeakMap<CountedSet, CountedSet>()

  constructor(mode: OnUnavailable) {
    this.#mode = mode
  }

  /**
   * Redis is gone. `nodes`: between how many the limits are shared, one at least. `held`: what this node has, and goes
   * on counting.
   */
  begin(nodes: number, held: Iterable<SharedLease>): void {
    if (nodes !== this.#nodes) this.#shares = new WeakMap()
    this.#nodes = nodes
    if (this.#mode === 'share') this.#adopt([...held].filter(({ local }) => !local))
  }

  /**
   * Decides by the share of this node. What is admitted is taken in `lease`.
   * @throws GatewayError `limits_unavailable` when that is the mode
   */
  decide<S extends CountedSet>(sets: readonly S[], tokens: number, within: boolean, lease: SharedLease): Decision<S> {
    if (this.#mode !== 'share') return this.#unshared(lease)
    const decision = this.#limits.decide(this.#sharesOf(sets), tokens, within)
    if (!decision.admitted) return wholeOf(decision)
    lease.local = decision.lease
    return wholeOf({ ...decision, lease })
  }

  /** What {@link StandIn.decide} would say; nothing is taken. */
  look<S extends CountedSet>(sets: readonly S[], tokens: number, lease: SharedLease): Decision<S> {
    return this.#mode === 'share' ? wholeOf(this.#limits.look(this.#sharesOf(sets), tokens)) : this.#unshared(lease)
  }

  #unshared<S extends CountedSet>(lease: SharedLease): Decision<S> {
    if (this.#mode === 'allow') return { admitted: true, states: [], lease }
    throw new GatewayError('limits_unavailable', 'Limits cannot be looked up at present. Try again in 1 s.', {
      retryAfterMs,
      untaken: true
    })
  }

  /** Slots that Redis gave count on. */
  #adopt(held: readonly SharedLease[]): void {
    const slots = new Map<string, number>()
    for (const { set } of held.flatMap((lease) => lease.slots)) slots.set(set, (slots.get(set) ?? 0) + 1)
    const leases = this.#limits.adopt({
      sets: Array.from(slots, ([id, count]) => ({ id, leases: count, buckets: {} })),
      leases: held.map(({ id, slots: its }) => ({
        id,
        elapsed: 0,
        taken: its.map(({ set }) => ({ id: set, slot: true, tokens: 0, level: 0 }))
      }))
    })
    for (const lease of held) lease.local = leases.get(lease.id)
  }

  #sharesOf<S extends CountedSet>(sets: readonly S[]): Share<S>[] {
    return sets.map((whole) => {
      let share = this.#shares.get(whole)
      if (!share) this.#shares.set(whole, (share = this.#share(whole)))
      return share as Share<S>
    })
  }

  #share<S extends CountedSet>(whole: S): Share<S> {
    const { id, home, models, rates } = whole
    const own = Object.entries(rates as Record<string, number | undefined>).flatMap(([name, limit]) =>
      limit === undefined ? [] : [[name, Math.max(1, Math.floor(limit / this.#nodes))]]
    )
    return { id, home, models, rates: Object.fromEntries(own), whole }
  }
}

/** The decision about shares as one about the sets themselves: their limits, and what this node has left. */
function wholeOf<S extends CountedSet>(decision: Decision<Share<S>>): Decision<S> {
  const states = decision.states.map((state) => ({
    ...state,
    set: state.set.whole,
    limit: state.set.whole.rates[state.name]!
  }))
  if (decision.admitted) return { ...decision, states }
  return { ...decision, states, refusedBy: states[decision.states.indexOf(decision.refusedBy)]! }
}
