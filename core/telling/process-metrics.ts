// The metrics of the process: CPU, memory, garbage collection and the event loop.
import { performance } from 'node:perf_hooks'
import { counter, kindsOf, registry as libraryRegistry } from './prometheus.ts'
import type { Registry } from './prometheus.ts'

/** What the client library knows of a process and is told. CPU time and utilization are told here. */
const kinds = [
  'processStartTime',
  'osMemoryHeap',
  'processOpenFileDescriptors',
  'processMaxFileDescriptors',
  'eventLoopLag',
  'processResources',
  'processHandles',
  'processRequests',
  'heapSizeAndUsed',
  'heapSpacesSizeAndUsed',
  'version',
  'gc'
]

/**
 * Metrics of these whose names break the rules of Prometheus: gauges named like counters. docs/METRICS.md says what
 * tells the same.
 */
const misnamed = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total']

let registry: Registry | undefined

/** All gateways of a process share the registry. Nothing is measured before the first call. */
export function registryOfProcess(): Registry {
  if (registry) return registry
  const Library = libraryRegistry()
  registry = new Library()
  count('process_cpu_user_seconds_total', 'Total user CPU time spent in seconds.', () => process.cpuUsage().user / 1e6)
  count(
    'process_cpu_system_seconds_total',
    'Total system CPU time spent in seconds.',
    () => process.cpuUsage().system / 1e6
  )
  count('process_cpu_seconds_total', 'Total user and system CPU time spent in seconds.', () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  })
  for (const kind of kindsOf(kinds)) kind(registry, { eventLoopMonitoringPrecision: 20 })
  for (const name of misnamed) registry.removeSingleMetric(name)
  count(
    'nodejs_eventloop_active_seconds_total',
    'Time that the event loop has spent on work and not on waiting.',
    () => performance.eventLoopUtilization().active / 1000
  )
  return registry
}

/** A counter whose value is read at each scrape. */
function count(name: string, help: string, read: () => number): void {
  const Counter = counter()
  new Counter({
    name,
    help,
    registers: [registry!],
    collect() {
      this.reset()
      this.inc(read())
    }
  })
}
