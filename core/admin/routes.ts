// The table of all routes of the admin listener.
import { upgrade } from './configuration/upgrade.ts'
import { GatewayError } from '../errors.ts'
import { nearest } from '../options/suggest.ts'
import { auditRoutes } from './access/audit-log.ts'
import { sessionRoutes } from './access/session-routes.ts'
import { exportRoutes } from './exports/exports.ts'
import { operatorRoutes } from './access/operators.ts'
import { listBalances } from './tenancy/balances.ts'
import { listCapabilities } from './channels/capabilities.ts'
import { listChannels, showChannel, switchChannel, switchFields, testChannel, testFields } from './channels/channels.ts'
import { channel, channelTest } from './channels/channel-shapes.ts'
import { reload, showConfig, showDiff } from './configuration/config.ts'
import { configFileRoutes } from './configuration/config-file.ts'
import { listHistory, rollback, rollbackFields, showPast } from './configuration/config-history.ts'
import { chainShape, showChain } from './configuration/chain.ts'
import type { Call, Route } from './api/contract.ts'
import { explainRequest, largestAsked } from './requests/explain.ts'
import { askedFields } from './requests/explain-request.ts'
import { hiddenOfExplanations } from './requests/explanation.ts'
import { messagesShape, showMessages, showRequest } from './requests/life.ts'
import { countRequests, filtersShape, listFilters, totalsShape } from './requests/totals.ts'
import { alive, exposeMetrics, ready } from './health.ts'
import { keyRoutes, tenantOfKey } from './tenancy/keys.ts'
import { documentOf } from './openapi.ts'
import { paging } from './api/query.ts'
import { underWayRoute } from './requests/under-way.ts'
import { closedOfRequests, hiddenOfRequests, listRequests, requestFilters } from './requests/requests.ts'
import { requestLife, requestRecord } from './requests/record-shapes.ts'
import { hiddenOfSpend, listSpend, spendParameters } from './requests/spend.ts'
import * as shapes from './api/shapes.ts'
import { ledgerRoutes } from './ledger/verification.ts'
import { modelRoutes } from './models/model-routes.ts'
import { liveRoute } from './live/live-route.ts'
import { overviewRoute } from './live/overview.ts'
import { troublesRoute } from './live/troubles.ts'
import { levelRoutes } from './tenancy/tenants.ts'
import { workersRoute } from './workers.ts'
import { playgroundRoutes } from './playground/routes.ts'

let document: object | undefined

