// Answers that the server gives by itself, to requests that never become an exchange.
import type { Client } from './client.ts'
import type { GatewayError } from '../errors.ts'
import { exchangeId } from '../wire/exchange-id.ts'
import { HeaderLines, renderHead } from '../wire/response-head.ts'

/** Refuses a request through its client. */
export function refuse(client: Client, error: GatewayError): void {
  client.reply(error.status, headersOf(error), bodyOf(error))
}

/** A refusal as bytes, for a connection whose request could not be read. */
export function rawRefusal(error: GatewayError): Buffer {
  const body = bodyOf(error)
  const head = renderHead(error.status, headersOf(error), body.length, 'Connection: close\r\n')
  return Buffer.concat([Buffer.from(head, 'latin1'), body])
}

function bodyOf({ type, message, code }: GatewayError): Buffer {
  return Buffer.from(JSON.stringify({ error: { type, message, code } }))
}

function headersOf({ details }: GatewayError): HeaderLines {
  const headers = HeaderLines.identified(exchangeId(Date.now())).add('content-type', 'application/json')
  const { headers: more = [], retryAfterMs } = details
  for (const [name, value] of more) headers.add(name, value)
  if (retryAfterMs !== undefined) {
    headers
      .add('retry-after', String(Math.max(1, Math.ceil(retryAfterMs / 1000))))
      .add('retry-after-ms', String(retryAfterMs))
  }
  return headers
}
