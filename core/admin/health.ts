// Health for orchestrators and metrics for Prometheus: open to whoever reaches the listener, so nothing here tells
// secrets.
import type { AdminParts, Answer, Call } from './contract.ts'

/** The process runs and its event loop turns. It says nothing of stores and upstreams, which no restart would heal. */
export function alive(): Answer {
  return { json: { status: 'ok' } }
}

/**
 * Whether new requests should be sent here; 503 says why not. What ails the store and refuses nobody is shown beside
 * 200.
 */
export function ready(_call: Call, { draining, store }: AdminParts): Answer {
  const { healthy, troubles } = store.health()
  const reasons = [
    ...(draining() ? ['draining: the gateway is stopping'] : []),
    ...troubles.map(({ text, cause, since }) => `store: ${text}; ${cause}, since ${new Date(since).toISOString()}`)
  ]
  if (reasons.length === 0) return alive()
  return healthy && !draining()
    ? { json: { status: 'degraded', reasons } }
    : { status: 503, json: { status: 'unavailable', reasons } }
}

/** All metrics, in the format of the Accept header. */
export async function exposeMetrics({ accept }: Call, { metrics }: AdminParts): Promise<Answer> {
  return metrics.expose(accept)
}
