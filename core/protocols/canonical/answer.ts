// What a model answers, whole and as a stream of events, in the one form that every protocol is read into and written
// from.
import type { Usage } from '../../money/usage.ts'
import type { MediaPart, Proof, ReasoningPart, RefusalPart, ToolCall } from './request.ts'

/** A whole answer. */
export interface ModelAnswer {
  /** The upstream's own id; clients are given one of the gateway's. */
  id: string
  candidates: Candidate[]
  /** Undefined when none was reported, or none that could be true. */
  usage: Usage | undefined
}

/** One of the independent answers to a request. */
export interface Candidate {
  parts: AnswerPart[]
  finish: Finish
}

/** What answers consist of, in the order in which it was said. */
export type AnswerPart = AnswerText | (RefusalPart & Likely) | ReasoningPart | ToolCall | MediaPart

/** Text that was said to the client. */
export interface AnswerText extends Likely {
  type: 'text'
  text: string
  citations?: Citation[]
  proof?: Proof
}

/** Text with the probabilities of its tokens, where they were asked for. */
export interface Likely {
  logprobs?: TokenLogprob[]
}

export interface TokenLogprob {
  token: string
  logprob: number
  /** Of the token in UTF-8. */
  bytes?: number[] | null
  top: { token: string; logprob: number; bytes?: number[] | null }[]
}

/** Where a part of the text comes from. */
export interface Citation {
  url: string
  title: string
  /** Of the text, in characters; undefined where the provider does not say. */
  start?: number
  end?: number
}

/** The same citation in a text that begins so many characters earlier. */
export function shifted(citation: Citation, by: number): Citation {
  const { start, end } = citation
  return by === 0 || start === undefined || end === undefined
    ? citation
    : { ...citation, start: start + by, end: end + by }
}

/**
 * Why an answer ended. `stop`: the model was done. `sequence`: it came to one of the client's stop sequences. `pause`:
 * the provider wants to be asked again with what there is. `content_filter`: it was refused, by the model or by its
 * provider. `other`: it is not whole, or nobody knows whether it is.
 */
export interface Finish {
  reason: 'stop' | 'sequence' | 'length' | 'tool_calls' | 'content_filter' | 'pause' | 'other'
  /** The stop sequence. */
  sequence?: string
  /** Of `other`: what the upstream calls it, 64 characters at most of those that names have. */
  word?: string
  /** The word is in no table (`finish-words`). */
  unknown?: true
}

/** How a part begins; what follows comes in deltas. */
export type PartOpening =
  | { type: 'text' }
  | { type: 'refusal' }
  | { type: 'reasoning' }
  | { type: 'tool_call'; id: string; name: string; namespace?: string; custom: boolean; proof?: Proof }
  | { type: 'media'; media: MediaPart }

/**
 * An event of a streamed answer, in this order: `start`, then of each part `open`, `delta`s and `close`, a `finish` for
 * each candidate, `end`. Parts are numbered from 0 in the order they open, over all candidates. Calls of one candidate
 * may be open together, and nothing else is beside them: a part of another kind opens when those before are closed,
 * unless the model spoke before its calls were whole. `usage` may come anywhere, the last one holds. A stream without
 * `end` was cut.
 */
export type AnswerEvent =
  | { type: 'start'; id: string }
  | { type: 'open'; candidate: number; part: number; opening: PartOpening }
  | { type: 'delta'; part: number; text: string; logprobs?: TokenLogprob[] }
  | { type: 'cite'; part: number; citation: Citation }
  /**
   * `text` is the whole of the deltas where it is a tool call's input, and empty otherwise. The proof of a call came as
   * it opened.
   */
  | { type: 'close'; part: number; text: string; proof?: Proof }
  | { type: 'usage'; usage: Usage }
  | { type: 'finish'; candidate: number; finish: Finish }
  | { type: 'end' }

/** Takes events as they arise; called in order, never again after a throw. */
export type EmitEvent = (event: AnswerEvent) => void
