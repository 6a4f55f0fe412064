// Reads a whole answer of Converse.
import type { AnswerPart, Citation, ModelAnswer } from '../canonical/answer.ts'
import { finishOf } from '../canonical/finish.ts'
import { readArgumentsObject } from '../canonical/json.ts'
import type { Proof } from '../canonical/request.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { readBedrockUsage } from '../usage/bedrock.ts'
import { readFinish } from './finish.ts'

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html */
export function decodeAnswer(body: unknown): ModelAnswer {
  const answer = asObject(body)
  const message = asObject(asObject(answer?.['output'])?.['message'])
  if (!answer || !message || !Array.isArray(message['content']))
    throw badAnswer('The upstream sent an answer without content.')
  const parts = asObjects(message['content']).flatMap(readBlock)
  const finish = finishOf(
    readFinish(answer['stopReason']),
    parts.some((part) => part.type === 'tool_call')
  )
  const usage = readBedrockUsage(answer['usage'])
  return { id: '', candidates: [{ parts, finish }], usage: usage === 'insane' ? undefined : usage }
}

/** Reads a block. What tools did that the provider runs is skipped: no other protocol has a place for it. */
function readBlock(block: JsonObject): AnswerPart[] {
  if (typeof block['text'] === 'string') return [{ type: 'text', text: block['text'] }]
  const call = asObject(block['toolUse'])
  if (call) {
    if (isRunThere(call)) return []
    return [{ ...readCallHead(call), input: readArgumentsObject(call['input']) || '{}' }]
  }
  const thoughts = asObject(block['reasoningContent'])
  if (thoughts) {
    const { text, signature } = asObject(thoughts['reasoningText']) ?? {}
    const redacted = asText(thoughts['redactedContent'])
    const proof = redacted === '' ? readProof('signature', asText(signature)) : readProof('redacted', redacted)
    return [{ type: 'reasoning', text: asText(text), ...(proof && { proof }) }]
  }
  const cited = asObject(block['citationsContent'])
  if (cited) {
    const text = asObjects(cited['content'])
      .map((piece) => asText(piece['text']))
      .join('')
    const citations = asObjects(cited['citations']).flatMap((citation) => readCitation(citation, text.length))
    return [{ type: 'text', text, ...(citations.length > 0 && { citations }) }]
  }
  const image = asObject(block['image'])
  return image ? readImage(image['format'], asObject(image['source'])) : []
}

/** A picture that the model made; nothing when it lies elsewhere. */
export function readImage(format: unknown, source: JsonObject | undefined): (AnswerPart & { type: 'image' })[] {
  const data = asText(source?.['bytes'])
  const mimeType = `image/${asText(format) || 'png'}`
  return data === '' ? [] : [{ type: 'image', source: { kind: 'data', mimeType, data } }]
}

/** Whether the provider itself runs the tool. */
export function isRunThere(call: JsonObject): boolean {
  return call['type'] === 'server_tool_use'
}

export function readProof(kind: 'signature' | 'redacted', value: string): Proof | undefined {
  return value === '' ? undefined : { family: 'bedrock', kind, value }
}

export function readCallHead(call: JsonObject): { type: 'tool_call'; id: string; name: string; custom: false } {
  const [id, name] = [asText(call['toolUseId']), asText(call['name'])]
  if (id === '' || name === '') throw badAnswer('The upstream called a tool without a name or an id.')
  return { type: 'tool_call', id, name, custom: false }
}

/**
 * Reads a citation of a page. Others refer to the client's own documents and mean nothing elsewhere. `length`: of the
 * text, all of which it covers.
 */
export function readCitation(citation: JsonObject, length: number): Citation[] {
  const url = asText(asObject(asObject(citation['location'])?.['web'])?.['url'])
  return URL.canParse(url) ? [{ url, title: asText(citation['title']), start: 0, end: length }] : []
}
