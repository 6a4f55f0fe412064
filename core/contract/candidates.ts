// The channels that an exchange may be sent to, narrowed and ordered by plugins before one is chosen, and why others
// are not asked.
import type { Channel, Model } from '../catalogue/catalogue.ts'

/** Why a channel is not asked. It is kept in the record of the request, and never shown to clients. */
export interface Why {
  /** One word for programs, such as `endpoint`, `protocol` or `ejected`. */
  readonly code: string
  /** One sentence for operators, without a full stop. It must not contain a secret. */
  readonly reason: string
  /** Unix milliseconds: when the channel may be asked again. Absent when time alone changes nothing. */
  readonly until?: number | undefined
}

/** A channel that is not asked. */
export interface Exclusion extends Why {
  readonly channel: Channel
  /** The plugin that left it out; `gateway` for the core and the endpoint. */
  readonly by: string
}

/**
 * The channels of the model that serve the operation, sorted by priority until a plugin changes them. One per exchange
 * and model that is asked.
 */
export class Candidates {
  /** The plugin that is being asked, or `gateway`. The core sets it. */
  by = 'gateway'
  /** The model that they serve: the exchange's, or one that stands in for it. Undefined where the request has none. */
  readonly model: Model | undefined
  /** Whether another model is asked when none of these is. Then a channel that is not well need not be tried. */
  replaceable = false
  #channels: readonly Channel[]
  /** Undefined until a plugin calls `prefer`; until then a channel's rank is its priority. */
  #ranks: ReadonlyMap<Channel, number> | undefined
  #excluded: readonly Exclusion[]
  #passedOver: Map<Channel, Exclusion> | undefined
  #stopped: string | undefined
  #untouched = true
  #bound = false

  /** `channels`: sorted by priority. `excluded`: the channels of the model that cannot serve the operation. */
  constructor(channels: readonly Channel[], excluded: readonly Exclusion[] = [], model?: Model) {
    this.model = model
    this.#channels = channels
    this.#excluded = excluded
  }

  /**
   * The channels that are left, in the order in which they are tried. The order among channels of one rank means
   * nothing.
   */
  get channels(): readonly Channel[] {
    return this.#channels
  }

  /** Whether no plugin has removed or sorted channels. */
  get untouched(): boolean {
    return this.#untouched
  }

  /**
   * Whether the request refers to something that is kept at the account of these channels, so that no others can serve
   * it.
   */
  get bound(): boolean {
    return this.#bound
  }

  /** The channels that were removed. */
  get excluded(): readonly Exclusion[] {
    return this.#excluded
  }

  /** The channels that are left and were passed over, by {@link passOver}. */
  get passedOver(): ReadonlyMap<Channel, Exclusion> {
    return this.#passedOver ?? none
  }

  /** Why no further channel was tried; undefined while nobody has said so. */
  get stopped(): string | undefined {
    return this.#stopped
  }

  /** The rank of a channel. The lowest is tried first; channels of one rank share the requests by weight. */
  rank(channel: Channel): number {
    return this.#ranks?.get(channel) ?? channel.priority
  }

  /**
   * Keeps the channels for which `wanted` is true. An exchange with no channel left is answered with
   * `no_available_channel`. `why` is noted for each of the others: a sentence without a full stop, or a {@link Why}.
   */
  keep(wanted: (channel: Channel) => boolean, why: string | Why = 'it gave no reason'): void {
    const left = this.#channels.filter(wanted)
    if (left.length < this.#channels.length) {
      this.#untouched = false
      const said = typeof why === 'string' ? { code: 'plugin', reason: why } : why
      const others = this.#channels.filter((channel) => !left.includes(channel))
      this.#excluded = [...this.#excluded, ...others.map((channel) => ({ ...said, channel, by: this.by }))]
    }
    this.#channels = left
  }

  /**
   * Keeps the channels at whose account something is kept that the request refers to, as {@link keep} does. Of a
   * channel with several credentials that is not kept as a whole, it keeps those for which `holds` is true.
   */
  bind(holds: (channel: Channel) => boolean): void {
    this.#bound = true
    this.#channels = this.#channels.flatMap((channel) => {
      const those = holds(channel) ? [] : (channel.byCredential?.filter(holds) ?? [])
      return those.length === 0 ? [channel] : those
    })
    this.keep(holds, {
      code: 'reference',
      reason: 'what the request refers to is kept at the account of another channel'
    })
  }

  /**
   * Notes why a channel is not chosen at present. It stays among the candidates, and when all of them are passed over,
   * any may be chosen. Changes nothing but the record.
   */
  passOver(channel: Channel, why: Why): void {
    this.#passedOver ??= new Map()
    this.#passedOver.set(channel, { ...why, channel, by: this.by })
  }

  /**
   * Notes why no further channel is tried: a sentence without a full stop. It changes nothing but the record, and
   * returns the undefined that `selectChannel` returns then.
   */
  stop(reason: string): undefined {
    this.#stopped = reason
    return undefined
  }

  /**
   * Sorts the channels by score, the lowest first. Channels with the same score keep the order they had, so the plugin
   * that is asked last has the most weight.
   */
  prefer(score: (channel: Channel) => number): void {
    this.#untouched = false
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

const none: ReadonlyMap<Channel, Exclusion> = new Map()
