// Estimates the usage of a request from the size of its body and its limits, without counting tokens.
import { elementsOf, GatewayError, inTurns, limitedTokens, numberOrDigits } from '../core/contract/contract.ts'
import type { Awaitable, Exchange, Turn } from '../core/contract/contract.ts'
import type { RequestBody } from '../core/bodies/body.ts'
import type { Metering } from '../core/contract/operation.ts'
import type { Offer, OfferedTools } from '../core/protocols/counting/hosted-tools.ts'
import type { ToolSearch } from '../core/protocols/counting/tool-list.ts'
import { recalledInput, slot } from '../core/contract/slots.ts'
import { mediaTokens, promptOf } from './prompt.ts'
import type { Prompt } from './prompt.ts'
import { unseenIn } from './unseen.ts'

/** The largest limit that is accepted, and the most answers to one request. */
const largestLimit = 2 ** 31 - 1
const mostAnswers = 128
/** The most seconds that a request may ask for. */
const mostSeconds = 3600
/** The tokens of the largest picture with the model that counts most for one (gpt-4o-mini in high detail: 48,169). */
const largestPicture = 50_000
/** Bodies up to this size are not searched for pictures before they are sent. */
const smallBytes = 16 * 1024
/** Lists of tools up to this size are searched at once. */
const smallList = 64 * 1024

/** The input tokens in the hold of a request. No later estimate of its input may be larger. Filled by `quota`. */
export const heldInput = slot('quota/held-input').of<number>()

/** The hosted tools that a request offers, if any. Filled by `quota`. */
export const offeredTools = slot('quota/offered-tools').of<OfferedTools>()

/**
 * The most input tokens that the body and the recalled input of a request can have. It assumes one token per byte,
 * which no tokenizer exceeds, and a fixed number per picture. A request with content of unknown length may use all that
 * the model reads, `context`.
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
 * An estimate of the input tokens: three bytes of text per token (English text has four; JSON, code and Chinese have
 * two to three), and a fixed number for anything that is not text.
 */
export function typicalInput(exchange: Exchange): number {
  const { body } = exchange
  const { length } = body.bytes
  return (
    (exchange.find(recalledInput)?.tokens ?? 0) +
    (length <= smallBytes ? Math.ceil(length / 3) : tokensOf(promptOf(body), 3, length))
  )
}

/**
 * The tokens that a request is expected to take of a limit of tokens; the count is corrected at the end of the answer.
 * It is never 0, which would mean that the request takes no tokens. `expectedOutput`: of an answer without a limit.
 */
export function expectedTokens(exchange: Exchange, expectedOutput: number): number {
  const { body, request } = exchange
  const metering = request.operation.metering!
  return (
    typicalInput(exchange) + Math.min(outputLimit(body, metering) ?? Infinity, expectedOutput) * answers(body, metering)
  )
}

/**
 * What a turn of a session that is over counts with in a limit of tokens. When an upstream had it and its usage is
 * unknown, that is what it may read.
 */
export function tokensOfTurn({ usage: metered, begun, abandoned, input }: Turn): number {
  if (metered) return limitedTokens(metered.usage)
  return begun || abandoned ? input.typical : 0
}

/**
 * An estimate of the input tokens of a prompt that nobody counted. It counts what the prompt says and ignores the rest
 * of the body, and is never more than `most`.
 */
export function estimatedInput(exchange: Exchange, bytesPerToken: number, most: number): number {
  return Math.min(
    (exchange.find(recalledInput)?.tokens ?? 0) + tokensOf(promptOf(exchange.body), bytesPerToken, most),
    most
  )
}

function tokensOf({ text, media }: Prompt, bytesPerToken: number, most: number): number {
  return Math.max(1, Math.min(Math.ceil(text / bytesPerToken) + media * mediaTokens, most))
}

/**
 * The documents of a search unit, and a number of bytes that cannot be two of them (a document has 500 tokens,
 * including the query).
 */
const documentsOfSearch = 100
const bytesOfDocument = 250

/** Bytes per second of sound in an unknown format: 128 kbit/s. */
const soundBytes = 16_000

/** The length of sound, in seconds rounded up. */
export interface SoundLength {
  second: number
  /** True when it was measured by frames, and not guessed from the size. */
  measured: boolean
}

/** The length of the sound in a request; undefined when there is none. */
export function soundOf({ form }: RequestBody, { sound }: Metering): SoundLength | undefined {
  if (!sound || !form || form.files.length === 0) return undefined
  const seconds = form.files.reduce((sum, file) => sum + (file.seconds ?? file.size / soundBytes), 0)
  // Less than a millisecond above a full second is a rounding error.
  return {
    second: Math.ceil(Math.round(seconds * 1000) / 1000),
    measured: form.files.every((file) => file.seconds !== undefined)
  }
}

/**
 * The client's limit of the output tokens of one answer. It is the largest when there are several, because upstreams
 * differ in which one they obey; undefined without one. For an operation whose output cannot be limited, it is the
 * operation's own limit, which is 0 when there is no output in tokens.
 * @throws GatewayError `invalid_field` for an invalid limit
 */
export function outputLimit(body: RequestBody, metering: Metering): number | undefined {
  const { outputLimits, mostOutput = 0, leastOutput } = metering
  return outputLimits.length === 0 ? mostOutput : largestOf(body, outputLimits, largestLimit, leastOutput)
}

/**
 * How many answers are asked for, over all prompts of the request.
 * @throws GatewayError `invalid_field` for an invalid number
 */
export function answers(body: RequestBody, metering: Metering): number {
  const { counts } = metering
  const each = counts === undefined ? 1 : (largestOf(body, counts, mostAnswers) ?? 1)
  return each * promptsOf(body, metering)
}

/**
 * The hosted tools that a request offers, with the client's own limit of their calls; undefined when it offers none. A
 * promise when its list of tools is long.
 * @throws GatewayError `invalid_field` for an invalid limit
 */
export function toolsOf(body: RequestBody, { tools }: Metering): Awaitable<OfferedTools | undefined> {
  const search = tools?.offered(body.lens)
  if (!search) return undefined
  const limited = ({ tools: offered }: Offer): OfferedTools | undefined => {
    if (!offered || tools!.adds === undefined) return offered
    const calls = wholeNumber(body, tools!.adds, largestLimit, 0)
    return calls === undefined ? offered : { ...offered, calls, open: 0 }
  }
  const found = searched(search)
  return found instanceof Promise ? found.then(limited) : limited(found)
}

/** The result of a search: at once when the list is short, else in turns with other work. */
export function searched<T>(search: ToolSearch<T>): Awaitable<T> {
  return search.length <= smallList ? search.advance(Infinity)! : inTurns(search)
}

/** The number of prompts in a request. A list of numbers is one prompt, of tokens. */
export function promptsOf({ lens }: RequestBody, { prompts }: Metering): number {
  const several = prompts === undefined ? undefined : elementsOf(lens, prompts)
  return several?.first === 'other' ? Math.max(1, several.count) : 1
}

/** The cost of searching documents: the search units, and the bytes that are read again with each document. */
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
 * The seconds that a request asks for, as a number or as digits in a string.
 * @throws GatewayError `invalid_field` for an invalid number, or when two members differ
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
 * Looks into a member such as `generationConfig` without parsing it, however large its schemas are. Upstreams accept
 * the digits of a number in a string there too (https://protobuf.dev/programming-guides/json/).
 * @throws GatewayError `invalid_field` for a member that two readers could understand differently
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
