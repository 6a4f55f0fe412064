// What can go wrong between us and an upstream, and what a client is told of it.
import { asGatewayError, GatewayError } from '../errors.ts'

/** The upstream's bytes are no HTTP/1.1 answer, or one that two readers could understand differently. */
export class BadResponse extends Error {}

/** No connection within the channel's connect timeout, TLS handshake included. */
export class ConnectTimeout extends Error {}

/** A connection that was there broke or was closed before the answer was whole. */
export class ConnectionLost extends Error {
  /** Not all of the request had been handed to the connection: nobody can have acted on it. */
  readonly unsent: boolean

  constructor(message: string, { cause, unsent = false }: { cause?: unknown; unsent?: boolean } = {}) {
    super(message, { cause })
    this.unsent = unsent
  }
}

/** The address is private and the channel is not. */
export class AddressRefused extends Error {
  constructor(host: string) {
    super(`${host} is a private address; set \`private: true\` on the channel to allow it`)
  }
}

/** There is no way through the proxy. What it says is for the operator: clients are not told that there is one. */
export class ProxyFailed extends Error {}

/** A sink threw: a bug of ours, not a failure of the upstream. */
export class SinkFailed extends Error {}

/** The error for a sink. Its message is for the client: it says what happened and never where. */
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
