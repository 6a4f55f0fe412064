// Decides which answers are read to their end although the client has left.
import type { LiveExchange } from './exchange.ts'

/**
 * Reads the answer on when the exchange makes pictures: the upstream charges for them even if the client has left, so
 * its final usage is read and charged. The answer itself is dropped, and the channel's time limits apply. False: no
 * pictures are under way, or the operator has set `on_disconnect: abort`.
 */
export function hearOut({ relay, limits, request }: LiveExchange): boolean {
  const { metering } = request.operation
  if (!relay || relay.over || !metering?.pictures || limits.onDisconnect === 'abort') return false
  relay.drain(Infinity, Infinity)
  return true
}
