// The metrics of exchanges.
import { labelOf } from '../../core/contract/contract.ts'
import type { Catalogue } from '../../core/catalogue/catalogue.ts'
import type { CounterSeries, HistogramSeries, PluginMetrics } from '../../core/telling/metrics.ts'
import type { RequestRecord } from '../../core/store/requests.ts'

/** In seconds, from an immediate refusal to an agent's long answer. */
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

/**
 * Makes a function that counts one record. Label values come from closed lists: a model that is not in the catalogue is
 * counted as `other`. `tenants`: how many tenants have a label of their own.
 */
export function meter(
  metrics: PluginMetrics,
  catalogue: Catalogue,
  tenants: number
): (record: RequestRecord, nano: bigint) => void {
  const requests = metrics.counter({
    name: 'requests_total',
    help: 'Exchanges, by how they ended. The protocol is that of the client.',
    labels: ['endpoint', 'protocol', 'model', 'outcome', 'code']
  })
  const tokens = metrics.counter({
    name: 'tokens_total',
    help: 'Units consumed, by the class they are priced in.',
    labels: ['tenant', 'model', 'class']
  })
  const cost = metrics.counter({
    name: 'cost_usd_total',
    help: 'Charged, in US dollars; the ledger holds the exact amounts.',
    labels: ['tenant', 'model']
  })
  const unnamed = metrics.counter({
    name: 'log_tenants_dropped_total',
    help: 'Requests counted as those of the tenant `other`, because more tenants have no label of their own.'
  })
  const duration = metrics.histogram({
    name: 'request_duration_seconds',
    help: 'From the arrival of a request to the end of its answer.',
    labels: ['endpoint', 'outcome'],
    buckets
  })
  const firstByte = metrics.histogram({
    name: 'first_byte_seconds',
    help: 'From the arrival of a request to the first byte of its answer.',
    labels: ['endpoint', 'model'],
    buckets
  })

  const tenantOf = tenantLabel(catalogue, tenants, () => unnamed.add({}))
  for (const counter of [tokens, cost])
    counter.retain(({ tenant }) => tenant === '' || tenant === 'other' || catalogue.tenants.has(tenant!))

  // Most exchanges with a model are like the one before, and are counted in the same series.
  const ways = new Map<string, Way>()
  const bills = new Map<string, Bill>()
  const wayOf = (record: RequestRecord, model: string): Way => {
    const { endpoint, client_protocol: protocol, outcome, error_code } = record
    let way = ways.get(model)
    if (!way || !isOf(way, record)) {
      const code = error_code ?? 'ok'
      way = {
        endpoint,
        protocol,
        outcome,
        error_code,
        requests: requests.of({ endpoint, protocol, model, outcome, code }),
        duration: duration.of({ endpoint, outcome })
      }
      ways.set(model, way)
    }
    return way
  }
  const billOf = (tenant: string, model: string): Bill => {
    let bill = bills.get(model)
    if (bill?.tenant !== tenant) bills.set(model, (bill = { tenant, tokens: new Map() }))
    return bill
  }

  return (record, nano) => {
    const { endpoint, usage } = record
    const model = record.model === null ? 'other' : labelOf(catalogue.models.get(record.model))
    const way = wayOf(record, model)
    way.requests.add()
    way.duration.observe(record.duration_ms / 1000)
    if (record.first_byte_ms !== null)
      (way.firstByte ??= firstByte.of({ endpoint, model })).observe(record.first_byte_ms / 1000)
    if (nano === 0n && !usage) return
    const bill = billOf(tenantOf(record.tenant), model)
    const { tenant } = bill
    if (nano > 0n) (bill.cost ??= cost.of({ tenant, model })).add(Number(nano) / 1e9)
    for (const name in usage) {
      const units = usage[name as keyof typeof usage]
      // Reasoning is counted within the output.
      if (!units || name === 'reasoning') continue
      let counted = bill.tokens.get(name)
      if (!counted) bill.tokens.set(name, (counted = tokens.of({ tenant, model, class: name })))
      counted.add(units)
    }
  }
}

/** How an exchange came and ended, and the series that it is counted in. */
interface Way {
  readonly endpoint: string
  readonly protocol: string
  readonly outcome: string
  readonly error_code: string | null
  readonly requests: CounterSeries
  readonly duration: HistogramSeries
  firstByte?: HistogramSeries
}

/** What the exchanges of a tenant's label are billed in. */
interface Bill {
  readonly tenant: string
  cost?: CounterSeries
  readonly tokens: Map<string, CounterSeries>
}

function isOf(way: Way, { endpoint, client_protocol, outcome, error_code }: RequestRecord): boolean {
  return (
    way.endpoint === endpoint &&
    way.outcome === outcome &&
    way.error_code === error_code &&
    way.protocol === client_protocol
  )
}

/**
 * Makes a function that gives the label of a tenant: its name for the first ones of the catalogue, `other` for the
 * rest, which `drop` is told of, and nothing when no tenant has a label.
 */
function tenantLabel(catalogue: Catalogue, most: number, drop: () => void): (tenant: string | null) => string {
  // The catalogue has another map when tenants come or go.
  let present: Catalogue['tenants'] | undefined
  let named: ReadonlySet<string> = new Set()
  return (tenant) => {
    if (most === 0 || tenant === null) return ''
    if (present !== catalogue.tenants) {
      present = catalogue.tenants
      named = new Set([...present.keys()].slice(0, most))
    }
    if (named.has(tenant)) return tenant
    drop()
    return 'other'
  }
}
