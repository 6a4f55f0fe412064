// How many tokens a request may take, told from its body's size and its limits without parsing or counting it.
import { elementsOf, GatewayError, numberOrDigits } from '../core/contract/contract.ts'
import type { Exchange } from '../core/contract/contract.ts'
import type { RequestBody } from '../core/bodies/body.ts'
import type { Metering } from '../core/contract/operation.ts'
import type { OfferedTools } from '../core/protocols/hosted-tools.ts'
import { recalledInput, slot } from '../core/contract/slots.ts'
import { mediaTokens, promptOf } from './prompt.ts'
import type { Prompt } from './prompt.ts'
import { unseenIn } from './unseen.ts'

/** Largest limit taken seriously, and the most answers to one request. */
const largestLimit = 2 ** 31 - 1
const mostAnswers = 128
/** The longest that anybody makes. */
const mostSeconds = 3600
/** Tokens of a picture, however large, of the model that counts most for one (gpt-4o-mini in high detail: 48,169). */
const largestPicture = 50_000
/** A body that is too small for pictures is not looked into before it is sent. */
const smallBytes = 16 * 1024

/** Input tokens that are held for a request: no estimate of what it took is larger. Filled by `quota`. */
export const heldInput = slot('quota/held-input').of<number>()

/** Hosted tools that a request offers, where it offers some. Filled by `quota`. */
export const offeredTools = slot('quota/offered-tools').of<OfferedTools>()

/**
 * A bound of the tokens that go in, of a body and of what it goes on with, which no tokenizer exceeds: one token a
 * byte, and a fixed number for a picture. What brings more than anybody sees in it may take all that the model reads,
 * `context`.
 */
export function mostInput(exchange: Exchange, metering: Metering, context: number): number {
  const { body } = exchange
  const { form } = body
  const recalled = exchange.find(recalledInput)
  const bytes = body.bytes.length + (recalled?.bytes ?? 0)
  if (form) return bytes + (metering.pictures ? form.files.length * largestPicture : 0)
  if (bytes >= context) return bytes
  const { pictures, endless } = unseenIn(body, recalled !== undefined)
  return endless ? Math.max(bytes, context) : bytes + Math.min(pictures * largestPicture, context)
}

/**
 * A guess at them: three bytes of text a token, where English text has four and JSON, code and Chinese have two to
 * three, and a fixed count for anything that is no text.
 */
export function typicalInput(exchange: Exchange): number {
  const { body } = exchange
  const { length } = body.bytes
  return (
    (exchange.find(recalledInput)?.tokens ?? 0) +
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

/** Documents of a search unit, and bytes that are surely not two of them (500 tokens with what is searched for). */
const documentsOfSearch = 100
const bytesOfDocument = 250

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
 * which they heed; undefined when it gives none. Where nobody can limit it, the operation's own; 0 where there is no
 * output in tokens.
 * @throws GatewayError `invalid_field` for what is no limit
 */
export function outputLimit(body: RequestBody, metering: Metering): number | undefined {
  const { outputLimits, mostOutput = 0, leastOutput } = metering
  return outputLimits.length === 0 ? mostOutput : largestOf(body, outputLimits, largestLimit, leastOutput)
}

/**
 * How many answers are asked for, to each of its prompts where it may bring several.
 * @throws GatewayError `invalid_field` for what is no such number
 */
export function answers(body: RequestBody, metering: Metering): number {
  const { counts } = metering
  const each = counts === undefined ? 1 : (largestOf(body, counts, mostAnswers) ?? 1)
  return each * promptsOf(body, metering)
}

/** How many prompts it brings: a list of numbers is one, of tokens. */
export function promptsOf({ lens }: RequestBody, { prompts }: Metering): number {
  const several = prompts === undefined ? undefined : elementsOf(lens, prompts)
  return several?.first === 'other' ? Math.max(1, several.count) : 1
}

/** What searching documents comes to: units, and bytes that are read again with every document. */
export function searchOf(
  { lens, bytes }: RequestBody,
  { searched }: Metering
): { units: number; again: number } | undefined {
  if (!searched) return undefined
  const documents = elementsOf(lens, searched.documents)?.count ?? 1
  const units = Math.ceil((documents + bytes.length / bytesOfDocument) / documentsOfSearch)
  return { units, again: Math.max(0, documents - 1) * lens.size(searched.query) }
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

function largestOf(body: RequestBody, fields: readonly string[], most: number, least = 1): number | undefined {
  let largest: number | undefined
  for (const field of fields) {
    const number = wholeNumber(body, field, most, least)
    if (number !== undefined && (largest === undefined || number > largest)) largest = number
  }
  return largest
}

function wholeNumber({ fields, lens }: RequestBody, field: string, most: number, least: number): number | undefined {
  const dot = field.indexOf('.')
  const outer = dot === -1 ? field : field.slice(0, dot)
  if (!fields.has(outer)) return undefined
  const inner = dot === -1 ? undefined : field.slice(dot + 1)
  const inside = inner === undefined ? lens : lensInside(lens, outer)
  const member = inner ?? outer
  if (inner !== undefined && !inside?.has(inner)) return undefined
  const value = inner === undefined ? fields.number(outer) : numberOrDigits(inside!, inner)
  if (value !== undefined && Number.isInteger(value) && value >= least && value <= most) return value
  const written = inside!.slice(member)!.toString('utf8', 0, 40)
  if (written === 'null') return undefined
  throw new GatewayError(
    'invalid_field',
    `The field \`${field}\` must be a whole number from ${least} to ${most}, not ${written}.`,
    { param: field }
  )
}

/**
 * What is inside of a member, `generationConfig`, in which upstreams read the digits of a number, too
 * (https://protobuf.dev/programming-guides/json/): nothing of it is parsed, however large its schemas are.
 * @throws GatewayError `invalid_field` for a member that two could read differently
 */
function lensInside(lens: RequestBody['lens'], outer: string): RequestBody['lens'] | undefined {
  try {
    return lens.inside(outer)
  } catch (error) {
    throw new GatewayError('invalid_field', `The field \`${outer}\` cannot be read: ${(error as Error).message}.`, {
      param: outer
    })
  }
}
