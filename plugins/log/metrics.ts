// The exchange's numbers, as Prometheus sees them.
import type { Catalogue } from '../../core/catalogue/catalogue.ts'
import type { CounterSeries, HistogramSeries, PluginMetrics } from '../../core/telling/metrics.ts'
import type { RequestRecord } from '../../core/store/requests.ts'
import type { PricedClass } from '../../core/money/usage.ts'

/** From a refusal at once to an agent's long answer, in seconds. */
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

/** What the exchanges that end alike count in. */
interface Series {
  endpoint: string
  outcome: string
  code: string
  requests: CounterSeries
  duration: HistogramSeries
  /** There when they have something to count. */
  firstByte?: HistogramSeries
  cost?: CounterSeries
  tokens: Partial<Record<PricedClass, CounterSeries>>
}

/** Counts one record. Label values come from closed lists: a model that is not in the catalogue is `other`. */
export function meter(metrics: PluginMetrics, catalogue: Catalogue): (record: RequestRecord, nano: bigint) => void {
  const requests = metrics.counter({
    name: 'requests_total', help: 'Exchanges, by how they ended.', labels: ['endpoint', 'model', 'outcome', 'code']
  })
  const tokens = metrics.counter({ name: 'tokens_total', help: 'Units consumed, by the class they are priced in.', labels: ['model', 'class'] })
  const cost = metrics.counter({ name: 'cost_usd_total', help: 'Charged, in US dollars; the ledger holds the exact amounts.', labels: ['model'] })
  const duration = metrics.histogram({
    name: 'request_duration_seconds', help: 'From the arrival of a request to the end of its answer.', labels: ['endpoint', 'outcome'], buckets
  })
  const firstByte = metrics.histogram({
    name: 'first_byte_seconds', help: 'From the arrival of a request to the first byte of its answer.', labels: ['endpoint', 'model'], buckets
  })

  /** By model: of its latest exchange, which the next one mostly ends like. */
  const latest = new Map<string, Series>()
  const seriesOf = ({ endpoint, outcome }: RequestRecord, model: string, code: string): Series => {
    const known = latest.get(model)
    if (known && known.endpoint === endpoint && known.outcome === outcome && known.code === code) return known
    const series: Series = {
      endpoint, outcome, code, requests: requests.of({ endpoint, model, outcome, code }), duration: duration.of({ endpoint, outcome }), tokens: {}
    }
    latest.set(model, series)
    return series
  }

  return (record, nano) => {
    const { endpoint, usage } = record
    const model = record.model !== null && catalogue.models.has(record.model) ? record.model : 'other'
    const series = seriesOf(record, model, record.error_code ?? 'ok')
    series.requests.add()
    series.duration.observe(record.duration_ms / 1000)
    if (record.first_byte_ms !== null) (series.firstByte ??= firstByte.of({ endpoint, model })).observe(record.first_byte_ms / 1000)
    if (nano > 0n) (series.cost ??= cost.of({ model })).add(Number(nano) / 1e9)
    if (!usage) return
    for (const name in usage) {
      const units = usage[name as PricedClass]
      // How much of the output was reasoning is no class of its own.
      if (units && name !== 'reasoning') (series.tokens[name as PricedClass] ??= tokens.of({ model, class: name })).add(units)
    }
  }
}
