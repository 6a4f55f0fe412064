// Records every exchange when it is over: a record in the request log, a line to the sink, and metrics.
import { definePlugin, recordOf, sharedKey, withEachCredential } from '../../core/contract/contract.ts'
import type { Exchange } from '../../core/contract/contract.ts'
import { charge, goingOn, slot } from '../../core/contract/slots.ts'
import { Excerpt, redactor } from './bodies.ts'
import { meter } from './metrics.ts'
import { Sink, writeTo } from './sink.ts'
import { textOf } from './text.ts'

/** The answer of the latest attempt, when bodies are logged. */
const answer = slot('log/answer').of<{ excerpt: Excerpt }>()

export default definePlugin({
  name: 'log',
  summary: 'Records every request with its usage and cost in the request log, as a JSON line and as metrics.',
  options: {
    sink: {
      type: 'string',
      format: 'path',
      words: ['stdout', 'stderr', 'none'],
      default: 'stdout',
      description:
        'Where JSON lines go: `stdout`, `stderr`, `none`, or the path of a file to append to, relative to the file with the chain. The request log is kept in any case.'
    },
    bodies: {
      type: 'boolean',
      default: false,
      description:
        'Whether lines carry what was asked and answered, without credentials. It is what your users wrote: mind who reads the log.'
    },
    body_limit: {
      type: 'string',
      format: 'size',
      default: '16KiB',
      description: 'How much of each body a line carries.'
    },
    buffer: {
      type: 'string',
      format: 'size',
      default: '1MiB',
      description:
        'Lines waiting for a slow sink, in bytes; above it lines are dropped and counted in `sluice_log_dropped_total`, and nothing waits.'
    },
    tenant_label: {
      type: 'integer',
      minimum: 0,
      maximum: 1000,
      default: 0,
      description:
        'How many tenants, in the order of the file and then of their making, have a label `tenant` in `sluice_cost_usd_total` and `sluice_tokens_total`. The others are `other`, and counted in `sluice_log_tenants_dropped_total`. 0: no metric tells tenants apart. A series goes at the reload after its tenant.'
    }
  },
  setup({ sink, bodies, body_limit, buffer, tenant_label }, { catalogue, services, metrics, share }) {
    const count = meter(metrics, catalogue, tenant_label)
    const dropped = metrics.counter({
      name: 'log_dropped_total',
      help: 'Lines lost because the sink of the log was too slow or failed.'
    })
    // Shared between generations, so that they never write into each other's lines.
    const lines =
      sink === 'none'
        ? undefined
        : share(sharedKey<Sink>(sink), () => new Sink(writeTo(sink), (lost) => dropped.add({}, lost)))
    const text = redactor(body_limit, withEachCredential(catalogue.channels.values()))

    const bodiesOf = (exchange: Exchange): object => ({
      request_body: text(exchange.body.bytes),
      response_body: text(exchange.find(answer)?.excerpt.bytes ?? Buffer.alloc(0))
    })

    return {
      ...(bodies && {
        onResponse(exchange: Exchange) {
          const excerpt = new Excerpt(body_limit)
          const kept = exchange.find(answer)
          if (kept) kept.excerpt = excerpt
          else exchange.set(answer, { excerpt })
          return excerpt
        }
      }),

      onSettled(exchange, outcome) {
        const record = recordOf(exchange, outcome)
        // The exchange has begun work, and its cost is known only when that work has ended.
        const later = exchange.find(goingOn)
        if (later) return later.keep(record)
        const json = textOf(record)
        services.requests.append(record, json, exchange.receivedAt)
        count(record, exchange.find(charge)?.amount ?? 0n)
        if (!lines) return
        lines.line(
          bodies && record.model !== null ? JSON.stringify({ ...record, ...bodiesOf(exchange) }) : json,
          buffer
        )
      },

      onConcluded(record) {
        count(record, BigInt(record.cost_nano))
        lines?.line(textOf(record), buffer)
      },

      dispose: () => lines?.flush()
    }
  }
})
