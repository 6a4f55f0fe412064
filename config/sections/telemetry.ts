// The section `telemetry` of gateway.yaml: the collector that is told of requests by OpenTelemetry's protocol.
import type { TelemetrySettings } from '../../core/catalogue/settings.ts'
import type { OptionSchema, OptionValue } from '../../core/options/schema.ts'
import { missingPackages } from '../../core/telemetry/packages.ts'
import type { Report } from '../report.ts'

export const telemetryShape = {
  type: 'object',
  description: 'Traces, metrics and logs for a collector (OTLP). Without it nothing is measured for one.',
  required: ['otlp'],
  examples: [{ otlp: 'http://127.0.0.1:4318', sample: 0.1 }],
  properties: {
    otlp: {
      type: 'string',
      minLength: 1,
      description: 'Address of the collector; `/v1/traces`, `/v1/metrics` and `/v1/logs` are added. It takes protobuf.'
    },
    headers: {
      type: 'object',
      default: {},
      additionalProperties: { type: 'string', secret: true, description: 'A value.' },
      examples: [{ authorization: 'Bearer ${OTLP_TOKEN}' }],
      description: 'Sent with every export.'
    },
    signals: {
      type: 'array',
      minItems: 1,
      items: { type: 'string', enum: ['traces', 'metrics', 'logs'], description: 'What is exported.' },
      default: ['traces', 'metrics', 'logs'],
      description: '`logs` are the lines of the log, and a record for each request. No body is exported.'
    },
    service: { type: 'string', minLength: 1, default: 'sluice', description: 'The `service.name`.' },
    attributes: {
      type: 'object',
      default: {},
      additionalProperties: { type: 'string', description: 'A value.' },
      examples: [{ 'deployment.environment.name': 'production' }],
      description: 'Further attributes of the resource.'
    },
    sample: {
      type: 'number',
      minimum: 0,
      maximum: 1,
      default: 1,
      description:
        'The share of new traces that is exported. A trace that a client began is exported if the client says so.'
    },
    accept: {
      type: 'string',
      enum: ['continue', 'link', 'ignore'],
      default: 'continue',
      description:
        "What becomes of a client's `traceparent`: its trace is continued; or a new one has a link to it, sampled by `sample`; or nothing."
    },
    propagate: {
      type: 'array',
      items: { type: 'string', minLength: 1, description: 'A channel, or a pattern with `*`.' },
      default: [],
      examples: [['own-*']],
      description: 'Channels whose upstreams get `traceparent` and `tracestate`, to go on with the trace.'
    },
    baggage: {
      type: 'boolean',
      default: false,
      description: "Whether these upstreams get the client's `baggage` too, which may tell who its users are."
    },
    providers: {
      type: 'object',
      default: {},
      additionalProperties: { type: 'string', minLength: 1, description: 'A name.' },
      examples: [{ east: 'x_ai' }],
      description: 'The `gen_ai.provider.name` of channels; by default that of the protocol.'
    },
    queue: {
      type: 'integer',
      minimum: 16,
      maximum: 100_000,
      default: 4096,
      description: 'Spans, and log records, that may wait for the collector. More are lost, and counted.'
    },
    timeout: {
      type: 'string',
      format: 'duration',
      atLeast: '100ms',
      atMost: '1m',
      default: '10s',
      description: 'Time that an export may take, with its repetitions.'
    },
    interval: {
      type: 'string',
      format: 'duration',
      atLeast: '1s',
      atMost: '1h',
      default: '60s',
      description: 'How often metrics are exported.'
    },
    compression: { type: 'string', enum: ['gzip', 'none'], default: 'gzip', description: 'Of exports.' }
  }
} as const satisfies OptionSchema

/** Reads the section; undefined when there is none, or it is faulty. */
export function readTelemetry(
  entry: OptionValue<typeof telemetryShape> | undefined,
  channels: ReadonlyMap<string, unknown> | undefined,
  report: Report
): TelemetrySettings | undefined {
  if (entry === undefined || !report.sound('telemetry')) return undefined
  const url = URL.canParse(entry.otlp) ? new URL(entry.otlp) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.search !== '')
    report.value(['telemetry', 'otlp'], 'must be an address like http://127.0.0.1:4318')
  for (const name of Object.keys(entry.providers))
    if (channels && !channels.has(name)) report.key(['telemetry', 'providers', name], `there is no channel ${name}`)
  const command = missingPackages()
  if (command !== undefined)
    report.key(['telemetry'], `needs packages that are not installed: run \`${command}\` in the folder of the gateway`)
  return { ...entry, otlp: entry.otlp.replace(/\/+$/, '') }
}
