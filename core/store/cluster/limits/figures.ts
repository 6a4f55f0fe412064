// What is sent to Redis about sets of limits, and what its answers say.
import type { Rates } from '../../../catalogue/caller.ts'
import type { CountedSet, Decision, Lease } from '../../limits.ts'
import { Bucket, minute, second } from '../../memory/bucket.ts'
import { longestOf, refusal, statesOf, tokensOf } from '../../memory/verdict.ts'
import type { Fill } from '../../memory/verdict.ts'
import type { Call } from '../redis/script.ts'
import { decide, release } from './scripts.ts'

/** A set as Redis knows it. */
export interface SetKeys {
  /** The key of what is taken of its rates. */
  readonly rates: string
  /** The key of its slots; undefined when it does not limit concurrency. */
  readonly slots: string | undefined
  /** Its limits, as the script reads them. */
  readonly limits: string
}

/** Tokens that a request has taken of a set, to be corrected later. */
export interface TakenTokens {
  readonly key: string
  readonly tokens: number
  /** What the bucket held then. */
  readonly level: number
  readonly limit: number
}

/** What Redis took for a request, by its own time in Unix microseconds. */
export interface TakenAt {
  readonly at: number
  readonly tokens: readonly TakenTokens[]
}

/** Is told of the key of slots, before any of them is taken. It may be told of the same one again. */
export type SlotsHeard = (home: string, key: string) => void

/** The keys of sets. Those of one `home` are in one hash slot of a cluster. */
export class Keys {
  readonly #prefix: string
  readonly #known = new WeakMap<CountedSet, SetKeys>()
  readonly #onSlots: SlotsHeard | undefined

  constructor(prefix: string, onSlots?: SlotsHeard) {
    this.#prefix = prefix
    this.#onSlots = onSlots
  }

  get nodes(): string {
    return `${this.#prefix}:nodes`
  }

  of(set: CountedSet): SetKeys {
    let keys = this.#known.get(set)
    if (!keys) this.#known.set(set, (keys = this.#make(set)))
    return keys
  }

  #make({ id, home, rates: { concurrency, rps, rpm, tpm } }: CountedSet): SetKeys {
    // Ids may be anything, such as a pattern that ends like another key: what is in a key comes before them.
    const key = (what: 'rates' | 'slots'): string => `${this.#prefix}:{${home}}:${what}:${id}`
    const slots = concurrency === undefined ? undefined : key('slots')
    if (slots !== undefined) this.#onSlots?.(home, slots)
    return {
      rates: key('rates'),
      slots,
      limits: [concurrency, rps, rpm, tpm].map((limit) => limit ?? '-').join(' ')
    }
  }
}

/** Asks for a decision. `slot`: the name of the slot to take; undefined without one. `lease`: milliseconds. */
export function decideCall(
  what: 'take' | 'look',
  sets: readonly SetKeys[],
  tokens: number,
  slot: string | undefined,
  lease: number
): Call {
  const slots = slot === undefined ? [] : sets.flatMap((set) => set.slots ?? [])
  const limits = sets.map((set) => set.limits)
  return {
    script: decide,
    keys: [...sets.map(({ rates }) => rates), ...slots],
    args: [what, String(tokens), slot ?? '', String(lease * 1000), ...limits]
  }
}

/**
 * Frees the slots of a name, and corrects tokens to those used; undefined for `used` corrects none. There is something
 * to do.
 */
export function releaseCall(
  name: string,
  slots: readonly string[],
  taken: TakenAt | undefined,
  used: number | undefined
): Call {
  const tokens = used === undefined || !taken ? [] : taken.tokens.filter((one) => one.tokens !== used)
  const corrected = tokens.map((one) => `${one.tokens} ${one.level} ${one.limit}`)
  return {
    script: release,
    keys: [...tokens.map(({ key }) => key), ...slots],
    args: [String(tokens.length), name, String(used ?? 0), String(taken?.at ?? 0), ...corrected]
  }
}

/** What the script answered. */
export class Figures<S extends CountedSet> {
  readonly #sets: readonly S[]
  readonly #bytes: Buffer

  constructor(sets: readonly S[], bytes: Buffer) {
    this.#sets = sets
    this.#bytes = bytes
  }

  get admitted(): boolean {
    return this.#number(0) === 1
  }

  get #at(): number {
    return this.#number(1)
  }

  /** The decision as it would have been made in memory. `lease`: what it takes. */
  decision(tokens: number, within: boolean, lease: Lease): Decision<S> {
    const fills = this.#sets.map(({ rates }, at) => this.#fill(rates, 2 + 4 * at))
    const states = statesOf(this.#sets, fills, tokens, within)
    if (this.admitted) return { admitted: true, states, lease }
    return refusal(states, longestOf(this.#sets, fills, tokens, within)!)
  }

  /** What was taken, when it is admitted. */
  taken(tokens: number, keys: Keys): TakenAt {
    const ofSet = (set: S, at: number): TakenTokens[] => {
      const { tpm } = set.rates
      if (tpm === undefined) return []
      const level = this.#number(2 + 4 * at + 3)
      return [{ key: keys.of(set).rates, tokens: tokensOf(set.rates, tokens), level, limit: tpm }]
    }
    return { at: this.#at, tokens: tokens === 0 ? [] : this.#sets.flatMap(ofSet) }
  }

  #number(at: number): number {
    return this.#bytes.readDoubleLE(8 * at)
  }

  #fill({ rps, rpm, tpm }: Rates, at: number): Fill {
    const bucket = (window: number, limit: number | undefined, of: number): Bucket | undefined =>
      limit === undefined ? undefined : new Bucket(window, limit, this.#at, this.#number(of))
    return {
      leases: this.#number(at),
      rps: bucket(second, rps, at + 1),
      rpm: bucket(minute, rpm, at + 2),
      tpm: bucket(minute, tpm, at + 3)
    }
  }
}
