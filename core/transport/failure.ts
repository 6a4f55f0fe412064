// The failures between the gateway and an upstream, and what the client is told of each.
import { asGatewayError, GatewayError } from '../errors.ts'

/** The upstream's bytes are not an HTTP/1.1 answer, or two readers could understand the answer differently. */
export class BadResponse extends Error {}

/** There was no connection within the channel's connect timeout, which includes the TLS handshake. */
export class ConnectTimeout extends Error {}

/** An established connection broke, or was closed before the answer was complete. */
export class ConnectionLost extends Error {
  /**
   * True when a part of the request was never handed to the connection, so that the upstream cannot have acted on it.
   */
  readonly unsent: boolean

  constructor(message: string, { cause, unsent = false }: { cause?: unknown; unsent?: boolean } = {}) {
    super(message, { cause })
    this.unsent = unsent
  }
}

/** The address is private, and the channel does not allow that. */
export class AddressRefused extends Error {
  constructor(host: string) {
    super(`${host} is a private address; set \`private: true\` on the channel to allow it`)
  }
}

/** There is no connection through the proxy. The message is for the operator; clients are not told of the proxy. */
export class ProxyFailed extends Error {}

/** A sink threw an error: a bug of the gateway, not a failure of the upstream. */
export class SinkFailed extends Error {}

/** Makes the error for a sink. Its message is for the client: it says what happened, and never names the upstream. */
export function describe(cause: Error, headed: boolean): GatewayError {
  if (cause instanceof SinkFailed) return asGatewayError(cause.cause)
  if (cause instanceof BadResponse)
    return new GatewayError('upstream_bad_response', 'The upstream sent an invalid HTTP response.', { cause })
  if (headed)
    return new GatewayError(
      'upstream_stream_interrupted',
      'The upstream connection was lost before the answer was complete.',
      { cause }
    )
  const untaken = cause instanceof ConnectionLost && !cause.unsent ? undefined : true
  return new GatewayError('upstream_connection_failed', reasonOf(cause), { cause, untaken })
}

function reasonOf(cause: Error): string {
  if (cause instanceof ConnectTimeout) return 'Connecting to the upstream took too long.'
  if (cause instanceof AddressRefused) return 'The upstream address is not allowed.'
  return 'The upstream could not be reached or closed the connection.'
}
