// Metrics: the registry of a gateway, and the part of it that plugins may use.
import type { Metric } from 'prom-client'
import { registryOfProcess } from './process-metrics.ts'
import { registry } from './prometheus.ts'
import type { Registry } from './prometheus.ts'
import { Cells, Level, Spread, Sum } from './series.ts'
import type { Aggregator, Family, Labels, SeriesValue } from './series.ts'
import { version } from './version.ts'

export type { Labels } from './series.ts'

/**
 * Declares one metric; the full name is `sluice_<name>`. Labels must come from closed lists, never from a request. One
 * whose value is empty is not shown, which means the same to Prometheus.
 */
export interface MetricDefinition {
  name: string
  help: string
  labels?: readonly string[]
  /** What a gauge is in a gateway of several threads: the sum of what each has (default), the least or the most. */
  aggregator?: Aggregator
}

/** Creates metrics; asking again for the same name returns the same one. */
export interface PluginMetrics {
  counter(definition: MetricDefinition): Counter
  gauge(definition: MetricDefinition): {
    set(labels: Labels, value: number): void
    add(labels: Labels, by: number): void
  }
  histogram(definition: MetricDefinition & { buckets?: readonly number[] }): Histogram
}

/** A number that only grows. */
export interface Counter {
  add(labels: Labels, by?: number): void
  /**
   * One of its series, for a caller that adds to the same one again and again and would look it up each time: it may be
   * kept until {@link retain} removes it.
   */
  of(labels: Labels): CounterSeries
  /** Removes the series whose labels are not kept. One that is added to again begins anew. */
  retain(keeps: (labels: Labels) => boolean): void
}

/** One series of a counter. */
export interface CounterSeries {
  add(by?: number): void
}

/** One series of a histogram. */
export interface HistogramSeries {
  observe(value: number): void
}

/** One metric with its values at one moment. */
export interface MetricSnapshot {
  /** The full name. */
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  aggregator: Aggregator
  /** Of a histogram: its series, with `metricName`; the label `le` has the upper bound of a bucket. */
  values: readonly SeriesValue[]
}

/** Counts values in ranges of their size. */
export interface Histogram {
  observe(labels: Labels, value: number): void
  /** See {@link Counter.of}. */
  of(labels: Labels): HistogramSeries
}

/** Upper bounds in seconds, from a quick refusal to a long answer. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

/**
 * The metrics of one gateway; a process may have several. The methods throw for label names that were not declared and
 * for values that are not finite numbers, because both are bugs of the caller.
 */
export class Metrics implements PluginMetrics {
  readonly #metrics: OwnMetric[] = []
  /** The renderer; absent before metrics are read for the first time. */
  #registry: Registry | undefined
  readonly #made = new Map<string, { signature: string; metric: unknown }>()
  readonly #dropped: { add(labels: Labels): void }
  #others: (() => Promise<readonly (readonly MetricSnapshot[])[]>) | undefined

