// Chooses among channels by rank, then by weight, and leaves out those that are unavailable.
import type { Candidates, Channel } from '../../core/contract/contract.ts'
import type { States } from './board.ts'

/**
 * Chooses one of the channels, which are sorted by rank; undefined when all have failed. `random`: gives a number from
 * 0 to below 1. When every channel is unavailable, all are considered, the one that is available first before the
 * others: a request that may fail is better than one that is refused.
 */
export function choose(
  candidates: Candidates,
  failed: ReadonlySet<Channel>,
  states: States,
  now: number,
  random: () => number
): Channel | undefined {
  const { channels } = candidates
  // With a single channel, its health does not matter, because there is no other.
  if (channels.length === 1) return failed.has(channels[0]!) ? undefined : channels[0]
  const usable = channels.filter((channel) => states.get(channel)!.available(now))
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
