// Metrics: the registry of a gateway, and the narrow face of it that plugins get.
import { collectDefaultMetrics, Registry } from 'prom-client'
import type { Metric, MetricType, MetricValueWithName } from 'prom-client'
import { version } from './version.ts'

/** Declares one metric; the full name is `sluice_<name>`. Labels must come from closed lists, never from a request. */
export interface MetricDefinition {
  name: string
  help: string
  labels?: readonly string[]
}

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

/** Only ever grows. */
export interface Counter {
  add(labels: Labels, by?: number): void
}

/** Counts values by their size. */
export interface Histogram {
  observe(labels: Labels, value: number): void
}

/**
 * Series of one metric. More than this is a label that is not from a closed list: what comes after is dropped and
 * counted.
 */
const mostSeries = 10_000
/** Seconds, from a quick refusal to a long answer. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

/**
 * The metrics of one gateway; several may live in a process. Methods throw on label names other than the declared ones
 * and on values that are no numbers, as both are bugs of the caller.
 */
export class Metrics implements PluginMetrics {
  readonly #registry = new Registry()
  readonly #made = new Map<string, { signature: string; metric: unknown }>()
  readonly #dropped: { add(labels: Labels): void }

  constructor() {
    this.#dropped = this.counter({
      name: 'metrics_series_dropped_total',
      help: 'Updates lost because their metric has too many series already.',
      labels: ['metric']
    })
    this.gauge({ name: 'build_info', help: 'Always 1; the labels tell what runs.', labels: ['version', 'node'] }).set(
      { version, node: process.versions.node },
      1
    )
  }

  /** A counter's name ends in `_total`. */
  counter(definition: MetricDefinition): Counter {
    if (!definition.name.endsWith('_total'))
      throw new Error(`the counter ${definition.name} must have a name that ends in _total`)
    return this.#once('counter', definition, (family) => {
      const cells = new Cells<Sum, Pick<Sum, 'add'>>(family, (labels) => new Sum(family.name, labels), {
        add: () => this.#drop(family)
      })
      this.#register(family, () => cells.all)
      return { add: (labels: Labels, by?: number) => cells.of(labels).add(by) }
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

  /** `buckets` are upper bounds, ascending. */
  histogram(definition: MetricDefinition & { buckets?: readonly number[] }): Histogram {
    const { buckets: bounds = durationBuckets } = definition
    return this.#once('histogram', definition, (family) => {
      const cells = new Cells<Spread, Pick<Spread, 'observe'>>(
        family,
        (labels) => new Spread(family.name, labels, bounds),
        { observe: () => this.#drop(family) }
      )
      this.#register(family, () => cells.all.flatMap((cell) => cell.values()))
      return { observe: (labels: Labels, value: number) => cells.of(labels).observe(value) }
    })
  }

  /**
   * A number that lives elsewhere, read when somebody looks: `read` gives it, or one for each value of the only label.
   * A counter when its name ends in `_total`, otherwise a gauge.
   */
  observed(
    { label, ...definition }: { name: string; help: string; label?: string },
    read: () => number | Iterable<readonly [string, number]>
  ): void {
    const labels = label === undefined ? [] : [label]
    this.#once(definition.name.endsWith('_total') ? 'counter' : 'gauge', { ...definition, labels }, (family) =>
      this.#register(family, () => {
        const value = read()
        return typeof value === 'number'
          ? [{ labels: {}, value }]
          : Array.from(value, ([name, figure]) => ({ labels: { [label!]: name }, value: figure }))
      })
    )
  }

  /**
   * All metrics, with those of the process, in OpenMetrics or in Prometheus' text format as an Accept header has it.
   */
  async expose(accept = ''): Promise<{ contentType: string; text: string }> {
    const rendered = await Registry.merge([this.#registry, registryOfProcess()]).metrics()
    // The library's spelling of what is no number is its own.
    const text = rendered.replaceAll(' Nan\n', ' NaN\n')
    return accept.includes('application/openmetrics-text')
      ? { contentType: Registry.OPENMETRICS_CONTENT_TYPE, text: openMetrics(text) }
      : { contentType: Registry.PROMETHEUS_CONTENT_TYPE, text }
  }

  #once<M>(type: MetricType, { name, help, labels = [] }: MetricDefinition, make: (family: Family) => M): M {
    const signature = `${type} with the labels ${labels.join(', ') || 'none'}`
    const made = this.#made.get(name)
    if (made && made.signature !== signature)
      throw new Error(`the metric ${name} is a ${made.signature} already: give this one another name`)
    if (made) return made.metric as M
    const metric = make({ name: `sluice_${name}`, help, type, labels })
    this.#made.set(name, { signature, metric })
    return metric
  }

  #drop({ name }: Family): void {
    this.#dropped.add({ metric: name })
  }

  /**
   * The library's own metrics look their labels up anew at each update: {@link Cells} save half a microsecond of it,
   * four or so for a request. Of a metric that it renders, the library wants what is given here and no more.
   */
  #register({ name, help, type }: Family, values: () => readonly MetricValueWithName<string>[]): void {
    const metric = {
      name,
      help,
      type,
      aggregator: 'sum',
      get: () => ({ name, help, type, aggregator: 'sum', values: values() })
    }
    this.#registry.registerMetric(metric as unknown as Metric<string>)
  }
}

/** One metric with all its series. */
interface Family {
  /** In full. */
  name: string
  help: string
  type: MetricType
  labels: readonly string[]
}

/** A series that is one number. */
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

/** A series of a counter. */
class Sum extends Figure {
  add(by = 1): void {
    if (!(by >= 0 && by < Infinity)) throw new RangeError(`${this.name}: a counter cannot grow by ${by}`)
    this.value += by
  }
}

/** A series of a gauge. */
class Level extends Figure {
  set(value: number): void {
    this.value = finite(this.name, value)
  }

  add(by: number): void {
    this.value += finite(this.name, by)
  }
}

/** A series of a histogram. */
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

/** One value for each combination of labels, made when it is first asked for and found by one map lookup a label. */
class Cells<C extends Lost, Lost> {
  readonly all: C[] = []
  readonly #family: Family
  readonly #make: (labels: Labels) => C
  /** Stands in for all that are too many. */
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

  #add(labels: Labels): C {
    const cell = this.#make(labels)
    this.all.push(cell)
    return cell
  }
}

function finite(metric: string, value: number): number {
  if (!Number.isFinite(value)) throw new RangeError(`${metric}: ${value} is not a number`)
  return value
}

let processRegistry: Registry | undefined

/**
 * CPU, memory, garbage collection and event loop, under the names that dashboards know. Nothing is measured before the
 * first scrape.
 */
function registryOfProcess(): Registry {
  if (!processRegistry) {
    processRegistry = new Registry()
    collectDefaultMetrics({ register: processRegistry, eventLoopMonitoringPrecision: 20 })
  }
  return processRegistry
}

/**
 * The same in OpenMetrics 1.0: the family of a counter is named without `_total`, there are no empty lines, and an end.
 */
function openMetrics(text: string): string {
  return `${text.replace(/^# HELP (\S+)_total (.*)\n# TYPE \1_total counter$/gm, '# HELP $1 $2\n# TYPE $1 counter').replace(/\n{2,}/g, '\n')}# EOF\n`
}
