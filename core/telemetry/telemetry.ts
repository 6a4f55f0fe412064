// Tells a collector of exchanges and attempts, as the last plugin of every chain while the file has `telemetry`.
import type { Attributes, Context, Span } from '@opentelemetry/api'
import { compileGlobs } from '../catalogue/globs.ts'
import type { Channel } from '../catalogue/catalogue.ts'
import type { Config, TelemetrySettings } from '../catalogue/settings.ts'
import {
  caller,
  charge,
  completionTokens,
  definePlugin,
  formatDollars,
  goingOn,
  promptTokens,
  recordOf,
  sharedKey,
  slot
} from '../contract/contract.ts'
import type { Attempt, Exchange, Hooks, Outcome, Plugin } from '../contract/contract.ts'
import type { Usage } from '../money/usage.ts'
import type { RequestRecord } from '../store/requests.ts'
import type { Logger } from '../telling/log.ts'
import type { Metrics } from '../telling/metrics.ts'
import type { LogTap } from '../telling/tap.ts'
import { names, operationOf, providers } from './conventions.ts'
import type { MeasureRelay } from './measures.ts'
import { loadPackages } from './packages.ts'
import { Pipeline } from './pipeline.ts'
import { contextOf, propagate, traceOf } from './trace-context.ts'
import { thrownText } from '../thrown.ts'

/** The spans of an exchange. */
interface Trace {
  readonly server: Span
  /** In which the server's span is the parent. */
  readonly context: Context
  /** By the number of the attempt. */
  readonly attempts: Span[]
  /** What turns a value of `performance.now()` into Unix milliseconds. */
  readonly epoch: number
}

const traceSlot = slot('telemetry/trace').of<Trace>()

/** What the plugin works with beside its context. */
export interface TelemetryParts {
  config: Pick<Config, 'channels' | 'settings'> & { telemetry: TelemetrySettings }
  metrics: Metrics
  tap: LogTap
  relay: MeasureRelay
  /**
   * Whether this thread is one of several that serve clients: then another one exports metrics, and the lines of the
   * log, which it hears.
   */
  isWorker?: boolean | undefined
}

/** Makes the plugin. It takes part after all others, so that it sees what they have found out and sent. */
export function telemetryPlugin({ config, metrics, tap, relay, isWorker = false }: TelemetryParts): Plugin {
  const { telemetry: settings } = config
  return definePlugin({
    // No plugin of a file can have this name.
    name: '(telemetry)',
    summary: 'Tells a collector.',
    options: {},
    rehearses: true,
    async setup(_options, { share, log }) {
      const packages = await loadPackages()
      const pipeline = share(
        sharedKey<Pipeline>(JSON.stringify(settings)),
        () => {
          const made = new Pipeline({ settings, packages, metrics, log, relay, isWorker })
          if (!isWorker) made.follow(tap)
          return made
        },
        (made) => made.close()
      )
      return new Teller(config, pipeline, log).hooks
    }
  })
}

/** The hooks of one generation. */
class Teller {
  readonly #settings: TelemetrySettings
  readonly #channels: ReadonlyMap<string, Channel>
  readonly #scheme: 'http' | 'https'
  readonly #pipeline: Pipeline
  readonly #log: Logger
  readonly #goesTo: (channel: string) => boolean
  /** By channel: its names for models. */
  readonly #listed = new WeakMap<Channel, ReadonlySet<string>>()
  readonly #api

  constructor({ telemetry, channels, settings }: TelemetryParts['config'], pipeline: Pipeline, log: Logger) {
    this.#settings = telemetry
    this.#channels = channels
    this.#scheme = settings.listen.tls ? 'https' : 'http'
    this.#pipeline = pipeline
    this.#log = log
    this.#goesTo = compileGlobs(telemetry.propagate)
    this.#api = pipeline.packages.api
  }

