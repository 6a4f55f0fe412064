// Errors in what upstreams send, in whichever words they tell them: how they are recognised, and what they say.
import { asObject } from './object.ts'
import type { UpstreamError } from './protocol.ts'

/** An event or body tells of an error: whatever stands beside it, in whichever form gateways and vendors give it. */
export function isError(body: unknown): boolean {
  if (Array.isArray(body)) return asObject(body[0])?.['error'] != null
  const fields = asObject(body)
  if (!fields) return false
  if (fields['error'] != null) return true
  const { choices, object, type, usage } = fields
  if (Array.isArray(choices)) return choices.some(isFailed)
  return object === 'error' || type === 'error' || (usage == null && readError(body).message !== '')
}

/** A choice that the upstream gave up. */
export function isFailed(choice: unknown): boolean {
  const fields = asObject(choice)
  return fields?.['error'] != null || fields?.['finish_reason'] === 'error'
}

/** What the upstream said. One vendor family wraps its error in an array; a choice may have one of its own. */
export function readError(body: unknown): UpstreamError {
  const outer = Array.isArray(body) ? (body[0] as unknown) : body
  const fields = asObject(outer)
  const choices = fields?.['choices']
  const failed = Array.isArray(choices) ? asObject(choices.find(isFailed)) : undefined
  const error = fields?.['error'] ?? failed?.['error'] ?? outer
  const inner = asObject(error)
  const message = said(error) ?? said(outer) ?? ''
  const code = isTooLong(message) ? tooLong : text(inner?.['code'])
  return { message, type: text(inner?.['type']), code, param: text(inner?.['param']) ?? placeOf(fields?.['detail']) }
}

/** The code of a prompt that is longer than the model can take, by which clients know that they have to shorten it. */
export const tooLong = 'context_length_exceeded'

/** Not every vendor has a code for it. Limits of tokens a minute are told in other words. */
function isTooLong(message: string): boolean {
  return /prompt is too long|maximum context length|exceeds? (?:the |your )?(?:model's )?context (?:limit|window|length)|input token count .*exceeds the maximum/i.test(
    message.slice(0, longestRead)
  )
}

const longestRead = 4096

/** The member that a validation error is about: `{detail: [{loc: ["body", "top_k"], …}]}`. */
function placeOf(detail: unknown): string | undefined {
  const place = asObject(Array.isArray(detail) ? detail[0] : undefined)?.['loc']
  return Array.isArray(place) ? text(place.at(-1)) : undefined
}

/** Members that vendors put their words into: `{error: "text"}`, `{detail: [{msg: …}]}`, `{errors: [{message: …}]}`. */
const spoken = ['message', 'detail', 'error', 'errors', 'msg', 'error_msg'] as const

/** The words in a value; undefined when there are none near its top. */
function said(value: unknown, depth = 3): string | undefined {
  if (typeof value === 'string') return text(value)
  if (depth === 0) return undefined
  if (Array.isArray(value)) return said(value[0], depth - 1)
  const fields = asObject(value)
  if (!fields) return undefined
  for (const key of spoken) {
    const words = said(fields[key], depth - 1)
    if (words !== undefined) return words
  }
  return undefined
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : typeof value === 'number' ? String(value) : undefined
}
