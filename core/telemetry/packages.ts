// OpenTelemetry's own packages. They are optional, and loaded only when gateway.yaml has the section `telemetry`.
import manifest from '../../package.json' with { type: 'json' }

const { devDependencies: versions } = manifest
/** For users they are no dependencies at all: whoever wants telemetry installs them. */
const needed = (Object.keys(versions) as (keyof typeof versions)[]).filter(
  (name) => name.startsWith('@opentelemetry/') && name !== '@opentelemetry/semantic-conventions'
)

/** The command that installs what is missing, in the versions that were tested; undefined when nothing is. */
export function missingPackages(): string | undefined {
  return needed.every(isInstalled)
    ? undefined
    : `npm install --no-save ${needed.map((name) => `${name}@${versions[name]}`).join(' ')}`
}

function isInstalled(name: string): boolean {
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false
  }
}

/** Loads all of them, which takes a quarter of a second. */
export async function loadPackages() {
  const [api, resources, logs, metrics, traces, logsOut, metricsOut, tracesOut] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/sdk-logs'),
    import('@opentelemetry/sdk-metrics'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-logs-otlp-proto'),
    import('@opentelemetry/exporter-metrics-otlp-proto'),
    import('@opentelemetry/exporter-trace-otlp-proto')
  ])
  return { api, resources, logs, metrics, traces, logsOut, metricsOut, tracesOut }
}

/** The packages, loaded. */
export type Packages = Awaited<ReturnType<typeof loadPackages>>
