// Who holds what clients refer to by an id: the account of an upstream that gave it, found by the route that was kept
// then.
import { accountOf } from '../../catalogue/account.ts'
import type { Catalogue, Channel } from '../../catalogue/catalogue.ts'
import type { Candidates } from '../../contract/candidates.ts'
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange } from '../../contract/contract.ts'
import type { JsonObject } from '../../protocols/object.ts'
import type { Route } from '../../store/routes.ts'
import { ownerOf } from '../../contract/owner.ts'

/** Ids that are longer, or more items in one response, are no upstream's. */
const longestId = 512
const mostItems = 1000

/** One answer for what is unknown, another's, deleted and too old. */
export function notFound(): GatewayError {
  return new GatewayError('response_not_found', 'Response not found')
}

/**
 * Leaves the channel that holds everything referred to: the one of that name, or another way to the same account.
 * `param`: the member that refers to it, if one does.
 * @throws GatewayError when that channel is gone or does not serve the model; never leaves another
 */
export function keepHolder(
  candidates: Candidates,
  routes: readonly Route[],
  { channels }: Catalogue,
  param?: string
): void {
  const [first] = routes
  const { account, channel: name } = first!
  const holds = (channel: Channel): boolean => channel.endpoints.has('responses') && accountOf(channel) === account
  if (routes.some((route) => route.account !== account)) {
    throw new GatewayError(
      'invalid_field',
      'What the request refers to is kept in different places: send the conversation itself.',
      { param: 'input' }
    )
  }
  const named = candidates.channels.find((channel) => channel.name === name && holds(channel))
  candidates.keep((channel) => (named ? channel === named : holds(channel)))
  if (candidates.channels.length > 0) return
  if (param !== undefined && [...channels.values()].some(holds)) {
    throw new GatewayError(
      'invalid_field',
      `What \`${param}\` refers to is kept where this model is not served: ask for the model \`${first!.model}\`.`,
      { param }
    )
  }
  throw new GatewayError(
    'no_available_channel',
    'What the request refers to is kept where this gateway cannot reach it at the moment.',
    { param }
  )
}

/** Routes to what a response put out, by which a later request may refer to it. */
export function routesOf(exchange: Exchange, channel: Channel, { output }: JsonObject, model: string): Route[] {
  const items = Array.isArray(output) ? (output.slice(0, mostItems) as unknown[]) : []
  return items.flatMap((item) => {
    const id = typeof item === 'object' && item !== null ? idIn(item as JsonObject) : undefined
    return id === undefined ? [] : [routeOf(exchange, channel, id, 'item', model)]
  })
}

/** The route to something that a channel has just made. */
export function routeOf(exchange: Exchange, channel: Channel, id: string, kind: Route['kind'], model: string): Route {
  return { ...ownerOf(exchange), id, kind, channel: channel.name, account: accountOf(channel), model }
}

/** What something is called by its upstream; undefined when that is no id, or would be another place in a path. */
export function idIn({ id }: { readonly id?: unknown }): string | undefined {
  return typeof id === 'string' && !/^\.{0,2}$/.test(id) && id.length <= longestId ? id : undefined
}
