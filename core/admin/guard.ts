// Decides who may come in to the admin API: whoever has a token, and without one, programs of this machine where
// gateway.yaml has no token either. What they may do there is decided by access/.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIPv4 } from 'node:net'
import type { Awaitable } from '../contract/contract.ts'
import type { Recognised } from './access/operator-book.ts'
import { everything } from './access/roles.ts'
import { isWhole, tokenPrefix } from './access/tokens.ts'
import type { Actor } from './api/audit.ts'
import { GatewayError } from '../errors.ts'
import { WrongTokens } from './wrong-tokens.ts'
import type { TellWrong } from './wrong-tokens.ts'

/**
 * Checks one request, and says who asks. Returns a promise only when it has to wait.
 * @throws GatewayError when the request is refused
 */
export type Guard = (request: IncomingMessage) => Awaitable<Actor>

/** What a guard needs beside the token of gateway.yaml. */
export interface Entrances {
  /**
   * Finds the operator of a token.
   * @throws GatewayError when it is over
   */
  find(token: string): Recognised | undefined
  wrongToken: TellWrong
  /**
   * Finds the session of a request; undefined when it has none.
   * @throws GatewayError when it is over, or may not be used for this
   */
  session?(request: IncomingMessage): Actor | undefined
}

/** Makes the guard for the token of gateway.yaml. An empty one admits programs of this machine without a token. */
export function guardFor(token: string, entrances: Entrances): Guard {
  const checkToken = tokenCheck(token, entrances)
  return (request) => {
    // Whoever sends a token means it: a cookie is sent by the browser alone.
    const session = request.headers.authorization === undefined ? entrances.session?.(request) : undefined
    if (session) return session
    // Without a token in the file, other credentials say nothing: only what looks like an operator's is checked.
    return token === '' && !looksLikeToken(request) ? checkLoopback(request) : checkToken(request)
  }
}

function presentedIn(authorization: string | undefined): string | undefined {
  return /^bearer +(.+)$/i.exec(authorization ?? '')?.[1]
}

function looksLikeToken({ headers: { authorization } }: IncomingMessage): boolean {
  return presentedIn(authorization)?.toLowerCase().startsWith(tokenPrefix) ?? false
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

/** Checks the token of a request: that of gateway.yaml, or one of an operator. */
function tokenCheck(token: string, { find, wrongToken }: Entrances): (request: IncomingMessage) => Awaitable<Actor> {
  const expected = token === '' ? undefined : digest(token)
  const wrong = new WrongTokens(wrongToken)
  const compare = (presented: string, address: string, url: string): Actor => {
    // Digests have the same length, so the time of the comparison does not even tell the length of the token.
    if (expected && timingSafeEqual(digest(presented), expected))
      return { kind: 'token', id: 'admin.token', address, ...everything }
    // Nobody guesses by tokens whose checksum is wrong, so these are not counted, and not looked up.
    if (presented.toLowerCase().startsWith(tokenPrefix) && !isWhole(presented))
      throw unauthenticated('mistyped', 'This token was mistyped, or a part of it is missing: its checksum is wrong.')
    const operator = isWhole(presented) ? find(presented) : undefined
    if (operator) {
      const { name, role, tenant } = operator
      return { kind: 'operator', id: name, address, role, tenant }
    }
    wrong.note(address, url.split('?', 1)[0]!.slice(0, 100))
    throw unauthenticated('invalid', 'This is no admin token of this gateway.')
  }
  return ({ headers: { authorization }, socket: { remoteAddress = '' }, url = '' }) => {
    const presented = presentedIn(authorization)
    if (presented === undefined)
      throw unauthenticated(
        'missing',
        'The admin API needs Authorization: Bearer with a token: admin.token of gateway.yaml, or one of an operator.'
      )
    const waits = wrong.wait(remoteAddress)
    return waits ? waits.then(() => compare(presented, remoteAddress, url)) : compare(presented, remoteAddress, url)
  }
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

function unauthenticated(how: 'missing' | 'invalid' | 'mistyped', message: string): GatewayError {
  return new GatewayError(how === 'missing' ? 'missing_api_key' : 'invalid_api_key', message, {
    shownCode: `${how}_admin_token`,
    headers: [['www-authenticate', 'Bearer realm="sluice admin"']]
  })
}

/**
 * The headers that programs and browsers of this machine send. Any other header may have been added by a proxy, whose
 * clients may be anywhere.
 */
const own =
  /^(?:accept(?:-charset|-encoding|-language)?|access-control-request-.+|anthropic-(?:beta|version)|authorization|baggage|cache-control|connection|content-(?:encoding|length|type)|cookie|date|dnt|expect|from|host|idempotency-key|if-.+|keep-alive|origin|pragma|priority|purpose|range|referer|save-data|sec-.+|te|trace(?:parent|state)|transfer-encoding|upgrade(?:-insecure-requests)?|user-agent|x-prometheus-scrape-timeout-seconds|x-requested-with|x-sluice-(?:csrf|secret))$/

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

function isLoopback(address: string): boolean {
  const plain = address.startsWith('::ffff:') ? address.slice(7) : address
  return plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'))
}

function isLoopbackHost(host: string): boolean {
  const [, name] = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::\d{1,5})?$/i.exec(host) ?? []
  if (name === undefined) return false
  if (name.startsWith('[')) return isLoopback(name.slice(1, -1))
  return isLoopback(name) || /^(?:.+\.)?localhost$/i.test(name)
}
