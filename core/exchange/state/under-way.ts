// What is under way for an exchange, and how it is ended in whatever phase it is.
import type { Attempt } from '../../contract/attempt.ts'
import { clientClosed } from '../../errors.ts'
import type { GatewayError } from '../../errors.ts'
import type { Relay } from '../answers/relay.ts'

/** A session that has begun, as whoever ends it sees it. */
export interface OpenSession {
  readonly attempt: Attempt
  /** Of messages that were sent to the client. */
  readonly bytes: number
  /** What the ends of turns that were open wait for, once it is over. */
  readonly settled: Promise<unknown> | undefined
  /** Ends it with 1012 at the end of the response that is under way, at once when none is. */
  retire(): void
  /** Ends it: the client is told why as soon as all is settled. Safe to call at any time. */
  fail(error: unknown): void
  /** After the settlement: closes the client's side. `error`: what went wrong there. */
  closeClient(error: GatewayError | undefined): void
}

/** Takes the place of a client that was answered before its exchange is over. */
export interface StandIn {
  /** Ends the exchange, wherever it is. */
  fail(error: GatewayError): void
  /** Resolves when the answer is kept; `last` is the end of it. */
  keepAnswer(last: Buffer): Promise<void>
  /** It has the client's place already. */
  readonly tookOver: boolean
  /** All is settled: whoever follows the answer may see its end. */
  finish(error: GatewayError | undefined): void
}

/**
 * The part of an exchange that can be ended. Whatever is begun for it after it was stopped ends at once, so that no
 * phase has to be asked whether it is one in which a stop is heard.
 */
export class UnderWay {
  /** The client left before its answer ended. */
  gone = false
  #stopped: GatewayError | undefined
  #abort: AbortController | undefined
  #aborted = false
  #retired = false
  #relay: Relay | undefined
  #session: OpenSession | undefined
  #standIn: StandIn | undefined

  /** Why nothing more may be begun for the exchange: it was stopped, or its client has left. */
  get over(): GatewayError | undefined {
    return this.#stopped ?? (this.gone ? clientClosed() : undefined)
  }

  /** Ends the exchange with this error. It is settled as usual. Safe to call at any time. */
  stop(error: GatewayError): void {
    this.#stopped ??= error
    // Whoever waits to try again hears of it first: what fails now is not tried again.
    this.abort()
    if (this.#standIn) this.#standIn.fail(error)
    else this.#relay?.fail(error)
    this.#session?.fail(error)
  }

  /** Ends a session between two responses. Everything else ends by itself. */
  retire(): void {
    this.#retired = true
    this.#session?.retire()
  }

  /** Aborted when the exchange is over, also for those who ask for it later. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController()
      if (this.#aborted) this.#abort.abort()
    }
    return this.#abort.signal
  }

  /** Tells those who ask for the signal, or will. */
  abort(): void {
    this.#aborted = true
    this.#abort?.abort()
  }

  /** The answer under way, from the moment an attempt is sent. */
  get relay(): Relay | undefined {
    return this.#relay
  }

  set relay(relay: Relay) {
    this.#relay = relay
    if (this.#stopped) relay.fail(this.#stopped)
  }

  /** A WebSocket that is open. */
  get session(): OpenSession | undefined {
    return this.#session
  }

  set session(session: OpenSession) {
    this.#session = session
    if (this.#retired) session.retire()
    if (this.#stopped) session.fail(this.#stopped)
  }

  /** Has the client's place when it is there. */
  get standIn(): StandIn | undefined {
    return this.#standIn
  }

  set standIn(standIn: StandIn) {
    this.#standIn = standIn
    if (this.#stopped) standIn.fail(this.#stopped)
  }
}
