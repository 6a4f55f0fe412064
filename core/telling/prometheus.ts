// The parts of prom-client that are used, loaded when metrics are read for the first time. All of it, with the
// interface to OpenTelemetry that it brings, would take 30 ms of CPU.
import { createRequire } from 'node:module'
import type { Counter as PromCounter, Registry as PromRegistry } from 'prom-client'

const require = createRequire(import.meta.url)

/** Metrics that are rendered together. */
export type Registry = PromRegistry

/** The class of {@link Registry}. */
export function registry(): typeof PromRegistry {
  return require('prom-client/lib/registry.js') as typeof PromRegistry
}

/** The class of numbers that only grow. */
export function counter(): typeof PromCounter {
  return require('prom-client/lib/counter.js') as typeof PromCounter
}

/** Puts one kind of metrics of the process into a registry. */
type Kind = (registry: Registry, options: { eventLoopMonitoringPrecision: number }) => void

/** The library's metrics of the process with these names; loaded when they are asked for. */
export function kindsOf(names: readonly string[]): Kind[] {
  return names.map((name) => require(`prom-client/lib/metrics/${name}.js`) as Kind)
}
