// A session: frames to and fro between a client and an upstream, until one of them closes or something ends it.
import type { BodyMemory } from '../../bodies/body-memory.ts'
import type { Attempt } from '../../contract/attempt.ts'
import type { Awaitable } from '../../contract/contract.ts'
import { Message } from '../../contract/message.ts'
import { caller } from '../../contract/slots.ts'
import { asGatewayError, clientClosed, GatewayError } from '../../errors.ts'
import type { ErrorCode } from '../../errors.ts'
import { protocols } from '../../protocols/index.ts'
import type { FrameProtocol } from '../../protocols/index.ts'
import type { Watchdog, Watched } from '../../watchdog/watchdog.ts'
import { lostCode, noCode } from '../../wire/frame-socket.ts'
import type { Closing, FrameSocket, FrameTaker } from '../../wire/frame-socket.ts'
import type { Chain } from '../state/chain.ts'
import type { LiveExchange } from '../state/exchange.ts'
import type { OpenSession } from '../state/under-way.ts'
import { FrameRoom } from './frame-room.ts'
import { FrameStages } from './frame-stages.ts'
import { Lane } from './lane.ts'
import type { LaneSource } from './lane.ts'
import { cleanText } from '../failures/redact.ts'
import { shownError } from '../replies.ts'
import type { PluginStage } from '../answers/stages.ts'
import { Turns } from './turns.ts'

/** Close codes (RFC 6455 §7.4.1; 1012 and 1013: IANA's registry). */
const normal = 1000
const goingAway = 1001
const policy = 1008
const internalError = 1011
const restart = 1012
const tryLater = 1013
const restartReason = 'The gateway is being restarted.'

/** What a session is made of. */
export interface SessionParts {
  exchange: LiveExchange
  attempt: Attempt
  upstream: FrameSocket
  stages: readonly PluginStage[]
  onTurn: Chain['onTurn']
  watchdog: Watchdog
  memory: BodyMemory
}

/** How a socket is closed. */
interface Farewell {
  code: number
  reason: string
}

/** One per exchange. Made when the upstream has accepted the session; carries frames from {@link open} on. */
export class Session implements OpenSession, Watched {
  /** Why the session failed; undefined when it ended in good order. */
  error: GatewayError | undefined
  bytes = 0
  /** The session has ended. */
  over = false
  rosterPlace: number | undefined = undefined
  readonly attempt: Attempt
  readonly #parts: SessionParts
  readonly #frames: FrameProtocol
  readonly #stages: FrameStages
  readonly #turns: Turns
  readonly #up: Lane
  readonly #down: Lane
  #client: FrameSocket | undefined
  #openedAt = performance.now()
  #activeAt = performance.now()
  #pingedAt = performance.now()
  /** Which side reads nothing, and since when; undefined while both read. */
  #stalled: { side: 'client' | 'upstream'; since: number } | undefined
  /** Until when the upstream may still report the usage of open turns, after the client has left. */
  #drainUntil: number | undefined
  /** Why the gateway ended the session. */
  #reason: GatewayError | undefined
  #concluding = false
  #retiring = false
  #held = 0
  /** The client has closed the session, or its connection is lost. */
  #hasLeft = false
  /** The close code and reason that the other side is given. */
  #farewell: Farewell | undefined
  #finish: (() => void) | undefined
  #settled: Promise<unknown> | undefined

