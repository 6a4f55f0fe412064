// Ends in the journal that are estimates, and the one correction that each of them may have.

/** What a correction is called in the journal, beside the end `terminal`. */
export const correctionClass = 'adjust:late'
/** And the cost of an attempt of which only its process could have said what came of it. */
export const lostClass = 'cost:0'

/** What tells of an end in the journal whether it is an estimate; null without one. */
export interface Estimate {
  readonly kind: string | null
  readonly source: string | null
  readonly channel: string | null
  /** Whether a cost of {@link lostClass} stands beside it: nobody was known to have seen anything of it. */
  readonly lost: boolean
}

/** Whether a request was ended by somebody who could not know what became of it. */
export function isEstimate({ kind, source, channel, lost }: Estimate): boolean {
  return kind === 'settle' ? source === 'recovered' : kind === 'void' && (channel === null || lost)
}
