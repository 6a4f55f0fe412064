// The section `models` of gateway.yaml: its shape, and how it becomes the models of the core, with prices and channels.
import { isMap } from '../core/options/schema-check.ts'
import { suggestion } from '../core/options/suggest.ts'
import { modelNames } from './names.ts'
import { priceShape, readPrices } from './prices.ts'
import type { Costs } from './costs.ts'
import type { Channel, Model } from '../core/catalogue/catalogue.ts'
import type { OptionSchema, OptionValue } from '../core/options/schema.ts'
import type { Names } from './price-list.ts'
import type { Report } from './report.ts'

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
      price: priceShape,
      context_window: { ...tokens, description: 'Tokens of input and output together.' },
      max_output_tokens: { ...tokens, description: 'Tokens of output.' },
      tiers: {
        type: 'array',
        minItems: 1,
        items: { type: 'string', minLength: 1, description: 'The name of one, `default` for the usual one.' },
        examples: [['default'], ['default', 'flex']],
        description: 'The service tiers that requests may ask for. Default: `default`, and those that its price has.'
      },
      state: {
        type: 'string',
        enum: ['upstream', 'gateway'],
        default: 'upstream',
        description:
          'Who keeps responses (`/v1/responses`): upstreams that can, or the gateway, for channels of every protocol. Then `state.key` is needed.'
      },
      created: { type: 'string', format: 'date', default: '2026-01-01', description: 'Shown in the model list.' },
      deprecated: {
        type: 'object',
        description: 'Announced in the headers of every answer.',
        required: ['since'],
        properties: {
          since: { type: 'string', format: 'date', description: 'Not to be used by new clients from then on.' },
          sunset: {
            type: 'string',
            format: 'date',
            description: 'When it is to be switched off; announced, not enforced.'
          },
          replacement: { type: 'string', minLength: 1, description: 'What to use instead.' }
        }
      }
    }
  }
} as const satisfies OptionSchema

type ModelEntry = OptionValue<typeof modelsShape.additionalProperties>
/** The channels by name; a faulty one is undefined. All of it is undefined when the section could not be read. */
type Channels = ReadonlyMap<string, Channel | undefined> | undefined

/**
 * Reads the models, each with its channels, best first. A channel that is undefined might serve any model, so no model
 * is reported as unserved then.
 */
export function readModels(
  entries: Readonly<Record<string, ModelEntry>>,
  channels: Channels,
  costs: Costs | undefined,
  report: Report
): Map<string, Model> {
  checkReferences(entries, channels, report)
  const models = new Map<string, Model>()
  for (const [name, entry] of Object.entries(entries)) {
    const serving = servingChannels(name, channels, report)
    if (!isMap(entry)) continue
    const prices = report.sound('models', name, 'price')
      ? readPrices(['models', name, 'price'], entry.price, namesOf(name, channels), report)
      : undefined
    const deprecated = readDeprecation(name, entry.deprecated, report)
    if (!prices || !report.sound('models', name)) continue
    const known = serving.flatMap((channel) => {
      const periods = costs?.of(channel, name, prices)
      return periods ? [[channel.name, periods] as const] : []
    })
    models.set(name, {
      name,
      ownedBy: entry.owned_by,
      prices,
      ...(known.length > 0 && { costs: new Map(known) }),
      contextWindow: entry.context_window,
      maxOutputTokens: entry.max_output_tokens,
      tiers: entry.tiers,
      state: entry.state,
      created: Math.floor(entry.created / 1000),
      deprecated,
      channels: serving
    })
  }
  return models
}

/** Checks that channels list only models of this file, because any other model would have no price. */
function checkReferences(entries: Readonly<Record<string, ModelEntry>>, channels: Channels, report: Report): void {
  for (const channel of channels?.values() ?? []) {
    for (const name of channel?.models.keys() ?? []) {
      if (Object.hasOwn(entries, name)) continue
      const help = suggestion(name, Object.keys(entries)) || ': add it there with its price'
      report.key(['channels', channel!.name, 'models', name], `not among the models${help}`)
    }
  }
}

function namesOf(name: string, channels: Channels): Names {
  const all = channels && [...channels.values()]
  return {
    name,
    upstream: all?.includes(undefined) === false ? all.flatMap((channel) => channel?.models.get(name) ?? []) : undefined
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
  const serving = all.filter((channel) => channel?.models.has(name)) as Channel[]
  if (serving.length === 0 && !all.includes(undefined)) {
    report.key(['models', name], 'no channel serves it: add it to the models of a channel, or remove it')
  }
  return serving.sort((a, b) => a.priority - b.priority)
}
