// The prices of gateway.yaml: their shape, and how they become exact integers.
import { createHash } from 'node:crypto'
import { parseDollars } from '../../core/money/money.ts'
import { freePrice, renderPrice } from '../../core/money/price.ts'
import { checkerOf } from '../../core/options/schema-check.ts'
import { isByQuantity, priceClasses, pricedClasses, tokenClasses } from '../../core/money/classes.ts'
import { findListed } from './price-list.ts'
import type { PicturePrice, Price, PricePeriod, Rates, Tier } from '../../core/money/price.ts'
import type { OptionSchema, OptionValue } from '../../core/options/schema.ts'
import type { PricedClass } from '../../core/money/classes.ts'
import type { Names } from './price-list.ts'
import type { Path, Report } from '../report.ts'

const rate = { type: 'string', format: 'decimal' } as const satisfies Partial<OptionSchema>

/** The shapes of the members that give prices of classes. */
function ratesFor<K extends PricedClass>(
  names: readonly K[]
): { readonly [N in K]: typeof rate & { description: string } } {
  const shapes = names.map((name) => [name, { ...rate, description: descriptionOf(name) }])
  return Object.fromEntries(shapes) as ReturnType<typeof ratesFor<K>>
}

function descriptionOf(name: PricedClass): string {
  const { unit, inherits, about } = priceClasses[name]
  const per = unit === 'character' ? '; per holds for them too' : isByQuantity(name) ? '' : ', whatever per says'
  return `${about}${per}${inherits === undefined ? '' : `; default: as ${inherits}`}.`
}

/** The prices that may depend on the length of the prompt. */
const tokenRates = ratesFor(tokenClasses)

const longerShape = {
  type: 'array',
  minItems: 1,
  description: 'Other prices for long prompts; the last one that the prompt is above holds for the whole request.',
  items: {
    type: 'object',
    description: 'What changes; the rest is as above.',
    required: ['above'],
    properties: {
      above: {
        type: 'integer',
        minimum: 1,
        maximum: 1_000_000_000,
        description: 'For prompts of more tokens than this, cached ones and all others together.'
      },
      ...tokenRates
    }
  }
} as const satisfies OptionSchema

export const priceShape = {
  type: 'object',
  or: ['free', 'list'],
  orList: true,
  description:
    'US dollars per class of usage; free charges nothing, list takes the public price. A list of prices, by from.',
  examples: [
    { input: 1.25, cached_input: 0.125, output: 10 },
    [
      { input: 1.25, output: 10 },
      { from: '2026-12-01', input: 1, output: 8 }
    ]
  ],
  properties: {
    from: {
      type: 'string',
      format: 'date',
      description: 'In force for requests that arrive from then on; the first price of a list needs none.'
    },
    per: { type: 'string', enum: ['1M', '1K', '1'], default: '1M', description: 'How many tokens the prices are for.' },
    ...ratesFor(pricedClasses),
    pictures: {
      type: 'array',
      minItems: 1,
      description:
        'Other prices of one picture, by what was asked for; the first that fits holds, and image where none does.',
      items: {
        type: 'object',
        description: 'A picture of this size and quality; what is left out fits all.',
        required: ['image'],
        properties: {
          size: {
            type: 'string',
            minLength: 1,
            examples: ['1024x1024'],
            description: 'As the request says it, `auto` for one that says none.'
          },
          quality: {
            type: 'string',
            minLength: 1,
            examples: ['hd'],
            description: 'As the request says it, `auto` for one that says none.'
          },
          image: { ...rate, description: 'One picture.' }
        }
      }
    },
    service_tiers: {
      type: 'object',
      description:
        'Other prices by service tier, by the name that requests ask for it with (`flex`, `priority`, `fast`; two at ' +
        'once as `fast+us`). One that is neither usual nor here is refused.',
      propertyNames: { pattern: '^[a-z0-9_+-]{1,64}$', patternErrorMessage: 'a service tier in small letters' },
      additionalProperties: {
        type: 'object',
        description: 'What changes; the rest is as above, but for long prompts.',
        properties: { ...ratesFor(pricedClasses), tiers: longerShape }
      }
    },
    tiers: longerShape
  }
} as const satisfies OptionSchema

/** A price as written in the file, which has passed the check of its shape. */
export type PriceEntry = OptionValue<typeof priceShape>
type Written = Exclude<PriceEntry, string | readonly unknown[]>
type Picture = NonNullable<Written['pictures']>[number]
type WrittenRates = { readonly [K in PricedClass]?: string | undefined }

const listed = { price: priceShape } as const

/**
 * Reads the prices of a model, by date; `path` is the place of its price. Undefined when there is none: then it is
 * missing, or not in the price list. The latter is reported, unless an unreadable name leaves it open.
 */
export function readPrices(
  path: Path,
  entry: PriceEntry | undefined,
  names: Names,
  report: Report
): readonly PricePeriod[] | undefined {
  if (entry === 'free') return [{ from: -Infinity, price: freePrice }]
  if (entry !== 'list') return entry && readPeriods(path, entry, report)
  const found = findListed(names)
  // A price from the list is read like one in the file.
  if (typeof found === 'object')
    return readPeriods(path, checkerOf(listed)({ price: found }).value.price as Written | readonly Written[], report)
  if (found !== undefined) report.value(path, found)
  return undefined
}

