// Holds what a request can cost, or as much of it as the budgets have left where it may be answered with less.
import { GatewayError } from '../../core/contract/contract.ts'
import type { Awaitable } from '../../core/contract/contract.ts'
import type { Stake } from './settle.ts'

/**
 * Tries the whole first, and goes by what refusals say is left. Where budgets are kept elsewhere each try is a round
 * trip, and the first one is nearly always the last. `stakesFor`: what may be held where so much is left, undefined for
 * enough. @throws what the first try was refused with, by the outermost budget that does not carry the whole
 */
export function holdWhatIsLeft(
  stakesFor: (left: bigint | undefined) => readonly Stake[],
  hold: (stakes: readonly Stake[]) => Awaitable<void>
): Awaitable<void> {
  const attempt = (stakes: readonly Stake[], before?: unknown): Awaitable<void> => {
    const refused = (error: unknown): Awaitable<void> => {
      const left = leftBy(error)
      if (left === undefined) throw error
      const refusal = before ?? error
      const shorter = stakesFor(left)
      if (dearestOf(shorter).bound.amount >= dearestOf(stakes).bound.amount) throw refusal
      return attempt(shorter, refusal)
    }
    try {
      const held = hold(stakes)
      return held instanceof Promise ? held.catch(refused) : held
    } catch (error) {
      return refused(error)
    }
  }
  return attempt(stakesFor(undefined))
}

/** The one that may cost most. */
export function dearestOf(stakes: readonly Stake[]): Stake {
  return stakes.reduce((most, stake) => (stake.bound.amount > most.bound.amount ? stake : most))
}

/** What the budget has left that refused; undefined where it was something else. */
function leftBy(error: unknown): bigint | undefined {
  const reason = error instanceof GatewayError ? error.details.reason : undefined
  return reason?.by === 'budget' ? BigInt(reason.left_nano) : undefined
}
