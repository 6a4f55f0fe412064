// Decides which answers are read to their end although the client has left.
import type { LiveExchange } from './exchange.ts'

/**
 * Whether the answer is read on to its end: it makes pictures, for which the upstream charges even if the client has
 * left, and the operator has not set `on_disconnect: abort`.
 */
export function isHeardOut({ relay, limits, request }: LiveExchange): boolean {
  const { metering } = request.operation
  return relay?.over === false && metering?.pictures === true && limits.onDisconnect !== 'abort'
}

/**
 * Reads the answer on where that {@link isHeardOut}, for its final usage. The answer itself is dropped, and the
 * channel's time limits apply. False: there is none to be read on.
 */
export function hearOut(exchange: LiveExchange): boolean {
  if (!isHeardOut(exchange)) return false
  exchange.relay!.drain(Infinity, Infinity)
  return true
}
