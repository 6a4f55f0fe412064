// Who may use the admin API: whoever has the token, or without one this machine's own programs, but no web page.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIPv4 } from 'node:net'
import { GatewayError } from '../errors.ts'

/** Checks one request. @throws GatewayError when it may not come in */
export type Guard = (request: IncomingMessage) => void

/** The guard for a token; an empty one lets loopback in. */
export function guardFor(token: string): Guard {
  return token === '' ? checkLoopback : checkToken(token)
}

function checkToken(token: string): Guard {
  const expected = digest(token)
  return ({ headers: { authorization } }) => {
    const [, presented] = /^bearer +(.+)$/i.exec(authorization ?? '') ?? []
    if (presented === undefined)
      throw unauthenticated(
        'missing',
        'The admin API needs Authorization: Bearer with the token admin.token of gateway.yaml.'
      )
    // Digests are of one length, so the comparison tells nothing, not even how long the token is.
    if (!timingSafeEqual(digest(presented), expected))
      throw unauthenticated('invalid', 'This is not the admin token of this gateway.')
  }
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

function unauthenticated(how: 'missing' | 'invalid', message: string): GatewayError {
  return new GatewayError(`${how}_api_key`, message, {
    shownCode: `${how}_admin_token`,
    headers: [['www-authenticate', 'Bearer realm="sluice admin"']]
  })
}

/**
 * What proxies say of whom they speak for, by any name that is in use: whoever says it is no program of this machine.
 */
const forwarding =
  /^(?:forwarded|via|x-forwarded(?:-.+)?|x-original-.+|x-envoy-.+|cf-.+|cdn-loop|(?:x-)?real-ip|(?:[a-z]+-)*client-?ip)$/

/**
 * A page of another site can send requests here by the browser of somebody on this machine: by this address, or by a
 * name of its own that it lets resolve to it. The browser tells of both, in `Origin` and `Sec-Fetch-Site` or in `Host`.
 */
function checkLoopback({ headers, socket: { remoteAddress = '' } }: IncomingMessage): void {
  const { host = '', origin } = headers
  if (!isLoopback(remoteAddress) || Object.keys(headers).some((name) => forwarding.test(name))) {
    throw forbidden(
      'Without a token the admin API answers this machine alone: set admin.token in gateway.yaml and restart.'
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
