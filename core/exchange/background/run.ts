// An exchange that goes on after its client was answered: who stands in for the client.
import type { Client } from '../../clients/client.ts'
import { clientClosed, GatewayError } from '../../errors.ts'
import type { Work } from '../../store/works.ts'
import type { Watchdog } from '../../watchdog/watchdog.ts'
import type { LiveExchange } from '../state/exchange.ts'
import type { StandIn } from '../state/under-way.ts'
import { hearOut } from '../state/leaving.ts'
import { errorEvent, sendError, sendHead } from '../replies.ts'
import type { Turn } from './pool.ts'
import { StreamRecording, Showing } from './recording.ts'

/** Of a result. */
const resultBytes = 64 * 1024 * 1024

/** Keeps what was answered; resolves when that is on disk. */
type KeepAnswer = (answer: Buffer) => Promise<void>

/** One of them. */
export class Run implements StandIn {
  readonly work: Work
  readonly recording = new StreamRecording()
  /** Takes the answer in the place of the client. */
  readonly client: Client
  /** Its work was called off. */
  cancelled = false
  /** What it was ended with, before it was done. */
  failure: GatewayError | undefined
  readonly turn: Turn
  /** Resolves when it is settled. */
  readonly over: Promise<void>
  readonly #exchange: LiveExchange
  readonly #keep: KeepAnswer
  readonly #finished: () => void
  /** The end of the answer, which nobody may see before it is settled. */
  #last: Buffer | undefined
  #end!: () => void
  readonly #ended = Promise.withResolvers<never>()
  /** The client's own stream. */
  #showing: Showing | undefined

  constructor(exchange: LiveExchange, work: Work, keep: KeepAnswer, turn: Turn, finished: () => void) {
    this.#exchange = exchange
    this.turn = turn
    this.#ended.promise.catch(() => {})
    this.work = work
    this.#keep = keep
    this.#finished = finished
    this.over = new Promise((resolve) => (this.#end = resolve))
    this.client = this.#standIn()
  }

  /** Ends it, wherever it is, with an error. What has been answered to its end stays answered. */
  fail(error: GatewayError): void {
    if (this.#last) return
    this.failure ??= error
    // Wherever it is on its way, nothing is begun for it any more. A client that waits for the acceptance is told why.
    if (this.tookOver || !this.#exchange.over) this.#exchange.gone = true
    this.#ended.reject(error)
    this.#exchange.abort()
    if (this.cancelled) this.#exchange.relay?.leave()
    else this.#exchange.relay?.fail(error)
  }

  /** Ends it at once, or when the upstream says what it came to. */
  cancel(): void {
    this.cancelled = true
    if (!hearOut(this.#exchange)) return this.fail(clientClosed())
    this.#exchange.gone = true
    this.#exchange.abort()
  }

  /** For how long a client of it may read nothing, in milliseconds. */
  get clientStall(): number {
    return this.#exchange.limits.clientStall
  }

  /** Resolves when it is its turn to go on, and rejects when it is ended before. */
  get turnComes(): Promise<void> {
    return Promise.race([this.turn.comes, this.#ended.promise])
  }

  /** Stands in for the client from now on. One that asked for a stream is shown it for as long as it is there. */
  takeOver(watchdog: Watchdog): void {
    const exchange = this.#exchange
    exchange.client.onGone = null
    if (exchange.streaming)
      this.#showing = new Showing(exchange.client, this.recording, watchdog, exchange.limits.clientStall)
    exchange.client = this.client
  }

  get tookOver(): boolean {
    return this.#exchange.client === this.client
  }

  /**
   * Resolves when what was answered is kept as the result; `last` is the end of it. @throws GatewayError when it cannot
   * be kept
   */
  async keepAnswer(last: Buffer): Promise<void> {
    if (this.cancelled) throw clientClosed()
    this.#last = last
    try {
      await this.#keep(Buffer.concat([...this.recording.chunks, last]))
    } catch (error) {
      throw error instanceof GatewayError
        ? new GatewayError(error.code, error.message, { ...error.details, unkept: true })
        : new GatewayError('internal_error', 'The result could not be kept.', { cause: error, unkept: true })
    }
  }

  /** It is settled. */
  settled(): void {
    this.#end()
  }

  /** The end is shown to those who follow. */
  finish(error: GatewayError | undefined): void {
    const { recording } = this
    if (recording.closed) return
    try {
      recording.push(error ? this.#farewell(error) : this.#last!)
    } finally {
      recording.close()
      this.#finished()
    }
  }

  /** The end of what was not done, of which the client may not have seen even the beginning. */
  #farewell(error: GatewayError): Buffer {
    const exchange = this.#exchange
    const showing = this.#showing?.client.headSent ? undefined : this.#showing
    const { calledOff } = exchange.request.operation.goesOn!
    if (this.cancelled && exchange.streaming && calledOff) {
      if (showing) sendHead(exchange, { status: 200, headers: {}, streaming: true })
      return calledOff(exchange, this.recording.chunks)
    }
    const shown = this.cancelled ? new GatewayError('client_closed', 'It was called off.') : error
    if (showing) {
      showing.stop()
      sendError(exchange, shown, showing.client)
    }
    return errorEvent(exchange, shown)
  }

  #take(bytes: Buffer): void {
    if (this.recording.length + bytes.length > resultBytes)
      return this.fail(
        new GatewayError('answer_too_large', `The result is larger than ${resultBytes / 1024 / 1024} MiB.`)
      )
    this.recording.push(bytes)
  }

  /** Never leaves, and takes what comes. */
  #standIn(): Client {
    let headSent = false
    return {
      reply: () => {},
      head: (status, headers) => {
        headSent = true
        this.#showing?.head(status, headers)
      },
      write: (bytes) => {
        this.#take(bytes)
        return true
      },
      end: () => {},
      cut: () => {},
      gone: false,
      get headSent() {
        return headSent
      },
      origin: undefined,
      onDrain: null,
      onGone: null
    }
  }
}
