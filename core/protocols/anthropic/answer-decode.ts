// Reads a whole message of an Anthropic upstream.
import type { AnswerPart, Citation, ModelAnswer } from '../canonical/answer.ts'
import { finishOf } from '../canonical/finish.ts'
import { readArgumentsObject } from '../canonical/json.ts'
import type { Proof, ReasoningPart } from '../canonical/request.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { readAnthropicUsage } from '../usage/anthropic.ts'
import { readExplanation, readFinish } from './finish.ts'

export function decodeAnswer(body: unknown): ModelAnswer {
  const message = asObject(body)
  if (!message || !Array.isArray(message['content'])) throw badAnswer('The upstream sent an answer without content.')
  const parts = asObjects(message['content']).flatMap(readBlock)
  const explanation = readExplanation(message)
  if (explanation !== '') parts.push({ type: 'refusal', text: explanation })
  const finish = finishOf(
    readFinish(message),
    parts.some((part) => part.type === 'tool_call')
  )
  const usage = readAnthropicUsage(message['usage'])
  return { id: asText(message['id']), candidates: [{ parts, finish }], usage: usage === 'insane' ? undefined : usage }
}

/** Reads a block. Blocks of tools that the provider runs are skipped: no other protocol has a place for them. */
function readBlock(block: JsonObject): AnswerPart[] {
  switch (block['type']) {
    case 'text': {
      const text = asText(block['text'])
      const citations = asObjects(block['citations']).flatMap((citation) => readCitation(citation, text.length))
      return [{ type: 'text', text, ...(citations.length > 0 && { citations }) }]
    }
    case 'thinking':
    case 'redacted_thinking':
      return [readThoughts(block)]
    case 'tool_use':
      return [{ ...readCallHead(block), input: readArgumentsObject(block['input']) || '{}' }]
    default:
      return []
  }
}

function readThoughts(block: JsonObject): ReasoningPart {
  const proof =
    block['type'] === 'thinking'
      ? readProof('signature', asText(block['signature']))
      : readProof('redacted', asText(block['data']))
  return { type: 'reasoning', text: asText(block['thinking']), ...(proof && { proof }) }
}

export function readProof(kind: 'signature' | 'redacted', value: string): Proof | undefined {
  return value === '' ? undefined : { family: 'anthropic', kind, value }
}

export function readCallHead(block: JsonObject): { type: 'tool_call'; id: string; name: string; custom: false } {
  const [id, name] = [asText(block['id']), asText(block['name'])]
  if (id === '' || name === '') throw badAnswer('The upstream called a tool without a name or an id.')
  return { type: 'tool_call', id, name, custom: false }
}

/**
 * Reads a citation with an address. Others refer to the client's own documents and mean nothing elsewhere. `length`: of
 * the block's text, all of which the citation covers.
 */
export function readCitation(citation: JsonObject, length: number): Citation[] {
  const url = citation['url'] ?? citation['source']
  return typeof url === 'string' && URL.canParse(url)
    ? [{ url, title: asText(citation['title']), start: 0, end: length }]
    : []
}
