// The most a request can cost: what is held of every budget before it goes upstream.
import { costOf, noUsage } from '../../core/contract.ts'
import type { Model } from '../../core/contract.ts'
import type { RequestBody } from '../../core/body.ts'
import type { Price } from '../../core/price.ts'
import type { PricedClass } from '../../core/usage.ts'
import { answers, inputTokens, outputLimit } from '../estimate.ts'

/** A price with nothing in it: its charges are journalled like any other, with the amount 0. */
const free: Price = { version: 'free', perMillion: {} }

const inputClasses = ['input', 'cached_input', 'cache_write', 'audio_input', 'image_input'] as const
const outputClasses = ['output', 'audio_output', 'image_output'] as const

/** What a model costs at most, worked out once per generation. */
export interface Terms {
  price: Price
  /** The dearest class that a token of the input, or of the output, can turn out to be. */
  input: PricedClass
  output: PricedClass
  contextWindow: number
  maxOutputTokens: number
}

/** What is known of a request before it is answered. */
export interface Bound {
  input: number
  /** Of each answer, and how many answers. */
  output: number
  count: number
  amount: bigint
}

export function termsOf({ price = free, contextWindow = Infinity, maxOutputTokens = Infinity }: Model): Terms {
  return { price, input: dearest(price, inputClasses), output: dearest(price, outputClasses), contextWindow, maxOutputTokens }
}

/**
 * The bound of one request. `defaultOutput` stands in for a limit that the client did not give.
 * @throws GatewayError `invalid_field` when a limit in the body is none
 */
export function boundOf(body: RequestBody, terms: Terms, estimate: 'worst' | 'typical', defaultOutput: number): Bound {
  const count = answers(body)
  const input = Math.min(inputTokens(body, estimate), terms.contextWindow)
  const output = Math.min(outputLimit(body) ?? defaultOutput, terms.maxOutputTokens)
  return { input, output, count, amount: amountOf(terms, input, output, count) }
}

/**
 * As much of a bound as `left` pays for, at least one token of output; the bound itself when that is all of it, or when
 * not even one is left for. All of `left` is held then, so that nobody is let in on what lies between two tokens.
 */
export function within(left: bigint | undefined, bound: Bound, terms: Terms): Bound {
  if (left === undefined || left >= bound.amount) return bound
  const { input, count } = bound
  let enough = 0
  let tooMuch = bound.output
  while (tooMuch - enough > 1) {
    const middle = Math.floor((enough + tooMuch) / 2)
    if (amountOf(terms, input, middle, count) <= left) enough = middle
    else tooMuch = middle
  }
  return enough === 0 ? bound : { input, output: enough, count, amount: left }
}

/** The same arithmetic as the settlement's, so that what stays within the bound never costs more than it. */
function amountOf(terms: Terms, input: number, output: number, count: number): bigint {
  return costOf({ ...noUsage, [terms.input]: input, [terms.output]: output * count, request: 1, image: count }, terms.price)
}

function dearest(price: Price, classes: readonly PricedClass[]): PricedClass {
  const rate = (name: PricedClass): bigint => price.perMillion[name] ?? 0n
  return classes.reduce((best, name) => (rate(name) > rate(best) ? name : best))
}
