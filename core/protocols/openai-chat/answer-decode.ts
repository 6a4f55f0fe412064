// Reads a whole chat completion of an upstream.
import type { AnswerPart, Candidate, Citation, ModelAnswer, TokenLogprob } from '../canonical/answer.ts'
import { finishOf } from '../canonical/finish.ts'
import { readArguments } from '../canonical/json.ts'
import { readTokens } from '../canonical/logprobs.ts'
import { readUrl } from '../canonical/media.ts'
import { unseal } from '../canonical/proofs.ts'
import type { MediaPart, ToolCall } from '../canonical/request.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { readAnyUsage } from '../usage/any.ts'
import { readFinish } from './finish.ts'

/** The most choices of an answer: the vendor's limit of `n`, https://platform.openai.com/docs/api-reference/chat */
export const mostChoices = 128

export function decodeAnswer(body: unknown, id: string): ModelAnswer {
  const fields = asObject(body)
  const choices = fields?.['choices']
  if (!fields || !Array.isArray(choices)) throw badAnswer('The upstream sent an answer without choices.')
  if (choices.length > mostChoices) throw badAnswer('The upstream sent more choices than can be asked for.')
  const candidates: Candidate[] = []
  for (const item of choices as unknown[]) {
    const choice = asObject(item) ?? {}
    const index = typeof choice['index'] === 'number' ? choice['index'] : candidates.length
    const parts = readMessage(asObject(choice['message']) ?? {}, `call_${id}_${index}_`)
    const tokens = readLogprobs(choice['logprobs'])
    const text = tokens && parts.find((part) => part.type === 'text')
    if (text) text.logprobs = tokens
    const calls = parts.some((part) => part.type === 'tool_call')
    candidates.push({ parts, finish: finishOf(readFinish(choice['finish_reason'], choice['stop_reason']), calls) })
  }
  return { id: asText(fields['id']), candidates, usage: readReportedUsage(fields) }
}

/** The usage, from any of the places where upstreams put it; undefined also when it cannot be true. */
export function readReportedUsage(fields: JsonObject): ModelAnswer['usage'] {
  const [first] = Array.isArray(fields['choices']) ? (fields['choices'] as unknown[]) : []
  for (const place of [fields['usage'], asObject(fields['x_groq'])?.['usage'], asObject(first)?.['usage']]) {
    const usage = readAnyUsage(place)
    if (usage !== undefined) return usage === 'insane' ? undefined : usage
  }
  return undefined
}

/** `callId`: the beginning of ids for calls without one. */
function readMessage(message: JsonObject, callId: string): AnswerPart[] {
  const parts: AnswerPart[] = []
  const thoughts = readThoughts(message)
  if (thoughts !== '') parts.push({ type: 'reasoning', text: thoughts })
  const text = readContent(message['content'])
  const citations = readCitations(message['annotations'])
  if (text !== '' || citations) parts.push({ type: 'text', text, ...(citations && { citations }) })
  if (typeof message['refusal'] === 'string' && message['refusal'] !== '')
    parts.push({ type: 'refusal', text: message['refusal'] })
  for (const image of readImages(message['images'])) parts.push(image)
  for (const call of asObjects(message['tool_calls'])) parts.push(readCall(call, `${callId}${parts.length}`))
  const legacy = asObject(message['function_call'])
  if (legacy) parts.push(readCall({ function: legacy }, `${callId}${parts.length}`))
  return parts
}

/** The thoughts of a message or a delta. Vendors have two names for them. */
export function readThoughts(message: JsonObject): string {
  return asText(message['reasoning_content']) || asText(message['reasoning'])
}

/** The text of a content that is a string or a list of parts. */
export function readContent(content: unknown): string {
  return typeof content === 'string'
    ? content
    : asObjects(content)
        .map((part) => asText(part['text']))
        .join('')
}

function readCall(call: JsonObject, callId: string): ToolCall {
  const custom = asObject(call['custom'])
  const inner = custom ?? asObject(call['function']) ?? {}
  const name = asText(inner['name'])
  if (name === '') throw badAnswer('The upstream called a tool without a name.')
  return {
    type: 'tool_call',
    id: asText(call['id']) || callId,
    name,
    custom: custom !== undefined,
    input: readInput(inner, custom !== undefined),
    ...readProof(call)
  }
}

/** The input of a call, or of a delta of one. */
export function readInput(inner: JsonObject, custom: boolean): string {
  return custom ? asText(inner['input']) : readArguments(inner['arguments'])
}

/** The signature of a call, where Google's compatible interface puts it. */
export function readProof(call: JsonObject): Pick<ToolCall, 'proof'> {
  const signature = asObject(asObject(call['extra_content'])?.['google'])?.['thought_signature']
  const proof = typeof signature === 'string' ? unseal('gemini', signature, 'call') : undefined
  return proof ? { proof } : {}
}

export function readImages(images: unknown): MediaPart[] {
  return asObjects(images).flatMap((image): MediaPart[] => {
    const url = asObject(image['image_url'])?.['url']
    try {
      return typeof url === 'string' ? [{ type: 'image', source: readUrl(url, 'images') }] : []
    } catch {
      throw badAnswer('The upstream sent a picture that is none.')
    }
  })
}

export function readCitations(annotations: unknown): Citation[] | undefined {
  const citations = asObjects(annotations).flatMap((annotation): Citation[] => {
    const found = asObject(annotation['url_citation'])
    if (!found || typeof found['url'] !== 'string') return []
    const { start_index: start, end_index: end } = found
    return [
      {
        url: found['url'],
        title: asText(found['title']),
        ...(typeof start === 'number' && { start }),
        ...(typeof end === 'number' && { end })
      }
    ]
  })
  return citations.length > 0 ? citations : undefined
}

export function readLogprobs(value: unknown): TokenLogprob[] | undefined {
  return readTokens(asObject(value)?.['content'])
}
