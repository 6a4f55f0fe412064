// The channels that an exchange may be sent to, narrowed and ordered by plugins before one is chosen.
import type { Channel } from '../catalogue/catalogue.ts'

/**
 * The channels of the model that serve the operation, sorted by priority until a plugin changes them. One per exchange.
 */
export class Candidates {
  #channels: readonly Channel[]
  /** Undefined until a plugin calls `prefer`; until then a channel's rank is its priority. */
  #ranks: ReadonlyMap<Channel, number> | undefined

  /** `channels`: sorted by priority. */
  constructor(channels: readonly Channel[]) {
    this.#channels = channels
  }

  /**
   * The channels that are left, in the order in which they are tried. The order among channels of one rank means
   * nothing.
   */
  get channels(): readonly Channel[] {
    return this.#channels
  }

  /** The rank of a channel. The lowest is tried first; channels of one rank share the requests by weight. */
  rank(channel: Channel): number {
    return this.#ranks?.get(channel) ?? channel.priority
  }

  /**
   * Keeps the channels for which `wanted` is true. An exchange with no channel left is answered with
   * `no_available_channel`.
   */
  keep(wanted: (channel: Channel) => boolean): void {
    this.#channels = this.#channels.filter(wanted)
  }

  /**
   * Sorts the channels by score, the lowest first. Channels with the same score keep the order they had, so the plugin
   * that is asked last has the most weight.
   */
  prefer(score: (channel: Channel) => number): void {
    const scored = this.#channels.map((channel) => ({ channel, score: score(channel), rank: this.rank(channel) }))
    scored.sort((a, b) => a.score - b.score || a.rank - b.rank)
    const ranks = new Map<Channel, number>()
    let rank = 0
    let before = scored[0]
    for (const one of scored) {
      if (one.score !== before!.score || one.rank !== before!.rank) rank++
      ranks.set(one.channel, rank)
      before = one
    }
    this.#channels = scored.map(({ channel }) => channel)
    this.#ranks = ranks
  }
}
