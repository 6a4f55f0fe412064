// How long an upstream may take before anything of an answer comes that is sent as a whole.
import type { Catalogue, Channel } from '../catalogue/catalogue.ts'
import type { LiveExchange } from './exchange.ts'

/** Tokens a second that hardly any model is slower than. */
const slowest = 20

/**
 * Milliseconds until the first byte of a whole answer. What is dear is waited for to its end, as no other channel would
 * be asked for it; so is what nobody waits for, an answer in the background.
 */
export function patienceOf(exchange: LiveExchange, { timeouts }: Channel, { models }: Catalogue): number {
  if (exchange.dear || exchange.standIn) return Infinity
  return wholePatience(timeouts, models.get(exchange.model)?.maxOutputTokens)
}

/**
 * What the channel says; else as long as a model that says how many tokens it answers with at most may take for them,
 * and half of the time for all of it where none says so. `most`: that number of tokens.
 */
export function wholePatience(timeouts: Channel['timeouts'], most: number | undefined): number {
  const { firstByte, firstByteWhole, total } = timeouts
  if (firstByteWhole !== undefined) return firstByteWhole
  return most === undefined ? total / 2 : Math.min(total, firstByte + (most * 1000) / slowest)
}
