// Public models of gateway.yaml: their shape, prices, and the channels that serve them.
import { createHash } from 'node:crypto'
import { parseDollars } from '../core/money.ts'
import { isMap } from '../core/schema-check.ts'
import { suggestion } from '../core/suggest.ts'
import { pricedClasses } from '../core/usage.ts'
import { modelNames } from './names.ts'
import type { Channel, Model } from '../core/catalogue.ts'
import type { Price } from '../core/price.ts'
import type { OptionSchema, OptionValue } from '../core/schema.ts'
import type { PricedClass } from '../core/usage.ts'
import type { Report } from './report.ts'

const rate = { type: 'string', format: 'decimal' } as const satisfies Partial<OptionSchema>
const tokens = { type: 'integer', minimum: 1, maximum: 1_000_000_000 } as const satisfies Partial<OptionSchema>

export const modelsShape = {
  type: 'object',
  description: 'The public catalogue: models by the name that clients use.',
  propertyNames: modelNames,
  additionalProperties: {
    type: 'object',
    description: 'One model.',
    required: ['price'],
    properties: {
      owned_by: { type: 'string', minLength: 1, default: 'sluice', description: 'Shown in the model list.' },
      price: {
        type: 'object',
        or: ['free', 'list'],
        description: 'US dollars per class of usage; free charges nothing. A price list (list) is not served yet.',
        examples: [{ input: 1.25, cached_input: 0.125, output: 10 }],
        properties: {
          per: { type: 'string', enum: ['1M', '1K', '1'], default: '1M', description: 'How many tokens the prices are for.' },
          input: { ...rate, description: 'Input tokens that no other class counts.' },
          cached_input: { ...rate, description: 'Input tokens read from a cache; default: as input.' },
          cache_write: { ...rate, description: 'Input tokens written to a cache; default: as input.' },
          output: { ...rate, description: 'Output tokens, reasoning included.' },
          audio_input: { ...rate, description: 'Audio input tokens; default: as input.' },
          audio_output: { ...rate, description: 'Audio output tokens; default: as output.' },
          image_input: { ...rate, description: 'Image input tokens; default: as input.' },
          image_output: { ...rate, description: 'Image output tokens; default: as output.' },
          image: { ...rate, description: 'One picture, whatever per says.' },
          request: { ...rate, description: 'One call, whatever per says.' },
          second: { ...rate, description: 'One second of media, whatever per says.' }
        }
      },
      context_window: { ...tokens, description: 'Tokens of input and output together.' },
      max_output_tokens: { ...tokens, description: 'Tokens of output.' },
      created: { type: 'string', format: 'date', default: '2026-01-01', description: 'Shown in the model list.' },
      deprecated: {
        type: 'object',
        description: 'Announced in the headers of every answer.',
        required: ['since'],
        properties: {
          since: { type: 'string', format: 'date', description: 'Not to be used by new clients from then on.' },
          sunset: { type: 'string', format: 'date', description: 'When it is to be switched off; announced, not enforced.' },
          replacement: { type: 'string', minLength: 1, description: 'What to use instead.' }
        }
      }
    }
  }
} as const satisfies OptionSchema

type ModelEntry = OptionValue<typeof modelsShape.additionalProperties>
/** By name; a faulty one is undefined. Undefined as a whole when the section could not be read. */
type Channels = ReadonlyMap<string, Channel | undefined> | undefined

/** Resolves the models with their channels, best first. Undefined channels may serve any, so then none counts as unserved. */
export function readModels(entries: Readonly<Record<string, ModelEntry>>, channels: Channels, report: Report): Map<string, Model> {
  checkReferences(entries, channels, report)
  const models = new Map<string, Model>()
  for (const [name, entry] of Object.entries(entries)) {
    const serving = servingChannels(name, channels, report)
    if (!isMap(entry)) continue
    const price = report.sound('models', name, 'price') ? readPrice(name, entry.price, report) : undefined
    const deprecated = readDeprecation(name, entry.deprecated, report)
    if (!report.sound('models', name)) continue
    models.set(name, {
      name,
      ownedBy: entry.owned_by,
      price,
      contextWindow: entry.context_window,
      maxOutputTokens: entry.max_output_tokens,
      created: Math.floor(entry.created / 1000),
      deprecated,
      channels: serving
    })
  }
  return models
}

