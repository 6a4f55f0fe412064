// The way to a collector: OpenTelemetry's SDK with what the file says, and bounds on what waits.
import { randomUUID } from 'node:crypto'
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'
import type { Attributes, Context, Histogram, Logger as RecordLogger, Tracer } from '@opentelemetry/api'
import type { TelemetrySettings } from '../catalogue/settings.ts'
import type { RequestRecord } from '../store/requests.ts'
import { tellable } from '../telling/log.ts'
import type { Logger } from '../telling/log.ts'
import type { Metrics } from '../telling/metrics.ts'
import type { LogTap } from '../telling/tap.ts'
import { version } from '../telling/version.ts'
import { histograms, schemaUrl } from './conventions.ts'
import { Gate } from './gate.ts'
import type { Signal } from './gate.ts'
import type { MeasureRelay } from './measures.ts'
import type { Packages } from './packages.ts'
import { PageMetrics } from './page-metrics.ts'

/** The most spans or log records of one export, which are encoded in one turn of the event loop. */
const batch = 256
/** How often spans and log records are exported, in milliseconds. */
const lingerMs = 1000
/** Milliseconds that the SDK waits for an exporter beyond the time that the exporter itself allows. */
const graceMs = 2000
/** The longest time that the end of the program waits for a collector, in milliseconds. */
const farewellMs = 2000

/** Tells this process from others, and from those before it that had its number. Its workers have the same. */
const given = getEnvironmentData('sluice.instance')
const instance = typeof given === 'string' ? given : randomUUID()
setEnvironmentData('sluice.instance', instance)

/** The histograms of the conventions for GenAI. */
export type Measures = { readonly [name in keyof typeof histograms]: Pick<Histogram, 'record'> }

/** What a pipeline is made with. */
export interface PipelineParts {
  settings: TelemetrySettings
  packages: Packages
  metrics: Metrics
  log: Logger
  relay: MeasureRelay
  /** Whether another thread exports metrics, those of this one included. */
  isWorker: boolean
}

/** One per telemetry settings; a reload that leaves them as they are keeps it. */
export class Pipeline {
  readonly packages: Packages
  /** Each is undefined when the file does not list its signal. */
  readonly tracer: Tracer | undefined
  readonly measures: Measures | undefined
  readonly records: RecordLogger | undefined
  readonly #ends: (() => Promise<void>)[] = []

