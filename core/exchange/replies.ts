// Writes an exchange's answer head and gateway-made bodies in the client's protocol.
import type { UpstreamResponse, WholeReply } from '../contract/contract.ts'
import type { GatewayError } from '../errors.ts'
import type { LiveExchange } from './state/exchange.ts'
import { protocols } from '../protocols/index.ts'
import type { ShownError } from '../protocols/index.ts'

/** A reply made by the gateway. */
export function sendReply(exchange: LiveExchange, { status, headers = [], body }: WholeReply): void {
  const given = bytesOf(body)
  // A plugin may have made it of the request body, whose memory is used again while this is on its way to a slow
  // client.
  const bytes =
    given && given.buffer === exchange.held?.buffer ? Buffer.from(given) : (given ?? Buffer.from(JSON.stringify(body)))
  const lines = exchange.replyHeaders.copy()
  if (!given && typeIn(headers) === undefined) lines.add('content-type', 'application/json')
  for (const [name, value] of headers) lines.add(name, value)
  exchange.client.reply(status, lines, bytes)
}

/** The media type among the headers of a reply, however its name is written. */
export function typeIn(headers: NonNullable<WholeReply['headers']>): string | undefined {
  return headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1]
}

/** A body that goes out as it is: text, or bytes in whatever view of them; undefined for anything else. */
export function bytesOf(body: unknown): Buffer | undefined {
  if (typeof body === 'string') return Buffer.from(body)
  if (ArrayBuffer.isView(body)) return Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  return body instanceof ArrayBuffer || body instanceof SharedArrayBuffer ? Buffer.from(body) : undefined
}

/** An upstream's whole body, with its length. */
export function sendWhole(exchange: LiveExchange, response: UpstreamResponse, body: Buffer): void {
  exchange.client.reply(
    response.status,
    exchange.replyHeaders.copy().add('content-type', contentType(response, 'application/json')),
    body
  )
}

/** The head of an answer that follows in pieces. */
export function sendHead(
  exchange: LiveExchange,
  response: Pick<UpstreamResponse, 'status' | 'headers' | 'streaming'>
): void {
  const { streaming } = response
  const framed = exchange.relay?.outlet.framing?.contentType
  const headers = exchange.replyHeaders
    .copy()
    .add('content-type', framed ?? (streaming ? eventsType(response) : contentType(response, 'application/json')))
  // Reverse proxies in front must neither cache nor collect a stream.
  if (streaming) headers.add('cache-control', 'no-cache').add('x-accel-buffering', 'no')
  exchange.client.head(response.status, headers)
}

/** An error as a reply of its own, with what a client needs to know about trying again. */
export function sendError(exchange: LiveExchange, error: GatewayError, client = exchange.client): void {
  const headers = exchange.replyHeaders.copy().add('content-type', 'application/json')
  const { headers: more = [], retryAfterMs } = error.details
  for (const [name, value] of more) headers.add(name, value)
  if (retryAfterMs !== undefined) {
    headers
      .add('retry-after', String(Math.max(1, Math.ceil(retryAfterMs / 1000))))
      .add('retry-after-ms', String(Math.ceil(retryAfterMs)))
  }
  // What waiting cannot mend must not be sent again by an SDK on its own; SDKs retry 409, 429 and 5xx unless told
  // otherwise. Nor what has cost us an answer, and would again.
  if (!error.later && (error.status === 409 || error.status === 429 || error.costly))
    headers.add('x-should-retry', 'false')
  const { protocol, framing } = exchange.request.operation
  const said = protocols[protocol].errorBody(shownError(error))
  client.reply(
    statusFor(exchange, error),
    headers,
    Buffer.from(JSON.stringify(framing ? framing().errorBody(said) : said))
  )
}

/** The status that the client's protocol has for an error. */
export function statusFor({ request }: LiveExchange, { status }: GatewayError): number {
  return protocols[request.operation.protocol].statuses?.[status] ?? status
}

/** The end of a stream that broke: its error, and no end marker. */
export function sendErrorEvent(exchange: LiveExchange, error: GatewayError): void {
  const event = errorEvent(exchange, error)
  if (protocols[exchange.request.operation.protocol].breaksOff) exchange.client.cut(event)
  else exchange.client.end(event)
}

/** An error in mid-stream, as the client's protocol tells it. */
export function errorEvent(exchange: LiveExchange, error: GatewayError): Buffer {
  const protocol = protocols[exchange.request.operation.protocol]
  const framing = exchange.relay?.outlet.framing
  return Buffer.from(
    framing
      ? framing.event(JSON.stringify(protocol.errorBody(shownError(error))))
      : protocol.errorEvent(shownError(error), exchange.relay?.outlet.events ?? 0)
  )
}

/** An error as the protocols tell it. */
export function shownError(error: GatewayError): ShownError {
  const { shownCode, param, retryAfterMs } = error.details
  return {
    status: error.status,
    type: error.type,
    message: error.message,
    code: shownCode ?? error.code,
    param,
    retryAfterMs
  }
}

/** The type of events as clients get them, however their upstream frames them. */
function eventsType(response: Pick<UpstreamResponse, 'headers'>): string {
  const usual = 'text/event-stream; charset=utf-8'
  const sent = contentType(response, usual)
  return /^\s*text\/event-stream/i.test(sent) ? sent : usual
}

function contentType(response: Pick<UpstreamResponse, 'headers'>, fallback: string): string {
  const sent = response.headers['content-type']
  return typeof sent === 'string' ? sent : fallback
}
