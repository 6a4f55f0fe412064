// Writes an exchange's answer head and gateway-made bodies in the client's protocol.
import type { FlatHeaders } from './client.ts'
import type { Reply, UpstreamResponse } from './contract.ts'
import type { GatewayError } from './errors.ts'
import type { LiveExchange } from './exchange.ts'
import { protocols } from './protocols/index.ts'
import type { ShownError } from './protocols/index.ts'

/** Headers of every reply: both spellings of the request id (OpenAI's and Anthropic's clients), then what plugins set. */
function headersOf(exchange: LiveExchange, ...more: string[]): FlatHeaders {
  return ['x-request-id', exchange.id, 'request-id', exchange.id, ...exchange.replyHeaders, ...more]
}

/** A reply made by the gateway. */
export function sendReply(exchange: LiveExchange, { status, headers = [], body }: Reply): void {
  const text = typeof body === 'string' || Buffer.isBuffer(body)
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(text ? (body as string) : JSON.stringify(body))
  const flat = headersOf(exchange, ...(text ? [] : ['content-type', 'application/json']), ...headers.flat())
  exchange.client.reply(status, flat, bytes)
}

/** An upstream's whole body, with its length. */
export function sendWhole(exchange: LiveExchange, response: UpstreamResponse, body: Buffer): void {
  exchange.client.reply(response.status, headersOf(exchange, 'content-type', contentType(response, 'application/json')), body)
}

/** The head of an answer that follows in pieces. */
export function sendHead(exchange: LiveExchange, response: UpstreamResponse): void {
  // Reverse proxies in front must neither cache nor collect a stream.
  const extra = response.streaming
    ? ['content-type', contentType(response, 'text/event-stream; charset=utf-8'), 'cache-control', 'no-cache', 'x-accel-buffering', 'no']
    : ['content-type', contentType(response, 'application/json')]
  exchange.client.head(response.status, headersOf(exchange, ...extra))
}

/** An error as a reply of its own, with what a client needs to know about trying again. */
export function sendError(exchange: LiveExchange, error: GatewayError): void {
  const more = ['content-type', 'application/json', ...(error.details.headers ?? []).flat()]
  const { retryAfterMs } = error.details
  if (error.later && retryAfterMs !== undefined) {
    more.push('retry-after', String(Math.max(1, Math.ceil(retryAfterMs / 1000))), 'retry-after-ms', String(Math.ceil(retryAfterMs)))
  }
  // What waiting can not mend must not be sent again by an SDK on its own; SDKs retry 409, 429 and 5xx unless told otherwise.
  if (!error.later && (error.status === 409 || error.status === 429)) more.push('x-should-retry', 'false')
  const body = Buffer.from(JSON.stringify(protocols[exchange.request.endpoint.protocol].errorBody(shown(error))))
  exchange.client.reply(error.status, headersOf(exchange, ...more), body)
}

/** An error in mid-stream, as the client's protocol tells it. */
export function errorEvent(exchange: LiveExchange, error: GatewayError): Buffer {
  return Buffer.from(protocols[exchange.request.endpoint.protocol].errorEvent(shown(error)))
}

function shown(error: GatewayError): ShownError {
  const { shownCode, param } = error.details
  return { status: error.status, type: error.type, message: error.message, code: shownCode ?? error.code, param }
}

function contentType(response: UpstreamResponse, fallback: string): string {
  const sent = response.headers['content-type']
  return typeof sent === 'string' ? sent : fallback
}
