// Health and metrics: what load balancers, orchestrators and Prometheus ask, without a token.
import type { AdminParts, AdminReply, Route } from './contract.ts'

/** The process runs and its event loop turns: it says nothing of stores or upstreams, as a restart would not heal them. */
function live(): AdminReply {
  return { body: { status: 'ok' } }
}

/** May traffic be sent here? */
function ready({ draining, store }: AdminParts): AdminReply {
  const { healthy, lastError } = store.health()
  const reasons = [
    ...(draining() ? ['the gateway is stopping'] : []),
    ...(healthy ? [] : [`the store takes no commits: ${lastError ?? 'unknown error'}`])
  ]
  return reasons.length === 0 ? { body: { status: 'ready' } } : { status: 503, body: { status: 'not ready', reasons } }
}

export const healthRoutes: readonly Route[] = [
  { method: 'GET', path: '/healthz', open: true, handle: live },
  { method: 'GET', path: '/livez', open: true, handle: live },
  { method: 'GET', path: '/readyz', open: true, handle: (_request, parts) => ready(parts) },
  { method: 'GET', path: '/metrics', open: true, handle: ({ accept }, { metrics }) => metrics.expose(accept) }
]
