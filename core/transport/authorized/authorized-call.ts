// A request whose credential changes: waits for one where there is none, and is sent once more with a fresh one when
// the upstream refuses the first.
import type { Channel } from '../../catalogue/catalogue.ts'
import { asGatewayError } from '../../errors.ts'
import type { GatewayError } from '../../errors.ts'
import type { Secret } from '../../credentials/grant.ts'
import { authorizationOf, authorized, remedyFor } from './authorization.ts'
import type { UpstreamCall, UpstreamHeaders, UpstreamRequest, UpstreamSink } from '../transport.ts'

type Send = (channel: Channel, request: UpstreamRequest, sink: UpstreamSink) => UpstreamCall

/** An answer that is held back while there may be a better one. */
interface Held {
  readonly status: number
  readonly headers: UpstreamHeaders
  readonly pieces: Buffer[]
  ended: boolean
  error: GatewayError | undefined
}

/** One request under way; the sink of the calls that it makes. */
export class AuthorizedCall implements UpstreamCall, UpstreamSink {
  readonly #send: Send
  readonly #channel: Channel
  readonly #authorization
  readonly #sink: UpstreamSink
  /** Cleared when it will not be sent again, to free the memory of its body. */
  #request: UpstreamRequest | undefined
  #secret: Secret | undefined
  #call: UpstreamCall | undefined
  #held: Held | undefined
  #again = false
  #paused = false
  #over = false

  /**
   * Sends the request at once when there is a credential.
   * @throws GatewayError when it cannot be sent
   */
  constructor(send: Send, channel: Channel, request: UpstreamRequest, sink: UpstreamSink) {
    this.#send = send
    this.#channel = channel
    this.#authorization = authorizationOf(channel)
    this.#request = request
    this.#sink = sink
    const { current } = this.#authorization.credential
    if (current !== undefined) this.#start(current)
    else void this.#await()
  }

  get unsent(): boolean {
    return this.#call === undefined || this.#call.unsent
  }

  pause(): void {
    this.#paused = true
    this.#call?.pause()
  }

  resume(): void {
    this.#paused = false
    if (!this.#held) this.#call?.resume()
  }

  abort(): void {
    this.#over = true
    this.#held = this.#request = undefined
    this.#call?.abort()
  }

  onHead(status: number, headers: UpstreamHeaders): void {
    const remedy = this.#again ? undefined : remedyFor(this.#authorization, this.#secret!, status, headers)
    if (remedy === undefined) {
      this.#request = undefined
      return this.#sink.onHead(status, headers)
    }
    this.#again = true
    this.#held = { status, headers, pieces: [], ended: false, error: undefined }
    this.#call?.pause()
    void this.#mend(remedy)
  }

  onData(chunk: Buffer): void {
    if (this.#held) this.#held.pieces.push(chunk)
    else this.#sink.onData(chunk)
  }

  onEnd(): void {
    if (this.#held) this.#held.ended = true
    else this.#end(() => this.#sink.onEnd())
  }

  onError(error: GatewayError): void {
    if (this.#held) this.#held.error = error
    else this.#end(() => this.#sink.onError(error))
  }

  #end(tell: () => void): void {
    this.#over = true
    this.#request = undefined
    tell()
  }

  async #await(): Promise<void> {
    try {
      const secret = await this.#authorization.credential.wait()
      if (!this.#over) this.#start(secret)
    } catch (error) {
      this.#failed(error)
    }
  }

  /** Sends the request with this credential. */
  #start(secret: Secret): void {
    this.#secret = secret
    const ready = authorized(this.#channel, this.#authorization, secret, this.#request!)
    if (!(ready instanceof Promise)) return this.#dispatch(ready)
    ready.then(
      (request) => {
        try {
          if (!this.#over) this.#dispatch(request)
        } catch (error) {
          this.#failed(error)
        }
      },
      (error: unknown) => this.#failed(error)
    )
  }

  #dispatch(request: UpstreamRequest): void {
    const call = this.#send(this.#channel, request, this)
    this.#call = call
    if (this.#paused) call.pause()
  }

  #failed(error: unknown): void {
    if (!this.#over) this.#end(() => this.#sink.onError(asGatewayError(error)))
  }

  /** Sends the request once more if there is something else to send; otherwise the upstream's refusal is the answer. */
  async #mend(remedy: 'renew' | 'again'): Promise<void> {
    const { credential } = this.#authorization
    const secret = remedy === 'again' ? credential.current : await credential.instead(this.#secret!)
    const held = this.#held
    // It was given up meanwhile.
    if (!held) return
    this.#held = undefined
    if (secret === undefined) return this.#show(held)
    const refused = this.#call
    this.#call = undefined
    if (!held.ended && !held.error) refused?.abort()
    try {
      this.#start(secret)
    } catch (error) {
      this.#failed(error)
    }
  }

  #show({ status, headers, pieces, ended, error }: Held): void {
    this.#request = undefined
    try {
      this.#sink.onHead(status, headers)
      for (const piece of pieces) if (!this.#over) this.#sink.onData(piece)
    } catch (thrown) {
      if (!ended && !error) this.#call?.abort()
      return this.#failed(thrown)
    }
    if (this.#over) return
    if (error) this.#end(() => this.#sink.onError(error))
    else if (ended) this.#end(() => this.#sink.onEnd())
    else if (!this.#paused) this.#call?.resume()
  }
}
