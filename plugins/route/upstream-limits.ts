// The limits that the file sets for a channel or for one of its credentials, as sets for the limiter.
import type { LevelLimits } from '../../core/catalogue/caller.ts'
import { compileGlobs } from '../../core/contract/contract.ts'
import type { LimitLeft } from '../../core/contract/contract.ts'
import type { CountedSet, Limits } from '../../core/store/limits.ts'

/** Limits that requests to an upstream are counted in. */
export interface UpstreamSet extends CountedSet {
  /** The channel or the credential that it limits, for operators. */
  readonly of: string
}

/** The most models whose sets are remembered. */
const mostKnown = 1000

/** The sets of one channel or credential, by model. */
export class UpstreamLimits {
  readonly #sets: readonly (readonly [UpstreamSet, (model: string) => boolean])[]
  /** By model. Of names that fit a pattern, which are the clients' own, not more than the first are remembered. */
  readonly #known = new Map<string, readonly UpstreamSet[]>()

  /**
   * `id`: what is counted together has the same, also after a reload. `home`: the channel. `of`: see
   * {@link UpstreamSet}.
   */
  constructor(id: string, home: string, of: string, { models = {}, ...rates }: LevelLimits) {
    const whole: UpstreamSet = { id, home, of, models: null, rates }
    const each = Object.entries(models).map(
      ([glob, its]) => [{ ...whole, id: `${id} ${glob}`, models: glob, rates: its }, compileGlobs([glob])] as const
    )
    const limits = Object.values(rates).some((limit) => limit !== undefined)
    this.#sets = [...(limits ? [[whole, () => true] as const] : []), ...each]
  }

  /** The sets that a request for this model counts in. */
  for(model: string): readonly UpstreamSet[] {
    let found = this.#known.get(model)
    if (!found) {
      found = this.#sets.filter(([, matches]) => matches(model)).map(([set]) => set)
      if (this.#known.size < mostKnown) this.#known.set(model, found)
    }
    return found
  }

  /** What is left of all of them; nothing while another process has the figures. */
  report(limits: Limits): LimitLeft[] {
    const sets = this.#sets.map(([set]) => set)
    const decision = limits.look(sets, 1)
    if (decision instanceof Promise) return []
    return decision.states.map(({ set, name, limit, remaining, resetMs }) => ({
      name,
      of: name === 'concurrency' ? name : name === 'tpm' ? 'tokens' : 'requests',
      by: 'file',
      models: set.models,
      limit,
      left: remaining,
      resets: name === 'concurrency' ? null : Date.now() + resetMs
    }))
  }
}
