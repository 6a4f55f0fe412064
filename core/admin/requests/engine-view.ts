// The engines of a gateway as operators see them: what each is at, what its plugins take and refuse, and what would
// become of a request there.
import type { Engine } from '../../exchange/engine.ts'
import type { Progress } from '../../exchange/progress.ts'
import type { AskedRequest } from '../../exchange/rehearsal/rehearse.ts'
import type { ChainTallies } from '../../exchange/state/chain-figures.ts'
import { explanationOf } from './explanation.ts'
import type { Explanation } from './explanation.ts'

/** One engine. */
export interface EngineView {
  /** What it is at; with a tenant, for that alone. */
  underWay(tenant: string | null | undefined): readonly Progress[]
  figures(): ChainTallies
  explain(asked: AskedRequest): Promise<Explanation>
}

/** What the threads of a gateway say. */
export interface Told<T> {
  /** By the number of the worker; 0 is the thread of the admin listener. */
  readonly told: ReadonlyMap<number, T>
  /** The numbers of the workers that did not answer in time. Absent where one thread does all. */
  readonly missing?: readonly number[] | undefined
}

/** All engines of a gateway. */
export type EngineViews = {
  readonly [K in keyof EngineView]: (
    ...args: Parameters<EngineView[K]>
  ) => Promise<Told<Awaited<ReturnType<EngineView[K]>>>>
}

/** The view of an engine. */
export function viewOf(engine: Pick<Engine, 'underWay' | 'figures' | 'rehearse'>): EngineView {
  return {
    underWay: (tenant) => engine.underWay(tenant),
    figures: () => engine.figures.tallies(),
    explain: (asked) => engine.rehearse(asked, explanationOf)
  }
}

/** The views of a gateway whose one thread does all. */
export function viewsOf({ underWay, figures, explain }: EngineView): EngineViews {
  const own = <T>(said: T): Told<T> => ({ told: new Map([[0, said]]) })
  return {
    underWay: async (tenant) => own(underWay(tenant)),
    figures: async () => own(figures()),
    explain: async (asked) => own(await explain(asked))
  }
}
