// How many tokens a request may take, told from its body's size and its limits without parsing or counting it.
import { GatewayError, numberOrDigits } from '../core/contract/contract.ts'
import type { Exchange } from '../core/contract/contract.ts'
import type { RequestBody } from '../core/bodies/body.ts'
import type { Metering } from '../core/contract/operation.ts'
import { recalledInput, slot } from '../core/contract/slots.ts'
import { mediaTokens, promptOf } from './prompt.ts'
import type { Prompt } from './prompt.ts'

/** Largest limit taken seriously, and the most answers to one request. */
const largestLimit = 2 ** 31 - 1
const mostAnswers = 128
/** The longest that anybody makes. */
const mostSeconds = 3600
/** A body that is too small for pictures is not looked into before it is sent. */
const smallBytes = 16 * 1024

/** Input tokens that are held for a request: no estimate of what it took is larger. Filled by `quota`. */
export const heldInput = slot('quota/held-input').of<number>()

/**
 * Tokens that go in: of a body, and of what it goes on with. `worst` is a bound that no tokenizer exceeds: one token a
 * byte. `typical` is three bytes of its text a token, where English text has four and JSON, code and Chinese have two
 * to three, and a fixed count for anything that is no text.
 */
export function inputTokens(exchange: Exchange, estimate: 'worst' | 'typical'): number {
  const { body } = exchange
  const { length } = body.bytes
  const recalled = exchange.find(recalledInput)
  if (estimate === 'worst') return length + (recalled?.bytes ?? 0)
  return (
    (recalled?.tokens ?? 0) +
    (length <= smallBytes ? Math.ceil(length / 3) : tokensOf(promptOf(body, false), 3, length))
  )
}

/**
 * What a prompt may have taken that nobody has counted: what it says, whatever else stands in the body. Never more than
 * `most`.
 */
export function estimatedInput(exchange: Exchange, bytesPerToken: number, most: number): number {
  return Math.min(
    (exchange.find(recalledInput)?.tokens ?? 0) + tokensOf(promptOf(exchange.body, true), bytesPerToken, most),
    most
  )
}

function tokensOf({ text, media }: Prompt, bytesPerToken: number, most: number): number {
  return Math.max(1, Math.min(Math.ceil(text / bytesPerToken) + media * mediaTokens, most))
}

/** Bytes of a second of sound in a format that nobody knows: 128 kbit. */
const soundBytes = 16_000

/** How long sound is, in seconds begun. */
export interface SoundLength {
  second: number
  /** By its frames, not by its size. */
  measured: boolean
}

/** The sound that a request brings; undefined when it brings none. */
export function soundOf({ form }: RequestBody, { sound }: Metering): SoundLength | undefined {
  if (!sound || !form || form.files.length === 0) return undefined
  const seconds = form.files.reduce((sum, file) => sum + (file.seconds ?? file.size / soundBytes), 0)
  // What is less than a millisecond above a second is rounding.
  return {
    second: Math.ceil(Math.round(seconds * 1000) / 1000),
    measured: form.files.every((file) => file.seconds !== undefined)
  }
}

/**
 * The client's own limit of the output tokens of one answer: the largest when it gives several, as upstreams differ in
 * which they heed; undefined when it gives none, and 0 where there is no output in tokens.
 * @throws GatewayError `invalid_field` for what is no limit
 */
export function outputLimit(body: RequestBody, { outputLimits }: Metering): number | undefined {
  return outputLimits.length === 0 ? 0 : largestOf(body, outputLimits, largestLimit)
}

/**
 * How many answers are asked for.
 * @throws GatewayError `invalid_field` for what is no such number
 */
export function answers(body: RequestBody, { counts }: Metering): number {
  return counts === undefined ? 1 : (largestOf(body, counts, mostAnswers) ?? 1)
}

/**
 * Seconds that are asked for, in a number or its digits.
 * @throws GatewayError `invalid_field` when they are no such number, or two members differ
 */
export function secondsAsked({ fields }: RequestBody, { seconds }: Metering): number {
  let asked: number | undefined
  for (const member of seconds?.members ?? []) {
    const value = numberOrDigits(fields, member)
    if (value === undefined) continue
    if (!Number.isInteger(value) || value < 1 || value > mostSeconds) {
      throw new GatewayError(
        'invalid_field',
        `The field \`${member}\` must be a whole number of seconds from 1 to ${mostSeconds}.`,
        { param: member }
      )
    }
    if (asked !== undefined && asked !== value)
      throw new GatewayError(
        'invalid_field',
        `The field \`${member}\` says another number of seconds than another field does: give one.`,
        { param: member }
      )
    asked = value
  }
  return asked ?? seconds?.usual ?? 0
}

function largestOf(body: RequestBody, fields: readonly string[], most: number): number | undefined {
  let largest: number | undefined
  for (const field of fields) {
    const number = wholeNumber(body, field, most)
    if (number !== undefined && (largest === undefined || number > largest)) largest = number
  }
  return largest
}

function wholeNumber({ fields, lens }: RequestBody, field: string, most: number): number | undefined {
  const dot = field.indexOf('.')
  const outer = dot === -1 ? field : field.slice(0, dot)
  if (!fields.has(outer)) return undefined
  const inner = dot === -1 ? undefined : field.slice(dot + 1)
  const value = inner === undefined ? fields.number(outer) : memberOf(lens, outer, inner)
  if (value !== undefined && Number.isInteger(value) && value >= 1 && value <= most) return value
  if (inner !== undefined && value === undefined) return undefined
  const written = lens.slice(outer)!.toString('utf8', 0, 40)
  if (written === 'null') return undefined
  throw new GatewayError(
    'invalid_field',
    `The field \`${field}\` must be a whole number from 1 to ${most}, not ${written}.`,
    { param: field }
  )
}

/**
 * A number inside a member, `generationConfig.maxOutputTokens`: nothing else of it is read, however large its schemas
 * are.
 * @throws GatewayError `invalid_field` for a member that two could read differently
 */
function memberOf(lens: RequestBody['lens'], outer: string, inner: string): number | undefined {
  try {
    return lens.inside(outer)?.number(inner)
  } catch (error) {
    throw new GatewayError('invalid_field', `The field \`${outer}\` cannot be read: ${(error as Error).message}.`, {
      param: outer
    })
  }
}
