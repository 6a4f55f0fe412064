// Writes a whole chat completion for a client.
import { shifted } from '../canonical/answer.ts'
import type { AnswerPart, Candidate, Citation, ModelAnswer } from '../canonical/answer.ts'
import type { AnswerHead } from '../canonical/codec.ts'
import { spoken } from '../canonical/conversation.ts'
import { writeTokens } from '../canonical/logprobs.ts'
import { writeDataUrl } from '../canonical/media.ts'
import type { MediaPart, Proof, ToolCall } from '../canonical/request.ts'
import { noUsage } from '../../money/usage.ts'
import { writeChatUsage } from '../usage/openai-chat.ts'
import { writeFinish } from './finish.ts'

export function encodeAnswer(answer: ModelAnswer, { id, created, model }: AnswerHead): Record<string, unknown> {
  return {
    id: `chatcmpl-${id}`,
    object: 'chat.completion',
    created,
    model,
    choices: answer.candidates.map(writeChoice),
    usage: writeChatUsage(answer.usage ?? noUsage)
  }
}

function writeChoice({ parts, finish }: Candidate, index: number): unknown {
  const logprobs = parts.flatMap((part) => (part.type === 'text' ? (part.logprobs ?? []) : []))
  return {
    index,
    message: writeMessage(parts),
    finish_reason: writeFinish(finish),
    logprobs: logprobs.length > 0 ? { content: writeTokens(logprobs), refusal: null } : null
  }
}

function writeMessage(parts: readonly AnswerPart[]): Record<string, unknown> {
  const refusal = spoken(parts, 'refusal')
  const thoughts = spoken(parts, 'reasoning')
  const calls = parts.filter((part) => part.type === 'tool_call')
  const citations = citationsOf(parts)
  const images = parts.filter((part): part is MediaPart => part.type === 'image')
  return {
    role: 'assistant',
    content: parts.some((part) => part.type === 'text') ? spoken(parts) : null,
    refusal: refusal === '' ? null : refusal,
    ...(thoughts !== '' && { reasoning_content: thoughts }),
    ...(citations.length > 0 && { annotations: citations.map(writeCitation) }),
    ...(images.length > 0 && { images: images.map(writeImage) }),
    ...(calls.length > 0 && { tool_calls: calls.map(writeCall) })
  }
}

/** Citations with offsets in the whole text, into which the text parts are joined. */
function citationsOf(parts: readonly AnswerPart[]): Citation[] {
  let before = 0
  return parts.flatMap((part) => {
    if (part.type !== 'text') return []
    const made = (part.citations ?? []).map((citation) => shifted(citation, before))
    before += part.text.length
    return made
  })
}

function writeCall({ id, name, custom, input, proof }: ToolCall): unknown {
  const call = custom ? { custom: { name, input } } : { function: { name, arguments: input } }
  return { id, type: custom ? 'custom' : 'function', ...call, ...writeProof(proof) }
}

/** The signature of a call, where clients of Google's compatible interface read it. */
export function writeProof(proof: Proof | undefined): { extra_content?: unknown } {
  return proof?.family === 'gemini' ? { extra_content: { google: { thought_signature: proof.value } } } : {}
}

export function writeImage({ source }: MediaPart, index: number): unknown {
  const url = source.kind === 'data' ? writeDataUrl(source) : source.kind === 'url' ? source.url : ''
  return { type: 'image_url', index, image_url: { url } }
}

export function writeCitation({ url, title, start, end }: Citation): unknown {
  return { type: 'url_citation', url_citation: { url, title, start_index: start ?? 0, end_index: end ?? 0 } }
}
