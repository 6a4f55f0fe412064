// The routes of health, for orchestrators, and of metrics, for Prometheus. They need no token, so they show no secrets.
import type { AdminParts, Answer, Call } from './api/contract.ts'

/**
 * Says that the process runs and its event loop works. It does not include the store and upstreams, because a restart
 * would not mend those.
 */
export function alive(): Answer {
  return { json: { status: 'ok' } }
}

/**
 * Says whether the gateway should get new requests; a 503 says why not. Troubles of the store that refuse no requests,
 * those of the credentials of channels, workers that have ended beside others that serve, and a configuration that was
 * refused are shown with a 200.
 */
export function ready(
  _call: Call,
  { stopping, store, credentials, workers, reloader: { refused } }: AdminParts
): Answer {
  const { healthy, troubles } = store.health()
  const reasons = [
    ...(stopping() ? ['draining: the gateway is stopping'] : []),
    ...troubles.map(({ text, cause, since }) => `store: ${text}; ${cause}, since ${new Date(since).toISOString()}`),
    ...credentials.reasons,
    ...(workers?.reasons ?? []),
    ...(refused ? [refusedSince(refused.time)] : [])
  ]
  if (reasons.length === 0) return alive()
  return healthy && !stopping() && workers?.serves !== false
    ? { json: { status: 'degraded', reasons } }
    : { status: 503, json: { status: 'unavailable', reasons } }
}

/** The problems are for operators alone: they have names and paths. */
function refusedSince(time: number): string {
  const since = new Date(time).toISOString()
  return `configuration: the files are refused since ${since}, and what was in use before stays; GET /admin/v1/config has the problems`
}

/** Shows all metrics, in the format that the Accept header asks for. */
export async function exposeMetrics({ accept }: Call, { metrics }: AdminParts): Promise<Answer> {
  return metrics.expose(accept)
}
