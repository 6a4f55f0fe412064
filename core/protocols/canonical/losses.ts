// What a request asks for, by the client's own names, and what of it does not reach the upstream.
import { requestFeatures } from './features.ts'
import type { Capabilities, RequestFeature } from './features.ts'
import { Untranslatable } from './untranslatable.ts'

/** Names that are kept, and characters of one: what was dropped has to fit into a header. */
const mostNames = 64
const longestName = 80

/** Where a feature is asked for. */
interface Seen {
  first: string
  /** All places, places of the same member being one. */
  names: Set<string>
}

/** Kept for one translation: the decoder says what it meets and where, the encoder what it leaves out. */
export class Losses {
  /** The member that holds the client's conversation. */
  readonly conversation: string
  readonly #asks: Capabilities['asks']
  readonly #seen: Map<RequestFeature, Seen>
  readonly #dropped = new Set<string>()

  /** `asks`: of the client's protocol; it has the member that stands for a feature when no place is given. */
  constructor(conversation: string, asks: Capabilities['asks'], seen = new Map<RequestFeature, Seen>()) {
    this.conversation = conversation
    this.#asks = asks
    this.#seen = seen
  }

  /** For another upstream: what is asked for is the same, and nothing is left out yet. */
  again(): Losses {
    return new Losses(this.conversation, this.#asks, this.#seen)
  }

  /** The request asks for this, at this place. */
  see(feature: RequestFeature, place: string = this.#asks[feature] ?? feature): void {
    const seen = this.#seen.get(feature)
    if (!seen) this.#seen.set(feature, { first: place, names: new Set([memberName(place)]) })
    else if (seen.names.size < mostNames) seen.names.add(memberName(place))
  }

  /** Of all that was seen: refuses or leaves out what the upstream cannot be asked. */
  settle(takes: Capabilities['takes']): void {
    for (const feature of this.#seen.keys()) {
      const treatment = takes[feature]
      if (treatment === 'refused') throw this.refusal(feature)
      if (treatment === 'dropped') this.drop(feature)
    }
  }

  /** The encoder leaves this out, as other things that are asked for do not go with it. */
  drop(feature: RequestFeature): void {
    for (const name of this.#seen.get(feature)?.names ?? []) this.dropName(name)
  }

  /** Leaves out something that has no feature of its own, such as a keyword of a schema. */
  dropName(name: string): void {
    if (this.#dropped.size < mostNames) this.#dropped.add(name)
  }

  /** The refusal of a feature, naming the first place that asks for it. */
  refusal(feature: RequestFeature, why?: string): Untranslatable {
    return this.refusalAt(feature, this.placeOf(feature), why)
  }

  /** The first place that asks for it, for messages. */
  placeOf(feature: RequestFeature): string {
    return this.#seen.get(feature)?.first ?? this.#asks[feature] ?? feature
  }

  /** The refusal of a feature at a place. */
  refusalAt(
    feature: RequestFeature,
    place: string,
    why = `cannot be translated for the channel that serves this model (${requestFeatures[feature]})`
  ): Untranslatable {
    return new Untranslatable(
      feature === 'stored_state' ? 'protocol_mismatch' : 'unsupported_parameter',
      `${place} ${why}.`,
      place
    )
  }

  /** Names of the members that were left out, each once, in the order of their discovery; fit for a header. */
  get dropped(): string[] {
    return [...this.#dropped]
  }
}

/** A place without its numbers. Names of unknown members come from the client and may be anything. */
function memberName(place: string): string {
  return place
    .slice(0, longestName)
    .replace(/\[\d+\]/g, '')
    .replace(/[^\w.$-]/g, '?')
}
