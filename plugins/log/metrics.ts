// The metrics of exchanges.
import type { Catalogue } from '../../core/catalogue/catalogue.ts'
import type { PluginMetrics } from '../../core/telling/metrics.ts'
import type { RequestRecord } from '../../core/store/requests.ts'

/** In seconds, from an immediate refusal to an agent's long answer. */
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

/**
 * Makes a function that counts one record. Label values come from closed lists: a model that is not in the catalogue is
 * counted as `other`.
 */
export function meter(metrics: PluginMetrics, catalogue: Catalogue): (record: RequestRecord, nano: bigint) => void {
  const requests = metrics.counter({
    name: 'requests_total',
    help: 'Exchanges, by how they ended.',
    labels: ['endpoint', 'model', 'outcome', 'code']
  })
  const tokens = metrics.counter({
    name: 'tokens_total',
    help: 'Units consumed, by the class they are priced in.',
    labels: ['model', 'class']
  })
  const cost = metrics.counter({
    name: 'cost_usd_total',
    help: 'Charged, in US dollars; the ledger holds the exact amounts.',
    labels: ['model']
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

  return (record, nano) => {
    const { endpoint, outcome, usage } = record
    const model = record.model !== null && catalogue.models.has(record.model) ? record.model : 'other'
    requests.add({ endpoint, model, outcome, code: record.error_code ?? 'ok' })
    duration.observe({ endpoint, outcome }, record.duration_ms / 1000)
    if (record.first_byte_ms !== null) firstByte.observe({ endpoint, model }, record.first_byte_ms / 1000)
    if (nano > 0n) cost.add({ model }, Number(nano) / 1e9)
    if (!usage) return
    for (const name in usage) {
      const units = usage[name as keyof typeof usage]
      // Reasoning is counted within the output.
      if (units && name !== 'reasoning') tokens.add({ model, class: name }, units)
    }
  }
}