  constructor(parts: SessionParts) {
    const { exchange, attempt, upstream } = parts
    this.#parts = parts
    this.attempt = attempt
    this.#frames = protocols[exchange.request.operation.protocol].frames!
    this.#stages = new FrameStages(parts.stages, (message) => this.#pass(message))
    this.#turns = new Turns({
      exchange,
      attempt,
      onTurn: parts.onTurn,
      frames: this.#frames,
      tell: (error, event) => this.#tell(error, event),
      endWith: (error) => this.#endWith(error),
      say: (payload) => void upstream.send(Buffer.from(payload), false)
    })
    const failed = (error: unknown): void => this.fail(error)
    const client: LaneSource = { pause: () => this.#client!.pause(), resume: () => this.#client!.resume() }
    this.#up = new Lane({
      source: client,
      gate: (message) => this.#turns.client(message),
      onward: (message) => this.#toUpstream(message),
      room: new FrameRoom(parts.memory),
      failed
    })
    this.#down = new Lane({
      source: upstream,
      gate: (message) => this.#hold(this.#turns.upstream(message)),
      onward: (message) => this.#stages.pass(message),
      room: new FrameRoom(parts.memory),
      failed
    })
  }

  /** Begins to carry frames. */
  open(client: FrameSocket): void {
    const { upstream, watchdog } = this.#parts
    this.#client = client
    this.#openedAt = this.#activeAt = this.#pingedAt = performance.now()
    watchdog.add(this)
    // The settings of a client secret are sent before the client's own frames.
    const settings = this.#parts.exchange.find(caller)?.secret?.settings
    if (settings !== undefined) this.#up.put(Message.frame(this.#frames.configure(settings), 'client'))
    upstream.take(
      this.#taker(
        'upstream',
        this.#down,
        (message) => this.#down.put(message),
        () => (this.#up.full = false)
      )
    )
    client.take(
      this.#taker(
        'client',
        this.#up,
        (message) => this.#stages.pass(message),
        () => {
          this.#down.full = false
          this.#up.unheard = false
        }
      )
    )
    if (this.#retiring) this.#retireIfIdle()
  }

  /** Resolves when the session is {@link over}. For one caller only. */
  get finished(): Promise<void> {
    if (!this.over) return new Promise((resolve) => (this.#finish = resolve))
    return this.#turns.admissions?.then(() => {}) ?? Promise.resolve()
  }

  get settled(): Promise<unknown> | undefined {
    return this.#settled
  }

  fail(error: unknown): void {
    if (this.#concluding) return
    this.#reason = asGatewayError(error)
    this.#conclude(this.#reason, undefined, { code: goingAway, reason: '' })
  }

  retire(): void {
    this.#retiring = true
    if (this.#client) this.#retireIfIdle()
  }

  closeClient(error: GatewayError | undefined): void {
    const client = this.#client!
    const reason = error ?? this.#reason
    if (reason?.code === 'client_stalled') return client.destroy()
    if (reason) client.send(Buffer.from(this.#frames.error(shownError(reason))), false)
    const { code, reason: text } = reason
      ? { code: codeOf(reason), reason: reason.message }
      : (this.#farewell ?? { code: normal, reason: '' })
    client.close(code, text)
  }

  check(now: number): void {
    if (this.over) return
    const { exchange, attempt } = this.#parts
    const { realtime, clientStall } = exchange.limits
    if (this.#drainUntil !== undefined) {
      if (now > this.#drainUntil) this.#left()
      return
    }
    if (now - this.#openedAt > realtime.duration)
      return this.fail(new GatewayError('session_expired', `A session may last ${seconds(realtime.duration)}.`))
    if (now - this.#activeAt > realtime.idle)
      return this.fail(new GatewayError('session_expired', `Nothing was sent for ${seconds(realtime.idle)}.`))
    if (this.#stalled) {
      const { side, since } = this.#stalled
      if (side === 'client' && now - since > clientStall)
        return this.fail(new GatewayError('client_stalled', `The client has read nothing for ${clientStall} ms.`))
      if (side === 'upstream' && now - since > attempt.channel.timeouts.idle)
        return this.fail(new GatewayError('upstream_timeout_idle', 'The upstream reads nothing.'))
    }
    if (now - this.#pingedAt > realtime.ping) this.#ping(now)
  }

  #taker(from: 'client' | 'upstream', lane: Lane, put: (message: Message) => void, drained: () => void): FrameTaker {
    return {
      received: (bytes) => {
        if (this.over || lane.come(bytes)) return
        this.fail(new GatewayError('overloaded', 'Too much is on its way in sessions. Try again shortly.'))
      },
      frame: (data, binary) => {
        if (this.over) return
        this.#activeAt = this.#parts.watchdog.now
        try {
          put(Message.frame(data, from, binary))
          lane.rest()
        } catch (error) {
          this.fail(error)
        }
      },
      drained: () => {
        if (this.over) return
        if (this.#stalled?.side === from) this.#stalled = undefined
        drained()
      },
      closed: (closing) => (from === 'client' ? this.#clientClosed(closing) : this.#upstreamClosed(closing))
    }
  }

  /** Passes on a frame that has gone through the stages. */
  #pass(message: Message): void {
    if (this.over) return
    // When the session ends, all turns have been released, and no new one may be asked for.
    if (message.from === 'client') {
      if (!this.#concluding && this.#drainUntil === undefined) this.#up.put(message)
    } else if (this.#drainUntil === undefined) {
      this.#toClient(message)
      if (this.#retiring) this.#retireIfIdle()
    }
    // After the client has left, the session lasts only until no turn is open.
    if (this.#drainUntil !== undefined && this.#turns.open === 0) this.#left()
  }

  /** Counts the frames for the client that wait for the disk: the last one of a response is shown after its charge. */
  #hold(frame: Awaitable<Message | undefined>): Awaitable<Message | undefined> {
    if (!(frame instanceof Promise)) return frame
    this.#held++
    return frame.finally(() => this.#held--)
  }

  /** Ends a session that is to end when no response is under way, if none is. */
  #retireIfIdle(): void {
    if (this.over || this.#drainUntil !== undefined || this.#turns.open > 0 || this.#held > 0) return
    const { admissions } = this.#turns
    if (admissions) return void admissions.finally(() => this.#retireIfIdle())
    this.#conclude(undefined, { code: restart, reason: restartReason }, { code: goingAway, reason: '' })
  }

  /** Sends a frame to the client. False: its buffer is full. */
  #toClient({ data, binary }: Message): boolean {
    this.bytes += data.length
    this.attempt.firstByteAt ??= performance.now()
    if (this.#client!.send(data, binary)) return true
    this.#down.full = true
    this.#stalled ??= { side: 'client', since: performance.now() }
    return false
  }

  #toUpstream({ data, binary }: Message): void {
    if (this.#parts.upstream.send(data, binary)) return
    this.#up.full = true
    this.#stalled ??= { side: 'upstream', since: performance.now() }
  }

  #tell(error: GatewayError, event: string | undefined): void {
    if (this.over || this.#drainUntil !== undefined) return
    const { log } = this.#parts.exchange
    if (error.code === 'internal_error') log.error('a plugin failed in a session', { error: String(error.cause) })
    // A client that sends refused frames and does not read the refusals would fill the memory with them.
    if (!this.#toClient(Message.frame(this.#frames.error(shownError(error), event), 'upstream')))
      this.#up.unheard = true
  }

  #ping(now: number): void {
    const { upstream, exchange } = this.#parts
    const client = this.#client!
    this.#pingedAt = now
    const dead = now - 2 * exchange.limits.realtime.ping
    // While a side is paused its pongs are not read.
    if (upstream.isPinged && !this.#down.paused && upstream.heardAt < dead)
      return this.fail(new GatewayError('upstream_timeout_idle', 'The upstream does not answer any more.'))
    if (client.isPinged && !this.#up.paused && client.heardAt < dead)
      return this.#clientClosed({ code: lostCode, reason: '', fault: undefined })
    upstream.ping()
    client.ping()
  }

  #clientClosed({ code, reason, fault }: Closing): void {
    if (this.over) return
    if (fault) {
      const error = new GatewayError(
        'invalid_request',
        'The client sent what is no WebSocket, or a message that is too large.',
        { cause: fault }
      )
      return this.#conclude(error, undefined, { code: goingAway, reason: '' })
    }
    const { exchange } = this.#parts
    if (code === lostCode) exchange.gone = true
    this.#farewell = code === lostCode ? { code: goingAway, reason: '' } : { code, reason }
    if (this.#turns.open === 0 || exchange.limits.onDisconnect === 'abort') return this.#left()
    this.#down.full = false
    this.#drain()
  }

  /** Ends the session once the turns that have begun are over, so that they are charged for their usage. */
  #endWith(error: GatewayError): void {
    this.#reason = error
    this.#farewell = { code: goingAway, reason: '' }
    this.#drain()
  }

  /** Cancels the open turns, and passes on nothing else from now on. */
  #drain(): void {
    this.#drainUntil = performance.now() + this.#parts.exchange.limits.disconnectDrain.time
    this.#turns.cancel()
  }

  /** Ends the session after the client has left, or must not go on: no turn is open, or the time for them is up. */
  #left(): void {
    const { exchange } = this.#parts
    this.#hasLeft = this.#reason === undefined
    this.#conclude(exchange.gone ? clientClosed() : this.#reason, undefined, this.#farewell!)
  }

  #upstreamClosed({ code, reason, fault }: Closing): void {
    if (this.over) return
    if (this.#drainUntil !== undefined) return this.#left()
    if (fault)
      return this.fail(
        new GatewayError(
          'upstream_bad_response',
          'The upstream sent what is no WebSocket, or a message that is too large.',
          { cause: fault }
        )
      )
    if (code === lostCode)
      return this.fail(new GatewayError('upstream_stream_interrupted', 'The upstream connection was lost.'))
    const regular = code === normal || code === goingAway || code === noCode
    const error = regular
      ? undefined
      : new GatewayError('upstream_stream_interrupted', `The upstream closed the session with ${code}.`)
    this.#conclude(error, { code, reason: cleanText(reason, this.attempt.channel) }, undefined)
  }

  /** Ends the session, once: releases the turns, tells the stages, and resolves {@link finished}. */
  #conclude(error: GatewayError | undefined, toClient: Farewell | undefined, toUpstream: Farewell | undefined): void {
    if (this.#concluding) return
    this.#concluding = true
    const { watchdog, upstream } = this.#parts
    watchdog.delete(this)
    this.error = error
    if (toClient) this.#farewell = toClient
    this.attempt.endedAt = performance.now()
    this.#client!.pause()
    this.#settled = this.#turns.end(this.#hasLeft || error?.source === 'client')
    try {
      this.#stages.end(error === undefined)
    } catch (thrown) {
      this.error ??= asGatewayError(thrown)
    }
    this.over = true
    this.#up.close()
    this.#down.close()
    upstream.close(toUpstream?.code ?? normal, toUpstream?.reason)
    this.attempt.error = this.error
    // A turn that plugins are still asked about ends after that, and belongs to the record of the session.
    const admissions = this.#turns.admissions
    if (admissions) void admissions.then(() => this.#finish?.())
    else this.#finish?.()
  }
}

/** The close code that tells the client of an error. */
function codeOf({ code, source, status }: GatewayError): number {
  const own: Partial<Record<ErrorCode, number>> = {
    draining: restart,
    overloaded: tryLater,
    session_expired: goingAway,
    client_closed: goingAway
  }
  return own[code] ?? (source === 'upstream' || status >= 500 ? internalError : policy)
}

function seconds(ms: number): string {
  return `${ms / 1000} seconds`
}
