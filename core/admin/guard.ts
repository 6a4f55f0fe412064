// Decides who may come in to the admin API: whoever has a token, and without one, programs of this machine where
// gateway.yaml has no token either. What they may do there is decided by access/.
import type { IncomingMessage } from 'node:http'
import type { Awaitable } from '../contract/contract.ts'
import { isLoopback, isLoopbackHost } from './access/loopback.ts'
import { everything } from './access/roles.ts'
import { unauthenticated } from './access/token-check.ts'
import type { TokenCheck } from './access/token-check.ts'
import { tokenPrefix } from './access/tokens.ts'
import type { Actor } from './api/audit.ts'
import { GatewayError } from '../errors.ts'

/**
 * Checks one request, and says who asks. Returns a promise only when it has to wait. `unseen`: the request is looked at
 * again, and not a sign that somebody is there.
 * @throws GatewayError when the request is refused
 */
export type Guard = (request: IncomingMessage, unseen?: boolean) => Awaitable<Actor>

/** What a guard asks. */
export interface Entrances {
  readonly tokens: Pick<TokenCheck, 'ownerOf'>
  /**
   * Finds the session of a request; undefined when it has none.
   * @throws GatewayError when it is over, or may not be used for this
   */
  session?(request: IncomingMessage, unseen?: boolean): Awaitable<Actor> | undefined
}

/** Makes the guard. Where gateway.yaml has no token (`tokenless`), programs of this machine need none. */
export function guardFor(tokenless: boolean, { tokens, session }: Entrances): Guard {
  return (request, unseen) => {
    const { headers, socket, url = '' } = request
    // Whoever sends a token means it: a cookie is sent by the browser alone.
    const own = headers.authorization === undefined ? session?.(request, unseen) : undefined
    if (own) return own
    const presented = presentedIn(headers.authorization)
    // Without a token in the file, other credentials say nothing: only what looks like an operator's is checked.
    if (tokenless && !presented?.toLowerCase().startsWith(tokenPrefix)) return checkLoopback(request)
    if (presented !== undefined) return tokens.ownerOf(presented, socket.remoteAddress ?? '', url.split('?', 1)[0]!)
    throw unauthenticated(
      'missing',
      'The admin API needs Authorization: Bearer with a token: admin.token of gateway.yaml, or one of an operator.'
    )
  }
}

function presentedIn(authorization: string | undefined): string | undefined {
  return /^bearer +(.+)$/i.exec(authorization ?? '')?.[1]
}

/** The headers that may occur only once, because a proxy and this server could each read another one. */
const single = ['host', 'authorization', 'origin', 'sec-fetch-site'] as const

/**
 * Refuses a request with one of these headers twice.
 * @throws GatewayError `invalid_request`
 */
export function checkSingle({ headersDistinct }: IncomingMessage): void {
  const doubled = single.find((name) => (headersDistinct[name]?.length ?? 0) > 1)
  if (doubled !== undefined)
    throw new GatewayError('invalid_request', `The header ${doubled} is there twice: send one.`)
}

/**
 * Protects routes that need no token on a loopback listener from web pages. A site that lets its own name resolve to a
 * loopback address is recognised by that name in `Host`, and its pages do not have the token.
 */
export function checkHost(request: IncomingMessage, guard: Guard): Awaitable<Actor | void> {
  const { host = '', authorization } = request.headers
  if (isLoopbackHost(host) || !isLoopback(request.socket.localAddress ?? '')) return undefined
  if (authorization !== undefined) return guard(request)
  throw forbidden(
    'On a loopback address this answers to localhost and loopback addresses alone, not to another Host: send the admin ' +
      'token, or listen on another address (admin.host).'
  )
}

/**
 * The headers that programs and browsers of this machine send. Any other header may have been added by a proxy, whose
 * clients may be anywhere.
 */
const own =
  /^(?:accept(?:-charset|-encoding|-language)?|access-control-request-.+|anthropic-(?:beta|version)|authorization|baggage|cache-control|connection|content-(?:encoding|length|type)|cookie|date|dnt|expect|from|host|idempotency-key|if-.+|keep-alive|last-event-id|origin|pragma|priority|purpose|range|referer|save-data|sec-.+|te|trace(?:parent|state)|transfer-encoding|upgrade(?:-insecure-requests)?|user-agent|x-prometheus-scrape-timeout-seconds|x-requested-with|x-sluice-(?:csrf|secret))$/

/**
 * Admits programs of this machine. A page of another site can send requests here through a browser on this machine,
 * either by this address or by a name of its own that resolves to it. The browser shows both: in `Origin` and
 * `Sec-Fetch-Site`, or in `Host`.
 */
function checkLoopback({ headers, httpVersion, socket: { remoteAddress = '' } }: IncomingMessage): Actor {
  const { host = '', origin } = headers
  const strange = Object.keys(headers).find((name) => !own.test(name))
  const sign =
    strange !== undefined ? `the header ${strange.slice(0, 40)}` : httpVersion === '1.0' ? 'HTTP/1.0' : undefined
  if (!isLoopback(remoteAddress) || sign !== undefined) {
    const why = sign === undefined ? '' : ` ${sign} is what proxies send, who may speak for anybody:`
    throw forbidden(
      `Without a token the admin API answers programs of this machine alone;${why} set admin.token in gateway.yaml and restart.`
    )
  }
  if (!isLoopbackHost(host))
    throw forbidden(
      'Without a token the admin API answers to localhost and loopback addresses alone, not to another Host.'
    )
  const site = headers['sec-fetch-site'] ?? 'none'
  if ((origin !== undefined && origin !== `http://${host}`) || (site !== 'none' && site !== 'same-origin')) {
    throw new GatewayError('origin_not_allowed', 'Pages of other sites may not use the admin API.')
  }
  return { kind: 'local', id: 'this machine', address: remoteAddress, ...everything }
}

function forbidden(message: string): GatewayError {
  return new GatewayError('endpoint_not_allowed', message, { shownCode: 'local_only' })
}
