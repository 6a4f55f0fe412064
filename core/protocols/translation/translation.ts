// Translates one exchange between a client of one protocol and an upstream of another.
import type { AnswerEvent, EmitEvent } from '../canonical/answer.ts'
import { Assembler, tell } from '../canonical/assemble.ts'
import { withinBounds } from '../canonical/bounds.ts'
import { wholeCharacters } from '../canonical/characters.ts'
import type {
  AnswerHead,
  Codec,
  RequestHead,
  StreamDecoder,
  StreamEncoder,
  Target,
  UpstreamCodec,
  WriteEvent
} from '../canonical/codec.ts'
import { checkCalls, checkChoice, endsPartially, withLastWord } from '../canonical/conversation.ts'
import { Losses } from '../canonical/losses.ts'
import { Offer } from '../canonical/offer.ts'
import type { OfferRules } from '../canonical/offer.ts'
import { Keeper, restore, unproven } from '../canonical/proofs.ts'
import type { Keepsake } from '../canonical/proofs.ts'
import type { ModelRequest } from '../canonical/request.ts'
import { saidArguments } from '../canonical/said-arguments.ts'
import { withLegalIds, withOwnIds } from '../canonical/tool-ids.ts'
import type { JsonObject } from '../object.ts'
import type { Payload } from '../protocol.ts'

export { Untranslatable } from '../canonical/untranslatable.ts'
export type { UntranslatableCode } from '../canonical/untranslatable.ts'
export { parseAnswer, parseJson } from '../canonical/json.ts'
export { mayBeSealed, sealedMembers } from '../canonical/proofs.ts'
export type { AnswerHead, Codec, RequestHead, Target, WriteEvent } from '../canonical/codec.ts'
export type { Keepsake } from '../canonical/proofs.ts'
export type { Traits } from '../canonical/traits.ts'

/** A client's request, read once for all attempts. */
export class Asked {
  readonly #client: Codec
  readonly #request: ModelRequest
  readonly #losses: Losses

