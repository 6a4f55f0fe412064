// The headers of a request to an upstream, beside those of its channel.
import type { Attempt } from '../../contract/attempt.ts'
import type { LiveExchange } from '../state/exchange.ts'
import { protocols } from '../../protocols/index.ts'

/** Flat pairs; requests that are alike share one array, which transports look at once. */
const jsonHeaders: readonly string[] = ['content-type', 'application/json', 'accept', 'application/json']
const events = 'text/event-stream'
const streamHeaders: readonly string[] = ['content-type', 'application/json', 'accept', events]

/**
 * Flat pairs of names in lower case and values: what the body is, what is wanted, what the protocol demands, what
 * plugins set. The body is finished with them: a form may say in one what others say in the other.
 */
export function headersOf(exchange: LiveExchange, attempt: Attempt): readonly string[] {
  const described = description(exchange, attempt)
  const own = protocolHeaders(exchange, attempt)
  attempt.form?.finish?.(attempt.body, own ?? {})
  const more = own ? { ...own, ...attempt.headers } : attempt.headers
  return isEmpty(more) ? described : described.concat(...Object.entries(more))
}

function isEmpty(headers: Readonly<Record<string, string>>): boolean {
  for (const _name in headers) return false
  return true
}

/** Of a handshake, by name: what the protocol demands, what plugins set. */
export function socketHeadersOf(exchange: LiveExchange, attempt: Attempt): Readonly<Record<string, string>> {
  return { ...protocolHeaders(exchange, attempt), ...attempt.headers }
}

function description({ body, streaming, request }: LiveExchange, { form }: Attempt): readonly string[] {
  const { answers } = request.operation
  const stream = form?.accepts ?? events
  if (body.contentType === 'application/json' && !answers && stream === events)
    return streaming ? streamHeaders : jsonHeaders
  const accept = ['accept', streaming ? stream : answers?.includes('bytes') ? '*/*' : 'application/json']
  return body.contentType === undefined ? accept : ['content-type', body.contentType, ...accept]
}

/**
 * What the protocol demands, and the client's own where it speaks the same: headers of one protocol mean nothing in
 * another.
 */
function protocolHeaders({ request }: LiveExchange, { protocol }: Attempt): Record<string, string> | undefined {
  const { passedHeaders, ownHeaders, family } = protocol
  if (passedHeaders.length === 0) return undefined
  const headers = { ...ownHeaders }
  if (family !== protocols[request.operation.protocol].family) return headers
  for (const name of passedHeaders) {
    const sent = request.headers[name]
    if (sent !== undefined) headers[name] = String(sent)
  }
  return headers
}
