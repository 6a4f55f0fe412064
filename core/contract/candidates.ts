// The channels that an exchange may be sent to, narrowed and ordered by plugins before one is chosen.
import type { Channel } from '../catalogue/catalogue.ts'

/** Those of the model that serve the operation, by priority, before any plugin has seen them. One for each exchange. */
export class Candidates {
  #channels: readonly Channel[]
  /** Undefined while nobody prefers any: then a channel's rank is its priority. */
  #ranks: ReadonlyMap<Channel, number> | undefined

  /** By priority. */
  constructor(channels: readonly Channel[]) {
    this.#channels = channels
  }

  /** In the order in which they are to be tried, as far as they differ in rank. */
  get channels(): readonly Channel[] {
    return this.#channels
  }

  /** Lower is tried first; channels of one rank share the requests by weight. */
  rank(channel: Channel): number {
    return this.#ranks?.get(channel) ?? channel.priority
  }

  /** Leaves out all others. None left is answered with `no_available_channel`. */
  keep(wanted: (channel: Channel) => boolean): void {
    this.#channels = this.#channels.filter(wanted)
  }

  /**
   * Puts the channels in order, the lowest score first. Those of one score stay in the order they had: the last plugin
   * to say has the most weight.
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
