// Chooses among channels: by priority, then by weight, leaving out those that are out.
import type { Channel } from '../../core/contract/contract.ts'
import type { States } from './board.ts'

/**
 * One of the channels, which come by priority; undefined when all have failed already. `random` gives a number from
 * 0 to below 1. When every channel is out, they all count as in, the one that is back first before the others: a request
 * that may fail is better than one that is refused.
 */
export function choose(channels: readonly Channel[], failed: ReadonlySet<Channel>, states: States, now: number, random: () => number): Channel | undefined {
  // However it is, there is no other.
  if (channels.length === 1) return failed.has(channels[0]!) ? undefined : channels[0]
  const usable = channels.filter((channel) => states.get(channel)!.available(now))
  const left = (usable.length > 0 ? usable : channels).filter((channel) => !failed.has(channel))
  const first = left[0]
  if (!first || left.length === 1) return first
  if (usable.length === 0) return left.reduce((best, channel) => (states.get(channel)!.until < states.get(best)!.until ? channel : best))
  return byWeight(left.filter((channel) => channel.priority === first.priority), random)
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
