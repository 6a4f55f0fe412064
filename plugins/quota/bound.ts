// The most a request can cost: what is held of every budget before it goes upstream.
import { promptClasses, rounded } from '../../core/contract/contract.ts'
import type { Exchange, Model } from '../../core/contract/contract.ts'
import type { RequestBody } from '../../core/bodies/body.ts'
import type { Price, Rates } from '../../core/money/price.ts'
import type { Metering } from '../../core/contract/operation.ts'
import type { PricedClass } from '../../core/money/usage.ts'
import { answers, inputTokens, outputLimit, secondsAsked, soundOf } from '../estimate.ts'

const outputClasses = ['output', 'audio_output', 'image_output'] as const

/** Prompts of more than `above` and at most `upTo` tokens, which have one price. */
interface Bracket {
  above: number
  upTo: number
  /** Of a million tokens of the input, or of the output, in the dearest class that they can turn out to be. */
  input: bigint
  output: bigint
  /** Of a million calls, and of a million pictures. */
  request: bigint
  image: bigint
  /** Of a million characters, and of a million seconds. */
  character: bigint
  second: bigint
}

/** What a model costs at most while one of its prices is in force, worked out once per generation. */
export interface Terms {
  /** Unix milliseconds; in force until the next terms are. */
  from: number
  price: Price
  /** Shortest prompts first; the first takes the empty one too. */
  brackets: readonly Bracket[]
  contextWindow: number
  maxOutputTokens: number
  /** In their place for pictures of some sizes and qualities; what is undefined fits all. */
  pictures: readonly { size: string | undefined; quality: string | undefined; terms: Terms }[]
}

/** What is known of a request before it is answered. */
export interface Bound {
  input: number
  /** Of each answer, and how many answers. */
  output: number
  count: number
  /** To be spoken. */
  characters: number
  /** To be made, of each, or of sound that is brought. */
  seconds: number
  amount: bigint
}

/** In the order of their dates. */
export function termsOf({ prices, contextWindow = Infinity, maxOutputTokens = Infinity }: Model): Terms[] {
  return prices.map(({ from, price }) => {
    const terms = (own: Price): Terms => ({
      from,
      price: own,
      brackets: bracketsOf(own),
      contextWindow,
      maxOutputTokens,
      pictures: []
    })
    const pictures = price.pictures?.map(({ size, quality, price: own }) => ({ size, quality, terms: terms(own) }))
    return { ...terms(price), pictures: pictures ?? [] }
  })
}

/** The terms for the pictures that a request asks for: the first that fit. */
export function termsFor({ fields }: RequestBody, terms: Terms): Terms {
  if (terms.pictures.length === 0) return terms
  const [asked, quality] = [fields.string('size') ?? 'auto', fields.string('quality') ?? 'auto']
  return (
    terms.pictures.find((picture) => (picture.size ?? asked) === asked && (picture.quality ?? quality) === quality)
      ?.terms ?? terms
  )
}

/**
 * The bound of one request. `defaultOutput` stands in for a limit that the client did not give.
 * @throws GatewayError `invalid_field` when a limit in the body is none
 */
export function boundOf(
  exchange: Exchange,
  terms: Terms,
  metering: Metering,
  estimate: 'worst' | 'typical',
  defaultOutput: number
): Bound {
  const { body } = exchange
  const count = answers(body, metering)
  const characters = metering.characters === undefined ? 0 : (body.fields.string(metering.characters)?.length ?? 0)
  const input = Math.min(inputTokens(exchange, estimate), terms.contextWindow)
  const output = Math.min(outputLimit(body, metering) ?? defaultOutput, terms.maxOutputTokens)
  const seconds = soundOf(body, metering)?.second ?? secondsAsked(body, metering)
  return {
    input,
    output,
    count,
    characters,
    seconds,
    amount: amountOf(terms, { input, output, count, characters, seconds })
  }
}

/**
 * The bound of one response of a session, of which is known how much it may read. `maxOutput`: what the client, or else
 * the operator, limits it to.
 */
export function turnBound(terms: Terms, read: number, maxOutput: number): Bound {
  const input = Math.min(read, terms.contextWindow)
  const output = Math.min(maxOutput, terms.maxOutputTokens)
  return {
    input,
    output,
    count: 1,
    characters: 0,
    seconds: 0,
    amount: amountOf(terms, { input, output, count: 1, characters: 0, seconds: 0 })
  }
}

/**
 * As much of a bound as `left` pays for, at least one token of output; the bound itself when that is all of it, or when
 * not even one is left for. All of `left` is held then, so that nobody is let in on what lies between two tokens.
 */
export function within(left: bigint | undefined, bound: Bound, terms: Terms): Bound {
  if (left === undefined || left >= bound.amount) return bound
  const { input, count, characters, seconds } = bound
  let enough = 0
  let tooMuch = bound.output
  while (tooMuch - enough > 1) {
    const middle = Math.floor((enough + tooMuch) / 2)
    if (amountOf(terms, { input, output: middle, count, characters, seconds }) <= left) enough = middle
    else tooMuch = middle
  }
  return enough === 0 ? bound : { ...bound, output: enough, amount: left }
}

/**
 * The dearest that a prompt of at most `input` tokens can come to: a shorter one may fall into a bracket that costs
 * more. The same arithmetic as the settlement's, so that what stays within the bound never costs more than it.
 */
function amountOf({ brackets }: Terms, { input, output, count, characters, seconds }: Omit<Bound, 'amount'>): bigint {
  const answered = BigInt(output * count)
  const images = BigInt(count)
  let most = 0n
  for (const bracket of brackets) {
    if (input <= bracket.above) break
    const pieces =
      bracket.request +
      images * bracket.image +
      BigInt(characters) * bracket.character +
      BigInt(seconds * count) * bracket.second
    const amount = rounded(BigInt(Math.min(input, bracket.upTo)) * bracket.input + answered * bracket.output + pieces)
    if (amount > most) most = amount
  }
  return most
}

function bracketsOf({ perMillion, tiers = [] }: Price): Bracket[] {
  const steps = [{ above: -1, perMillion }, ...tiers]
  return steps.map(({ above, perMillion: rates }, index) => ({
    above,
    upTo: steps[index + 1]?.above ?? Infinity,
    input: dearest(rates, promptClasses),
    output: dearest(rates, outputClasses),
    request: rates.request ?? 0n,
    image: rates.image ?? 0n,
    character: rates.character ?? 0n,
    second: rates.second ?? 0n
  }))
}

function dearest(rates: Rates, classes: readonly PricedClass[]): bigint {
  return classes.reduce((most, name) => ((rates[name] ?? 0n) > most ? rates[name]! : most), 0n)
}
