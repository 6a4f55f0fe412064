// What the turns of a session consumed.
import { noUsage, sumOf } from '../../core/contract/contract.ts'
import type { MeteredUsage, Turn } from '../../core/contract/contract.ts'

/**
 * Returns the usage of a turn that is over; undefined when it never began, or when it has no output and no report.
 */
export function usageOf({ begun, ended, reported, output, input }: Turn): MeteredUsage | undefined {
  if (!begun) return undefined
  if (reported && reported !== 'insane') return { usage: reported, source: 'upstream' }
  return output === 0
    ? undefined
    : { usage: { ...noUsage, input: input.typical, output }, source: ended ? 'estimated' : 'partial' }
}

/** Adds the usage of a turn to that of the turns before it. */
export function together(before: MeteredUsage | undefined, turn: MeteredUsage): MeteredUsage {
  if (!before) return turn
  return { usage: sumOf(before.usage, turn.usage), source: turn.source === 'upstream' ? before.source : turn.source }
}
