// What an upstream has told of its limits for one credential: what is left of each, and until when.
import type { LimitLeft } from '../../core/contract/contract.ts'
import type { ToldLimit } from '../../core/protocols/told/limits.ts'

/** The most models that are remembered; the one told of first goes. */
const mostModels = 200
/** What is told without an end means nothing after this time, in milliseconds. */
const passing = 60_000
/**
 * The longest rest in milliseconds. Most upstreams give back little by little, and tell when all of it will be back,
 * which may be in a day: a request after this time lets them tell anew.
 */
const longestRest = 300_000
/** Under this key stands what all models have in common. */
const all = ''

/**
 * One limit. Times are values of `performance.now()`: from `until` on everything is left, and from `askedAgain` on its
 * upstream is asked again, although it may have nothing left.
 */
interface Learnt {
  readonly of: ToldLimit['of']
  readonly limit: number | undefined
  readonly remaining: number
  readonly until: number
  readonly askedAgain: number
  /** Whether the upstream said until when. */
  readonly exact: boolean
}

/** As another process takes it over; times are Unix milliseconds. */
export type KeptTold = readonly (readonly [model: string, name: string, limit: Learnt])[]

/** What is known of the limits of one credential. */
export class Told {
  /** By the upstream's name of the model, then by the name of the limit. */
  readonly #models = new Map<string, Map<string, Learnt>>()

  /** `left`: as another process left it. */
  constructor(left: KeptTold = []) {
    const here = performance.now() - Date.now()
    for (const [model, name, limit] of left) this.#set(model, name, moved(limit, here))
  }

  /** Whether nothing was ever told. */
  get empty(): boolean {
    return this.#models.size === 0
  }

  /** What another process is to know of it. */
  get kept(): KeptTold {
    const there = Date.now() - performance.now()
    return Array.from(this.#models).flatMap(([model, limits]) =>
      Array.from(limits, ([name, limit]) => [model, name, moved(limit, there)] as const)
    )
  }

  /** Takes down what an answer to a request for this model told. */
  learn(model: string, told: readonly ToldLimit[], now: number): void {
    for (const { name, of, limit, remaining, resetMs, perModel } of told)
      this.#set(perModel ? model : all, name, {
        of,
        limit,
        remaining,
        until: now + (resetMs ?? passing),
        askedAgain: now + Math.min(resetMs ?? 0, longestRest),
        exact: resetMs !== undefined
      })
  }

  /** The smallest share that is left of a limit for this model: from 0 to 1. */
  share(model: string, now: number): number {
    return Math.min(shareOf(this.#models.get(model), now), shareOf(this.#models.get(all), now))
  }

  /** Until when nothing is left for this model, at most for five minutes; 0 when something is. */
  spentUntil(model: string, now: number): number {
    if (this.empty) return 0
    return Math.max(spentIn(this.#models.get(model), now), spentIn(this.#models.get(all), now))
  }

  /** What is left, of the limits that were told of and have not begun anew. */
  report(now: number): LimitLeft[] {
    const there = Date.now() - performance.now()
    return Array.from(this.#models).flatMap(([model, limits]) =>
      Array.from(limits)
        .filter(([, { until }]) => until > now)
        .map(([name, { of, limit, remaining, until, exact }]) => ({
          name,
          of,
          by: 'upstream' as const,
          models: model === all ? null : model,
          limit: limit ?? null,
          left: remaining,
          resets: exact ? Math.round(until + there) : null
        }))
    )
  }

  #set(model: string, name: string, limit: Learnt): void {
    let limits = this.#models.get(model)
    if (!limits) {
      if (this.#models.size >= mostModels) this.#models.delete(this.#models.keys().next().value!)
      this.#models.set(model, (limits = new Map()))
    }
    limits.set(name, limit)
  }
}

function moved(limit: Learnt, by: number): Learnt {
  return { ...limit, until: limit.until + by, askedAgain: limit.askedAgain + by }
}

function shareOf(limits: ReadonlyMap<string, Learnt> | undefined, now: number): number {
  let least = 1
  if (limits)
    for (const { limit, remaining, until } of limits.values())
      if (limit !== undefined && until > now) least = Math.min(least, remaining / limit)
  return least
}

function spentIn(limits: ReadonlyMap<string, Learnt> | undefined, now: number): number {
  let latest = 0
  if (limits)
    for (const { remaining, askedAgain } of limits.values())
      if (remaining === 0 && askedAgain > now) latest = Math.max(latest, askedAgain)
  return latest
}
