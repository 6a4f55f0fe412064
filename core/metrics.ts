// Metrics: one registry per gateway, and the narrow face of it that plugins get.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'

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
  counter(definition: MetricDefinition): { add(labels: Labels, by?: number): void }
  gauge(definition: MetricDefinition): { set(labels: Labels, value: number): void; add(labels: Labels, by: number): void }
  histogram(definition: MetricDefinition & { buckets?: readonly number[] }): { observe(labels: Labels, value: number): void }
}

/** Seconds, from a quick refusal to a long answer. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

/** The metrics of one gateway; several may live in a process, in tests. */
export class Metrics implements PluginMetrics {
  readonly #registry = new Registry()
  readonly #made = new Map<string, unknown>()

  constructor() {
    collectDefaultMetrics({ register: this.#registry })
  }

  counter({ name, help, labels = [] }: MetricDefinition): { add(labels: Labels, by?: number): void } {
    return this.#once(name, () => {
      const counter = new Counter({ name: `sluice_${name}`, help, labelNames: [...labels], registers: [this.#registry] })
      const children = new Children(labels, (values) => counter.labels(values))
      return { add: (values: Labels, by = 1) => children.of(values).inc(by) }
    })
  }

  gauge({ name, help, labels = [] }: MetricDefinition): { set(labels: Labels, value: number): void; add(labels: Labels, by: number): void } {
    return this.#once(name, () => {
      const gauge = new Gauge({ name: `sluice_${name}`, help, labelNames: [...labels], registers: [this.#registry] })
      const children = new Children(labels, (values) => gauge.labels(values))
      return {
        set: (values: Labels, value: number) => children.of(values).set(value),
        add: (values: Labels, by: number) => children.of(values).inc(by)
      }
    })
  }

  histogram({ name, help, labels = [], buckets = durationBuckets }: MetricDefinition & { buckets?: readonly number[] }): {
    observe(labels: Labels, value: number): void
  } {
    return this.#once(name, () => {
      const histogram = new Histogram({ name: `sluice_${name}`, help, labelNames: [...labels], buckets: [...buckets], registers: [this.#registry] })
      const children = new Children(labels, (values) => histogram.labels(values))
      return { observe: (values: Labels, value: number) => children.of(values).observe(value) }
    })
  }

  /** A gauge whose values are read when somebody looks; `read` gives a value, or one per label value of the only label. */
  observed(definition: { name: string; help: string; label?: string }, read: () => number | Iterable<readonly [string, number]>): void {
    const { name, help, label } = definition
    new Gauge({
      name: `sluice_${name}`,
      help,
      labelNames: label === undefined ? [] : [label],
      registers: [this.#registry],
      collect() {
        const value = read()
        if (typeof value === 'number') return this.set(value)
        this.reset()
        for (const [labelValue, figure] of value) this.set({ [label!]: labelValue }, figure)
      }
    })
  }

  /** The exposition format that Prometheus scrapes. */
  async expose(): Promise<{ contentType: string; text: string }> {
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() }
  }

  #once<T>(name: string, make: () => T): T {
    let made = this.#made.get(name)
    if (made === undefined) this.#made.set(name, (made = make()))
    return made as T
  }
}

/** Finds a metric's child by its label values without building the library's own key each time. */
class Children<Child> {
  readonly #labels: readonly string[]
  readonly #make: (values: Record<string, string>) => Child
  readonly #children = new Map<string, Child>()

  constructor(labels: readonly string[], make: (values: Record<string, string>) => Child) {
    this.#labels = labels
    this.#make = make
  }

  of(values: Labels): Child {
    let key = ''
    for (const label of this.#labels) key += `${values[label]}\0`
    let child = this.#children.get(key)
    if (!child) this.#children.set(key, (child = this.#make({ ...values })))
    return child
  }
}
