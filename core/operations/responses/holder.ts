// Finds the account of an upstream that holds what a client refers to by an id, by the route that was kept when the id
// was given out.
import { accountOf, byAccount } from '../../catalogue/account.ts'
import type { Catalogue, Channel } from '../../catalogue/catalogue.ts'
import type { Candidates } from '../../contract/candidates.ts'
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange } from '../../contract/contract.ts'
import type { JsonObject } from '../../protocols/object.ts'
import type { Route } from '../../store/routes.ts'
import { ownerOf } from '../../contract/owner.ts'

/** The longest id, and the most items of one response. No upstream exceeds them. */
const longestId = 512
const mostItems = 1000

/** The same error for responses that are unknown, another tenant's, deleted or expired. */
export function notFound(): GatewayError {
  return new GatewayError('response_not_found', 'Response not found', {
    reason: {
      by: 'reference',
      what: 'the project of the key has nothing kept under this id: it is unknown, of another project, deleted or expired',
      where: 'store.routes.age',
      remedy: null
    }
  })
}

/**
 * Keeps the channel that holds everything referred to: the one named by the first route, or else all channels of its
 * account. `param`: the member that refers to it, if one does.
 * @throws GatewayError when that channel is gone or does not serve the model; then no other channel may be tried
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
  const named = candidates.channels.flatMap(byAccount).find((channel) => channel.name === name && holds(channel))
  candidates.bind((channel) => (named ? channel === named : holds(channel)))
  if (candidates.channels.length > 0) return
  if (param !== undefined && [...channels.values()].flatMap(byAccount).some(holds)) {
    throw new GatewayError(
      'invalid_field',
      `What \`${param}\` refers to is kept where this model is not served: ask for the model \`${first!.model}\`.`,
      {
        param,
        reason: {
          by: 'reference',
          what: `${param} refers to what is kept where this model is not served`,
          where: `models.${first!.model}`,
          remedy: 'offer both models by the same channel'
        }
      }
    )
  }
  throw new GatewayError(
    'no_available_channel',
    'What the request refers to is kept where this gateway cannot reach it at the moment.',
    {
      param,
      reason: {
        by: 'reference',
        what: 'no channel has the address and credential any more that it is kept with',
        where: 'channels',
        remedy: 'put the channel back as it was'
      }
    }
  )
}

/** Routes to the output items of a response, by which later requests may refer to them. */
export function routesOf(exchange: Exchange, channel: Channel, { output }: JsonObject, model: string): Route[] {
  const items = Array.isArray(output) ? (output.slice(0, mostItems) as unknown[]) : []
  return items.flatMap((item) => {
    const id = typeof item === 'object' && item !== null ? idIn(item as JsonObject) : undefined
    return id === undefined ? [] : [routeOf(exchange, channel, id, 'item', model)]
  })
}

/** The route to something that a channel has just made for this exchange. */
export function routeOf(exchange: Exchange, channel: Channel, id: string, kind: Route['kind'], model: string): Route {
  return { ...ownerOf(exchange), id, kind, channel: channel.name, account: accountOf(channel), model }
}

/** The id of an upstream's object. Undefined when it is no valid id, or would change the path that it is put into. */
export function idIn({ id }: { readonly id?: unknown }): string | undefined {
  return typeof id === 'string' && !/^\.{0,2}$/.test(id) && id.length <= longestId ? id : undefined
}
