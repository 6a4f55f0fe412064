// What WebSocket handshakes have in common in HTTP/1.1 and HTTP/2.
import { GatewayError } from '../errors.ts'

/** The version of the WebSocket protocol (RFC 6455 §4.1). */
const version = '13'

/**
 * The subprotocols that a client offers, the preferred one first.
 * @throws GatewayError `upgrade_required` for a version that is not spoken here
 */
export function handshakeProtocols({
  'sec-websocket-version': asked,
  'sec-websocket-protocol': list
}: Readonly<Record<string, string | string[] | undefined>>): readonly string[] {
  if (asked !== version) {
    throw new GatewayError('upgrade_required', 'WebSocket is spoken in version 13 here.', {
      headers: [['sec-websocket-version', version]]
    })
  }
  if (list === undefined) return []
  return String(list)
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
}

/**
 * What stands behind a prefix in the offered subprotocols, the only place where pages can say something in a handshake.
 * Undefined when none begins so.
 */
export function offered(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  prefix: string
): string | undefined {
  const names = String(headers['sec-websocket-protocol'] ?? '').split(',')
  return names
    .map((name) => name.trim())
    .find((name) => name.startsWith(prefix))
    ?.slice(prefix.length)
}
