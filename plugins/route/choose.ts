// Chooses among channels by rank, then by weight, and leaves out those that are unavailable.
import type { Candidates, Channel } from '../../core/contract/contract.ts'
import type { States } from './board.ts'

/**
 * Chooses one of the channels, which are sorted by rank; undefined when all have failed. `random`: gives a number from
 * 0 to below 1. When every channel is unavailable, all are considered, the one that is available first before the
 * others: a request that may fail is better than one that is refused. Where another model stands in, none is chosen
 * then.
 */
export function choose(
  candidates: Candidates,
  failed: ReadonlySet<Channel>,
  states: States,
  now: number,
  random: () => number
): Channel | undefined {
  const { channels, replaceable } = candidates
  if (channels.length === 1 && !replaceable) {
    // With a single channel, its health does not matter, because there is no other.
    const only = channels[0]!
    const state = states.get(only)!
    if (failed.has(only)) return undefined
    if (!state.available(now)) candidates.passOver(only, state.why(now))
    return only
  }
  const usable = channels.filter((channel) => states.get(channel)!.available(now))
  if (usable.length < channels.length) {
    for (const channel of channels) {
      const state = states.get(channel)!
      if (!failed.has(channel) && !state.available(now)) candidates.passOver(channel, state.why(now))
    }
  }
  if (replaceable && usable.length === 0) return undefined
  const left = (usable.length > 0 ? usable : channels).filter((channel) => !failed.has(channel))
  const first = left[0]
  if (!first || left.length === 1) return first
  if (usable.length === 0)
    return left.reduce((best, channel) => (states.get(channel)!.until < states.get(best)!.until ? channel : best))
  const rank = candidates.rank(first)
  return byWeight(
    left.filter((channel) => candidates.rank(channel) === rank),
    random
  )
}

function byWeight(channels: readonly Channel[], random: () => number): Channel {
  let total = 0
  for (const { weight } of channels) total += weight
  let at = random() * total
  for (const channel of channels) {
    at -= channel.weight
    if (at < 0) return channel
  }
  return channels.at(-1)!
}
