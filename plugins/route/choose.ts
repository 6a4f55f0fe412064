// Chooses among channels by rank, then by weight, and leaves out those that are unavailable.
import type { Candidates, Channel, Why } from '../../core/contract/contract.ts'
import { leastShare, placeOf } from './affinity.ts'

/**
 * What is asked of a channel. Times are values of `performance.now()`; `model` is the public name, empty without one.
 */
export interface Availability {
  available(now: number, model: string): boolean
  /** When it is available again, 0 when it is. */
  freeAt(now: number, model: string): number
  /** Only asked while it is not available. */
  why(now: number, model: string): Why
}

/** What decides among several that are equally good. */
export interface Chance {
  /** Gives a number from 0 to below 1. */
  readonly random: () => number
  /** The conversation of the request, which decides where there is one; see {@link placeOf}. */
  readonly conversation: () => string | undefined
}

/**
 * Chooses one of the channels, which are sorted by rank; undefined when all have failed. When every channel is
 * unavailable, all are considered, the one that is available first before the
 * others: a request that may fail is better than one that is refused. Where another model stands in, none is chosen
 * then.
 */
export function choose(
  candidates: Candidates,
  failed: ReadonlySet<Channel>,
  states: ReadonlyMap<Channel, Availability>,
  now: number,
  chance: Chance,
  model = ''
): Channel | undefined {
  const { channels, replaceable } = candidates
  if (channels.length === 1 && !replaceable) {
    // With a single channel, its health does not matter, because there is no other.
    const only = channels[0]!
    const state = states.get(only)!
    if (failed.has(only)) return undefined
    if (!state.available(now, model)) candidates.passOver(only, state.why(now, model))
    return only
  }
  const usable = channels.filter((channel) => states.get(channel)!.available(now, model))
  if (usable.length < channels.length) {
    for (const channel of channels) {
      const state = states.get(channel)!
      if (!failed.has(channel) && !state.available(now, model)) candidates.passOver(channel, state.why(now, model))
    }
  }
  if (replaceable && usable.length === 0) return undefined
  const left = (usable.length > 0 ? usable : channels).filter((channel) => !failed.has(channel))
  const first = left[0]
  if (!first || left.length === 1) return first
  if (usable.length === 0)
    return left.reduce((best, channel) =>
      states.get(channel)!.freeAt(now, model) < states.get(best)!.freeAt(now, model) ? channel : best
    )
  const rank = candidates.rank(first)
  return byWeight(
    left.filter((channel) => candidates.rank(channel) === rank),
    chance
  )
}

/**
 * Chooses one by its weight times the share that is left of it, from 0 to 1. Where all weights are 0 they count as 1.
 * Returns its index. The list must not be empty.
 */
export function chooseByLeft(
  options: readonly { readonly weight: number; readonly left: number }[],
  random: () => number
): number {
  const even = options.every(({ weight }) => weight === 0)
  const parts = options.map(({ weight, left }) => (even ? 1 : weight) * Math.max(leastShare, left))
  let at = random() * parts.reduce((sum, part) => sum + part, 0)
  for (let index = 0; index < parts.length; index++) {
    at -= parts[index]!
    if (at < 0) return index
  }
  return parts.findLastIndex((part) => part > 0)
}

function byWeight(channels: readonly Channel[], { random, conversation }: Chance): Channel {
  if (channels.length === 1) return channels[0]!
  const talk = conversation()
  if (talk !== undefined)
    return channels[
      placeOf(
        talk,
        channels.map(({ name, weight }) => ({ name, weight, left: 1 }))
      )
    ]!
  let total = 0
  for (const { weight } of channels) total += weight
  let at = random() * total
  for (const channel of channels) {
    at -= channel.weight
    if (at < 0) return channel
  }
  return channels.at(-1)!
}
