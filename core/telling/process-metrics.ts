// The metrics of the process: CPU, memory, garbage collection and the event loop.
import { performance } from 'node:perf_hooks'
import { collectDefaultMetrics, Counter, Registry } from 'prom-client'

/**
 * Metrics of the client library whose names break the rules of Prometheus: gauges named like counters, and types within
 * names. docs/METRICS.md says what tells the same.
 */
const misnamed = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  'nodejs_eventloop_utilization_summary',
  'nodejs_eventloop_utilization_histogram'
]

/** The library samples the utilization by a timer even when nobody reads it. Such a period never passes. */
const never = 2 ** 31 - 1

let registry: Registry | undefined

/** All gateways of a process share the registry. Nothing is measured before the first call. */
export function registryOfProcess(): Registry {
  if (registry) return registry
  registry = new Registry()
  collectDefaultMetrics({
    register: registry,
    eventLoopMonitoringPrecision: 20,
    eventLoopUtilizationTimeout: never
  })
  for (const name of misnamed) registry.removeSingleMetric(name)
  new Counter({
    name: 'nodejs_eventloop_active_seconds_total',
    help: 'Time that the event loop has spent on work and not on waiting.',
    registers: [registry],
    collect() {
      this.reset()
      this.inc(performance.eventLoopUtilization().active / 1000)
    }
  })
  return registry
}
