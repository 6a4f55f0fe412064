// The table of all routes of the admin listener.
import { GatewayError } from '../errors.ts'
import { nearest } from '../options/suggest.ts'
import { auditRoutes } from './access/audit-log.ts'
import { operatorRoutes } from './access/operators.ts'
import { listBalances } from './balances.ts'
import { listCapabilities } from './capabilities.ts'
import { listChannels, showChannel, switchChannel, testChannel } from './channels.ts'
import { reload, showConfig } from './config.ts'
import type { Call, Route } from './contract.ts'
import { explainRequest, largestAsked } from './explain.ts'
import { alive, exposeMetrics, ready } from './health.ts'
import { keyRoutes } from './keys.ts'
import { paging } from './query.ts'
import { hiddenOfRequests, listRequests, requestFilters } from './requests.ts'
import { hiddenOfSpend, listSpend, spendParameters } from './spend.ts'
import { levelRoutes } from './tenants.ts'

/** All routes. */
export const routes: readonly Route[] = [
  { method: 'GET', path: '/healthz', access: 'anyone', handle: alive },
  { method: 'GET', path: '/livez', access: 'anyone', handle: alive },
  { method: 'GET', path: '/readyz', access: 'anyone', handle: ready },
  { method: 'GET', path: '/metrics', local: true, access: 'anyone', handle: exposeMetrics },
  {
    method: 'GET',
    path: '/admin/v1/requests',
    access: { needs: 'see', tenant: { in: 'query', hidden: hiddenOfRequests, closed: ['channel'] } },
    query: [...requestFilters, ...paging],
    handle: listRequests
  },
  {
    method: 'GET',
    path: '/admin/v1/balances',
    access: { needs: 'see', tenant: { in: 'query' } },
    query: ['scope', 'tenant', ...paging],
    handle: listBalances
  },
  {
    method: 'GET',
    path: '/admin/v1/spend',
    access: { needs: 'see', tenant: { in: 'query', hidden: hiddenOfSpend, closed: ['channel'] } },
    query: [...spendParameters, ...paging],
    handle: listSpend
  },
  { method: 'GET', path: '/admin/v1/channels', access: { needs: 'see' }, query: paging, handle: listChannels },
  { method: 'GET', path: '/admin/v1/channels/{channel}', access: { needs: 'see' }, query: [], handle: showChannel },
  {
    method: 'PATCH',
    path: '/admin/v1/channels/{channel}',
    access: { needs: 'operate' },
    query: [],
    handle: switchChannel
  },
  {
    method: 'POST',
    path: '/admin/v1/channels/{channel}/test',
    access: { needs: 'operate' },
    query: [],
    handle: testChannel
  },
  {
    method: 'GET',
    path: '/admin/v1/capabilities',
    access: { needs: 'see', tenant: { in: 'nothing' } },
    query: ['client', 'channel', ...paging],
    handle: listCapabilities
  },
  { method: 'GET', path: '/admin/v1/config', access: { needs: 'see' }, query: [], handle: showConfig },
  { method: 'POST', path: '/admin/v1/reload', access: { needs: 'operate' }, query: [], handle: reload },
  {
    method: 'POST',
    path: '/admin/v1/explain',
    access: { needs: 'see' },
    query: [],
    largest: largestAsked,
    handle: explainRequest
  },
  ...levelRoutes,
  ...keyRoutes,
  ...operatorRoutes,
  ...auditRoutes
]

/**
 * Finds the route of a method and a raw path, and the texts in the places of its braces. HEAD is served as GET.
 * @throws GatewayError `route_not_found`, or `method_not_allowed` with `Allow`
 */
export function findRoute(method: string, path: string): { route: Route; names: Call['names'] } {
  const segments = path.split('/')
  const found = routes.flatMap((route) => {
    const names = namesIn(segments, route.path.split('/'))
    return names ? [{ route, names }] : []
  })
  if (found.length === 0) throw notFound(path)
  const match = found.find(({ route }) => route.method === (method === 'HEAD' ? 'GET' : method))
  if (match) return match
  const allow = found.flatMap(({ route }) => (route.method === 'GET' ? ['GET', 'HEAD'] : [route.method])).join(', ')
  throw new GatewayError('method_not_allowed', `${path} takes ${allow}.`, { headers: [['allow', allow]] })
}

/** Matches a path with a pattern. Returns the texts in the places of its braces; undefined when it does not match. */
function namesIn(segments: readonly string[], pattern: readonly string[]): Call['names'] | undefined {
  if (segments.length !== pattern.length) return undefined
  const names: Record<string, string> = {}
  for (const [place, part] of pattern.entries()) {
    const segment = segments[place]!
    if (!part.startsWith('{')) {
      if (segment !== part) return undefined
      continue
    }
    try {
      names[part.slice(1, -1)] = decodeURIComponent(segment)
    } catch {
      return undefined
    }
    if (segment === '') return undefined
  }
  return names
}

function notFound(path: string): GatewayError {
  const near = nearest(path, new Set(routes.map((route) => route.path)))
  return new GatewayError(
    'route_not_found',
    `There is nothing here.${near === undefined ? '' : ` Did you mean ${near}?`}`
  )
}
