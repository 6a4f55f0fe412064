// Who may use the admin API: the owner of its token, or without one whoever is on this machine and no web page.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../errors.ts'

/** @throws GatewayError 401 or 403 that says what is missing */
export function checkAccess(request: IncomingMessage, token: string): void {
  if (token === '') checkLocal(request)
  else checkToken(request.headers.authorization, token)
}

function checkToken(authorization: string | undefined, token: string): void {
  const [, given] = /^Bearer +(\S+)$/i.exec(authorization ?? '') ?? []
  const challenge = { headers: [['www-authenticate', 'Bearer realm="admin"']] } as const
  if (given === undefined) throw new GatewayError('missing_api_key', 'The admin API needs "Authorization: Bearer" with the admin.token of gateway.yaml.', challenge)
  if (!timingSafeEqual(digest(given), digest(token))) throw new GatewayError('invalid_api_key', 'This is not the admin.token of gateway.yaml.', challenge)
}

/** Digests have one length, so that the comparison takes the same time for every guess. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/**
 * A browser on this machine sends what any web page tells it to, also under a name that a page had pointed to 127.0.0.1;
 * and a proxy on this machine speaks for the whole world.
 */
function checkLocal({ headers, socket }: IncomingMessage): void {
  const { origin, host = '', 'sec-fetch-site': site = 'none' } = headers
  const refuse = (why: string): never => {
    throw new GatewayError('origin_not_allowed', `Without an admin.token the admin API answers programs on this machine only, and ${why}. Set admin.token in gateway.yaml.`)
  }
  if (!isLoopback(socket.remoteAddress ?? '')) refuse('this request comes from another one')
  if (headers.forwarded !== undefined || headers['x-forwarded-for'] !== undefined) refuse('this request comes through a proxy')
  if (!isLoopbackHost(host)) refuse('this request is for another host')
  if (site !== 'same-origin' && site !== 'none') refuse('this request comes from a web page')
  if (origin !== undefined && origin !== `http://${host}`) refuse('this request comes from a web page')
}

function isLoopback(address: string): boolean {
  return address === '::1' || /^(::ffff:)?127\./.test(address)
}

function isLoopbackHost(host: string): boolean {
  return /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])(:\d{1,5})?$/i.test(host)
}
