// Ends in the journal that are estimates, and the one correction that each of them may have.

/** What a correction is called in the journal, beside the end `terminal`. */
export const correctionClass = 'adjust:late'

/** What tells of an end in the journal whether it is an estimate; null without one. */
export interface Estimate {
  readonly kind: string | null
  readonly source: string | null
  readonly channel: string | null
}

/** Whether a request was ended by somebody who could not know what became of it. */
export function isEstimate({ kind, source, channel }: Estimate): boolean {
  return kind === 'settle' ? source === 'recovered' : kind === 'void' && channel === null
}
