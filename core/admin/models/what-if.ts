// The route of what-if: what the traffic of some days would have cost on other models, from sums and without a scan.
import { formatDollars } from '../../money/money.ts'
import { inForce } from '../../money/price.ts'
import { reprice } from '../../money/repricing.ts'
import type { Doubt, Traffic } from '../../money/repricing.ts'
import type { Model } from '../../catalogue/catalogue.ts'
import { suggestion } from '../../options/suggest.ts'
import { spendFilters } from '../../store/spend.ts'
import type { SpendSum } from '../../store/spend.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { readEntry } from '../api/entry.ts'
import { invalidField, shown } from '../api/query.ts'
import { daysOf, showDay } from './days.ts'
import { showRates } from './model-price.ts'
import { modelsFor } from './models.ts'
import { allSums } from './sums.ts'

const text = (description: string) => ({ type: 'string', minLength: 1, description }) as const
const moment = (description: string) => ({ type: 'string', format: 'date', description }) as const

/** What is asked for. */
export const whatIfFields = {
  to: {
    type: 'array',
    items: text('The public name of a model.'),
    description: 'The models to compare with; by default all, or all that the tenant may use.'
  },
  model: text('The traffic of this model; by default that of all.'),
  tenant: text('The traffic of this tenant.'),
  project: text('The traffic of projects of this name.'),
  member: text('The traffic of members of this name.'),
  key: text('The traffic of the key of this name.'),
  since: moment('From this day on, in UTC; by default the last seven days, today included.'),
  until: moment('Up to this day, which is not included.')
} as const

const mostModels = 1000

/** Says what the traffic that was asked for would have cost on each model, by the price in force now. */
export async function whatIf({ json }: Call, parts: AdminParts): Promise<Answer> {
  const asked = readEntry(whatIfFields, [], await json(), '{"model": "gpt-5", "to": ["gpt-5-mini"]}').value
  const [since, until] = daysOf(asked.since, asked.until)
  const targets = targetsOf(asked.to, modelsFor(asked.tenant, parts))
  const equal = Object.fromEntries(
    spendFilters.flatMap((name) => (name === 'channel' || asked[name] === undefined ? [] : [[name, asked[name]]]))
  )
  const { ledger } = parts.store
  const { sums, cut } = await allSums((query) => parts.store.spend(query), {
    by: ['model', 'price'],
    equal,
    since,
    until
  })
  const traffic = sums.map(({ group, requests, charge, usage }): Traffic => {
    return { requests, charge, usage, price: ledger.price(group[1]!) }
  })
  const charge = traffic.reduce((sum, one) => sum + one.charge, 0n)
  return {
    json: {
      since: showDay(since),
      until: showDay(until),
      tenant: asked.tenant ?? null,
      requests: traffic.reduce((sum, one) => sum + one.requests, 0),
      ...amount('charge', charge),
      // A sum that is not whole is not compared with.
      complete: !cut,
      sources: sourcesOf(sums),
      models: targets.map((model) => compared(model, traffic, charge))
    }
  }
}

function targetsOf(names: readonly string[] | undefined, models: ReadonlyMap<string, Model>): readonly Model[] {
  if (names === undefined)
    return [...models.values()].filter(({ channels }) => channels.length > 0).slice(0, mostModels)
  if (names.length === 0 || names.length > mostModels)
    throw invalidField('to', `to names ${names.length} models: it must name 1 to ${mostModels}, or be left out for all`)
  return [...new Set(names)].map((name) => {
    const model = models.get(name)
    if (model) return model
    throw invalidField('to', `to has ${shown(name)}, and there is no such model${suggestion(name, [...models.keys()])}`)
  })
}

function sourcesOf(sums: readonly SpendSum[]): object[] {
  const sources = new Map<string, { requests: number; charge: bigint }>()
  for (const { group, requests, charge } of sums) {
    const before = sources.get(group[0]!)
    sources.set(group[0]!, {
      requests: (before?.requests ?? 0) + requests,
      charge: (before?.charge ?? 0n) + charge
    })
  }
  return [...sources].map(([model, { requests, charge }]) => ({ model, requests, ...amount('charge', charge) }))
}

function compared({ name, prices }: Model, traffic: readonly Traffic[], charge: bigint): object {
  const price = inForce(prices, Date.now())?.price
  if (!price) {
    const nothing = { ...unknown('would'), ...unknown('difference'), ...unknown('least'), ...unknown('most') }
    return { model: name, price_version: null, ...nothing, exact: false, lines: [], doubts: [{ why: 'no_price' }] }
  }
  const { amount: would, least, most, lines, doubts } = reprice(traffic, price)
  return {
    model: name,
    price_version: price.version,
    ...amount('would', would),
    ...amount('difference', would - charge),
    ...amount('least', least),
    ...amount('most', most),
    exact: doubts.length === 0,
    lines: lines.map(({ class: name, units, perMillion }) => ({
      class: name,
      units,
      usd_per_million: perMillion === undefined ? null : showRates({ [name]: perMillion })[name]!
    })),
    doubts: doubts.map((doubt) => ({ ...doubt, text: words(doubt) }))
  }
}

function words(doubt: Doubt): string {
  switch (doubt.why) {
    case 'unpriced':
      return `it has no price for ${doubt.class}: ${doubt.units} units count as free`
    case 'rounding':
      return 'a unit costs a part of a nano-dollar: requests are rounded one by one, and sums do not show how'
    case 'calls':
      return 'it has a price for each call, and how many of these requests were charged was not counted'
    case 'prompt_length':
      return 'long prompts cost more there, and sums do not show how long each was'
    case 'pictures':
      return 'its price depends on the size and quality of a picture, which sums do not show'
  }
}

function amount(name: string, nano: bigint): Record<string, string> {
  return { [`${name}_usd`]: formatDollars(nano), [`${name}_nano`]: String(nano) }
}

function unknown(name: string): Record<string, null> {
  return { [`${name}_usd`]: null, [`${name}_nano`]: null }
}