  constructor({ settings, packages, metrics, log, relay, isWorker }: PipelineParts) {
    this.packages = packages
    const { signals, queue, timeout } = settings
    const resource = packages.resources.resourceFromAttributes(resourceOf(settings))
    const gate = (signal: Signal): Gate => new Gate(signal, queue, { metrics, log })
    const target = (path: string) => ({
      url: `${settings.otlp}/v1/${path}`,
      headers: settings.headers,
      timeoutMillis: timeout,
      compression: settings.compression as never
    })
    const batches = {
      maxQueueSize: queue,
      maxExportBatchSize: Math.min(batch, queue),
      scheduledDelayMillis: lingerMs,
      exportTimeoutMillis: timeout + graceMs
    }
    if (signals.includes('traces')) {
      const { BatchSpanProcessor, ParentBasedSampler, TraceIdRatioBasedSampler, TracerProvider } = packages.traces
      const spans = gate('traces')
      const exporter = spans.watch(new packages.tracesOut.OTLPTraceExporter(target('traces')))
      const inner = new BatchSpanProcessor({ ...batches, exporter })
      const provider = new TracerProvider({
        resource,
        sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(settings.sample) }),
        spanProcessors: [
          {
            onStart: () => {},
            onEnd: (span) => void (spans.admits() && inner.onEnd(span)),
            forceFlush: () => inner.forceFlush(),
            shutdown: () => inner.shutdown()
          }
        ]
      })
      this.tracer = provider.getTracer('sluice', version, { schemaUrl })
      this.#ends.push(() => provider.shutdown())
    }
    if (signals.includes('logs')) {
      const lines = gate('logs')
      const exporter = lines.watch(new packages.logsOut.OTLPLogExporter(target('logs')))
      const inner = new packages.logs.BatchLogRecordProcessor({ ...batches, exporter })
      const provider = new packages.logs.LoggerProvider({
        resource,
        processors: [
          {
            onEmit: (record) => void (lines.admits() && inner.onEmit(record)),
            forceFlush: () => inner.forceFlush(),
            shutdown: () => inner.shutdown()
          }
        ]
      })
      this.records = provider.getLogger('sluice', version, { schemaUrl })
      this.#ends.push(() => provider.shutdown())
    }
    if (signals.includes('metrics') && isWorker) {
      const noted = keysOf(histograms).map((key) => [
        key,
        { record: (value: number, attributes: Attributes = {}) => relay.note(key, value, attributes) }
      ])
      this.measures = Object.fromEntries(noted) as Measures
    } else if (signals.includes('metrics')) {
      const exporter = gate('metrics').watch(new packages.metricsOut.OTLPMetricExporter(target('metrics')))
      const reader = new packages.metrics.PeriodicExportingMetricReader({
        exporter,
        exportIntervalMillis: settings.interval,
        exportTimeoutMillis: Math.min(timeout + graceMs, settings.interval),
        metricProducers: [new PageMetrics(metrics, packages)]
      })
      const provider = new packages.metrics.MeterProvider({ resource, readers: [reader] })
      const meter = provider.getMeter('sluice', version, { schemaUrl })
      const made = Object.entries(histograms).map(([key, { name, unit, description, buckets }]) => [
        key,
        meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: [...buckets] } })
      ])
      const measures = Object.fromEntries(made) as Measures
      this.measures = measures
      const stop = relay.listen((all) => {
        for (const { of, attributes, values } of all) for (const value of values) measures[of].record(value, attributes)
      })
      this.#ends.push(() => (stop(), provider.shutdown()))
    }
  }

  /** Exports the lines of the program's log from the level `info` on. */
  follow(tap: LogTap): void {
    const { records } = this
    if (!records) return
    const { SeverityNumber } = this.packages.api
    const severities = { info: SeverityNumber.INFO, warn: SeverityNumber.WARN, error: SeverityNumber.ERROR }
    const stop = tap.listen((level, message, fields) => {
      if (level === 'debug') return
      const { text, attributes } = tellable(message, fields)
      records.emit({ severityNumber: severities[level], severityText: level, body: text, attributes })
    })
    this.#ends.unshift(async () => stop())
  }

  /** Exports the record of an exchange, within the trace of the exchange if there is one. */
  record(record: RequestRecord, context: Context | undefined): void {
    const { SeverityNumber, ROOT_CONTEXT } = this.packages.api
    const failed = record.outcome === 'failed'
    this.records?.emit({
      eventName: 'sluice.request',
      timestamp: Date.parse(record.time),
      severityNumber: failed ? SeverityNumber.WARN : SeverityNumber.INFO,
      severityText: failed ? 'warn' : 'info',
      body: JSON.stringify(record),
      attributes: { 'sluice.request_id': record.request_id, 'sluice.outcome': record.outcome },
      context: context ?? ROOT_CONTEXT
    })
  }

  /** Exports what waits. Resolves when that is done or given up, which takes two seconds at most. Never rejects. */
  async close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, farewellMs)
    await Promise.race([Promise.allSettled(this.#ends.map((end) => end())), promise])
    clearTimeout(timer)
  }
}

function keysOf<T extends object>(of: T): (keyof T)[] {
  return Object.keys(of) as (keyof T)[]
}

function resourceOf({ service, attributes }: TelemetrySettings): Attributes {
  return {
    'service.version': version,
    'service.instance.id': instance,
    ...attributes,
    'service.name': service
  }
}
