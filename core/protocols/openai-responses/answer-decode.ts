// Reads a whole response of an upstream.
import type { AnswerPart, Citation, ModelAnswer } from '../canonical/answer.ts'
import { finishOf } from '../canonical/finish.ts'
import { readArguments } from '../canonical/json.ts'
import { readTokens } from '../canonical/logprobs.ts'
import { standardBase64 } from '../canonical/media.ts'
import type { MediaPart, ReasoningPart, ToolCall } from '../canonical/request.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { readResponsesUsage } from '../usage/openai-tokens.ts'
import { readFinish } from './finish.ts'

export function decodeAnswer(body: unknown): ModelAnswer {
  const response = asObject(body)
  if (!response || !Array.isArray(response['output'])) throw badAnswer('The upstream sent an answer without output.')
  const finish = readFinish(response)
  const parts = asObjects(response['output']).flatMap(readItem)
  return {
    id: asText(response['id']),
    candidates: [
      {
        parts,
        finish: finishOf(
          finish,
          parts.some((part) => part.type === 'tool_call')
        )
      }
    ],
    usage: readUsage(response)
  }
}

export function readUsage(response: JsonObject): ModelAnswer['usage'] {
  const usage = readResponsesUsage(response['usage'])
  return usage === 'insane' ? undefined : usage
}

/** Reads an output item. Items of tools that the provider runs are skipped: no other protocol has a place for them. */
export function readItem(item: JsonObject): AnswerPart[] {
  switch (item['type']) {
    case 'message':
      return asObjects(item['content']).flatMap(readContent)
    case 'function_call':
    case 'custom_tool_call':
      return [{ ...readCallHead(item), input: readInput(item) }]
    case 'reasoning':
      return [readThoughts(item)]
    case 'image_generation_call':
      return readImage(item)
    default:
      return []
  }
}

function readContent(part: JsonObject): AnswerPart[] {
  if (part['type'] === 'refusal') return [{ type: 'refusal', text: asText(part['refusal']) }]
  if (part['type'] !== 'output_text') return []
  const citations = asObjects(part['annotations']).flatMap(readCitation)
  const logprobs = readTokens(part['logprobs'])
  return [
    {
      type: 'text',
      text: asText(part['text']),
      ...(logprobs && { logprobs }),
      ...(citations.length > 0 && { citations })
    }
  ]
}

/** Reads what identifies a call. Its result refers to `call_id` and not to the item's id. */
export function readCallHead(item: JsonObject): Omit<ToolCall, 'input'> {
  const [id, name, namespace] = [asText(item['call_id']), asText(item['name']), asText(item['namespace'])]
  if (id === '' || name === '') throw badAnswer('The upstream called a tool without a name or an id.')
  return {
    type: 'tool_call',
    id,
    name,
    ...(namespace !== '' && { namespace }),
    custom: item['type'] === 'custom_tool_call'
  }
}

export function readInput(item: JsonObject): string {
  return item['type'] === 'custom_tool_call' ? asText(item['input']) : readArguments(item['arguments'])
}

/** Reads the summary of thoughts, or the thoughts themselves, which some models show. */
function readThoughts(item: JsonObject): ReasoningPart {
  const summary = asObjects(item['summary'])
  const text = (summary.length > 0 ? summary : asObjects(item['content']))
    .map((part) => asText(part['text']))
    .join(betweenThoughts)
  const proof = readProof(item)
  return { type: 'reasoning', text, ...(proof && { proof }) }
}

/** Separates the parts of a summary when they are joined. */
export const betweenThoughts = '\n\n'

export function readProof({ id, encrypted_content: value }: JsonObject): ReasoningPart['proof'] {
  if (typeof value !== 'string' || value === '') return undefined
  return { family: 'openai', kind: 'encrypted', value, ...(typeof id === 'string' && id !== '' && { id }) }
}

export function readImage({ result, output_format: format }: JsonObject): MediaPart[] {
  if (typeof result !== 'string' || result === '') return []
  return [
    {
      type: 'image',
      source: { kind: 'data', mimeType: `image/${asText(format) || 'png'}`, data: standardBase64(result) }
    }
  ]
}

export function readCitation(annotation: JsonObject): Citation[] {
  const { type, url, title, start_index: start, end_index: end } = annotation
  if (type !== 'url_citation' || typeof url !== 'string') return []
  return [
    { url, title: asText(title), ...(typeof start === 'number' && { start }), ...(typeof end === 'number' && { end }) }
  ]
}
