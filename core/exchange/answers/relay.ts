// Brings one attempt's answer to the client, and holds its end back until the exchange is settled.
import type { Attempt } from '../../contract/attempt.ts'
import type { UpstreamResponse } from '../../contract/contract.ts'
import { Decoder } from './decode.ts'
import { asGatewayError, GatewayError } from '../../errors.ts'
import { BodyIntake, ErrorIntake, EventIntake } from './intake.ts'
import type { Intake, IntakeHost } from './intake.ts'
import { intakeFor } from './answer-shape.ts'
import { Outlet } from './outlet.ts'
import type { RelayOptions } from './relay-options.ts'
import { dismiss } from './stages.ts'
import type { PluginStage } from './stages.ts'
import type { UpstreamCall, UpstreamSink } from '../../transport/transport.ts'
import type { Watched } from '../../watchdog/watchdog.ts'

/** Bytes of an answer that may wait for the disk. */
const waitingBytes = 64 * 1024

/**
 * One per attempt. Until {@link commit} nothing reaches the client, and the attempt may be given up for another;
 * afterwards messages go out as they come. It is {@link finished} when the upstream is done, with the last message
 * still held; the engine settles and then calls {@link takeRest}.
 */
export class Relay implements UpstreamSink, Watched, IntakeHost {
  /** Resolves when there is something to commit; rejects with a GatewayError when the attempt failed before. */
  readonly opened: Promise<void>
  readonly attempt: Attempt
  readonly outlet: Outlet
  readonly streaming: boolean
  /** The head that was accepted. */
  response: UpstreamResponse | undefined
  isOpen = false
  rosterPlace: number | undefined = undefined
  /** The attempt has ended. */
  over = false
  readonly #options: RelayOptions
  #call: UpstreamCall | undefined
  #intake: Intake | undefined
  /** It cuts server-sent events out of what comes, and copies one that is not whole. */
  #cutsEvents = false
  #decoder: Decoder | undefined
  /** Settle {@link opened}, once. */
  #open: (() => void) | undefined
  #refuse: ((error: GatewayError) => void) | undefined
  #finish: (() => void) | undefined
  /** Chunks that came while an `onResponse` hook was awaited; undefined when none is. */
  #early: Buffer[] | undefined
  #ended = false
  /** The whole answer has come, and a scan or a stage is still at work on it. */
  #settling = false
  /** Times are those of the watchdog. */
  readonly #startedAt: number
  #heardAt: number
  /** Since when the answer has been complete but for its trail. */
  #quietSince: number | undefined
  #pausedAt: number | undefined
  /** Milliseconds for which the client has kept the answer from being read, without the present pause. */
  #pausedMs = 0
  #drainUntil = Infinity

  constructor(attempt: Attempt, options: RelayOptions) {
    this.attempt = attempt
    this.#options = options
    this.streaming = options.streaming
    this.outlet = new Outlet(options.client, options.framing)
    this.#startedAt = this.#heardAt = options.watchdog.time() - (performance.now() - attempt.startedAt)
    this.opened = new Promise((resolve, reject) => {
      this.#open = resolve
      this.#refuse = reject
    })
    options.watchdog.add(this)
  }

  /** The whole answer is one message, to be sent with its length. */
  get whole(): boolean {
    return this.outlet.whole
  }

