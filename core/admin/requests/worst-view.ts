// Workers judge channels by the answers that each has had itself, so they may do different things with a request. The
// worst of it is explained, as the health of channels is shown.
import type { Told } from './engine-view.ts'
import type { Explanation } from './explanation.ts'

/** The explanation that is shown of those of all workers, of which there is at least one. */
export function worstView({ told, missing }: Told<Explanation>): Explanation {
  const all = [...told].toSorted(([one], [other]) => one - other)
  const [, worst] = all.toSorted(([, one], [, other]) => badness(other) - badness(one))[0]!
  if (!missing) return worst
  const shown = markOf(worst)
  const numbers = (isShown: boolean): number[] =>
    all.flatMap(([number, one]) => (number > 0 && (markOf(one) === shown) === isShown ? [number] : []))
  return { ...worst, workers: { alike: numbers(true), otherwise: numbers(false), missing } }
}

/** What is refused is worse than what is sent, and then the more channels are left out or not well. */
function badness({ outcome, order, excluded }: Explanation): number {
  const unwell = order?.filter(({ health }) => health !== null && health.state !== 'healthy') ?? []
  return (outcome === 'refused' ? 2 ** 20 : 0) + (excluded?.length ?? 0) + unwell.length
}

/** What is the same for workers that would do the same. Which of several channels is tried first may be chance. */
function markOf({ outcome, refusal, order, excluded }: Explanation): string {
  return JSON.stringify([
    outcome,
    refusal?.code,
    order?.map(({ channel, health }) => `${channel} ${health?.state}`).toSorted(),
    excluded?.map(({ channel, code }) => `${channel} ${code}`).toSorted()
  ])
}
