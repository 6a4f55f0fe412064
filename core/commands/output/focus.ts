// Spend in the shape of FOCUS, the FinOps Open Cost and Usage Specification (focus.finops.org): version 1.2, with the
// names of providers that 1.3 has in the place of those that 1.4 removed.
import { priceClasses, pricedClasses } from '../../money/classes.ts'
import type { PricedClass } from '../../money/classes.ts'
import { formatDollars } from '../../money/money.ts'
import type { Price } from '../../money/price.ts'
import type { SpendGroup, SpendSum } from '../../store/spend.ts'
import { version } from '../../telling/version.ts'
import { csvLine } from '../../admin/exports/csv.ts'

/** What the rows are told apart by, besides the class of units. */
export const focusGroups = [
  'day',
  'tenant',
  'project',
  'member',
  'key',
  'tag',
  'model',
  'channel',
  'price',
  'cost_price'
] as const satisfies readonly SpendGroup[]

/** One row: the sum that it is of, its class, and its shares of the charge and the cost. */
interface Part {
  at: Readonly<Record<(typeof focusGroups)[number], string>>
  requests: number
  class: PricedClass | undefined
  quantity: number
  price: Price | undefined
  charge: bigint
  cost: bigint | undefined
}

const units = {
  token: 'Tokens',
  character: 'Characters',
  picture: 'Images',
  call: 'Calls',
  search: 'Searches',
  second: 'Seconds'
} as const

const own = 'Sluice'

/** The columns by name, in the order of the specification; those of ours come last. */
const columns: Readonly<Record<string, (part: Part) => unknown>> = {
  BilledCost: ({ charge }) => formatDollars(charge),
  BillingAccountId: () => 'sluice',
  BillingAccountName: () => own,
  BillingAccountType: () => 'Gateway',
  BillingCurrency: () => 'USD',
  BillingPeriodEnd: ({ at }) => monthAfter(at.day, 1),
  BillingPeriodStart: ({ at }) => monthAfter(at.day, 0),
  ChargeCategory: () => 'Usage',
  ChargeClass: () => null,
  ChargeDescription: ({ at, class: name }) => `${at.model}: ${name ? priceClasses[name].about : 'no units'}`,
  ChargeFrequency: () => 'Usage-Based',
  ChargePeriodEnd: ({ at }) => dayAfter(at.day, 1),
  ChargePeriodStart: ({ at }) => dayAfter(at.day, 0),
  CommitmentDiscountCategory: () => null,
  CommitmentDiscountId: () => null,
  CommitmentDiscountName: () => null,
  CommitmentDiscountStatus: () => null,
  CommitmentDiscountType: () => null,
  ConsumedQuantity: ({ class: name, quantity }) => (name ? quantity : null),
  ConsumedUnit: ({ class: name }) => (name ? units[priceClasses[name].unit] : null),
  ContractedCost: ({ charge }) => formatDollars(charge),
  ContractedUnitPrice: unitPrice,
  EffectiveCost: ({ charge }) => formatDollars(charge),
  HostProviderName: ({ at }) => at.channel || null,
  InvoiceIssuerName: () => own,
  ListCost: ({ charge }) => formatDollars(charge),
  ListUnitPrice: unitPrice,
  PricingCategory: () => 'Standard',
  PricingCurrency: () => 'USD',
  PricingQuantity: ({ class: name, quantity }) => (name ? quantity : null),
  PricingUnit: ({ class: name }) => (name ? units[priceClasses[name].unit] : null),
  ProviderName: () => own,
  PublisherName: () => own,
  RegionId: () => null,
  RegionName: () => null,
  ResourceId: ({ at }) => at.model,
  ResourceName: ({ at }) => at.model,
  ResourceType: () => 'Model',
  ServiceCategory: () => 'AI and Machine Learning',
  ServiceName: () => own,
  ServiceProviderName: () => own,
  ServiceSubcategory: () => 'Generative AI',
  SkuId: ({ at }) => at.model,
  SkuMeter: ({ class: name }) => name ?? null,
  SkuPriceId: ({ at, class: name }) => (at.price === '' || !name ? null : `${at.price}/${name}`),
  SubAccountId: ({ at }) => at.tenant || null,
  SubAccountName: ({ at }) => at.tenant || null,
  SubAccountType: ({ at }) => (at.tenant === '' ? null : 'Tenant'),
  Tags: ({ at }) => at.tag || '{}',
  x_Project: ({ at }) => at.project || null,
  x_Member: ({ at }) => at.member || null,
  x_Key: ({ at }) => at.key || null,
  x_Channel: ({ at }) => at.channel || null,
  x_RequestCount: ({ requests }) => requests,
  x_UpstreamCost: ({ cost }) => (cost === undefined ? null : formatDollars(cost))
}

