// What of a request to the admin listener is handed on to the engine: the path behind that of the playground, and the
// headers that are meant for the endpoint.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { offered } from '../../clients/handshake.ts'
import { invalid, originForm } from '../../clients/request-head.ts'
import type { Headers } from '../../clients/request-head.ts'

/** The path of the playground and of a key; the rest is a path of the data listener. */
const own = /^\/admin\/v1\/playground\/(?:keys\/[^/?]+|secret)(?=\/)/

/** Headers for this listener, of its browsers and of one connection; and the places of keys, as the key is named. */
const dropped =
  /^(?:authorization|cookie|origin|referer|x-api-key|x-goog-api-key|x-request-id|x-sluice-(?:csrf|secret)|sec-.*|connection|keep-alive|upgrade|te|trailer|transfer-encoding|expect|proxy-.*)$/

/**
 * The target for the engine, with its query.
 * @throws GatewayError `invalid_request`
 */
export function targetOf({ url = '', headers }: IncomingMessage): string {
  return originForm(url.replace(own, ''), headers.host)
}

/**
 * The headers for the engine. `requestId`: that of the admin request, by which the record is found.
 * @throws GatewayError `invalid_request` when it is not clear what the type of the body is
 */
export function headersOf({ headers, headersDistinct }: IncomingMessage, requestId: string | undefined): Headers {
  if ((headersDistinct['content-type']?.length ?? 0) > 1)
    throw invalid('The header content-type is there twice: send one.')
  const passed = Object.entries(headers).filter(([name]) => !dropped.test(name))
  return { ...Object.fromEntries(passed), ...(requestId !== undefined && { 'x-request-id': requestId }) }
}

/**
 * The secret of a key that was typed in: a header, and of sockets, for which pages cannot set headers, the subprotocol
 * by which OpenAI's clients give it. Undefined when there is none.
 */
export function secretIn(headers: IncomingHttpHeaders): string | undefined {
  const secret = String(headers['x-sluice-secret'] ?? '') || offered(headers, 'openai-insecure-api-key.')
  return secret === '' ? undefined : secret
}
