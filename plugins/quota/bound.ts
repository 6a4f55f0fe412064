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
import type { OfferedTools } from '../../core/protocols/hosted-tools.ts'
import { amountOf } from './terms.ts'
import type { Terms, Units } from './terms.ts'

/** What is known of a request before it is answered. */
export interface Bound {
  /** Tokens that each answer may have, and how many answers. */
  readonly output: number
  readonly count: number
  /**
   * What sets that output: the request itself; the model, which gives no more; or nothing that an upstream knows of,
   * unless it is told.
   */
  readonly limitedBy: 'request' | 'model' | 'nothing'
  readonly units: Units
  readonly amount: bigint
}

const nothing: Units = { prompt: 0, answer: 0, characters: 0, pictures: 0, call: 1, searches: 0, seconds: 0, tools: 0 }

/** Tokens of a second of sound: 32 at Gemini, 10 at OpenAI. And of the text that is heard in it. */
const heardTokens = 32
const writtenTokens = 25
/** Tokens of sound that one character becomes: 0.4 seconds of 20 tokens each. */
const spokenTokens = 8

/** What requests are held with. */
export interface BoundSetting {
  /** How many tokens go in. */
  readonly estimate: 'worst' | 'typical'
  /** Tokens of an answer that neither the request nor the model limits. */
  readonly defaultOutput: number
  /** Tokens of input of a model that does not say its context, where a request brings what nobody can see in it. */
  readonly defaultContext: number
  /** Calls of hosted tools, for each limit that a request leaves open. */
  readonly toolCalls: number
}

/**
 * The bound of one request.
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
  // What nobody can limit, as the tokens of a picture, is no matter of how much the model says.
  const output = metering.outputLimits.length === 0 ? (asked ?? 0) : limited
  const predicted = metering.prediction === undefined ? 0 : body.fields.size(metering.prediction)
  const characters = metering.characters === undefined ? 0 : (body.fields.string(metering.characters)?.length ?? 0)
  const sound = soundOf(body, metering)?.second ?? 0
  const search = searchOf(body, metering)
  const calls = tools === undefined ? 0 : tools.calls + tools.open * setting.toolCalls
  // What a tool finds is read with all the rest, once more for each call.
  const read = calls > 0 && setting.estimate === 'worst' ? (calls + 1) * (contextWindow ?? setting.defaultContext) : 0
  const context = (contextWindow ?? Infinity) * promptsOf(body, metering)
  const units: Units = {
    ...nothing,
    prompt: Math.max(search ? prompt + search.again : Math.min(prompt + sound * heardTokens, context), read),
    answer: (output + predicted) * count + characters * spokenTokens + sound * writtenTokens,
    characters,
    pictures: metering.pictures ? count : 0,
    searches: search?.units ?? 0,
    tools: calls,
    seconds: sound > 0 ? sound : secondsAsked(body, metering) * count
  }
  const limitedBy = asked !== undefined ? 'request' : known === undefined ? 'nothing' : 'model'
  // What is sold by the second alone counts no tokens.
  const counted = metering.seconds ? { ...units, prompt: 0, answer: 0 } : units
  return { output, count, limitedBy, units: counted, amount: amountOf(terms, counted) }
}

/** The bound of one response of a session. `read`: how much it may read; `maxOutput`: what the client limits it to. */
export function turnBound(terms: Terms, read: number, maxOutput: number | undefined, defaultOutput: number): Bound {
  const { contextWindow = Infinity, maxOutputTokens = Infinity } = terms
  const limit = maxOutput ?? (maxOutputTokens === Infinity ? defaultOutput : maxOutputTokens)
  const output = Math.min(limit, maxOutputTokens)
  const units: Units = { ...nothing, prompt: Math.min(read, contextWindow), answer: output }
  return { output, count: 1, limitedBy: 'request', units, amount: amountOf(terms, units) }
}

/**
 * As much of a bound as `left` pays for, at least so many tokens of each answer; the bound itself when that is all of
 * it, or when not even those are left for. All of `left` is held then, so that nobody is let in on what lies between
 * two tokens.
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