  /**
   * `body`: the client's request, parsed with `canonical/json`.
   * @throws Untranslatable when it is not of the client's protocol
   */
  constructor(client: Codec, body: JsonObject, head: RequestHead) {
    this.#client = client
    this.#losses = new Losses(client.conversation, client.capabilities.asks)
    this.#request = client.decodeRequest(body, head, this.#losses)
    checkCalls(this.#request, client.conversation)
    if (endsPartially(this.#request)) this.#losses.see('partial_answer', client.conversation)
  }

  /**
   * Ids of calls under which the gateway may have kept proofs that this upstream requires and the client did not send.
   */
  missing(upstream: UpstreamCodec): string[] {
    return unproven(this.#request, upstream.family)
  }

  /**
   * The request for an upstream. `kept`: what was found for {@link missing}.
   * @throws Untranslatable when it cannot be expressed there
   */
  for(upstream: UpstreamCodec, target: Target, kept: ReadonlyMap<string, Keepsake> = new Map()): Translated {
    const losses = this.#losses.again()
    losses.settle(upstream.capabilities.takes)
    checkChoice(this.#request, losses)
    if (!upstream.customTools) settleGrammars(this.#request, target, losses)
    const whole = kept.size > 0 ? restore(this.#request, kept, upstream.family) : this.#request
    const ended = target.traits.prefill ? whole : withLastWord(whole)
    const offer = new Offer(offerRules(upstream, target))
    const body = upstream.encodeRequest(
      withinLimit(offer.request(withLegalIds(ended, upstream.callIds)), target),
      target,
      losses
    )
    return {
      body,
      dropped: losses.dropped,
      answer: { client: this.#client, upstream, offer, hidesThoughts: this.#request.reasoning.visible === false }
    }
  }
}

/** Lowers a limit that is above the model's own: most upstreams refuse it, and clients set limits for other models. */
function withinLimit(request: ModelRequest, { traits: { maxOutputTokens: most = Infinity } }: Target): ModelRequest {
  const { maxOutputTokens: asked } = request
  return asked === undefined || asked <= most ? request : { ...request, maxOutputTokens: most }
}

/**
 * Drops grammars, as describing them in words does not guarantee that they are followed.
 * @throws Untranslatable when the channel is set to refuse them
 */
function settleGrammars({ tools }: ModelRequest, { traits }: Target, losses: Losses): void {
  if (!tools.some(({ grammar }) => grammar)) return
  if (traits.grammars === 'refuse') throw losses.refusal('custom_tool_grammar')
  losses.drop('custom_tool_grammar')
}

/** What an upstream needs of the tools that it is offered. */
export function offerRules({ toolNames, customTools }: UpstreamCodec, { traits }: Target): OfferRules {
  return { names: toolNames, customTools, schemaAsTool: traits.jsonSchema === 'tool' }
}

/** A request for an upstream, and how to translate its answer. */
export interface Translated {
  /** To be sent as JSON. The same request always gives the same bytes. */
  body: Record<string, unknown>
  /** Members of the client's request that were left out. */
  dropped: string[]
  answer: AnswerPlan
}

/** How to translate answers to one request. */
export interface AnswerPlan {
  readonly client: Codec
  readonly upstream: UpstreamCodec
  readonly offer: Offer
  /** Whether the client does not want to see thoughts. */
  readonly hidesThoughts: boolean
}

/** What is to be done after an answer was translated. */
export interface AnswerTranslation {
  /** What has to be kept for the client's next request, by ids of calls. */
  readonly kept: ReadonlyMap<string, Keepsake>
  /** The upstream's finish reasons that are in no table, one for each candidate that has one. */
  readonly unknownFinishes: readonly string[]
}

/**
 * Translates a whole answer. `body`: parsed with `parseAnswer`.
 * @throws Untranslatable when it is not an answer
 */
export function translateAnswer(
  plan: AnswerPlan,
  body: unknown,
  head: AnswerHead
): AnswerTranslation & { body: JsonObject } {
  const assembler = new Assembler()
  const path = new Path(plan, (event) => assembler.see(event))
  tell(plan.upstream.decodeAnswer(body, head.id), path.emit)
  const { kept, unknownFinishes } = path
  return { body: plan.client.encodeAnswer(assembler.result(), head), kept, unknownFinishes }
}

/** Translates one streamed answer. Nothing may be called after a throw. */
export class StreamTranslation implements AnswerTranslation {
  readonly #decoder: StreamDecoder
  readonly #path: Path

  /** `write`: called with the client's events, during the calls below. */
  constructor(plan: AnswerPlan, head: AnswerHead, write: WriteEvent) {
    this.#decoder = plan.upstream.decodeStream(head.id)
    const encoder: StreamEncoder = plan.client.encodeStream(head)
    this.#path = new Path(
      plan,
      withinBounds((event) => encoder.push(event, write))
    )
  }

  get kept(): ReadonlyMap<string, Keepsake> {
    return this.#path.kept
  }

  get unknownFinishes(): readonly string[] {
    return this.#path.unknownFinishes
  }

  /**
   * Translates an event of the upstream.
   * @throws Untranslatable
   */
  push(event: Payload): void {
    this.#decoder.push(event, this.#path.emit)
  }

  /**
   * Ends the stream when the upstream is done.
   * @throws Untranslatable when its answer is incomplete
   */
  end(): void {
    this.#decoder.end(this.#path.emit)
  }

  /** Whether the upstream's answer is complete. */
  finished(): boolean {
    return this.#decoder.finished()
  }
}

/** The steps between decoder and encoder. */
class Path {
  readonly emit: EmitEvent
  readonly unknownFinishes: string[] = []
  readonly #keeper = new Keeper()

  constructor({ offer, hidesThoughts }: AnswerPlan, emit: EmitEvent) {
    const shown = hidesThoughts ? withoutThoughts(emit) : emit
    const back = offer.back(saidArguments(shown))
    this.emit = withOwnIds(
      wholeCharacters((event) => {
        this.#keeper.see(event)
        if (event.type === 'finish' && event.finish.unknown) this.unknownFinishes.push(event.finish.word ?? '')
        back(event)
      })
    )
  }

  get kept(): ReadonlyMap<string, Keepsake> {
    return this.#keeper.kept
  }
}

/** Passes events on without the text of thoughts. Their proofs stay. */
function withoutThoughts(emit: EmitEvent): EmitEvent {
  const thoughts = new Set<number>()
  return (event: AnswerEvent) => {
    if (event.type === 'open' && event.opening.type === 'reasoning') thoughts.add(event.part)
    if (event.type !== 'delta' || !thoughts.has(event.part)) emit(event)
  }
}
