// What the turns of a session consumed.
import { noUsage, sumOf } from '../../core/contract/contract.ts'
import type { MeteredUsage, Turn } from '../../core/contract/contract.ts'

/**
 * Of a turn that is over. What was not begun, or of which nobody has seen or counted anything, has consumed nothing.
 */
export function usageOf({ begun, ended, reported, output, input }: Turn): MeteredUsage | undefined {
  if (!begun) return undefined
  if (reported && reported !== 'insane') return { usage: reported, source: 'upstream' }
  return output === 0
    ? undefined
    : { usage: { ...noUsage, input: input.typical, output }, source: ended ? 'estimated' : 'partial' }
}

/** Of all turns so far. */
export function together(before: MeteredUsage | undefined, turn: MeteredUsage): MeteredUsage {
  if (!before) return turn
  return { usage: sumOf(before.usage, turn.usage), source: turn.source === 'upstream' ? before.source : turn.source }
}
