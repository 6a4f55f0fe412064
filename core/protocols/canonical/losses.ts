// Records which features a request asks for, by the client's own names, and which of them do not reach the upstream.
import { requestFeatures } from './features.ts'
import type { Capabilities, RequestFeature } from './features.ts'
import { Untranslatable } from './untranslatable.ts'

/** The most names that are kept, and the longest in characters: the dropped ones are listed in a header. */
const mostNames = 64
const longestName = 80

/** Where a feature is asked for. */
interface Seen {
  first: string
  /** The members that ask for it. Places that differ only in an index count once. */
  names: Set<string>
}

/** The record of one translation. The decoder notes what the request asks for, and the encoder what it leaves out. */
export class Losses {
  /** The member that holds the client's conversation. */
  readonly conversation: string
  readonly #asks: Capabilities['asks']
  readonly #seen: Map<RequestFeature, Seen>
  readonly #dropped = new Set<string>()

  /** `asks`: of the client's protocol. It names the member of a feature that is noted without a place. */
  constructor(conversation: string, asks: Capabilities['asks'], seen = new Map<RequestFeature, Seen>()) {
    this.conversation = conversation
    this.#asks = asks
    this.#seen = seen
  }

  /** The record for another upstream: the same features are asked for, and nothing is dropped yet. */
  again(): Losses {
    return new Losses(this.conversation, this.#asks, this.#seen)
  }

  /** Notes that the request asks for a feature, at this place. */
  see(feature: RequestFeature, place: string = this.#asks[feature] ?? feature): void {
    const seen = this.#seen.get(feature)
    if (!seen) this.#seen.set(feature, { first: place, names: new Set([memberName(place)]) })
    else if (seen.names.size < mostNames) seen.names.add(memberName(place))
  }

  /** Refuses or drops each noted feature that the upstream does not take. */
  settle(takes: Capabilities['takes']): void {
    for (const feature of this.#seen.keys()) {
      const treatment = takes[feature]
      if (treatment === 'refused') throw this.refusal(feature)
      if (treatment === 'dropped') this.drop(feature)
    }
  }

  /** Drops a feature, because something else that is asked for excludes it. */
  drop(feature: RequestFeature): void {
    for (const name of this.#seen.get(feature)?.names ?? []) this.dropName(name)
  }

  /** Drops something that is no feature of its own, such as a keyword of a schema. */
  dropName(name: string): void {
    if (this.#dropped.size < mostNames) this.#dropped.add(name)
  }

  /** The refusal of a feature. It names the first place that asks for it. */
  refusal(feature: RequestFeature, why?: string): Untranslatable {
    return this.refusalAt(feature, this.placeOf(feature), why)
  }

  /** The first place that asks for a feature. */
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

  /**
   * The members that were dropped, each once, in the order in which they were noticed. They can be put into a header.
   */
  get dropped(): string[] {
    return [...this.#dropped]
  }
}

/** A place without its indexes. Names of unknown members come from the client, so other characters are replaced. */
function memberName(place: string): string {
  return place
    .slice(0, longestName)
    .replace(/\[\d+\]/g, '')
    .replace(/[^\w.$-]/g, '?')
}
