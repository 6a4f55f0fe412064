// The routes of models: list the catalogue with the channels behind each model, its price and its use, and show one
// with the history of its prices.
import { compileGlobs } from '../../catalogue/globs.ts'
import type { Matches } from '../../catalogue/globs.ts'
import type { Model } from '../../catalogue/catalogue.ts'
import { GatewayError } from '../../errors.ts'
import { formatDollars } from '../../money/money.ts'
import { inForce } from '../../money/price.ts'
import { suggestion } from '../../options/suggest.ts'
import type { SpendSum } from '../../store/spend.ts'
import { Levels } from '../../tenancy/levels.ts'
import { healthIn, stateOf } from '../channels/channels.ts'
import type { Health } from '../channels/channels.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { showTime } from '../api/entry.ts'
import { pageOf, sentence, shown } from '../api/query.ts'
import { readDays } from './days.ts'
import { presentPrices, priceHistory, showRates } from './model-price.ts'
import { allSums } from './sums.ts'

/** What actors of one tenant do not see of a model: where it goes, and what that costs the operator. */
export const hiddenOfModels = ['channels', 'asked', 'fallback_on', 'cost_usd', 'cost_nano']

/** Lists the models, all or those that a tenant may use, with what was used of each in some days. */
export async function listModels({ query }: Call, parts: AdminParts): Promise<Answer> {
  const tenant = query.get('tenant')
  const { data, next } = pageOf([...modelsFor(tenant, parts).values()], ({ name }) => name, query)
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
  const prices = await priceHistory(model, tenant, spend, (version) => ledger.price(version))
  return { json: { ...show(model), prices } }
}

/** The models of the catalogue by name: all, or those that a tenant may use. An unknown tenant may use none. */
export function modelsFor(
  tenant: string | undefined,
  { generations, store }: Pick<AdminParts, 'generations' | 'store'>
): ReadonlyMap<string, Model> {
  const { config } = generations.current
  if (tenant === undefined) return config.models
  const level = new Levels(config, store.documents).find([tenant])
  const mayUse: Matches = level ? compileGlobs(level.rights.models) : () => false
  return new Map([...config.models].filter(([name]) => mayUse(name)))
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
  const equal = { ...(tenant !== undefined && { tenant }), ...(model !== undefined && { model }) }
  const { sums } = await allSums((asked) => parts.store.spend(asked), { by: ['model'], equal, since, until })
  const used = new Map(sums.map((sum) => [sum.group[0], sum]))
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
    owned_by: ownedBy,
    created: new Date(created * 1000).toISOString(),
    endpoints: [...new Set(channels.flatMap(({ channel }) => [...channel.endpoints]))].sort(),
    context_window: contextWindow ?? null,
    max_output_tokens: maxOutputTokens ?? null,
    service_tiers: tiers ?? null,
    state,
    ...presentPrices(model),
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
