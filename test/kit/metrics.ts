// Metrics whose values a test can read.
import type { Counter, Histogram, Labels, MetricDefinition, PluginMetrics } from '../../core/telling/metrics.ts'

/** Metrics that refuse labels that were not declared. */
export class TestMetrics implements PluginMetrics {
  readonly #definitions = new Map<string, MetricDefinition>()
  /** By `name{label="value"}`. For histograms, the number of observations. */
  readonly values = new Map<string, number>()
  readonly #labels = new Map<string, Labels>()

  counter(definition: MetricDefinition): Counter {
    const add = this.#adder(definition)
    return {
      add,
      of: (labels) => ({ add: (by) => add(labels, by) }),
      retain: (keeps) => {
        for (const [key, labels] of this.#labels)
          if (key.startsWith(`${definition.name}{`) && !keeps(labels)) this.values.delete(key)
      }
    }
  }

  gauge(definition: MetricDefinition): {
    set(labels: Labels, value: number): void
    add(labels: Labels, by: number): void
  } {
    const add = this.#adder(definition)
    return { add, set: (labels, value) => add(labels, value - (this.values.get(this.#key(definition, labels)) ?? 0)) }
  }

  histogram(definition: MetricDefinition): Histogram {
    const add = this.#adder(definition)
    const observe = (labels: Labels, value: number): void => add(labels, Number.isFinite(value) ? 1 : NaN)
    return { observe, of: (labels) => ({ observe: (value) => observe(labels, value) }) }
  }

  value(name: string, labels: Labels = {}): number {
    return this.values.get(this.#key({ name, help: '' }, labels)) ?? 0
  }

  #adder(definition: MetricDefinition): (labels: Labels, by?: number) => void {
    const known = this.#definitions.get(definition.name)
    if (known && String(known.labels) !== String(definition.labels))
      throw new Error(`metric ${definition.name} is declared twice with other labels`)
    this.#definitions.set(definition.name, definition)
    return (labels, by = 1) => {
      const declared = [...(definition.labels ?? [])].sort().join()
      if (Object.keys(labels).sort().join() !== declared)
        throw new Error(`metric ${definition.name} has the labels ${declared}, not ${Object.keys(labels).join()}`)
      if (!Number.isFinite(by)) throw new Error(`metric ${definition.name} was given ${by}`)
      const key = this.#key(definition, labels)
      this.#labels.set(key, labels)
      this.values.set(key, (this.values.get(key) ?? 0) + by)
    }
  }

  #key({ name }: MetricDefinition, labels: Labels): string {
    return `${name}{${Object.keys(labels)
      .filter((label) => labels[label] !== '')
      .sort()
      .map((label) => `${label}="${labels[label]}"`)
      .join()}}`
  }
}
