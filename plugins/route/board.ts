// The health of all channels, kept across reloads.
import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Channel, ChannelHealth } from '../../core/contract/contract.ts'
import { ChannelState } from './health.ts'
import type { KeptHealth } from './health.ts'

/** The health of the channels of one generation. */
export type States = ReadonlyMap<Channel, ChannelState>

/** The health boards of all generations. One per process, shared under `health`. */
export class HealthBoard {
  /** Oldest first. Old generations last as long as their exchanges; a new one may be discarded before it is used. */
  readonly #generations: States[] = []
  /** What the process before has left, for the channels of the first generation. */
  #left: ReadonlyMap<string, KeptHealth>

  constructor(left: ReadonlyMap<string, KeptHealth> = new Map()) {
    this.#left = left
  }

  /** What the next process is to know of the present channels. */
  get kept(): ReadonlyMap<string, KeptHealth> {
    return new Map(Array.from(this.#generations.at(-1) ?? [], ([channel, state]) => [markOf(channel), state.kept]))
  }

  /** The states of a new generation's channels: the existing ones where the upstream has not changed. */
  enter(channels: Iterable<Channel>): States {
    const states = new Map<Channel, ChannelState>()
    for (const channel of channels)
      states.set(channel, this.#known(channel) ?? new ChannelState(this.#left.get(markOf(channel))))
    this.#left = new Map()
    this.#generations.push(states)
    return states
  }

  /** Removes a generation that is over. */
  leave(states: States): void {
    this.#generations.splice(this.#generations.indexOf(states), 1)
  }

  /** With another address or credential, the past of a channel means nothing. */
  #known({ name, baseUrl, credential, living }: Channel): ChannelState | undefined {
    for (const [channel, state] of this.#generations.at(-1) ?? []) {
      if (channel.name !== name) continue
      const isSame = channel.baseUrl.href === baseUrl.href && channel.credential === credential
      return isSame && isDeepStrictEqual(channel.living, living) ? state : undefined
    }
    return undefined
  }
}

/** What makes a channel the same in another process: its name, address and credential, which cannot be read from it. */
function markOf({ name, baseUrl, credential, living }: Channel): string {
  return hash('sha256', JSON.stringify([name, baseUrl.href, credential, living]))
}

/** The health of channels by name. */
export function reportOf(states: States): Record<string, ChannelHealth> {
  const now = performance.now()
  return Object.fromEntries(Array.from(states, ([{ name }, state]) => [name, state.report(now)]))
}