/** All routes. */
export const routes: readonly Route[] = [
  {
    method: 'GET',
    path: '/healthz',
    summary: 'Says that the process runs',
    access: 'anyone',
    answers: { 200: shapes.health },
    handle: alive
  },
  {
    method: 'GET',
    path: '/livez',
    summary: 'Says that the process runs',
    access: 'anyone',
    answers: { 200: shapes.health },
    handle: alive
  },
  {
    method: 'GET',
    path: '/readyz',
    summary: 'Says whether the gateway should get new requests',
    access: 'anyone',
    answers: { 200: shapes.health, 503: shapes.health },
    handle: ready
  },
  {
    method: 'GET',
    path: '/metrics',
    summary: 'Shows all metrics',
    local: true,
    access: 'anyone',
    answers: { 200: 'text/plain' },
    handle: exposeMetrics
  },
  {
    method: 'GET',
    path: '/admin/openapi.json',
    summary: 'Describes this API',
    access: { needs: 'see', tenant: { in: 'nothing' } },
    query: [],
    answers: { 200: shapes.document },
    handle: () => ({ json: (document ??= documentOf(routes)) })
  },
  {
    method: 'GET',
    path: '/admin/v1/requests',
    summary: 'Lists records of requests, newest first',
    access: { needs: 'see', tenant: { in: 'query', hidden: hiddenOfRequests, closed: closedOfRequests } },
    query: [...requestFilters, ...paging],
    answers: { 200: shapes.page(requestRecord) },
    handle: listRequests
  },
  {
    method: 'GET',
    path: '/admin/v1/requests/totals',
    summary: 'Counts requests over time',
    access: { needs: 'see', tenant: { in: 'query', closed: closedOfRequests } },
    query: [...requestFilters, 'parts'],
    answers: { 200: totalsShape },
    handle: countRequests
  },
  {
    method: 'GET',
    path: '/admin/v1/requests/filters',
    summary: 'Lists what requests can be selected by',
    access: { needs: 'see', tenant: { in: 'found', hidden: [] } },
    query: [],
    answers: { 200: filtersShape },
    handle: listFilters
  },
  underWayRoute,
  workersRoute,
  {
    method: 'GET',
    path: '/admin/v1/requests/{request_id}',
    summary: 'Shows the life of one request',
    access: { needs: 'see', tenant: { in: 'found', hidden: hiddenOfRequests } },
    query: [],
    answers: { 200: requestLife },
    handle: showRequest
  },
  {
    method: 'GET',
    path: '/admin/v1/requests/{request_id}/messages',
    summary: 'Shows what was asked and answered, where that is kept, which the audit log notes',
    access: { needs: 'manage', tenant: { in: 'found', hidden: [] } },
    query: [],
    answers: { 200: messagesShape },
    handle: showMessages
  },
  {
    method: 'GET',
    path: '/admin/v1/chain',
    summary: 'Shows the plugins in order, and what they take and refuse',
    access: { needs: 'see' },
    query: [],
    answers: { 200: chainShape },
    handle: showChain
  },
  {
    method: 'GET',
    path: '/admin/v1/balances',
    summary: 'Lists what was spent in the current windows, and what is left',
    access: { needs: 'see', tenant: { in: 'query' } },
    query: ['scope', 'tenant', ...paging],
    answers: { 200: shapes.page(shapes.balance) },
    handle: listBalances
  },
  {
    method: 'GET',
    path: '/admin/v1/spend',
    summary: 'Adds up what was charged and what it cost, by any groups',
    access: { needs: 'see', tenant: { in: 'query', hidden: hiddenOfSpend, closed: ['channel'] } },
    query: [...spendParameters, ...paging],
    answers: { 200: shapes.page(shapes.spendSum) },
    handle: listSpend
  },
  {
    method: 'GET',
    path: '/admin/v1/channels',
    summary: 'Lists channels with their health',
    access: { needs: 'see' },
    query: paging,
    answers: { 200: shapes.page(channel) },
    handle: listChannels
  },
  {
    method: 'GET',
    path: '/admin/v1/channels/{channel}',
    summary: 'Shows a channel',
    access: { needs: 'see' },
    query: [],
    answers: { 200: channel },
    handle: showChannel
  },
  {
    method: 'PATCH',
    path: '/admin/v1/channels/{channel}',
    summary: 'Switches a channel off, lets it drain, or undoes that',
    access: { needs: 'operate' },
    query: [],
    body: { fields: switchFields, patch: true },
    answers: { 200: channel },
    handle: switchChannel
  },
  {
    method: 'POST',
    path: '/admin/v1/channels/{channel}/test',
    summary: 'Sends small real requests to a channel',
    access: { needs: 'operate' },
    query: [],
    body: { fields: testFields },
    answers: { 200: channelTest },
    handle: testChannel
  },
  {
    method: 'GET',
    path: '/admin/v1/capabilities',
    summary: 'Lists what becomes of each feature between two protocols',
    access: { needs: 'see', tenant: { in: 'nothing' } },
    query: ['client', 'channel', ...paging],
    answers: { 200: shapes.page(shapes.capability) },
    handle: listCapabilities
  },
  {
    method: 'GET',
    path: '/admin/v1/config',
    summary: 'Shows the configuration in use, without its secrets',
    access: { needs: 'see' },
    query: [],
    answers: { 200: shapes.config },
    handle: showConfig
  },
  {
    method: 'GET',
    path: '/admin/v1/config/diff',
    summary: 'Says what a reload would change',
    access: { needs: 'operate' },
    query: [],
    answers: { 200: shapes.configDiff },
    handle: showDiff
  },
  {
    method: 'GET',
    path: '/admin/v1/config/history',
    summary: 'Lists the configurations that were taken over, newest first',
    access: { needs: 'see' },
    query: paging,
    answers: { 200: shapes.page(shapes.pastConfig) },
    handle: listHistory
  },
  {
    method: 'GET',
    path: '/admin/v1/config/history/{hash}',
    summary: 'Shows one of them, without its secrets',
    access: { needs: 'see' },
    query: [],
    answers: { 200: shapes.shownPastConfig },
    handle: showPast
  },
  {
    method: 'POST',
    path: '/admin/v1/config/rollback',
    summary: 'Puts an earlier file back, and reloads it',
    access: { needs: 'operate' },
    query: [],
    body: { fields: rollbackFields },
    answers: { 200: shapes.rolledBack, 422: shapes.notRolledBack },
    handle: rollback
  },
  {
    method: 'POST',
    path: '/admin/v1/reload',
    summary: 'Reads the file of the configuration now',
    access: { needs: 'operate' },
    query: [],
    answers: { 200: shapes.reloaded, 422: shapes.notReloaded },
    handle: reload
  },
  {
    method: 'POST',
    path: '/admin/v1/upgrade',
    summary: 'Starts the next process, which takes the place of this one',
    access: { needs: 'operate' },
    query: [],
    answers: { 200: shapes.upgraded },
    handle: upgrade
  },
  {
    method: 'POST',
    path: '/admin/v1/explain',
    summary: 'Explains what would become of a request, which is not sent',
    access: { needs: 'see', tenant: { in: 'named', kind: 'key', of: tenantOfKey, hidden: hiddenOfExplanations } },
    query: [],
    body: { fields: askedFields },
    largest: largestAsked,
    answers: { 200: shapes.explanation },
    handle: explainRequest
  },
  ...configFileRoutes,
  ...modelRoutes,
  ...ledgerRoutes,
  liveRoute,
  troublesRoute,
  overviewRoute,
  ...levelRoutes,
  ...keyRoutes,
  ...operatorRoutes,
  ...auditRoutes,
  ...sessionRoutes,
  ...exportRoutes,
  ...playgroundRoutes
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
  const rest = pattern.at(-1)!.endsWith('...}')
  if (rest ? segments.length < pattern.length : segments.length !== pattern.length) return undefined
  const names: Record<string, string> = {}
  for (const [place, part] of pattern.entries()) {
    if (part.endsWith('...}')) {
      names[part.slice(1, -4)] = segments.slice(place).join('/')
      continue
    }
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
