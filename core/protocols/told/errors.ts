// Recognizes errors in what upstreams send, whichever form they have, and reads them.
import { readAwsError } from './aws-errors.ts'
import { asObject } from '../object.ts'
import type { ErrorHeaders, UpstreamError } from '../protocol.ts'

/** Whether an event or body reports an error, in any form that vendors and gateways use. */
export function isError(body: unknown): boolean {
  if (Array.isArray(body)) return asObject(body[0])?.['error'] != null
  const fields = asObject(body)
  if (!fields) return false
  if (fields['error'] != null) return true
  const { choices, object, type, usage } = fields
  if (Array.isArray(choices)) return choices.some(isFailed)
  return object === 'error' || type === 'error' || (usage == null && readError(body).message !== '')
}

/** Whether a choice reports an error. */
export function isFailed(choice: unknown): boolean {
  const fields = asObject(choice)
  return fields?.['error'] != null || fields?.['finish_reason'] === 'error'
}

/** Reads an error. One vendor puts it into an array, and a choice may have its own. `headers`: as of the protocol. */
export function readError(body: unknown, headers?: ErrorHeaders): UpstreamError {
  const aws = readAwsError(body, headers)
  if (aws) {
    const { name, message, status } = aws
    return { message, type: undefined, code: isTooLong(message) ? tooLong : name, param: undefined, status }
  }
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

/** The code for a prompt that is too long for the model. Clients react by shortening it. */
export const tooLong = 'context_length_exceeded'

/**
 * Recognizes such errors by their message, as not every vendor has a code. Rate limits on tokens are worded
 * differently.
 */
function isTooLong(message: string): boolean {
  return /prompt is too long|maximum context length|exceeds? (?:the |your )?(?:model's )?context (?:limit|window|length)|input token count .*exceeds the maximum|^input is too long/i.test(
    message.slice(0, longestRead)
  )
}

const longestRead = 4096

/** The member that a validation error is about, from `{detail: [{loc: ["body", "top_k"], …}]}`. */
function placeOf(detail: unknown): string | undefined {
  const place = asObject(Array.isArray(detail) ? detail[0] : undefined)?.['loc']
  return Array.isArray(place) ? text(place.at(-1)) : undefined
}

/** Members that hold a vendor's message: `{error: "text"}`, `{detail: [{msg: …}]}`, `{errors: [{message: …}]}`. */
const spoken = ['message', 'detail', 'error', 'errors', 'msg', 'error_msg'] as const

/** The message in a value; undefined when there is none near its top. */
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