/** A channel may list only models that there are: any other would have no price. */
function checkReferences(entries: Readonly<Record<string, ModelEntry>>, channels: Channels, report: Report): void {
  for (const channel of channels?.values() ?? []) {
    for (const name of channel?.models.keys() ?? []) {
      if (Object.hasOwn(entries, name)) continue
      const help = suggestion(name, Object.keys(entries)) || ': add it there with its price'
      report.key(['channels', channel!.name, 'models', name], `not among the models${help}`)
    }
  }
}

function readDeprecation(name: string, entry: ModelEntry['deprecated'], report: Report): Model['deprecated'] {
  const path = ['models', name, 'deprecated']
  if (!entry || !report.sound(...path)) return undefined
  const { since, sunset, replacement } = entry
  if (sunset !== undefined && sunset < since) report.value([...path, 'sunset'], 'must not be before "since"')
  return { since, sunset, replacement }
}

function servingChannels(name: string, channels: Channels, report: Report): Channel[] {
  const all = channels ? [...channels.values()] : [undefined]
  const having = all.filter((channel) => channel?.models.has(name)) as Channel[]
  const serving = having.filter((channel) => channel.protocol === 'openai')
  if (serving.length === 0 && !all.includes(undefined)) {
    const [first] = having
    report.key(['models', name], first
      ? `the channel ${first.name} has protocol ${first.protocol}, which is not served yet: give it another channel`
      : 'no channel serves it: add it to the models of a channel, or remove it')
  }
  return serving.sort((a, b) => a.priority - b.priority)
}

/** Decimals of a dollar at which a price is nano-dollars per million units. */
const scales = { '1M': 9, '1K': 12, '1': 15 } as const
const countedSingly: ReadonlySet<PricedClass> = new Set<PricedClass>(['image', 'request', 'second'])
/** Where a class without a price of its own takes it from. */
const inherited: Readonly<Partial<Record<PricedClass, 'input' | 'output'>>> = {
  cached_input: 'input', cache_write: 'input', audio_input: 'input', image_input: 'input',
  audio_output: 'output', image_output: 'output'
}
/** A thousand dollars a unit, per million: above any price, and a request's cost stays inside 64 bits. */
const highest = 10n ** 18n

function readPrice(name: string, entry: ModelEntry['price'], report: Report): Price | undefined {
  const path = ['models', name, 'price']
  if (entry === 'free' || entry === undefined) return undefined
  if (entry === 'list') {
    report.value(path, 'a price list is not served yet: give the price here')
    return undefined
  }
  if (pricedClasses.every((priced) => entry[priced] === undefined)) {
    report.value(path, 'names no class: give input and output, or say "price: free"')
  }
  if ((entry.input === undefined) !== (entry.output === undefined)) {
    const missing = entry.input === undefined ? 'input' : 'output'
    report.key(path, `"${missing}" is missing: say "${missing}: 0" if that costs nothing`)
  }
  const perMillion: Partial<Record<PricedClass, bigint>> = {}
  for (const priced of pricedClasses) {
    const written = entry[priced]
    const from = inherited[priced]
    if (written !== undefined) {
      const exact = parseDollars(written, countedSingly.has(priced) ? scales['1'] : scales[entry.per])
      if (exact !== undefined && exact <= highest) perMillion[priced] = exact
      else report.value([...path, priced], 'must be exact to a nano-dollar per million, and at most 1000 dollars a unit')
    } else if (from !== undefined && perMillion[from] !== undefined) perMillion[priced] = perMillion[from]
  }
  const canonical = JSON.stringify(pricedClasses.map((priced) => [priced, perMillion[priced]?.toString() ?? null]))
  return { version: createHash('sha256').update(canonical).digest('hex').slice(0, 12), perMillion }
}
