// Asks regularly whether what is open may go on: a key may have been revoked since, or have expired.
import { GatewayError } from '../errors.ts'
import type { Roster } from '../watchdog/roster.ts'
import type { Watchdog, Watched } from '../watchdog/watchdog.ts'
import type { LiveExchange } from './state/exchange.ts'

/** Milliseconds between two inspections of an exchange: what is revoked ends within a second. */
const everyMs = 500

/** Asks whether an exchange may go on, and calls `end` with the reason, at once or later, when it must not. */
type Ask = (exchange: LiveExchange, end: (reason: GatewayError) => void) => void

/**
 * Inspects the exchanges of an engine while there are any. Work in the background is not ended: it was accepted, and
 * goes on without its client.
 */
export class Inspection implements Watched {
  readonly #running: Roster<LiveExchange>
  readonly #watchdog: Watchdog
  readonly #ask: Ask
  #at = 0

  constructor(running: Roster<LiveExchange>, watchdog: Watchdog, ask: Ask) {
    this.#running = running
    this.#watchdog = watchdog
    this.#ask = ask
  }

  /** Called when an exchange begins. */
  begin(): void {
    this.#watchdog.add(this)
  }

  check(now: number): void {
    if (this.#running.size === 0) return this.#watchdog.delete(this)
    if (now - this.#at < everyMs) return
    this.#at = now
    for (const exchange of this.#running) {
      if (exchange.standIn || exchange.over || performance.now() - exchange.startedAt < everyMs) continue
      if (!exchange.relay && !exchange.session) continue
      this.#ask(exchange, (error) => exchange.stop(reasonFor(error, exchange)))
    }
  }
}

/** Says in the error whether no upstream can have got the request, so that nothing is charged for it. */
function reasonFor(error: GatewayError, { relay }: LiveExchange): GatewayError {
  if (!relay?.unsent) return error
  return new GatewayError(error.code, error.message, { ...error.details, untaken: true })
}
