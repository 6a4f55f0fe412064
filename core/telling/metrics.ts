// Metrics: the registry of a gateway, and the part of it that plugins may use.
import type { Metric, MetricValueWithName } from 'prom-client'
import type { Awaitable } from '../awaitable.ts'
import { registryOfProcess } from './process-metrics.ts'
import { registry } from './prometheus.ts'
import type { Registry } from './prometheus.ts'
import { version } from './version.ts'

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

/** How the values that several threads have of one series become one. */
export type Aggregator = 'sum' | 'min' | 'max'

/** Label values by label name. */
export type Labels = Readonly<Record<string, string>>

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
  values: readonly { metricName?: string; labels: Readonly<Record<string, string | number>>; value: number }[]
}

/** Counts values in ranges of their size. */
export interface Histogram {
  observe(labels: Labels, value: number): void
  /** See {@link Counter.of}. */
  of(labels: Labels): HistogramSeries
}

/**
 * The most series of one metric. More series mean that a label does not come from a closed list; updates of further
 * series are dropped and counted.
 */
const mostSeries = 10_000
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
  #others: (() => Awaitable<readonly (readonly MetricSnapshot[])[]>) | undefined

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
  join(others: () => Awaitable<readonly (readonly MetricSnapshot[])[]>): void {
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
  #register({ name, help, type, aggregator }: Family, values: () => readonly MetricValueWithName<string>[]): void {
    const get = (): MetricSnapshot => ({
      name,
      help,
      type,
      aggregator,
      values: values() as MetricSnapshot['values']
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

/** One metric with its labels. */
interface Family {
  /** The full name. */
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  aggregator: Aggregator
  labels: readonly string[]
}

/** One series that is a single number. */
class Figure {
  readonly labels: Labels
  value = 0
  readonly #name: string

  constructor(name: string, labels: Labels) {
    this.#name = name
    this.labels = labels
  }

  protected get name(): string {
    return this.#name
  }
}

/** One series of a counter. */
class Sum extends Figure {
  add(by = 1): void {
    if (!(by >= 0 && by < Infinity)) throw new RangeError(`${this.name}: a counter cannot grow by ${by}`)
    this.value += by
  }
}

/** One series of a gauge. */
class Level extends Figure {
  set(value: number): void {
    this.value = finite(this.name, value)
  }

  add(by: number): void {
    this.value += finite(this.name, by)
  }
}

/** One series of a histogram. */
class Spread {
  readonly #name: string
  readonly #labels: Labels
  readonly #bounds: readonly number[]
  readonly #counts: number[]
  #count = 0
  #sum = 0

  constructor(name: string, labels: Labels, bounds: readonly number[]) {
    this.#name = name
    this.#labels = labels
    this.#bounds = bounds
    this.#counts = bounds.map(() => 0)
  }

  observe(value: number): void {
    this.#sum += finite(this.#name, value)
    this.#count++
    for (let i = 0; i < this.#bounds.length; i++) {
      if (value > this.#bounds[i]!) continue
      this.#counts[i]!++
      break
    }
  }

  values(): MetricValueWithName<string>[] {
    const [name, labels] = [this.#name, this.#labels]
    let below = 0
    return [
      ...this.#bounds.map((le, i) => ({
        metricName: `${name}_bucket`,
        labels: { ...labels, le },
        value: (below += this.#counts[i]!)
      })),
      { metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: this.#count },
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: this.#count }
    ]
  }
}

type Branch<C> = Map<string, Branch<C> | C>

/** One cell per combination of label values. A cell is made on first use, and found with one map lookup per label. */
class Cells<C extends Lost, Lost> {
  readonly all: C[] = []
  /** The labels of each, with the empty ones. */
  readonly #labels: Labels[] = []
  readonly #family: Family
  readonly #make: (labels: Labels) => C
  /** Takes the updates of series above {@link mostSeries}. */
  readonly #lost: Lost
  readonly #root: Branch<C> | C

  constructor(family: Family, make: (labels: Labels) => C, lost: Lost) {
    this.#family = family
    this.#make = make
    this.#lost = lost
    this.#root = family.labels.length === 0 ? this.#add({}) : new Map<string, Branch<C> | C>()
  }

  of(labels: Labels): Lost {
    const names = this.#family.labels
    let node: Branch<C> | C | undefined = this.#root
    for (let i = 0; i < names.length; i++) {
      node = (node as Branch<C>).get(labels[names[i]!]!)
      if (node === undefined) return this.#grow(labels)
    }
    return node as C
  }

  #grow(labels: Labels): Lost {
    const { name, labels: names } = this.#family
    const wrong =
      Object.keys(labels).find((label) => !names.includes(label)) ??
      names.find((label) => typeof labels[label] !== 'string')
    if (wrong !== undefined)
      throw new TypeError(`${name} has the labels ${names.join(', ')}, and is given ${wrong}: ${labels[wrong]}`)
    if (this.all.length >= mostSeries) return this.#lost
    let branch = this.#root as Branch<C>
    for (const label of names.slice(0, -1)) {
      let next = branch.get(labels[label]!) as Branch<C> | undefined
      if (!next) branch.set(labels[label]!, (next = new Map()))
      branch = next
    }
    const cell = this.#add({ ...labels })
    branch.set(labels[names.at(-1)!]!, cell)
    return cell
  }

  /** Removes the cells whose labels are not kept. There must be labels. */
  retain(keeps: (labels: Labels) => boolean): void {
    const names = this.#family.labels
    for (let i = this.all.length - 1; i >= 0; i--) {
      const labels = this.#labels[i]!
      if (keeps(labels)) continue
      let branch = this.#root as Branch<C>
      for (const label of names.slice(0, -1)) branch = branch.get(labels[label]!) as Branch<C>
      branch.delete(labels[names.at(-1)!]!)
      this.all.splice(i, 1)
      this.#labels.splice(i, 1)
    }
  }

  #add(labels: Labels): C {
    const cell = this.#make(Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== '')))
    this.all.push(cell)
    this.#labels.push(labels)
    return cell
  }
}

function finite(metric: string, value: number): number {
  if (!Number.isFinite(value)) throw new RangeError(`${metric}: ${value} is not a number`)
  return value
}

/**
 * Converts the text to OpenMetrics 1.0: the family of a counter is named without `_total`, there are no empty lines,
 * and the text ends with an EOF line.
 */
function openMetrics(text: string): string {
  return `${text.replace(/^# HELP (\S+)_total (.*)\n# TYPE \1_total counter$/gm, '# HELP $1 $2\n# TYPE $1 counter').replace(/\n{2,}/g, '\n')}# EOF\n`
}
