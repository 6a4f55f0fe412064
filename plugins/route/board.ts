// The health of all channels and their credentials, kept across reloads.
import { hash } from 'node:crypto'
import type { LevelLimits } from '../../core/catalogue/caller.ts'
import type { Channel, ChannelHealth } from '../../core/contract/contract.ts'
import type { Limits } from '../../core/store/limits.ts'
import { ChannelState } from './health.ts'
import type { KeptHealth } from './health.ts'
import { Seat, Standing } from './standing.ts'
import type { LimitsInForce } from './standing.ts'
import { Told } from './told.ts'
import type { KeptTold } from './told.ts'
import { UpstreamLimits } from './upstream-limits.ts'

/** The channels of one generation, and each with each of its credentials, as requests are sent there. */
export type States = ReadonlyMap<Channel, Standing>

/** What is known of a channel or a credential, as a process leaves it to the next one. */
export interface KeptPast {
  readonly health: KeptHealth
  readonly told: KeptTold
}

/** What is known of a channel or a credential for as long as it stays the same. */
interface Past {
  readonly health: ChannelState
  readonly told: Told
}

/** One generation. */
interface Entry {
  readonly states: States
  readonly pasts: ReadonlyMap<string, Past>
  /** By what is counted together; undefined where nothing is limited. */
  readonly limits: ReadonlyMap<string, UpstreamLimits | undefined>
}

/** The health boards of all generations. One per process, shared under `health`. */
export class HealthBoard {
  /** Oldest first. Old generations last as long as their exchanges; a new one may be discarded before it is used. */
  readonly #generations: Entry[] = []
  /** What the process before has left, for the channels of the first generation. */
  #left: ReadonlyMap<string, KeptPast>

  constructor(left: ReadonlyMap<string, KeptPast> = new Map()) {
    this.#left = left
  }

  /** What the next process is to know of the present channels. */
  get kept(): ReadonlyMap<string, KeptPast> {
    const pasts = this.#generations.at(-1)?.pasts ?? []
    return new Map(Array.from(pasts, ([mark, { health, told }]) => [mark, { health: health.kept, told: told.kept }]))
  }

  /**
   * The channels of a new generation, with what is known of those whose upstream has not changed, and of each
   * credential that is still there.
   */
  enter(channels: Iterable<Channel>): States {
    const states = new Map<Channel, Standing>()
    const pasts = new Map<string, Past>()
    const limits = new Map<string, UpstreamLimits | undefined>()
    const known = this.#generations.at(-1)?.pasts
    const pastOf = (mark: string): Past => {
      const left = this.#left.get(mark)
      const past = known?.get(mark) ?? { health: new ChannelState(left?.health), told: new Told(left?.told) }
      pasts.set(mark, past)
      return past
    }
    const limitsOf = (id: string, home: string, of: string, rates: LevelLimits | undefined): LimitsInForce => {
      limits.set(id, rates && new UpstreamLimits(id, home, of, rates))
      return () => this.#limitsInForce(id)
    }
    const seatOf = (one: Channel): Seat => {
      const mark = markOf(one)
      const { health, told } = pastOf(mark)
      const { name, credentialName } = one
      const own = limitsOf(
        `credential:${mark}`,
        `channel:${name}`,
        `the credential ${credentialName} of ${name}`,
        one.limits
      )
      return new Seat(one, health, told, own)
    }
    for (const channel of channels) {
      const past = pastOf(markOf(channel))
      const { name, byCredential } = channel
      const shared = limitsOf(`channel:${name}`, `channel:${name}`, `the channel ${name}`, channel.limits)
      const seats = byCredential?.map(seatOf) ?? [new Seat(channel, past.health, past.told)]
      const standing = new Standing(channel, past.health, seats, shared)
      states.set(channel, standing)
      if (byCredential)
        for (const seat of seats)
          states.set(seat.channel, new Standing(seat.channel, past.health, [seat], shared, standing))
    }
    this.#left = new Map()
    this.#generations.push({ states, pasts, limits })
    return states
  }

  /** Those of the newest generation that has the channel or the credential. */
  #limitsInForce(id: string): UpstreamLimits | undefined {
    return this.#generations.findLast(({ limits }) => limits.has(id))?.limits.get(id)
  }

  /** Removes a generation that is over. */
  leave(states: States): void {
    const at = this.#generations.findIndex((entry) => entry.states === states)
    if (at !== -1) this.#generations.splice(at, 1)
  }
}

/**
 * What makes a channel the same in another generation or process: its name, address and credential, which cannot be
 * read from it. With another address or credential its past means nothing. That of a channel with several credentials
 * is of its upstream alone.
 */
function markOf({ name, baseUrl, credential, living, byCredential }: Channel): string {
  return hash('sha256', JSON.stringify([name, baseUrl.href, ...(byCredential ? [] : [credential, living])]))
}

/** The health of channels by name. */
export function reportOf(states: States, limits: Limits): Record<string, ChannelHealth> {
  const now = performance.now()
  return Object.fromEntries(
    Array.from(states.values())
      .filter((standing) => standing.whole === standing)
      .map((standing) => [standing.channel.name, standing.report(now, limits)])
  )
}