  get hooks(): Hooks {
    return {
      ...(this.#pipeline.tracer && {
        onAttempt: (exchange: Exchange, attempt: Attempt) => {
          if (exchange.rehearsal) return
          try {
            this.#begin(exchange, attempt)
          } catch (error) {
            this.#log.error('an attempt has no span', { error: thrownText(error) })
          }
        }
      }),
      onSettled: (exchange, outcome) => this.#settled(exchange, outcome),
      onConcluded: (record) => this.#concluded(record)
    }
  }

  #begin(exchange: Exchange, attempt: Attempt): void {
    const { channel, upstreamModel, number, startedAt } = attempt
    const { context, attempts, epoch } = this.#traceOf(exchange)
    const span = this.#pipeline.tracer!.startSpan(
      `${operationOf(exchange.request.operation.endpoint, channel.protocol)} ${upstreamModel}`.trimEnd(),
      { kind: this.#api.SpanKind.CLIENT, startTime: epoch + startedAt },
      context
    )
    attempts[number] = span
    if (!this.#goesTo(channel.name)) return
    propagate(span.spanContext(), attempt.headers)
    const { baggage } = exchange.request.headers
    if (this.#settings.baggage && baggage !== undefined) attempt.headers['baggage'] = String(baggage)
  }

  #traceOf(exchange: Exchange): Trace {
    const begun = exchange.find(traceSlot)
    if (begun) return begun
    const { request, receivedAt } = exchange
    const sent = this.#settings.accept === 'ignore' ? undefined : traceOf(request.headers, this.#api)
    const link = sent && this.#settings.accept === 'link' ? [{ context: sent }] : []
    const parent = contextOf(link.length > 0 ? undefined : sent, this.#api)
    const [route = ''] = request.operation.paths
    const server = this.#pipeline.tracer!.startSpan(
      `${request.method} ${route}`.trimEnd(),
      { kind: this.#api.SpanKind.SERVER, startTime: receivedAt, links: link },
      parent
    )
    const trace: Trace = {
      server,
      context: this.#api.trace.setSpan(parent, server),
      attempts: [],
      epoch: Date.now() - performance.now()
    }
    exchange.set(traceSlot, trace)
    return trace
  }

  #settled(exchange: Exchange, outcome: Outcome): void {
    const trace = this.#pipeline.tracer && this.#traceOf(exchange)
    const { endpoint } = exchange.request.operation
    const later = exchange.find(goingOn) !== undefined
    for (const attempt of exchange.attempts) {
      const attributes = this.#nameAttempt(endpoint, attempt.channel, attempt.upstreamModel, attempt.error?.code)
      const endedAt = attempt.endedAt ?? performance.now()
      const firstChunk =
        exchange.streaming && attempt.firstByteAt !== undefined
          ? (attempt.firstByteAt - attempt.startedAt) / 1000
          : undefined
      const { measures } = this.#pipeline
      measures?.duration.record((endedAt - attempt.startedAt) / 1000, attributes)
      if (firstChunk !== undefined) measures?.firstChunk.record(firstChunk, attributes)
      const used = attempt.usage?.usage
      if (used && !later) this.#count(used, attributes)
      const span = trace?.attempts[attempt.number]
      if (!span) continue
      if (span.isRecording()) {
        span.setAttributes(attributes)
        span.setAttributes({
          [names.stream]: exchange.streaming,
          [names.httpMethod]: attempt.method,
          [names.httpStatus]: attempt.status,
          [names.firstChunk]: firstChunk,
          ...(used && usageOf(used)),
          'sluice.channel': attempt.channel.name,
          'sluice.attempt': attempt.number
        })
        if (attempt.error) span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: attempt.error.code })
      }
      span.end(trace!.epoch + endedAt)
    }
    if (trace) this.#endServer(exchange, outcome, trace)
    if (!later && this.#pipeline.records) this.#pipeline.record(recordOf(exchange, outcome), trace?.context)
  }

  #endServer(exchange: Exchange, { kind, status, error }: Outcome, { server, epoch }: Trace): void {
    if (server.isRecording()) {
      const { id, request, requestedModel, attempts } = exchange
      const model = attempts.at(-1)?.model || exchange.model
      const who = exchange.find(caller)
      const charged = exchange.find(charge)
      server.setAttributes({
        [names.httpMethod]: request.method,
        [names.httpRoute]: request.operation.paths[0],
        [names.path]: request.path,
        [names.scheme]: this.#scheme,
        [names.httpStatus]: status,
        [names.errorType]: error?.code,
        'sluice.request_id': id,
        'sluice.endpoint': request.operation.name,
        'sluice.outcome': kind,
        'sluice.model': model || undefined,
        'sluice.requested_model': requestedModel === model ? undefined : requestedModel,
        'sluice.tenant': who?.tenant,
        'sluice.project': who?.project,
        'sluice.member': who?.member,
        'sluice.key': who?.key,
        'sluice.cost_usd': charged && formatDollars(charged.amount)
      })
      if (status >= 500 || kind === 'failed')
        server.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: error?.code ?? '' })
    }
    server.end(epoch + performance.now())
  }

  /** Work that went on after its request was answered has ended. Its spans ended with the answer. */
  #concluded(record: RequestRecord): void {
    const channel = record.channel === null ? undefined : this.#channels.get(record.channel)
    if (channel && record.usage && record.model !== null) {
      const endpoint = record.endpoint.split('.', 1)[0] as Parameters<typeof operationOf>[0]
      const model = channel.models.get(record.model) ?? record.model
      this.#count(record.usage, this.#nameAttempt(endpoint, channel, model, record.error_code ?? undefined))
    }
    this.#pipeline.record(record, undefined)
  }

  /** Whether a channel's entry has a model. Names that only fit a pattern are the clients' own, and metrics grow. */
  #isListed(channel: Channel, model: string): boolean {
    const listed = this.#listed.get(channel) ?? new Set(channel.models.values())
    this.#listed.set(channel, listed)
    return listed.has(model)
  }

  #nameAttempt(
    endpoint: Parameters<typeof operationOf>[0],
    channel: Channel,
    model: string,
    error: string | undefined
  ): Attributes {
    const { name, protocol, baseUrl } = channel
    return {
      [names.operation]: operationOf(endpoint, protocol),
      [names.provider]: this.#settings.providers[name] ?? providers[protocol],
      ...(model !== '' && { [names.model]: this.#isListed(channel, model) ? model : '_OTHER' }),
      [names.serverAddress]: baseUrl.hostname,
      [names.serverPort]: Number(baseUrl.port) || (baseUrl.protocol === 'https:' ? 443 : 80),
      ...(error !== undefined && { [names.errorType]: error })
    }
  }

  #count(used: Usage, attributes: Attributes): void {
    const tokens = this.#pipeline.measures?.tokens
    const [input, output] = [promptTokens(used), completionTokens(used)]
    if (input > 0) tokens?.record(input, { ...attributes, [names.tokenType]: 'input' })
    if (output > 0) tokens?.record(output, { ...attributes, [names.tokenType]: 'output' })
  }
}

function usageOf(used: Usage): Attributes {
  return {
    [names.inputTokens]: promptTokens(used),
    [names.outputTokens]: completionTokens(used),
    [names.cacheRead]: used.cached_input || undefined,
    [names.cacheWrite]: used.cache_write || undefined,
    [names.reasoning]: used.reasoning || undefined
  }
}
