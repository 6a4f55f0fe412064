// How the section `models` of gateway.yaml becomes the models of the core, with prices and channels.
import { isMap } from '../../core/options/schema-check.ts'
import { suggestion } from '../../core/options/suggest.ts'
import type { ModelEntry } from './model-entry.ts'
import { pricesIfListed, readPrices } from '../prices/prices.ts'
import { isName, Resolver } from './stand-ins.ts'
import type { Costs } from '../prices/costs.ts'
import { Models } from '../../core/catalogue/models.ts'
import type { ModelPattern } from '../../core/catalogue/models.ts'
import type { Channel, Model } from '../../core/catalogue/catalogue.ts'
import type { Names } from '../prices/price-list.ts'
import type { Report } from '../report.ts'

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
): Models {
  checkReferences(entries, channels, report)
  const models = new Map<string, Model>()
  const patterns: ModelPattern[] = []
  for (const [name, entry] of Object.entries(entries)) {
    if (!isMap(entry) || !checkForm(name, entry, report)) continue
    if (isName(entry)) continue
    if (name.endsWith('*')) {
      const pattern = readPattern(name, entry, channels, costs, report)
      if (pattern) patterns.push(pattern)
      continue
    }
    const serving = servingChannels(name, channels, report)
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
  return withStandIns(entries, models, patterns, report)
}

/** The models in the order of the file, with those that are only names, and with who stands in for whom. */
function withStandIns(
  entries: Readonly<Record<string, ModelEntry>>,
  models: Map<string, Model>,
  patterns: readonly ModelPattern[],
  report: Report
): Models {
  const resolver = new Resolver(entries, models, report)
  const all = new Map<string, Model>()
  for (const [name, entry] of Object.entries(entries)) {
    if (!isMap(entry) || name.endsWith('*')) continue
    const [first] = resolver.asked(name)
    const own = models.get(name)
    if (!first || !report.sound('models', name)) {
      if (own) all.set(name, own)
      continue
    }
    const standIns = resolver.standIns(name)
    if (own) all.set(name, standIns ? Object.assign(own, { standIns }) : own)
    else {
      const { owned_by, context_window, max_output_tokens, created } = entry
      all.set(name, {
        ...first,
        name,
        ownedBy: owned_by,
        contextWindow: context_window ?? first.contextWindow,
        maxOutputTokens: max_output_tokens ?? first.maxOutputTokens,
        created: Math.floor(created / 1000),
        deprecated: readDeprecation(name, entry.deprecated, report) ?? first.deprecated,
        channels: [],
        ...(standIns && { standIns })
      })
    }
  }
  return new Models(all, patterns)
}

/** Checks which members go together. False where the entry makes no sense. */
function checkForm(name: string, entry: ModelEntry, report: Report): boolean {
  const path = ['models', name]
  const pattern = name.endsWith('*')
  const { alias, fallback, price, channel, upstream } = entry
  const wrong = (member: string, message: string): void => report.key([...path, member], message)
  if (alias !== undefined && price !== undefined)
    wrong('price', `an alias costs what its model costs: take the price out, or put it at ${alias}`)
  if (alias !== undefined && fallback !== undefined)
    wrong('fallback', `an alias has the fallbacks of its model: take it out, or put it at ${alias}`)
  if (pattern && isName(entry)) report.key(path, 'a pattern needs a "channel" and a "price" of its own')
  else if (price === undefined && !isName(entry)) report.key(path, '"price" is missing')
  if (pattern && channel === undefined && !isName(entry))
    report.key(path, '"channel" is missing: name the channel that serves these models')
  if (!pattern && channel !== undefined)
    wrong('channel', 'is for names with a * at the end: add this one to the models of the channel')
  if (!pattern && upstream !== undefined)
    wrong('upstream', 'is for names with a * at the end: the channel has the name at the upstream')
  return price !== undefined || isName(entry)
}

/** Reads a name with a star. Undefined where something is wrong with it, which was reported. */
function readPattern(
  name: string,
  entry: ModelEntry,
  channels: Channels,
  costs: Costs | undefined,
  report: Report
): ModelPattern | undefined {
  const path = ['models', name]
  const { channel: named = '', upstream, price, fallback } = entry
  const channel = channels?.get(named)
  if (!channel) {
    if (named !== '' && channels && !channels.has(named))
      report.value([...path, 'channel'], `there is no such channel${suggestion(named, [...channels.keys()])}`)
    return undefined
  }
  if (fallback) report.key([...path, 'fallback'], 'a pattern has no fallbacks: list the models that need one')
  if (upstream !== undefined && upstream.split('*').length !== 2)
    report.value([...path, 'upstream'], 'must have one *, for what the * of the name stands for')
  const listed = price === 'list'
  const prices = listed ? undefined : readPrices([...path, 'price'], price, { name, upstream: undefined }, report)
  const deprecated = readDeprecation(name, entry.deprecated, report)
  if (!report.sound(...path) || (!listed && !prices)) return undefined
  const prefix = name.slice(0, -1)
  const template = upstream ?? `${prefix.slice(prefix.lastIndexOf('/') + 1)}*`
  const costOf = costs?.ofPattern(channel, name)
  return {
    prefix,
    channels: [channel],
    of: (asked) => {
      const upstreamName = template.replace('*', () => asked.slice(prefix.length))
      const names = { name: asked, upstream: [upstreamName] }
      const its = prices ?? pricesIfListed([...path, 'price'], names, report) ?? []
      const cost = costOf?.({ name: upstreamName, upstream: [asked] }, its)
      return {
        name: asked,
        pattern: name,
        upstreamName,
        ownedBy: entry.owned_by,
        prices: its,
        ...(cost && { costs: new Map([[channel.name, cost]]) }),
        contextWindow: entry.context_window,
        maxOutputTokens: entry.max_output_tokens,
        tiers: entry.tiers,
        state: entry.state,
        created: Math.floor(entry.created / 1000),
        deprecated,
        channels: [channel]
      }
    }
  }
}

/** Checks that channels list only models of this file, because any other model would have no price. */
function checkReferences(entries: Readonly<Record<string, ModelEntry>>, channels: Channels, report: Report): void {
  for (const channel of channels?.values() ?? []) {
    for (const name of channel?.models.keys() ?? []) {
      const entry = Object.hasOwn(entries, name) ? entries[name] : undefined
      if (entry !== undefined) {
        if (isMap(entry) && (entry.alias !== undefined || entry.price === undefined) && isName(entry as ModelEntry))
          report.key(
            ['channels', channel!.name, 'models', name],
            `models.${name} is only a name for other models: take it out here, or give it a price there and no alias`
          )
        continue
      }
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
