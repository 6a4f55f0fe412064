// WebSocket handshakes on the admin listener, which only the playground takes: accepted as those of clients are, or
// refused as other requests to this listener.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Front } from '../../clients/client.ts'
import { Upgrade } from '../../clients/http1/upgrade.ts'
import { HeaderLines } from '../../wire/response-head.ts'
import type { Written } from '../api/contract.ts'

/** Whether a request opens a socket here. What does not is answered as if it had not asked for one. */
export function opensSocket({ method, url = '', headers }: IncomingMessage): boolean {
  return (
    method === 'GET' &&
    url.startsWith('/admin/v1/playground/') &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    headers['sec-websocket-version'] === '13' &&
    /^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '')
  )
}

/** The offer of a request that {@link opensSocket}. `head`: the bytes that were read after it. */
export function offerOf(front: Front, { headers }: IncomingMessage, socket: Socket, head: Buffer): Upgrade {
  // It may break at any moment; without a listener, the error would end the process.
  socket.on('error', () => {})
  return new Upgrade(front, headers, socket, head)
}

/** Answers a handshake with a refusal. */
export function refuseSocket(
  offer: Upgrade,
  requestId: string,
  { status, headers = {}, json }: Written & { json: unknown }
): void {
  const lines = HeaderLines.of(
    'content-type',
    'application/json',
    'cache-control',
    'no-store',
    'x-request-id',
    requestId
  )
  for (const [name, value] of Object.entries(headers)) lines.add(name, String(value))
  offer.reply(status ?? 500, lines, Buffer.from(`${JSON.stringify(json)}\n`))
}
