// The table of all routes of the admin listener.
import { GatewayError } from '../errors.ts'
import { nearest } from '../options/suggest.ts'
import { listBalances } from './balances.ts'
import { listCapabilities } from './capabilities.ts'
import { listChannels } from './channels.ts'
import { reload, showConfig } from './config.ts'
import type { Route } from './contract.ts'
import { alive, exposeMetrics, ready } from './health.ts'
import { createKey, listKeys, revokeKey } from './keys.ts'
import { paging } from './query.ts'
import { listRequests, requestFilters } from './requests.ts'
import { listTenants } from './tenants.ts'

/** All routes. */
const routes: readonly Route[] = [
  { method: 'GET', path: '/healthz', handle: alive },
  { method: 'GET', path: '/livez', handle: alive },
  { method: 'GET', path: '/readyz', handle: ready },
  { method: 'GET', path: '/metrics', local: true, handle: exposeMetrics },
  { method: 'GET', path: '/admin/v1/requests', query: [...requestFilters, ...paging], handle: listRequests },
  { method: 'GET', path: '/admin/v1/balances', query: ['scope', 'tenant', ...paging], handle: listBalances },
  { method: 'GET', path: '/admin/v1/channels', query: paging, handle: listChannels },
  { method: 'GET', path: '/admin/v1/capabilities', query: ['client', 'channel', ...paging], handle: listCapabilities },
  { method: 'GET', path: '/admin/v1/tenants', query: paging, handle: listTenants },
  { method: 'GET', path: '/admin/v1/config', query: [], handle: showConfig },
  { method: 'POST', path: '/admin/v1/reload', query: [], handle: reload },
  { method: 'GET', path: '/admin/v1/keys', query: paging, handle: listKeys },
  { method: 'POST', path: '/admin/v1/keys', query: [], handle: createKey },
  { method: 'DELETE', path: '/admin/v1/keys/{name}', query: [], handle: revokeKey }
]

/**
 * Finds the route of a method and a raw path, and the text in the place of its braces. HEAD is served as GET.
 * @throws GatewayError `route_not_found`, or `method_not_allowed` with `Allow`
 */
export function findRoute(method: string, path: string): { route: Route; name: string } {
  const found = routes.flatMap((route) => {
    const name = nameIn(path, route.path)
    return name === undefined ? [] : [{ route, name }]
  })
  if (found.length === 0) throw notFound(path)
  const match = found.find(({ route }) => route.method === (method === 'HEAD' ? 'GET' : method))
  if (match) return match
  const allow = found.flatMap(({ route }) => (route.method === 'GET' ? ['GET', 'HEAD'] : [route.method])).join(', ')
  throw new GatewayError('method_not_allowed', `${path} takes ${allow}.`, { headers: [['allow', allow]] })
}

/**
 * Matches a path with a pattern. Returns the text in the place of its braces, or an empty text when it has none;
 * undefined when the path does not match.
 */
function nameIn(path: string, pattern: string): string | undefined {
  if (!pattern.endsWith('}')) return path === pattern ? '' : undefined
  const start = pattern.slice(0, pattern.lastIndexOf('{'))
  const rest = path.slice(start.length)
  if (!path.startsWith(start) || rest === '' || rest.includes('/')) return undefined
  try {
    return decodeURIComponent(rest)
  } catch {
    return undefined
  }
}

function notFound(path: string): GatewayError {
  const near = nearest(path, new Set(routes.map((route) => route.path)))
  return new GatewayError(
    'route_not_found',
    `There is nothing here.${near === undefined ? '' : ` Did you mean ${near}?`}`
  )
}