  constructor() {
    this.#dropped = this.counter({
      name: 'metrics_series_dropped_total',
      help: 'Updates lost because their metric has too many series already.',
      labels: ['metric']
    })
    this.gauge({
      name: 'build_info',
      help: 'Always 1; the labels tell what runs.',
      labels: ['version', 'node'],
      aggregator: 'max'
    }).set({ version, node: process.versions.node }, 1)
  }

  /** Makes a counter, whose name must end in `_total`. */
  counter(definition: MetricDefinition): Counter {
    if (!definition.name.endsWith('_total'))
      throw new Error(`the counter ${definition.name} must have a name that ends in _total`)
    return this.#once('counter', definition, (family) => {
      const cells = new Cells<Sum, Pick<Sum, 'add'>>(family, (labels) => new Sum(family.name, labels), {
        add: () => this.#drop(family)
      })
      this.#register(family, () => cells.all)
      return {
        add: (labels: Labels, by?: number) => cells.of(labels).add(by),
        of: (labels: Labels) => cells.of(labels),
        retain: (keeps: (labels: Labels) => boolean) => cells.retain(keeps)
      }
    })
  }

  gauge(definition: MetricDefinition): {
    set(labels: Labels, value: number): void
    add(labels: Labels, by: number): void
  } {
    return this.#once('gauge', definition, (family) => {
      const cells = new Cells<Level, Pick<Level, 'set' | 'add'>>(family, (labels) => new Level(family.name, labels), {
        set: () => this.#drop(family),
        add: () => this.#drop(family)
      })
      this.#register(family, () => cells.all)
      return {
        set: (labels: Labels, value: number) => cells.of(labels).set(value),
        add: (labels: Labels, by: number) => cells.of(labels).add(by)
      }
    })
  }

  /** Makes a histogram. `buckets`: upper bounds, ascending. */
  histogram(definition: MetricDefinition & { buckets?: readonly number[] }): Histogram {
    const { buckets: bounds = durationBuckets } = definition
    return this.#once('histogram', definition, (family) => {
      const cells = new Cells<Spread, Pick<Spread, 'observe'>>(
        family,
        (labels) => new Spread(family.name, labels, bounds),
        { observe: () => this.#drop(family) }
      )
      this.#register(family, () => cells.all.flatMap((cell) => cell.values()))
      return {
        observe: (labels: Labels, value: number) => cells.of(labels).observe(value),
        of: (labels: Labels) => cells.of(labels)
      }
    })
  }

  /**
   * A metric whose value is kept elsewhere and read at each scrape. `read` gives one number, or numbers each with the
   * values of the labels. It is a counter when its name ends in `_total`, otherwise a gauge.
   */
  observed(definition: MetricDefinition, read: () => number | Iterable<readonly [Labels, number]>): void {
    this.#once(definition.name.endsWith('_total') ? 'counter' : 'gauge', definition, (family) =>
      this.#register(family, () => {
        const value = read()
        return typeof value === 'number'
          ? [{ labels: {}, value }]
          : Array.from(value, ([labels, figure]) => ({ labels, value: figure }))
      })
    )
  }

  /** All metrics with those of the process, in OpenMetrics or in Prometheus' text format, as the Accept header asks. */
  async expose(accept = ''): Promise<{ contentType: string; text: string }> {
    const Library = registry()
    const rendered = await (await this.#all()).metrics()
    // The library writes NaN as `Nan`, which is not valid.
    const text = rendered.replaceAll(' Nan\n', ' NaN\n')
    return accept.includes('application/openmetrics-text')
      ? { contentType: Library.OPENMETRICS_CONTENT_TYPE, text: openMetrics(text) }
      : { contentType: Library.PROMETHEUS_CONTENT_TYPE, text }
  }

  /** All metrics with those of the process, as they are now. */
  async snapshot(): Promise<readonly MetricSnapshot[]> {
    const families = await (await this.#all()).getMetricsAsJSON()
    return families as unknown as MetricSnapshot[]
  }

  /** The metrics without those of the process, as they are now. */
  get own(): readonly MetricSnapshot[] {
    return this.#metrics.map(({ get }) => get())
  }

  /** From now on the metrics are those of several threads: at each reading, `others` says what the others have. */
  join(others: () => Promise<readonly (readonly MetricSnapshot[])[]>): void {
    this.#others = others
  }

  async #all(): Promise<Registry> {
    const Library = registry()
    if (this.#others)
      return Library.merge([Library.aggregate([this.own, ...(await this.#others())]), registryOfProcess()])
    if (!this.#registry) {
      this.#registry = new Library()
      for (const metric of this.#metrics) this.#registry.registerMetric(metric as unknown as Metric<string>)
    }
    return Library.merge([this.#registry, registryOfProcess()])
  }

  #once<M>(
    type: Family['type'],
    { name, help, labels = [], aggregator = 'sum' }: MetricDefinition,
    make: (family: Family) => M
  ): M {
    const signature = `${type} with the labels ${labels.join(', ') || 'none'}`
    const made = this.#made.get(name)
    if (made && made.signature !== signature)
      throw new Error(`the metric ${name} is a ${made.signature} already: give this one another name`)
    if (made) return made.metric as M
    const metric = make({ name: `sluice_${name}`, help, type, aggregator, labels })
    this.#made.set(name, { signature, metric })
    return metric
  }

  #drop({ name }: Family): void {
    this.#dropped.add({ metric: name })
  }

  /**
   * Registers a metric with the library's renderer. The library's own metric classes look their labels up at each
   * update; {@link Cells} save half a microsecond of that, about four per request. The object has all that the renderer
   * uses.
   */
  #register({ name, help, type, aggregator }: Family, values: () => readonly SeriesValue[]): void {
    const get = (): MetricSnapshot => ({
      name,
      help,
      type,
      aggregator,
      values: values()
    })
    const metric = { name, help, type, aggregator, get }
    this.#metrics.push(metric)
    this.#registry?.registerMetric(metric as unknown as Metric<string>)
  }
}

/** What the renderer uses of a metric. */
interface OwnMetric extends Omit<Family, 'labels'> {
  get(): MetricSnapshot
}

/** The metrics of several threads as one. */
export function aggregated(all: readonly (readonly MetricSnapshot[])[]): readonly MetricSnapshot[] {
  const metrics = registry()
    .aggregate([...all])
    .getMetricsAsArray()
  return (metrics as unknown as OwnMetric[]).map(({ get }) => get())
}

/**
 * Converts the text to OpenMetrics 1.0: the family of a counter is named without `_total`, there are no empty lines,
 * and the text ends with an EOF line.
 */
function openMetrics(text: string): string {
  return `${text.replace(/^# HELP (\S+)_total (.*)\n# TYPE \1_total counter$/gm, '# HELP $1 $2\n# TYPE $1 counter').replace(/\n{2,}/g, '\n')}# EOF\n`
}
