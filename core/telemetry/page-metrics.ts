// Gives the metrics of the page /metrics to OpenTelemetry, under the same names.
import type { CollectionResult, MetricData, MetricProducer } from '@opentelemetry/sdk-metrics'
import type { Metrics, MetricSnapshot } from '../telling/metrics.ts'
import type { Packages } from './packages.ts'

type Point = MetricSnapshot['values'][number]
type Time = [number, number]

/** Reads the metrics of a gateway each time that they are exported. */
export class PageMetrics implements MetricProducer {
  readonly #metrics: Metrics
  readonly #packages: Packages

  constructor(metrics: Metrics, packages: Packages) {
    this.#metrics = metrics
    this.#packages = packages
  }

  async collect(): Promise<CollectionResult> {
    const families = await this.#metrics.snapshot()
    const [began, now] = [hrTime(performance.timeOrigin), hrTime(Date.now())]
    return {
      resourceMetrics: {
        // The reader has a resource of its own, and takes that one.
        resource: this.#packages.resources.emptyResource(),
        scopeMetrics: [
          { scope: { name: 'sluice.metrics' }, metrics: families.map((family) => this.#dataOf(family, began, now)) }
        ]
      },
      errors: []
    }
  }

  #dataOf({ name, help, type, values }: MetricSnapshot, startTime: Time, endTime: Time): MetricData {
    const { AggregationTemporality, DataPointType } = this.#packages.metrics
    const base = {
      descriptor: { name, description: help, unit: '', valueType: this.#packages.api.ValueType.DOUBLE },
      aggregationTemporality: AggregationTemporality.CUMULATIVE
    }
    const numbers = () =>
      values.map(({ labels, value }) => ({ startTime, endTime, attributes: textsOf(labels), value }))
    if (type === 'histogram')
      return {
        ...base,
        dataPointType: DataPointType.HISTOGRAM,
        dataPoints: seriesOf(name, values).map(({ attributes, value }) => ({ startTime, endTime, attributes, value }))
      }
    return type === 'counter'
      ? { ...base, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints: numbers() }
      : { ...base, dataPointType: DataPointType.GAUGE, dataPoints: numbers() }
  }
}

interface Series {
  attributes: Record<string, string>
  value: { buckets: { boundaries: number[]; counts: number[] }; sum: number; count: number }
}

/** Puts the samples of a histogram together, whose buckets Prometheus adds up and OpenTelemetry does not. */
function seriesOf(name: string, values: readonly Point[]): Series[] {
  const found = new Map<string, Series>()
  for (const { metricName, labels, value } of values) {
    const { le, ...own } = labels
    const attributes = textsOf(own)
    const key = JSON.stringify(attributes)
    let series = found.get(key)
    if (!series)
      found.set(key, (series = { attributes, value: { buckets: { boundaries: [], counts: [] }, sum: 0, count: 0 } }))
    const { buckets } = series.value
    if (metricName === `${name}_sum`) series.value.sum = value
    else if (metricName === `${name}_count`) series.value.count = value
    else {
      if (le !== '+Inf') buckets.boundaries.push(Number(le))
      buckets.counts.push(value)
    }
  }
  for (const { value } of found.values()) {
    const { counts } = value.buckets
    for (let i = counts.length - 1; i > 0; i--) counts[i]! -= counts[i - 1]!
  }
  return [...found.values()]
}

function textsOf(labels: Point['labels']): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, String(value)]))
}

function hrTime(ms: number): Time {
  return [Math.floor(ms / 1000), Math.round((ms % 1000) * 1e6)]
}
