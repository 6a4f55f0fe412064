// A session: frames to and fro between a client and an upstream, until one of them closes or something ends it.
import type { BodyMemory } from '../../bodies/body-memory.ts'
import type { Attempt } from '../../contract/attempt.ts'
import type { Awaitable } from '../../contract/contract.ts'
import { Message } from '../../contract/message.ts'
import { caller } from '../../contract/slots.ts'
import { asGatewayError, clientClosed, GatewayError, reasons } from '../../errors.ts'
import type { ErrorCode } from '../../errors.ts'
import { protocols } from '../../protocols/index.ts'
import type { FrameProtocol } from '../../protocols/index.ts'
import type { Watchdog, Watched } from '../../watchdog/watchdog.ts'
import { lostCode, noCode } from '../../wire/frame-socket.ts'
import type { Closing, FrameSocket } from '../../wire/frame-socket.ts'
import type { Chain } from '../state/chain.ts'
import type { LiveExchange } from '../state/exchange.ts'
import type { OpenSession } from '../state/under-way.ts'
import { FrameStages } from './frame-stages.ts'
import { Lane } from './lane.ts'
import type { LaneHost, Side } from './lane.ts'
import { cleanText } from '../failures/redact.ts'
import { shownError } from '../replies.ts'
import type { PluginStage } from '../answers/stages.ts'
import { Turns } from './turns.ts'
import type { TurnHost } from './turns.ts'

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
export class Session implements OpenSession, Watched, LaneHost, TurnHost {
  /** Why the session failed; undefined when it ended in good order. */
  error: GatewayError | undefined
  bytes = 0
  /** The session has ended. */
  over = false
  rosterPlace: number | undefined = undefined
  readonly attempt: Attempt
  readonly exchange: LiveExchange
  readonly onTurn: Chain['onTurn']
  readonly frames: FrameProtocol
  readonly #upstream: FrameSocket
  readonly #watchdog: Watchdog
  readonly #stages: FrameStages
  readonly #turns: Turns
  readonly #up: Lane
  readonly #down: Lane
  #client: FrameSocket | undefined
  #openedAt = 0
  #activeAt = 0
  #pingedAt = 0
  /** Which side reads nothing, and since when; undefined while both read. */
  #stalled: { side: Side; since: number } | undefined
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
    const { exchange, attempt, upstream, onTurn, watchdog, memory } = parts
    this.#upstream = upstream
    this.#watchdog = watchdog
    this.attempt = attempt
    this.exchange = exchange
    this.onTurn = onTurn
    this.frames = protocols[exchange.request.operation.protocol].frames!
    this.#stages = new FrameStages(parts.stages, (message) => this.#pass(message))
    this.#turns = new Turns(this)
    this.#up = new Lane('client', this, memory)
    this.#down = new Lane('upstream', this, memory)
  }

  /** Begins to carry frames. */
  open(client: FrameSocket): void {
    this.#client = client
    this.#watchdog.add(this)
    this.#openedAt = this.#activeAt = this.#pingedAt = this.#watchdog.time()
    // The settings of a client secret are sent before the client's own frames.
    const settings = this.exchange.find(caller)?.secret?.settings
    if (settings !== undefined) this.#up.put(Message.frame(this.frames.configure(settings), 'client'))
    this.#upstream.take(this.#down)
    client.take(this.#up)
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
    if (reason) client.send(Buffer.from(this.frames.error(shownError(reason))), false)
    const { code, reason: text } = reason
      ? { code: codeOf(reason), reason: reason.message }
      : (this.#farewell ?? { code: normal, reason: '' })
    client.close(code, text)
  }

  check(now: number): void {
    if (this.over) return
    const { realtime, clientStall } = this.exchange.limits
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
      if (side === 'upstream' && now - since > this.attempt.channel.timeouts.idle)
        return this.fail(new GatewayError('upstream_timeout_idle', 'The upstream reads nothing.'))
    }
    if (now - this.#pingedAt > realtime.ping) this.#ping(now)
  }

  socketOf(side: Side): FrameSocket {
    return side === 'client' ? this.#client! : this.#upstream
  }

  came(from: Side, message: Message): void {
    this.#activeAt = this.#watchdog.now
    if (from === 'client') this.#stages.pass(message)
    else this.#down.put(message)
  }

  gate(from: Side, message: Message): Awaitable<Message | undefined> {
    return from === 'client' ? this.#turns.client(message) : this.#hold(this.#turns.upstream(message))
  }

  onward(from: Side, message: Message): void {
    if (from === 'client') this.#toUpstream(message)
    else this.#stages.pass(message)
  }

  drained(side: Side): void {
    if (this.#stalled?.side === side) this.#stalled = undefined
    if (side === 'upstream') this.#up.full = false
    else {
      this.#down.full = false
      this.#up.unheard = false
    }
  }

  closed(side: Side, closing: Closing): void {
    if (side === 'client') this.#clientClosed(closing)
    else this.#upstreamClosed(closing)
  }

  tell(error: GatewayError, event: string | undefined): void {
    if (this.over || this.#drainUntil !== undefined) return
    const { log } = this.exchange
    if (error.code === 'internal_error') log.error('a plugin failed in a session', { error: reasons(error.cause) })
    // A client that sends refused frames and does not read the refusals would fill the memory with them.
    if (!this.#toClient(Message.frame(this.frames.error(shownError(error), event), 'upstream'))) this.#up.unheard = true
  }

  endWith(error: GatewayError): void {
    this.#reason = error
    this.#farewell = { code: goingAway, reason: '' }
    this.#drain()
  }

  say(payload: string): void {
    this.#upstream.send(Buffer.from(payload), false)
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
    this.#stalled ??= { side: 'client', since: this.#watchdog.time() }
    return false
  }

  #toUpstream({ data, binary }: Message): void {
    if (this.#upstream.send(data, binary)) return
    this.#up.full = true
    this.#stalled ??= { side: 'upstream', since: this.#watchdog.time() }
  }

  #ping(now: number): void {
    const upstream = this.#upstream
    const client = this.#client!
    this.#pingedAt = now
    const dead = performance.now() - 2 * this.exchange.limits.realtime.ping
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
    const { exchange } = this
    if (code === lostCode) exchange.gone = true
    this.#farewell = code === lostCode ? { code: goingAway, reason: '' } : { code, reason }
    if (this.#turns.open === 0 || exchange.limits.onDisconnect === 'abort') return this.#left()
    this.#down.full = false
    this.#drain()
  }

  /** Cancels the open turns, and passes on nothing else from now on. */
  #drain(): void {
    this.#drainUntil = this.#watchdog.time() + this.exchange.limits.disconnectDrain.time
    this.#turns.cancel()
  }

  /** Ends the session after the client has left, or must not go on: no turn is open, or the time for them is up. */
  #left(): void {
    const { exchange } = this
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
    this.#watchdog.delete(this)
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
    this.#upstream.close(toUpstream?.code ?? normal, toUpstream?.reason)
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
