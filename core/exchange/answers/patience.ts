// How long an upstream may take before anything of its answer comes.
import type { Catalogue, Channel } from '../../catalogue/catalogue.ts'
import type { Attempt } from '../../contract/attempt.ts'

/** Tokens a second that hardly any model is slower than. */
const slowest = 20

/** Milliseconds until something of an answer has to be there. */
export interface Patience {
  readonly streamed: number
  readonly whole: number
}

/** An exchange as far as it says how long may be waited for its answer. */
interface Waiting {
  readonly dear: boolean
  readonly standIn: unknown
}

/**
 * With a channel. What is dear is waited for to its end, as no other channel would be asked for it; so is a whole
 * answer that nobody waits for, in the background.
 */
export function patienceOf(
  exchange: Waiting,
  { channel: { timeouts }, model }: Pick<Attempt, 'channel' | 'model'>,
  { models }: Catalogue
): Patience {
  if (exchange.dear) return endless
  const whole = exchange.standIn ? Infinity : wholePatience(timeouts, models.get(model)?.maxOutputTokens)
  return { streamed: timeouts.firstByte, whole }
}

/** The total time is all that counts. */
export const endless: Patience = { streamed: Infinity, whole: Infinity }

/**
 * What the channel says; else as long as a model that says how many tokens it answers with at most may take for them,
 * and half of the time for all of it where none says so. `most`: that number of tokens.
 */
export function wholePatience(timeouts: Channel['timeouts'], most: number | undefined): number {
  const { firstByte, firstByteWhole, total } = timeouts
  if (firstByteWhole !== undefined) return firstByteWhole
  return most === undefined ? total / 2 : Math.min(total, firstByte + (most * 1000) / slowest)
}
