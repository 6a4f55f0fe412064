// The most that units of a model can cost while one of its prices is in force, computed once per generation.
import {
  counters,
  GatewayError,
  inForce,
  isFree,
  priceClasses,
  pricedClasses,
  rounded
} from '../../core/contract/contract.ts'
import type { Model, QuoteLine } from '../../core/contract/contract.ts'
import type { RequestBody } from '../../core/bodies/body.ts'
import type { Metering } from '../../core/contract/operation.ts'
import type { Counter } from '../../core/money/classes.ts'
import type { Price, Rates } from '../../core/money/price.ts'

/** The most units that a request can come to, by counter. None is negative. */
export type Units = Readonly<Record<Counter, number>>

/** The prices for prompts of more than `above` and at most `upTo` tokens. */
interface Bracket {
  readonly above: number
  readonly upTo: number
  /**
   * By counter: the price of a million units in the dearest class that they can be counted in. Counters that cost
   * nothing are left out.
   */
  readonly rates: readonly { readonly counter: Counter; readonly rate: bigint }[]
}

/** A price, with what is needed to compute the most that a request can cost. */
export interface Terms {
  /** Unix milliseconds; in force until the next terms are. */
  readonly from: number
  readonly price: Price
  /** What the upstreams charge the operator, by the name of the channel. */
  readonly costs: ReadonlyMap<string, Price> | undefined
  /** The brackets, those of the shortest prompts first. The first one includes the empty prompt. */
  readonly brackets: readonly Bracket[]
  /** In tokens; undefined where the file does not say. */
  readonly contextWindow: number | undefined
  readonly maxOutputTokens: number | undefined
  /** The terms that replace these for requests of a service tier, by its name. */
  readonly services: ReadonlyMap<string, Terms>
  /** The service tiers that may be asked for; undefined means all that have a price. */
  readonly allowed: readonly string[] | undefined
  /** The terms that replace these for pictures of a size and quality. An undefined one matches all. */
  readonly pictures: readonly { size: string | undefined; quality: string | undefined; terms: Terms }[]
}

/** Returns the terms of a model, in the order of their dates. A cost that changes makes new terms, as a price does. */
export function termsOf({ prices, costs, contextWindow, maxOutputTokens, tiers: allowed }: Model): Terms[] {
  const dates = new Set([...prices, ...[...(costs?.values() ?? [])].flat()].map(({ from }) => from))
  return [...dates]
    .sort((a, b) => (a < b ? -1 : 1))
    .flatMap((from) => {
      const price = inForce(prices, from)?.price
      if (!price) return []
      const owed = [...(costs ?? [])].flatMap(([channel, periods]) => {
        const cost = inForce(periods, from)?.price
        return cost ? [[channel, cost] as const] : []
      })
      const terms = (own: Price): Terms => ({
        from,
        price: own,
        costs: owed.length > 0 ? new Map(owed) : undefined,
        brackets: bracketsOf(own),
        contextWindow,
        maxOutputTokens,
        services: new Map(),
        allowed,
        pictures: []
      })
      const pictures = price.pictures?.map(({ size, quality, price: own }) => ({ size, quality, terms: terms(own) }))
      const services = new Map([...(price.services ?? [])].map(([name, own]) => [name, terms(own)]))
      return [{ ...terms(price), pictures: pictures ?? [], services }]
    })
}

/** The name of the service tier that a request gets when it asks for none. */
const usualTier = 'default'

/**
 * The terms of a request: those of its service tier, or of the pictures that it asks for.
 * @throws GatewayError `unsupported_parameter` for a tier that may not be asked for, `price_missing` for one without a
 * price
 */
export function termsFor(body: RequestBody, metering: Metering, terms: Terms, model: string): Terms {
  if (metering.pictures) return picturesFor(body, terms)
  const tier = metering.tiers === undefined ? usualTier : tierOf(body.fields, metering.tiers)
  const { allowed, price } = terms
  if (tier === usualTier && allowed === undefined) return terms
  if (allowed !== undefined && !allowed.includes(tier)) {
    const { member } = metering.tiers![0]!
    const text = `The service tier \`${tier.slice(0, 64)}\` is not offered for the model \`${model}\`.`
    throw new GatewayError('unsupported_parameter', text, {
      param: member,
      reason: {
        by: 'price',
        what: `models.${model}.tiers lists ${allowed.join(', ')}, and not ${tier.slice(0, 64)}`,
        where: `models.${model}.tiers`,
        remedy: 'add it there'
      }
    })
  }
  const own = tier === usualTier || isFree(price) ? terms : terms.services.get(tier)
  if (own) return own
  const text = `The model \`${model}\` has no price for the service tier \`${tier.slice(0, 64)}\`.`
  throw new GatewayError('price_missing', text, {
    reason: {
      by: 'price',
      what: `the model ${model} has no price for the service tier ${tier.slice(0, 64)}`,
      where: `models.${model}.price`,
      remedy: 'add it there, or list the tiers that may be asked for in tiers'
    }
  })
}

