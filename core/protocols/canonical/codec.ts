// What translation needs of a protocol: readers and writers of requests, whole answers and streams.
import type { JsonObject } from '../object.ts'
import type { Payload } from '../protocol.ts'
import type { AnswerEvent, EmitEvent, ModelAnswer } from './answer.ts'
import type { Capabilities, ChannelCapabilities } from './features.ts'
import type { Losses } from './losses.ts'
import type { Family, ModelRequest } from './request.ts'
import type { IdRule } from './tool-ids.ts'
import type { NameRule } from './tool-names.ts'
import type { Traits } from './traits.ts'

/** What is known of a request besides its body. In some protocols it is in the path. */
export interface RequestHead {
  model: string
  streaming: boolean
}

/** Where a translated request goes. */
export interface Target {
  /** The upstream's name of the model. */
  model: string
  traits: Traits
}

/** What the client's answer says about itself. Owned by the exchange; the same for a stream and a whole answer. */
export interface AnswerHead {
  /**
   * Letters, digits, `-` and `_`. It becomes part of the ids that the client sees, so they are unique to the exchange.
   */
  id: string
  /** Unix seconds. */
  created: number
  /** The client's name of the model. */
  model: string
  /** The members of the client's request that its protocol {@link Codec.repeats}. */
  request: JsonObject
  /** Whether the client wants usage in its stream, where its protocol leaves that to the client. */
  usage: boolean
}

/** Writes one event of a client's stream. `name` is empty in protocols without names of events. */
export type WriteEvent = (data: string, name: string) => void

/**
 * Reads an upstream's stream, one event at a time. It throws Untranslatable when an event is not of its protocol or
 * reports an error; nothing is called after that. It keeps no more than the inputs of open calls, which are bounded.
 */
export interface StreamDecoder {
  push(event: Payload, emit: EmitEvent): void
  /**
   * Called once, last, when the upstream is done. Emits the ends of open parts, and the end of the answer if there was
   * one.
   */
  end(emit: EmitEvent): void
  /** Whether the answer is complete. An answer that was cut is not. */
  finished(): boolean
}

/**
 * Writes a client's stream. It throws Untranslatable when the answer is too large to be kept, in protocols that have to
 * repeat it at the end.
 */
export interface StreamEncoder {
  push(event: AnswerEvent, write: WriteEvent): void
}

/** What translation knows of a protocol of channels. */
export interface UpstreamCodec {
  /** The family whose signatures it carries. */
  readonly family: Family
  readonly capabilities: ChannelCapabilities
  /** The tool names that its upstreams accept. */
  readonly toolNames: NameRule
  /** The call ids that its upstreams accept. */
  readonly callIds: IdRule
  /** Whether its upstreams know tools that take free text. */
  readonly customTools: boolean
  /**
   * Writes the body for an upstream. The same request always gives the same bytes.
   * @throws Untranslatable
   */
  encodeRequest(request: ModelRequest, target: Target, losses: Losses): JsonObject
  /**
   * Reads a whole answer. `id`: as in {@link AnswerHead}, for calls without an id.
   * @throws Untranslatable
   */
  decodeAnswer(body: unknown, id: string): ModelAnswer
  /** `id`: as for a whole answer. */
  decodeStream(id: string): StreamDecoder
}

/** What translation knows of a protocol of clients and channels. */
export interface Codec extends UpstreamCodec {
  /** The member of a request that holds the conversation. */
  readonly conversation: string
  readonly capabilities: Capabilities
  /** Members of a client's request that its answers repeat; absent when there are none. */
  readonly repeats?: readonly string[]
  /**
   * Reads a client's request, and tells `losses` of each feature that some protocol cannot express.
   * @throws Untranslatable
   */
  decodeRequest(body: JsonObject, head: RequestHead, losses: Losses): ModelRequest
  encodeAnswer(answer: ModelAnswer, head: AnswerHead): JsonObject
  /**
   * For a request that is passed on without translation: the member that holds signatures made by the gateway for
   * another provider's thoughts, with these removed. Undefined when there are none. Absent for protocols whose clients
   * cannot send any. See `mayBeSealed`.
   */
  withoutSealed?(body: JsonObject): { key: string; value: unknown } | undefined
  encodeStream(head: AnswerHead): StreamEncoder
}

/** The most that a translator may keep of one stream, in characters. */
export const mostKept = 16 * 1024 * 1024
