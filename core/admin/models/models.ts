// The routes of models: list the catalogue with the channels behind each model, its price and its use, and show one
// with the history of its prices.
import { compileGlobs } from '../../catalogue/globs.ts'
import type { Matches } from '../../catalogue/globs.ts'
import type { Model } from '../../catalogue/catalogue.ts'
import { Models } from '../../catalogue/models.ts'
import { GatewayError } from '../../errors.ts'
import { formatDollars } from '../../money/money.ts'
import { inForce } from '../../money/price.ts'
import { suggestion } from '../../options/suggest.ts'
import type { SpendSum } from '../../store/spend.ts'
import { Levels } from '../../tenancy/levels.ts'
import { healthIn, stateOf } from '../channels/channels.ts'
import type { AdminParts, Answer, Call, Health } from '../api/contract.ts'
import { showTime } from '../api/entry.ts'
import { pageOf, sentence, shown } from '../api/query.ts'
import { readDays } from './days.ts'
import { presentPrices, priceHistory, showRates } from './model-price.ts'
import { allSums, together } from './sums.ts'

/** What actors of one tenant do not see of a model: where it goes, and what that costs the operator. */
export const hiddenOfModels = ['channels', 'asked', 'fallback_on', 'cost_usd', 'cost_nano']

/** Lists the models, all or those that a tenant may use, with what was used of each in some days. */
export async function listModels({ query }: Call, parts: AdminParts): Promise<Answer> {
  const tenant = query.get('tenant')
  const { data, next } = pageOf(rowsOf(modelsFor(tenant, parts)), ({ name }) => name, query)
  const show = await shower(query, parts)
  return { json: { data: data.map(show), next } }
}

/** Shows one model, with all versions of its price. */
export async function showModel({ names, query }: Call, parts: AdminParts): Promise<Answer> {
  const tenant = query.get('tenant')
  const models = modelsFor(tenant, parts)
  const name = names['model']!
  const model = models.get(name)
  if (!model) throw noModel(name, [...models.keys()])
  const show = await shower(query, parts, name)
  const { ledger, spend } = parts.store
  const mine = (used: string): boolean => labelIn(parts, used, name) === name
  const prices = await priceHistory(model, { tenant, mine }, spend, (version) => ledger.price(version))
  return { json: { ...show(model), prices } }
}

/** The models that the file lists, and for each of its patterns one row of the pattern's name. */
function rowsOf(models: Models): Model[] {
  return [...models.values(), ...models.patterns.flatMap(({ prefix }) => models.get(`${prefix}*`) ?? [])]
}

/** Whether it is the pattern itself, and not a model that it stands for. */
function isPattern({ name, pattern }: Model): boolean {
  return name === pattern
}

/** What counts for a name in sums: itself where `asked` asks for it, else the pattern that it is of. */
function labelIn({ generations }: Pick<AdminParts, 'generations'>, name: string, asked?: string): string {
  return name === asked ? name : (generations.current.config.models.get(name)?.pattern ?? name)
}

/** The models of a configuration with its patterns. */
function modelsOf({ models }: AdminParts['generations']['current']['config']): Models {
  return models instanceof Models ? models : new Models(models)
}

/** The models of the catalogue by name: all, or those that a tenant may use. An unknown tenant may use none. */
export function modelsFor(
  tenant: string | undefined,
  { generations, store }: Pick<AdminParts, 'generations' | 'store'>
): Models {
  const { config } = generations.current
  const models = modelsOf(config)
  if (tenant === undefined) return models
  const level = new Levels(config, store.documents).find([tenant])
  const mayUse: Matches = level ? compileGlobs(level.rights.models) : () => false
  return new Models(
    [...models].filter(([name]) => mayUse(name)),
    models.patterns.filter(({ prefix }) => mayUse(`${prefix}*`))
  )
}

/** The error for a model that there is not, or that a tenant may not use, which are not to be told apart. */
export function noModel(name: string, known: readonly string[]): GatewayError {
  const message = sentence(`There is no model ${shown(name)}${suggestion(name, known)}`)
  return new GatewayError('route_not_found', message, { shownCode: 'model_not_found', param: 'model' })
}

/** A function that shows a model with what was used of it. */
async function shower(
  query: Call['query'],
  parts: AdminParts,
  model?: string
): Promise<(model: Model) => Record<string, unknown>> {
  const [since, until] = readDays(query)
  const tenant = query.get('tenant')
  const one = model !== undefined && !model.endsWith('*') ? { model } : {}
  const equal = { ...(tenant !== undefined && { tenant }), ...one }
  const { sums } = await allSums((asked) => parts.store.spend(asked), { by: ['model'], equal, since, until })
  const used = new Map<string, SpendSum>()
  for (const sum of sums) {
    const label = labelIn(parts, sum.group[0]!, model)
    const known = used.get(label)
    used.set(label, known ? together(known, sum) : sum)
  }
  const health = healthIn(parts)
  return (one) => show(one, used.get(one.name), parts, health)
}

function show(model: Model, sum: SpendSum | undefined, parts: AdminParts, health: Health): Record<string, unknown> {
  const { name, ownedBy, contextWindow, maxOutputTokens, tiers, state, created, deprecated, standIns } = model
  // A name for other models has no channels of its own: those of all that it stands for are behind it.
  const behind = model.channels.length === 0 ? (standIns?.models ?? []) : [model]
  const channels = behind.flatMap((one) => one.channels.map((channel) => ({ channel, of: one })))
  const cost = sum?.cost
  return {
    name,
    kind: model.pattern !== undefined ? 'pattern' : model.channels.length === 0 && standIns ? 'name' : 'model',
    owned_by: ownedBy,
    created: new Date(created * 1000).toISOString(),
    endpoints: [...new Set(channels.flatMap(({ channel }) => [...channel.endpoints]))].sort(),
    context_window: contextWindow ?? null,
    max_output_tokens: maxOutputTokens ?? null,
    service_tiers: tiers ?? null,
    state,
    ...presentPrices(model),
    price_by_name: isPattern(model) && model.prices.length === 0,
    deprecated: deprecated
      ? {
          since: showTime(deprecated.since),
          sunset: showTime(deprecated.sunset),
          replacement: deprecated.replacement ?? null
        }
      : null,
    requests: sum?.requests ?? 0,
    charge_usd: formatDollars(sum?.charge ?? 0n),
    charge_nano: String(sum?.charge ?? 0n),
    cost_usd: cost === undefined ? null : formatDollars(cost),
    cost_nano: cost === undefined ? null : String(cost),
    usage: sum?.usage ?? {},
    asked: standIns?.models.map((one) => one.name) ?? null,
    fallback_on: standIns ? [...standIns.on] : null,
    channels: channels.map(({ channel, of }) => {
      const cost = inForce(of.costs?.get(channel.name) ?? [], Date.now())
      const known = health[channel.name]
      return {
        name: channel.name,
        protocol: parts.generations.current.config.simulated.includes(channel.name) ? 'simulator' : channel.protocol,
        upstream_model: channel.models.get(of.name) ?? of.upstreamName ?? of.name,
        priority: channel.priority,
        weight: channel.weight,
        state: stateOf(channel, parts, health),
        reason: known?.reason ?? null,
        until: showTime(known?.until ?? undefined),
        error_rate: known?.error_rate ?? null,
        first_event_ms: known?.first_event_ms ?? null,
        cost_usd_per_million: cost ? showRates(cost.price.perMillion) : null
      }
    })
  }
}
