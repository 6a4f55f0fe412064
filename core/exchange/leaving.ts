// What is heard to its end although nobody waits for it any more.
import type { LiveExchange } from './exchange.ts'

/**
 * Goes on hearing an upstream that makes what is sold by the piece, as it is paid for it whoever waits: what it says in
 * the end is charged. Nothing of it is kept, and it has the time that its channel gives any answer. False where nothing
 * of that kind is under way, or the operator wants nothing heard out.
 */
export function hearOut({ relay, limits, request }: LiveExchange): boolean {
  const { metering } = request.operation
  if (!relay || relay.over || !metering?.pictures || limits.onDisconnect === 'abort') return false
  relay.drain(Infinity, Infinity)
  return true
}
