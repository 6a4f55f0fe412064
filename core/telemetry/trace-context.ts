// W3C Trace Context (https://www.w3.org/TR/trace-context/): reads what a client sends, and writes what upstreams get.
import type { Context, SpanContext } from '@opentelemetry/api'
import type { Packages } from './packages.ts'

type Headers = Readonly<Record<string, string | string[] | undefined>>

/** §3.2: version, trace id, parent id, flags. Later versions may have more behind them. */
const pattern = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/
const zeros = /^0+$/
const sampled = 1

/** The trace that a client is in; undefined when it names none, or names one in a way that is not valid. */
export function traceOf(headers: Headers, api: Packages['api']): SpanContext | undefined {
  const { traceparent, tracestate } = headers
  const [, version, traceId, spanId, flags, more] =
    (typeof traceparent === 'string' && pattern.exec(traceparent.trim())) || []
  if (version === undefined || traceId === undefined || spanId === undefined || flags === undefined) return undefined
  if (version === 'ff' || (version === '00' && more !== undefined)) return undefined
  if (zeros.test(traceId) || zeros.test(spanId)) return undefined
  const context: SpanContext = { traceId, spanId, traceFlags: parseInt(flags, 16) & sampled, isRemote: true }
  if (tracestate !== undefined) context.traceState = api.createTraceState(String(tracestate))
  return context
}

/** The context of a span whose parent is somewhere else. */
export function contextOf(parent: SpanContext | undefined, api: Packages['api']): Context {
  return parent ? api.trace.setSpanContext(api.ROOT_CONTEXT, parent) : api.ROOT_CONTEXT
}

/** Sets the headers by which an upstream goes on with the trace of a span. */
export function propagate({ traceId, spanId, traceFlags, traceState }: SpanContext, to: Record<string, string>): void {
  to['traceparent'] = `00-${traceId}-${spanId}-${(traceFlags & sampled).toString(16).padStart(2, '0')}`
  const state = traceState?.serialize()
  if (state) to['tracestate'] = state
}
