// A model's answer, whole and as a stream of events, in the form between all protocols: decoders make it, and encoders
// write it.
import type { Usage } from '../../money/usage.ts'
import type { MediaPart, Proof, ReasoningPart, RefusalPart, ToolCall } from './request.ts'

/** A whole answer. */
export interface ModelAnswer {
  /** The upstream's id. Clients are shown the gateway's own instead. */
  id: string
  candidates: Candidate[]
  /** Undefined when none was reported, or when what was reported cannot be true. */
  usage: Usage | undefined
}

/** One of the independent answers to a request. */
export interface Candidate {
  parts: AnswerPart[]
  finish: Finish
}

/** A part of an answer. Parts are in the order in which the model made them. */
export type AnswerPart = AnswerText | (RefusalPart & Likely) | ReasoningPart | ToolCall | MediaPart

/** Text for the client. */
export interface AnswerText extends Likely {
  type: 'text'
  text: string
  citations?: Citation[]
  proof?: Proof
}

/** A part with the probabilities of its tokens, where the client asked for them. */
export interface Likely {
  logprobs?: TokenLogprob[]
}

export interface TokenLogprob {
  token: string
  logprob: number
  /** The bytes of the token in UTF-8. */
  bytes?: number[] | null
  top: { token: string; logprob: number; bytes?: number[] | null }[]
}

/** The source of a part of the text. */
export interface Citation {
  url: string
  title: string
  /** Offsets in the text, in characters; undefined when the provider does not give them. */
  start?: number
  end?: number
}

/** A citation moved by so many characters: the texts before its own were joined to it. */
export function shifted(citation: Citation, by: number): Citation {
  const { start, end } = citation
  return by === 0 || start === undefined || end === undefined
    ? citation
    : { ...citation, start: start + by, end: end + by }
}

/**
 * Why an answer ended. `stop`: the model was done. `sequence`: it produced a stop sequence of the client. `pause`: the
 * provider wants to be asked again with the answer so far. `content_filter`: the model or its provider refused.
 * `other`: the answer is incomplete, or that is unknown.
 */
export interface Finish {
  reason: 'stop' | 'sequence' | 'length' | 'tool_calls' | 'content_filter' | 'pause' | 'other'
  /** The stop sequence that ended it. */
  sequence?: string
  /** For `other`: the upstream's own word, at most 64 characters, and only those that names may have. */
  word?: string
  /** Set when the word is not in any table of `finish-words`. */
  unknown?: true
}

/** What is known of a part when it begins. The rest comes in deltas. */
export type PartOpening =
  | { type: 'text' }
  | { type: 'refusal' }
  | { type: 'reasoning' }
  | { type: 'tool_call'; id: string; name: string; namespace?: string; custom: boolean; proof?: Proof }
  | { type: 'media'; media: MediaPart }

/**
 * An event of a streamed answer. The order is: `start`; for each part `open`, `delta`s and `close`; a `finish` for each
 * candidate; `end`. Parts are numbered from 0 in the order in which they open, across all candidates. Several calls of
 * a candidate may be open at once. A part of another kind opens only after the ones before are closed, unless the model
 * went on speaking before its calls were complete. `usage` may come anywhere, and the last one counts. A stream without
 * `end` was cut.
 */
export type AnswerEvent =
  | { type: 'start'; id: string }
  | { type: 'open'; candidate: number; part: number; opening: PartOpening }
  | { type: 'delta'; part: number; text: string; logprobs?: TokenLogprob[] }
  | { type: 'cite'; part: number; citation: Citation }
  /** `text`: the whole input of a tool call; empty for other parts. The proof of a call is in its `open` instead. */
  | { type: 'close'; part: number; text: string; proof?: Proof }
  | { type: 'usage'; usage: Usage }
  | { type: 'finish'; candidate: number; finish: Finish }
  | { type: 'end' }

/** Receives events as they come, in order. Never called again after it has thrown. */
export type EmitEvent = (event: AnswerEvent) => void
