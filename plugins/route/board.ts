// The health of all channels, kept across reloads.
import type { Channel, ChannelHealth } from '../../core/contract/contract.ts'
import { ChannelState } from './health.ts'

/** The health of the channels of one generation. */
export type States = ReadonlyMap<Channel, ChannelState>

/** One per process, shared under `health`. */
export class HealthBoard {
  /** Oldest first: old ones last as long as their exchanges, a new one may be given up before it went live. */
  readonly #generations: States[] = []

  /** The states of a new generation's channels: those of before where the upstream is the same. */
  enter(channels: Iterable<Channel>): States {
    const states = new Map<Channel, ChannelState>()
    for (const channel of channels) states.set(channel, this.#known(channel) ?? new ChannelState())
    this.#generations.push(states)
    return states
  }

  /** The generation is over. */
  leave(states: States): void {
    this.#generations.splice(this.#generations.indexOf(states), 1)
  }

  /** With another address or credential a channel's past says nothing about it. */
  #known({ name, baseUrl, credential }: Channel): ChannelState | undefined {
    for (const [channel, state] of this.#generations.at(-1) ?? []) {
      if (channel.name === name)
        return channel.baseUrl.href === baseUrl.href && channel.credential === credential ? state : undefined
    }
    return undefined
  }
}

/** By channel name. */
export function reportOf(states: States): Record<string, ChannelHealth> {
  const now = performance.now()
  return Object.fromEntries(Array.from(states, ([{ name }, state]) => [name, state.report(now)]))
}