/** The public prices of a model of which the list may know nothing: undefined then, and nothing is reported. */
export function pricesIfListed(path: Path, names: Names, report: Report): readonly PricePeriod[] | undefined {
  return typeof findListed(names) === 'object' ? readPrices(path, 'list', names, report) : undefined
}

function readPeriods(path: Path, entry: Written | readonly Written[], report: Report): PricePeriod[] {
  if (!Array.isArray(entry)) return [readPeriod(path, entry as Written, report)]
  const periods = (entry as readonly Written[]).map((written, index) => readPeriod([...path, index], written, report))
  for (let index = 1; index < periods.length; index++) {
    const at = [...path, index]
    const { from } = periods[index]!
    if (from === -Infinity) report.key(at, '"from" is missing: only the first price may have none')
    else if (from <= periods[index - 1]!.from)
      report.value([...at, 'from'], 'must be after the "from" of the price before')
  }
  return periods
}

function readPeriod(path: Path, { from = -Infinity, ...written }: Written, report: Report): PricePeriod {
  return { from, price: readPrice(path, written, report) }
}

function readPrice(path: Path, written: Omit<Written, 'from'>, report: Report): Price {
  const { per, tiers: longer, pictures, service_tiers: services = {}, ...base } = written
  const rates: WrittenRates = base
  if (pricedClasses.every((name) => rates[name] === undefined)) {
    report.value(path, 'names no class: give input and output, or say "price: free"')
  }
  if ((rates.input === undefined) !== (rates.output === undefined)) {
    const missing = rates.input === undefined ? 'input' : 'output'
    report.key(path, `"${missing}" is missing: say "${missing}: 0" if that costs nothing`)
  }
  const perMillion = readRates(rates, per, (name, message) => report.value([...path, name], message))
  const tiers = longer?.map((tier, index): Tier => {
    const at = [...path, 'tiers', index]
    const { above, ...changed } = tier
    if (Object.keys(changed).length === 0)
      report.value(at, 'changes nothing: give the prices that are other for long prompts')
    if (index > 0 && above <= longer[index - 1]!.above)
      report.value([...at, 'above'], 'must be more than that of the tier before')
    const complain = (name: PricedClass, message: string): void => {
      if (Object.hasOwn(changed, name)) report.value([...at, name], message)
    }
    return { above, perMillion: readRates({ ...rates, ...changed }, per, complain) }
  })
  const price = versioned({ perMillion, ...(tiers && { tiers }) })
  const shown = pictures?.map((picture, index) => readPicture([...path, 'pictures', index], picture, price, report))
  const served = Object.entries(services).map(([name, changed]): [string, Price] => {
    const { tiers: own, ...changes } = changed
    return [
      name,
      readPrice([...path, 'service_tiers', name], { per, ...base, ...changes, ...(own && { tiers: own }) }, report)
    ]
  })
  return { ...price, ...(shown && { pictures: shown }), ...(served.length > 0 && { services: new Map(served) }) }
}

/** Reads the complete price for one kind of picture. It has a version of its own. */
function readPicture(
  path: Path,
  { size, quality, image }: Picture,
  { perMillion, tiers }: Price,
  report: Report
): PicturePrice {
  const rates = readRates({ image }, '1', (name, message) => report.value([...path, name], message))
  if (size === undefined && quality === undefined)
    report.value(path, 'fits every picture: say size or quality, or put it into "image"')
  const price = versioned({
    perMillion: { ...perMillion, ...rates },
    ...(tiers && { tiers: tiers.map((tier) => ({ ...tier, perMillion: { ...tier.perMillion, ...rates } })) })
  })
  return { size, quality, price }
}

/** Names a price by its rates. */
export function versioned(price: Omit<Price, 'version'>): Price {
  return {
    ...price,
    version: createHash('sha256')
      .update(renderPrice({ version: '', ...price }))
      .digest('hex')
      .slice(0, 12)
  }
}

/** How many decimal places of a dollar make nano-dollars per million units, by the unit that a price is for. */
const scales = { '1M': 9, '1K': 12, '1': 15 } as const
/**
 * A thousand dollars per unit, in nano-dollars per million units. It is above any real price, and keeps the cost of a
 * request within 64 bits.
 */
const highest = 10n ** 18n

function readRates(
  written: WrittenRates,
  per: keyof typeof scales,
  complain: (name: PricedClass, message: string) => void
): Rates {
  const rates: Partial<Record<PricedClass, bigint>> = {}
  for (const name of pricedClasses) {
    const text = written[name]
    const { inherits: from } = priceClasses[name]
    if (text !== undefined) {
      const exact = parseDollars(text, scales[isByQuantity(name) ? per : '1'])
      if (exact !== undefined && exact <= highest) rates[name] = exact
      else complain(name, 'must be exact to a nano-dollar per million, and at most 1000 dollars a unit')
    } else if (from !== undefined && rates[from] !== undefined) rates[name] = rates[from]
  }
  return rates
}
