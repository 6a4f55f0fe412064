// The most a request can cost: what is held of every budget before it goes upstream.
import type { Exchange } from '../../core/contract/contract.ts'
import type { Metering } from '../../core/contract/operation.ts'
import {
  answers,
  mostInput,
  outputLimit,
  promptsOf,
  searchOf,
  secondsAsked,
  soundOf,
  typicalInput
} from '../estimate.ts'
import type { OfferedTools } from '../../core/protocols/counting/hosted-tools.ts'
import { amountOf } from './terms.ts'
import type { Terms, Units } from './terms.ts'

/** What is known of a request before it is answered. */
export interface Bound {
  /** The tokens that each answer may have, and the number of answers. */
  readonly output: number
  readonly count: number
  /**
   * What limits the output: the request itself, the most that the model gives, or nothing. In the last case the
   * upstream knows of no limit unless the gateway adds one.
   */
  readonly limitedBy: 'request' | 'model' | 'nothing'
  readonly units: Units
  readonly amount: bigint
}

const nothing: Units = { prompt: 0, answer: 0, characters: 0, pictures: 0, call: 1, searches: 0, seconds: 0, tools: 0 }

/** The most tokens of a second of sound (32 at Gemini, 10 at OpenAI), and of the text that is heard in it. */
const heardTokens = 32
const writtenTokens = 25
/** Tokens of sound that one character becomes: 0.4 seconds of 20 tokens each. */
const spokenTokens = 8

/** The operator's settings for holds. */
export interface BoundSetting {
  /** Whether the prompt is counted at its worst, which no request exceeds, or as it typically is. */
  readonly estimate: 'worst' | 'typical'
  /** The tokens to hold for an answer that neither the request nor the model limits. */
  readonly defaultOutput: number
  /**
   * The input tokens to hold where a request has content of unknown length and its model has no `context_window`.
   */
  readonly defaultContext: number
  /** The calls of hosted tools to hold for each limit that a request does not set. */
  readonly toolCalls: number
}

/**
 * Returns the bound of one request.
 * @throws GatewayError `invalid_field` when a limit in the body is none
 */
export function boundOf(
  exchange: Exchange,
  terms: Terms,
  metering: Metering,
  setting: BoundSetting,
  tools?: OfferedTools
): Bound {
  const { body } = exchange
  const { contextWindow, maxOutputTokens = Infinity } = terms
  const count = answers(body, metering)
  const prompt =
    setting.estimate === 'typical'
      ? typicalInput(exchange)
      : mostInput(exchange, metering, contextWindow ?? setting.defaultContext)
  const asked = outputLimit(body, metering)
  const known = maxOutputTokens === Infinity ? undefined : maxOutputTokens
  const limited = Math.min(asked ?? known ?? setting.defaultOutput, maxOutputTokens)
  // Some operations have output that no member limits, such as the tokens of a picture. The limit of the model, which
  // is for text, does not apply to them.
  const output = metering.outputLimits.length === 0 ? (asked ?? 0) : limited
  const predicted = metering.prediction === undefined ? 0 : body.fields.size(metering.prediction)
  const characters = metering.characters === undefined ? 0 : (body.fields.string(metering.characters)?.length ?? 0)
  const sound = soundOf(body, metering)?.second ?? 0
  const search = searchOf(body, metering)
  const calls = tools === undefined ? 0 : tools.calls + tools.open * setting.toolCalls
  // The model reads the whole conversation again after each call of a tool, with what the tool found.
  const read = calls > 0 && setting.estimate === 'worst' ? (calls + 1) * (contextWindow ?? setting.defaultContext) : 0
  const context = (contextWindow ?? Infinity) * promptsOf(body, metering)
  const units: Units = {
    call: 1,
    prompt: Math.max(search ? prompt + search.again : Math.min(prompt + sound * heardTokens, context), read),
    answer: (output + predicted) * count + characters * spokenTokens + sound * writtenTokens,
    characters,
    pictures: metering.pictures ? count : 0,
    searches: search?.units ?? 0,
    tools: calls,
    seconds: sound > 0 ? sound : secondsAsked(body, metering) * count
  }
  const limitedBy = asked !== undefined ? 'request' : known === undefined ? 'nothing' : 'model'
  // An operation that is sold by the second counts no tokens.
  const counted = metering.seconds ? { ...units, prompt: 0, answer: 0 } : units
  return { output, count, limitedBy, units: counted, amount: amountOf(terms, counted) }
}

/** Returns the bound of one response of a session. `read`: tokens that it may read; `maxOutput`: the client's limit. */
export function turnBound(terms: Terms, read: number, maxOutput: number | undefined, defaultOutput: number): Bound {
  const { contextWindow = Infinity, maxOutputTokens = Infinity } = terms
  const limit = maxOutput ?? (maxOutputTokens === Infinity ? defaultOutput : maxOutputTokens)
  const output = Math.min(limit, maxOutputTokens)
  const units: Units = { ...nothing, prompt: Math.min(read, contextWindow), answer: output }
  return { output, count: 1, limitedBy: 'request', units, amount: amountOf(terms, units) }
}

/**
 * Shortens the answers of a bound until `left` pays for it. Returns the bound itself when `left` pays for all of it, or
 * when it does not pay for `least` tokens of each answer. A shortened bound holds all of `left`, because a rest that is
 * smaller than the price of one token would otherwise let another request in.
 */
export function within(left: bigint | undefined, bound: Bound, terms: Terms, least: number): Bound {
  if (left === undefined || left >= bound.amount) return bound
  const { count, output } = bound
  const others = bound.units.answer - output * count
  const unitsAt = (each: number): Units => ({ ...bound.units, answer: each * count + others })
  let enough = 0
  let tooMuch = output
  while (tooMuch - enough > 1) {
    const middle = Math.floor((enough + tooMuch) / 2)
    if (amountOf(terms, unitsAt(middle)) <= left) enough = middle
    else tooMuch = middle
  }
  return enough < least ? bound : { ...bound, output: enough, units: unitsAt(enough), amount: left }
}