/** What a reader of a file needs to know of it. `created`: when it was made. */
export function focusMetadata(created: Date): object {
  return {
    DataGenerator: `sluice ${version}`,
    Schema: {
      SchemaId: 'sluice-focus-1.2',
      FocusVersion: '1.2',
      CreationDate: created.toISOString(),
      Notes: 'ServiceProviderName and HostProviderName are columns of FOCUS 1.3.',
      ColumnDefinition: Object.keys(columns).map((name) => ({ ColumnName: name }))
    }
  }
}

/** Renders sums, which are grouped by {@link focusGroups}, as lines of CSV. `priceOf` finds a price by its version. */
export async function* focusLines(
  sums: AsyncIterable<SpendSum>,
  priceOf: (version: string) => Price | undefined
): AsyncGenerator<string> {
  yield csvLine(Object.keys(columns))
  const prices = new Map<string, Price | undefined>()
  const price = (version: string): Price | undefined => {
    if (!prices.has(version)) prices.set(version, version === '' ? undefined : priceOf(version))
    return prices.get(version)
  }
  for await (const sum of sums)
    for (const part of partsOf(sum, price)) yield csvLine(Object.values(columns).map((read) => read(part)))
}

/** One part for each class that was used. The shares of a sum add up to it, and its requests are in the first part. */
function partsOf(
  { group, requests, charge, cost, usage }: SpendSum,
  priceOf: (version: string) => Price | undefined
): Part[] {
  const at = Object.fromEntries(focusGroups.map((name, index) => [name, group[index]!])) as Part['at']
  const price = priceOf(at.price)
  const used = pricedClasses.filter((name) => usage[name])
  if (used.length === 0)
    return charge === 0n && !cost ? [] : [{ at, requests, class: undefined, quantity: 0, price, charge, cost }]
  const weights = (by: Price | undefined): bigint[] =>
    used.map((name) => BigInt(usage[name]!) * (by?.perMillion[name] ?? 0n))
  const charges = shares(charge, weights(price))
  const costs = cost === undefined ? undefined : shares(cost, weights(priceOf(at.cost_price)))
  return used.map((name, index) => ({
    at,
    requests: index === 0 ? requests : 0,
    class: name,
    quantity: usage[name]!,
    price,
    charge: charges[index]!,
    cost: costs?.[index]
  }))
}

/** Divides an amount by weights, so that the shares add up to it. Without weights the first share has all of it. */
function shares(amount: bigint, weights: readonly bigint[]): bigint[] {
  const all = weights.reduce((sum, weight) => sum + weight, 0n)
  if (all === 0n) return weights.map((_, index) => (index === 0 ? amount : 0n))
  let [before, weighed] = [0n, 0n]
  return weights.map((weight) => {
    weighed += weight
    const until = (amount * weighed) / all
    const share = until - before
    before = until
    return share
  })
}

/** The price of one unit in dollars. Nothing for a price that depends on the length of the prompt. */
function unitPrice({ class: name, price }: Part): string | null {
  const rate = name && price && !price.tiers ? (price.perMillion[name] ?? 0n) : undefined
  if (rate === undefined) return null
  // Nano-dollars for a million units are 10⁻¹⁵ dollars for one.
  const digits = rate.toString().padStart(16, '0')
  return `${digits.slice(0, -15)}.${digits.slice(-15)}`.replace(/\.?0+$/, '') || '0'
}

function dayAfter(date: string, days: number): string {
  const time = Date.parse(`${date}T00:00:00Z`)
  return shown(new Date(time + days * 86_400_000))
}

function monthAfter(date: string, months: number): string {
  const [year, month] = date.split('-').map(Number) as [number, number]
  return shown(new Date(Date.UTC(year, month - 1 + months)))
}

function shown(time: Date): string {
  return time.toISOString().replace('.000Z', 'Z')
}