  /** Milliseconds since the upstream was last heard, or before that since the attempt began. */
  get silentMs(): number {
    return Math.max(0, this.#options.watchdog.time() - this.#heardAt)
  }

  /** Not all of the request was sent, so no upstream can act on it. */
  get unsent(): boolean {
    return this.#call?.unsent === true
  }

  /** The call this relay is the sink of; set right after it was sent. */
  set call(call: UpstreamCall) {
    this.#call = call
    if (this.over) call.abort()
  }

  onHead(status: number, headers: UpstreamResponse['headers']): void {
    if (this.over) return
    this.attempt.status = status
    this.attempt.headAt = performance.now()
    this.attempt.answered = headers
    if (!this.#decode(String(headers['content-encoding'] ?? 'identity'))) return
    try {
      this.#intake = intakeFor(this, status, headers, this.#options)
      if (this.#intake instanceof ErrorIntake) return
      const events = this.#intake instanceof EventIntake
      this.#cutsEvents = events && !this.attempt.protocol.framing
      // When the upstream's shape is not the one asked for, its type does not describe what the client gets.
      this.response = {
        attempt: this.attempt,
        status: this.#options.status ?? status,
        headers: events === this.streaming ? headers : {},
        streaming: this.streaming,
        frames: false
      }
      const stages = this.#options.accept(this.response)
      if (stages instanceof Promise) this.#await(stages)
      else this.outlet.use(stages)
    } catch (error) {
      this.fail(error)
    }
  }

  /** Events of a stream are passed on before the next read. */
  get borrows(): boolean {
    return this.#cutsEvents && !this.#early && !this.#decoder && this.outlet.borrows
  }

  onData(chunk: Buffer): void {
    if (this.over) return
    this.attempt.firstByteAt ??= performance.now()
    if (this.#early) this.#early.push(chunk)
    else if (!this.#decoder) this.#take(chunk)
    else if (!this.#decoder.write(chunk, () => this.#call?.resume())) this.#call?.pause()
  }

  onEnd(): void {
    this.#ended = true
    if (this.over || this.#early) return
    if (this.#decoder) this.#decoder.end()
    else this.#takeEnd()
  }

  onError(error: GatewayError): void {
    if (this.#intake?.trail === undefined) this.fail(error)
    else this.#takeEnd()
  }

  /** The head is out: from here on messages go to the client as they come. */
  commit(): void {
    this.outlet.commit()
    if (this.over) return
    const resume = (): void => this.#resume()
    this.#options.client.onDrain = resume
    this.#flush()
  }

  get mayBeEmpty(): boolean {
    return String(this.response?.headers['content-type'] ?? '').startsWith('text/')
  }

  /**
   * Resolves when the answer is {@link over}; without an error of the attempt it arrived whole. For the one who waits
   * for it.
   */
  get finished(): Promise<void> {
    return new Promise((resolve) => (this.#finish = resolve))
  }

  /** The last bytes of a complete answer; given once, after the settlement. */
  takeRest(): Buffer {
    return this.outlet.takeRest()
  }

  /** The client left: reads on for the usage, writing nothing, until the answer ends or a bound is reached. */
  drain(timeMs: number, bytes: number): void {
    if (this.over) return
    this.#drainUntil = this.#options.watchdog.time() + timeMs
    this.outlet.discard(bytes)
    this.#resume()
  }

  /** The client left, and nothing is read on: an answer of which nothing is missing is over, others are given up. */
  leave(): void {
    const untaken = this.unsent ? true : undefined
    if (this.#intake?.trail === undefined) this.fail(new GatewayError('client_closed', 'The client left.', { untaken }))
    else this.#takeEnd()
  }

  /** Gives the attempt up: the upstream is told, and what waits is forgotten. Safe to call at any time. */
  fail(error: unknown): void {
    if (this.over) return
    // What came before it, in the same read, is the client's.
    this.outlet.flush()
    this.outlet.drop()
    this.#conclude(asGatewayError(error))
  }

  heard(): void {
    this.#heardAt = this.#options.watchdog.now
  }

  open(): void {
    if (this.isOpen) return
    this.isOpen = true
    this.#open?.()
    this.#open = this.#refuse = undefined
  }

  /**
   * Holds back what is shown from now on, beginning with the message that a stage is seeing, until this resolves; the
   * answer fails when it rejects.
   */
  showAfter(durable: Promise<void>): void {
    if (this.over) return
    this.outlet.awaiting++
    durable.then(
      () => {
        this.outlet.awaiting--
        if (!this.over && this.outlet.committed && this.outlet.awaiting === 0) this.#flush()
      },
      (error: unknown) => this.fail(error)
    )
  }

  complete(): void {
    if (!this.over) this.#conclude(undefined)
  }

  goOnAfter(work: Promise<void>, onward: () => void): void {
    this.#settling = true
    this.#call?.abort()
    this.#decoder?.destroy()
    work
      .then(() => {
        if (!this.over) onward()
      })
      .catch((error: unknown) => this.fail(error))
  }

  check(now: number): void {
    const trail = this.#settling ? undefined : this.#intake?.trail
    // What a client that reads slowly keeps from being read may be a postscript, unless the answer's end has been.
    if (trail !== undefined && (this.#pausedAt === undefined || this.outlet.holding)) {
      this.#quietSince ??= now
      if (now - this.#quietSince > trail || now > this.#drainUntil) this.#takeEnd()
      return
    }
    const late = this.#late(now)
    if (late) this.fail(late)
  }

  /**
   * What took too long. An answer that is no stream comes at once when it comes: from its first byte on it has all the
   * time in total.
   */
  #late(now: number): GatewayError | undefined {
    const { attempt, isOpen } = this
    const { total, idle } = attempt.channel.timeouts
    const { clientStall, patience } = this.#options
    const age = now - this.#startedAt
    if (now > this.#drainUntil) return new GatewayError('client_closed', 'The client left.')
    if (age > total) {
      // The upstream cannot be quicker than its client reads, and must not be left out for that.
      const paused = this.#pausedMs + (this.#pausedAt === undefined ? 0 : now - this.#pausedAt)
      return age - paused > total
        ? new GatewayError('upstream_timeout_total', `The answer took longer than ${total} ms.`)
        : new GatewayError('client_stalled', `The client has not read the whole answer within ${total} ms.`)
    }
    if (this.outlet.committed && this.outlet.awaiting > 0) return undefined
    if (isOpen && this.#pausedAt !== undefined) {
      return now - this.#pausedAt > clientStall
        ? new GatewayError('client_stalled', `The client has read nothing for ${clientStall} ms.`)
        : undefined
    }
    const intake = this.#intake
    const atOnce = intake instanceof BodyIntake
    if (this.#settling || (atOnce && intake.begun)) return undefined
    if (isOpen || intake?.begun) {
      return now - this.#heardAt > idle
        ? new GatewayError('upstream_timeout_idle', `The upstream sent nothing for ${idle} ms.`)
        : undefined
    }
    const whole = !this.streaming || atOnce
    const limit = whole ? patience.whole : patience.streamed
    if (age <= limit) return undefined
    const said = `The upstream did not begin to answer within ${limit} ms.`
    return new GatewayError('upstream_timeout_first_byte', said, { costly: whole ? true : undefined })
  }

  /** Bodies come as `identity`, which was asked for; one that does not is decoded, or the attempt fails. */
  #decode(encoding: string): boolean {
    if (encoding === 'identity') return true
    this.#decoder = Decoder.for(encoding, {
      data: (chunk) => this.#take(chunk),
      end: () => this.#takeEnd(),
      error: (cause) =>
        this.fail(
          new GatewayError('upstream_bad_response', 'The upstream sent a body that cannot be decoded.', { cause })
        )
    })
    if (this.#decoder) return true
    this.fail(new GatewayError('upstream_bad_response', 'The upstream sent a body in an unknown encoding.'))
    return false
  }

  #await(stages: Promise<PluginStage[]>): void {
    this.#early = []
    this.#call?.pause()
    stages.then(
      (made) => {
        if (this.over) return dismiss(made)
        this.outlet.use(made)
        const early = this.#early!
        this.#early = undefined
        for (const chunk of early) this.onData(chunk)
        if (this.#ended) this.onEnd()
        else if (this.#pausedAt === undefined) this.#call?.resume()
      },
      (error: unknown) => this.fail(error)
    )
  }

  #take(chunk: Buffer): void {
    if (this.over || this.#settling) return
    try {
      const borrowed = this.borrows
      this.#intake!.data(chunk)
      const flowing = this.outlet.flush()
      if (borrowed) this.outlet.own()
      if (!flowing) this.#pause()
      else if (this.outlet.waiting > waitingBytes && !(this.outlet.committed && this.outlet.awaiting === 0)) {
        this.open()
        this.#pause()
      } else if (this.outlet.exhausted) this.fail(new GatewayError('client_closed', 'The client left.'))
    } catch (error) {
      this.fail(error)
    }
  }

  #takeEnd(): void {
    if (this.over || this.#settling) return
    try {
      this.#intake!.end()
    } catch (error) {
      this.fail(error)
    }
  }

  #flush(): void {
    if (this.outlet.flush()) this.#resume()
    else this.#pause()
  }

  #pause(): void {
    if (this.over || this.#pausedAt !== undefined) return
    this.#pausedAt = this.#options.watchdog.time()
    this.#decoder?.pause()
    this.#call?.pause()
  }

  #resume(): void {
    if (this.over || this.#pausedAt === undefined) return
    this.#heardAt = this.#options.watchdog.time()
    this.#pausedMs += this.#heardAt - this.#pausedAt
    this.#pausedAt = undefined
    this.#quietSince = undefined
    this.#decoder?.resume()
    this.#call?.resume()
  }

  /** Ends the attempt, once: tells the stages, and resolves or rejects {@link opened} and {@link finished}. */
  #conclude(error: GatewayError | undefined): void {
    this.over = true
    this.#call?.abort()
    this.#decoder?.destroy()
    this.#options.watchdog.delete(this)
    this.#options.client.onDrain = null
    this.attempt.endedAt = performance.now()
    try {
      this.outlet.end(error === undefined)
    } catch (thrown) {
      error ??= asGatewayError(thrown)
    }
    if (error) {
      this.attempt.error = error
      this.outlet.drop()
      if (!this.isOpen) return this.#refuse?.(error)
    }
    this.open()
    this.#finish?.()
  }
}
