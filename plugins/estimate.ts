// How many tokens a request may take, told from its body's size and its limits without parsing or counting it.
import { GatewayError } from '../core/contract/contract.ts'
import type { RequestBody } from '../core/bodies/body.ts'

/** Fields by which clients of the various protocols limit the output; the first is for clients that give none. */
export const limitFields = ['max_completion_tokens', 'max_tokens', 'max_output_tokens'] as const

/** Largest limit taken seriously, and the most answers to one request. */
const largestLimit = 2 ** 31 - 1
const mostAnswers = 128

/**
 * Tokens of a body. `worst` is a bound that no tokenizer exceeds: one token a byte. `typical` is three bytes a token,
 * where English text has four and JSON, code and Chinese have two to three.
 */
export function inputTokens(body: RequestBody, estimate: 'worst' | 'typical'): number {
  const { length } = body.bytes
  return estimate === 'worst' ? length : Math.ceil(length / 3)
}

/**
 * The client's own limit of the output tokens of one answer: the largest when it gives several, as upstreams differ in
 * which they heed; undefined when it gives none.
 * @throws GatewayError `invalid_field` for what is no limit
 */
export function outputLimit(body: RequestBody): number | undefined {
  let largest: number | undefined
  for (const field of limitFields) {
    const limit = wholeNumber(body, field, largestLimit)
    if (limit !== undefined && (largest === undefined || limit > largest)) largest = limit
  }
  return largest
}

/**
 * How many answers are asked for.
 * @throws GatewayError `invalid_field` when `n` is no such number
 */
export function answers(body: RequestBody): number {
  return wholeNumber(body, 'n', mostAnswers) ?? 1
}

function wholeNumber({ fields, lens }: RequestBody, field: string, most: number): number | undefined {
  if (!fields.has(field)) return undefined
  const value = fields.number(field)
  if (value !== undefined && Number.isInteger(value) && value >= 1 && value <= most) return value
  const written = lens.slice(field)!.toString('utf8', 0, 40)
  if (written === 'null') return undefined
  throw new GatewayError('invalid_field', `The field \`${field}\` must be a whole number from 1 to ${most}, not ${written}.`, { param: field })
}
