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
  output: number
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
  const output = Math.min(outputLimit(body) ?? defaultOutput, terms.maxOutputTokens) * count
  // The same arithmetic as the settlement's, so that what stays within the bound never costs more than it.
  const amount = costOf({ ...noUsage, [terms.input]: input, [terms.output]: output, request: 1, image: count }, terms.price)
  return { input, output, amount }
}

function dearest(price: Price, classes: readonly PricedClass[]): PricedClass {
  const rate = (name: PricedClass): bigint => price.perMillion[name] ?? 0n
  return classes.reduce((best, name) => (rate(name) > rate(best) ? name : best))
}
