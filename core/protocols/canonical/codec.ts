// What a protocol gives to translation: a reader and a writer for each of requests, whole answers and streams.
import type { JsonObject } from '../object.ts'
import type { Payload } from '../protocol.ts'
import type { AnswerEvent, EmitEvent, ModelAnswer } from './answer.ts'
import type { Capabilities } from './features.ts'
import type { Losses } from './losses.ts'
import type { Family, ModelRequest } from './request.ts'
import type { IdRule } from './tool-ids.ts'
import type { NameRule } from './tool-names.ts'
import type { Traits } from './traits.ts'

/** What stands beside the body of a request: in some protocols in its path. */
export interface RequestHead {
  model: string
  streaming: boolean
}

/** Where a translated request goes. */
export interface Target {
  /** As the upstream calls it. */
  model: string
  traits: Traits
}

/** What an answer is told to its client as. Owned by the exchange; the same for its stream and its whole. */
export interface AnswerHead {
  /**
   * Letters, digits, `-` and `_`; becomes part of the ids that the client sees, so that they are the exchange's own.
   */
  id: string
  /** Unix seconds. */
  created: number
  /** As the client calls it. */
  model: string
  /** Of the client's own request, what its protocol {@link Codec.repeats}. */
  request: JsonObject
  /** The client wants to see usage in its stream, where its protocol leaves that to it. */
  usage: boolean
}

/** Writes one event of a client's stream: its payload, and its name, empty where the protocol has none. */
export type WriteEvent = (data: string, name: string) => void

/**
 * Reads an upstream's stream, an event at a time. Throws Untranslatable when an event is none of its protocol or tells
 * of an error; nothing is called after that. It keeps no more than the inputs of open calls, which are bounded.
 */
export interface StreamDecoder {
  push(event: Payload, emit: EmitEvent): void
  /** The upstream is done: tells of what is still open, and of the end if there was one. Once, last. */
  end(emit: EmitEvent): void
  /** What was seen makes a whole answer. An answer that was cut is none, whatever it ended with. */
  finished(): boolean
}

/**
 * Writes a client's stream. Throws Untranslatable when an answer is more than may be kept, where its protocol wants it
 * kept.
 */
export interface StreamEncoder {
  push(event: AnswerEvent, write: WriteEvent): void
}

/** All that translation knows of a protocol. */
export interface Codec {
  /** Whose signatures it carries. */
  readonly family: Family
  /** The member of a request that holds the conversation. */
  readonly conversation: string
  readonly capabilities: Capabilities
  /** Members of a client's request that its answers repeat; absent where they repeat none. */
  readonly repeats?: readonly string[]
  /** What upstreams allow as names of tools. */
  readonly toolNames: NameRule
  /** What upstreams allow as ids of calls. */
  readonly callIds: IdRule
  /** Upstreams know tools that take free text. */
  readonly customTools: boolean
  /**
   * Reads what a client asks, telling `losses` of everything that not every protocol can say. @throws Untranslatable
   */
  decodeRequest(body: JsonObject, head: RequestHead, losses: Losses): ModelRequest
  /** The body for an upstream; the same request always gives the same bytes. @throws Untranslatable */
  encodeRequest(request: ModelRequest, target: Target, losses: Losses): JsonObject
  /**
   * Reads a whole answer. `id` as in {@link AnswerHead}, for calls without an id of their own. @throws Untranslatable
   */
  decodeAnswer(body: unknown, id: string): ModelAnswer
  encodeAnswer(answer: ModelAnswer, head: AnswerHead): JsonObject
  /**
   * For a request that is passed on without translation: the member that holds signatures which the gateway made for
   * another provider's thoughts, without them. Undefined when there are none; absent where clients have no place for
   * any. See `mayBeSealed`.
   */
  withoutSealed?(body: JsonObject): { key: string; value: unknown } | undefined
  /** `id` as for a whole answer. */
  decodeStream(id: string): StreamDecoder
  encodeStream(head: AnswerHead): StreamEncoder
}

/** Of everything that a stream makes a translator keep, in characters. */
export const mostKept = 16 * 1024 * 1024
