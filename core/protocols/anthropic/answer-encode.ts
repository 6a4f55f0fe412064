// Writes a whole Anthropic message for a client.
import type { AnswerPart, Citation, Finish, ModelAnswer } from '../canonical/answer.ts'
import type { AnswerHead } from '../canonical/codec.ts'
import { isCut } from '../canonical/finish.ts'
import { parseObject } from '../canonical/json.ts'
import { seal } from '../canonical/proofs.ts'
import type { Proof, ToolCall } from '../canonical/request.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import { noUsage } from '../../money/usage.ts'
import { writeAnthropicUsage } from '../usage/anthropic.ts'
import { writeFinish } from './finish.ts'

type Block = Record<string, unknown>

export function encodeAnswer({ candidates, usage }: ModelAnswer, head: AnswerHead): Record<string, unknown> {
  const { parts, finish } = candidates[0]!
  const refused = parts.some((part) => part.type === 'refusal')
  return {
    ...writeHead(head),
    content: parts.flatMap((part) => writePart(part, finish)),
    ...writeFinish(finish, refused),
    usage: writeAnthropicUsage(usage ?? noUsage)
  }
}

/** The first members of a message, whole and in the `message_start` of a stream. */
export function writeHead({ id, model }: AnswerHead): Record<string, unknown> {
  return { id: `msg_${id}`, type: 'message', role: 'assistant', model, container: null }
}

function writePart(part: AnswerPart, finish: Finish): Block[] {
  switch (part.type) {
    case 'text':
      return part.text === ''
        ? []
        : [{ type: 'text', text: part.text, citations: part.citations?.map(writeCitation) ?? null }]
    case 'refusal':
      return part.text === '' ? [] : [{ type: 'text', text: part.text, citations: null }]
    case 'reasoning':
      return part.text === '' && !part.proof ? [] : [writeThoughts(part.text, part.proof)]
    case 'tool_call':
      return writeCall(part, finish)
    default:
      return []
  }
}

/** Writes a call. A call whose arguments were cut off is left out, as they are not known. */
function writeCall({ id, name, input, proof }: ToolCall, finish: Finish): Block[] {
  const object = input === '' ? undefined : parseObject(input)
  if (object) return [...writeCallProof(proof), { type: 'tool_use', id, name, input: object }]
  if (isCut(finish)) return []
  throw brokenCall()
}

/** The error for a call whose arguments are not JSON although nothing cut them off. */
export function brokenCall(): Error {
  return badAnswer('The upstream called a tool with arguments that are not a JSON object.')
}

function writeThoughts(thinking: string, proof: Proof | undefined): Block {
  return { type: 'thinking', thinking, signature: seal('anthropic', proof) }
}

/**
 * Writes a call's signature as a block of thoughts before the call: calls have no place for one here, and the client
 * sends the block back in the same place.
 */
function writeCallProof(proof: Proof | undefined): Block[] {
  return proof ? [writeThoughts('', proof)] : []
}

export function writeCitation({ url, title }: Citation): Block {
  return { type: 'web_search_result_location', url, title, cited_text: '', encrypted_index: '' }
}
