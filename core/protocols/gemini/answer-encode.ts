// Writes a whole Gemini answer for a client.
import type { AnswerPart, Candidate, Citation, Finish, ModelAnswer, TokenLogprob } from '../canonical/answer.ts'
import type { AnswerHead } from '../canonical/codec.ts'
import { isCut } from '../canonical/finish.ts'
import { parseObject } from '../canonical/json.ts'
import type { KeptThought } from '../canonical/proofs.ts'
import type { MediaPart, Proof, ToolCall } from '../canonical/request.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import { noUsage } from '../../money/usage.ts'
import { writeGeminiUsage } from '../usage/gemini.ts'
import { writeFinish } from './finish.ts'
import { LedThoughts } from './led-thoughts.ts'
import { writeCallSignature, writeSignature } from './signature.ts'

type Part = Record<string, unknown>

export function encodeAnswer({ candidates, usage }: ModelAnswer, head: AnswerHead): Record<string, unknown> {
  return {
    candidates: candidates.map(writeCandidate),
    usageMetadata: writeGeminiUsage(usage ?? noUsage),
    ...writeTail(head)
  }
}

/** The last members of every chunk and answer. */
export function writeTail({ id, model }: AnswerHead): Record<string, unknown> {
  return { modelVersion: model, responseId: id }
}

function writeCandidate({ parts, finish }: Candidate, index: number): unknown {
  const refused = parts.some((part) => part.type === 'refusal')
  const citations = parts.flatMap((part) => (part.type === 'text' ? (part.citations ?? []) : []))
  const logprobs = parts.flatMap((part) => ('logprobs' in part ? (part.logprobs ?? []) : []))
  return {
    index,
    content: { role: 'model', parts: writeParts(parts, finish) },
    ...writeFinish(finish, refused),
    ...(citations.length > 0 && { groundingMetadata: writeGrounding(citations) }),
    ...(logprobs.length > 0 && { logprobsResult: writeLogprobs(logprobs) })
  }
}

function writeParts(parts: readonly AnswerPart[], finish: Finish): Part[] {
  const thoughts = new LedThoughts()
  return parts.flatMap((part) => {
    const led = thoughts.before(part.type)
    if (part.type === 'reasoning') thoughts.add(part)
    return writePart(part, finish, led)
  })
}

function writePart(part: AnswerPart, finish: Finish, led: readonly KeptThought[]): Part[] {
  switch (part.type) {
    case 'text':
    case 'refusal':
      return part.text === '' ? [] : [{ text: part.text }]
    case 'reasoning':
      return part.text === '' && !part.proof ? [] : [{ ...writeThought(part.text), ...writeProof(part.proof) }]
    case 'tool_call':
      return writeCall(part, finish, led)
    default:
      return writeMedia(part)
  }
}

export function writeThought(text: string): Part {
  return { text, thought: true }
}

export function writeProof(proof: Proof | undefined): Part {
  return proof ? { thoughtSignature: writeSignature(proof) } : {}
}

/**
 * Writes a call. One whose arguments were cut off is left out, as they are not known. `led`: the thoughts before the
 * call.
 */
export function writeCall(
  { id, name, input, proof }: Omit<ToolCall, 'type' | 'custom'>,
  finish: Finish,
  led: readonly KeptThought[] = []
): Part[] {
  const args = input === '' ? undefined : parseObject(input)
  const thoughtSignature = writeCallSignature(proof, led)
  if (args) return [{ functionCall: { id, name, args }, ...(thoughtSignature !== undefined && { thoughtSignature }) }]
  if (isCut(finish)) return []
  throw badAnswer('The upstream called a tool with arguments that are not a JSON object.')
}

/** Pictures with an address have no place in this protocol. */
export function writeMedia({ source }: MediaPart): Part[] {
  return source.kind === 'data' ? [{ inlineData: { mimeType: source.mimeType, data: source.data } }] : []
}

export function writeGrounding(citations: readonly Citation[]): unknown {
  return { groundingChunks: citations.map(({ url, title }) => ({ web: { uri: url, title } })) }
}

export function writeLogprobs(tokens: readonly TokenLogprob[]): unknown {
  const write = ({ token, logprob }: Omit<TokenLogprob, 'top'>): unknown => ({ token, logProbability: logprob })
  return {
    chosenCandidates: tokens.map(write),
    topCandidates: tokens.map(({ top }) => ({ candidates: top.map(write) }))
  }
}