/**
 * What the upstreams charge for a request: the price of the pictures that it asks for, or of its service tier. What a
 * channel charges for a tier that its cost does not name is not known.
 */
export function costsFor({ fields }: RequestBody, metering: Metering, { costs }: Terms): Terms['costs'] {
  if (!costs) return undefined
  if (metering.pictures) {
    if (![...costs.values()].some(({ pictures }) => pictures)) return costs
    return new Map([...costs].map(([channel, price]) => [channel, pictured(fields, price.pictures)?.price ?? price]))
  }
  const tier = metering.tiers === undefined ? usualTier : tierOf(fields, metering.tiers)
  if (tier === usualTier) return costs
  return new Map(
    [...costs].flatMap(([channel, price]) => {
      const own = isFree(price) ? price : price.services?.get(tier)
      return own ? [[channel, own] as const] : []
    })
  )
}

/** Returns the name of the service tier of a request. Tiers that are asked for together are joined to one name. */
function tierOf(fields: RequestBody['fields'], tiers: NonNullable<Metering['tiers']>): string {
  let asked: string | undefined
  for (const { member, usual } of tiers) {
    if (!fields.has(member)) continue
    const value = fields.string(member)?.toLowerCase() ?? (fields.flag(member) === false ? usual[0]! : 'unknown')
    if (!usual.includes(value)) asked = asked === undefined ? value : `${asked}+${value}`
  }
  return asked ?? usualTier
}

/** Returns the first terms that match the pictures that a request asks for. */
function picturesFor({ fields }: RequestBody, terms: Terms): Terms {
  return pictured(fields, terms.pictures)?.terms ?? terms
}

/** The first of these pictures that has the size and quality that are asked for. An undefined one matches all. */
function pictured<T extends { size: string | undefined; quality: string | undefined }>(
  fields: RequestBody['fields'],
  pictures: readonly T[] = []
): T | undefined {
  if (pictures.length === 0) return undefined
  const [asked, quality] = [fields.string('size') ?? 'auto', fields.string('quality') ?? 'auto']
  return pictures.find((picture) => (picture.size ?? asked) === asked && (picture.quality ?? quality) === quality)
}

/**
 * Returns the most that so many units can cost. All brackets up to the prompt's own are tried, because a shorter prompt
 * may fall into a dearer one. The arithmetic is that of the settlement, so that a usage within the bound never costs
 * more than the bound.
 */
export function amountOf({ brackets }: Terms, units: Units): bigint {
  let most = 0n
  for (const bracket of brackets) {
    if (units.prompt <= bracket.above) break
    const amount = amountIn(bracket, units)
    if (amount > most) most = amount
  }
  return most
}

function amountIn({ upTo, rates }: Bracket, units: Units): bigint {
  let sum = 0n
  for (const { counter, rate } of rates) {
    const count = counter === 'prompt' ? Math.min(units.prompt, upTo) : units[counter]
    if (count > 0) sum += BigInt(count) * rate
  }
  return rounded(sum)
}

/** Returns the parts of an amount that {@link amountOf} gives. Their sum, rounded once, is the amount. */
export function linesOf(terms: Terms, units: Units): QuoteLine[] {
  const most = amountOf(terms, units)
  const bracket = terms.brackets.find((one) => units.prompt > one.above && amountIn(one, units) === most)
  if (!bracket) return []
  return bracket.rates.flatMap(({ counter, rate: perMillion }) => {
    const count = counter === 'prompt' ? Math.min(units.prompt, bracket.upTo) : units[counter]
    return count > 0 ? [{ counter, units: count, perMillion }] : []
  })
}

function bracketsOf({ perMillion, tiers = [] }: Price): Bracket[] {
  const steps = [{ above: -1, perMillion }, ...tiers]
  return steps.map((step, index) => ({
    above: step.above,
    upTo: steps[index + 1]?.above ?? Infinity,
    rates: counters
      .map((counter) => ({ counter, rate: dearest(step.perMillion, counter) }))
      .filter(({ rate }) => rate > 0n)
  }))
}

function dearest(rates: Rates, counter: Counter): bigint {
  const counted = pricedClasses.filter((name) => priceClasses[name].countedBy === counter)
  return counted.reduce((most, name) => ((rates[name] ?? 0n) > most ? rates[name]! : most), 0n)
}
