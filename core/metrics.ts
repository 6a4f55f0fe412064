// Metrics: the process's registry, and the narrow face of it that plugins get.

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
