// The routes of models and prices, with the shapes of what they answer.
import { paging } from '../api/query.ts'
import type { Route } from '../api/contract.ts'
import { page } from '../api/shapes.ts'
import {
  amount,
  count,
  flag,
  listOf,
  mapOf,
  nullable,
  number,
  object,
  oneOf,
  said,
  text,
  time,
  usd
} from '../api/shape.ts'
import type { Shape } from '../api/shape.ts'
import { hiddenOfModels, listModels, showModel } from './models.ts'
import { whatIf, whatIfFields } from './what-if.ts'

const rates = said(mapOf(usd), 'US dollars for 1,000,000 units, by class.')
const priceMembers = {
  version: said(text, 'What the ledger calls it; equal prices have the same.'),
  free: flag,
  usd_per_million: rates,
  tiers: said(listOf(object({ above: count, usd_per_million: rates })), 'For prompts of more tokens than `above`.'),
  pictures: listOf(object({ size: nullable(text), quality: nullable(text), version: text, usd_per_million: rates })),
  service_tiers: listOf(object({ name: text, version: text, usd_per_million: rates }))
}
const dated = object({ from: said(nullable(time), 'Null: always.'), ...priceMembers })

const hidden = {
  ...amount('cost'),
  asked: said(nullable(listOf(text)), 'The models that may answer, in order; null: this one alone.'),
  fallback_on: said(nullable(listOf(text)), 'What lets the next of those be asked.'),
  channels: listOf(
    object({
      name: text,
      protocol: text,
      upstream_model: text,
      priority: number,
      weight: number,
      state: oneOf('draining', 'off', 'healthy', 'cooling', 'ejected', 'probing'),
      reason: nullable(text),
      until: nullable(time),
      error_rate: nullable(number),
      first_event_ms: nullable(object({ p50: number, p95: number })),
      cost_usd_per_million: said(nullable(rates), 'What this upstream charges the operator; null when not known.')
    })
  )
}
const modelMembers: Record<string, Shape> = {
  name: text,
  kind: said(
    oneOf('model', 'name', 'pattern'),
    'A name stands for those in `asked`, and a pattern for all names that begin so; its use is that of them all.'
  ),
  owned_by: text,
  created: time,
  endpoints: said(listOf(text), 'What the channels behind it are asked for.'),
  context_window: nullable(count),
  max_output_tokens: nullable(count),
  service_tiers: said(nullable(listOf(text)), 'Those that may be asked for; null: those that have a price.'),
  state: oneOf('upstream', 'gateway'),
  price: said(nullable(dated), 'That in force now.'),
  next: said(nullable(dated), 'The next one.'),
  price_by_name: said(flag, 'Of a pattern: each of its models has the public price of its own.'),
  deprecated: nullable(object({ since: time, sunset: nullable(time), replacement: nullable(text) })),
  requests: count,
  ...amount('charge'),
  usage: mapOf(number),
  ...hidden
}
const optional = Object.keys(hidden)
const version = object({
  version: text,
  in_file: said(
    nullable(text),
    'Where the model has it: `price`, one of its pictures or service tiers; null: no more.'
  ),
  from: said(nullable(time), 'Null: always, or not in the file.'),
  until: nullable(time),
  first_charged: said(nullable(text), 'A day in UTC.'),
  last_charged: nullable(text),
  requests: count,
  ...amount('charge'),
  price: said(nullable(object(priceMembers)), 'Null: the ledger does not know it.')
})

const repriced = object({
  model: text,
  price_version: nullable(text),
  ...amount('would'),
  ...amount('difference'),
  ...amount('least'),
  ...amount('most'),
  exact: said(flag, 'Whether it is what settling each request at this price comes to.'),
  lines: listOf(object({ class: text, units: count, usd_per_million: nullable(usd) })),
  doubts: listOf(object({ why: text, class: text, units: count, text }, { optional: ['class', 'units', 'text'] }))
})

/** The routes. */
export const modelRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/admin/v1/models',
    summary: 'Lists the models with their prices, channels and use',
    access: { needs: 'see', tenant: { in: 'query', hidden: hiddenOfModels } },
    query: ['tenant', 'since', 'until', ...paging],
    answers: { 200: page(object(modelMembers, { optional })) },
    handle: listModels
  },
  {
    method: 'GET',
    path: '/admin/v1/models/{model}',
    summary: 'Shows a model with all versions of its price',
    access: { needs: 'see', tenant: { in: 'query', hidden: hiddenOfModels } },
    query: ['tenant', 'since', 'until'],
    answers: { 200: object({ ...modelMembers, prices: listOf(version) }, { optional }) },
    handle: showModel
  },
  {
    method: 'POST',
    path: '/admin/v1/what-if',
    summary: 'Says what the traffic of some days would have cost on other models',
    access: { needs: 'see', tenant: { in: 'body' } },
    query: [],
    body: { fields: whatIfFields },
    answers: {
      200: object({
        since: text,
        until: text,
        tenant: nullable(text),
        requests: count,
        ...amount('charge'),
        complete: said(flag, 'Whether all sums were taken; false beyond 20,000.'),
        sources: listOf(object({ model: text, requests: count, ...amount('charge') })),
        models: listOf(repriced)
      })
    },
    handle: whatIf
  }
]
