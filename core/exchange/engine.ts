// Runs exchanges from the request's head to their settlement: the one place where an exchange ends.
import { attemptAnswer, clientClosed } from './attempts.ts'
import type { BackgroundWork } from './background/background.ts'
import type { BodyMemory } from '../bodies/body-memory.ts'
import type { Chain } from './chain.ts'
import type { Incoming, SocketOffer } from '../clients/client.ts'
import type { Awaitable, Outcome, Reply, WholeReply } from '../contract/contract.ts'
import { asGatewayError, GatewayError, restarting } from '../errors.ts'
import { LiveExchange } from './exchange.ts'
import type { Generation, GenerationSource } from './generation.ts'
import type { Logger } from '../telling/log.ts'
import { receive } from './receive.ts'
import { ownAnswer } from './own-answer.ts'
import { answered, caller } from '../contract/slots.ts'
import { openSession, socketRefusal } from './open-session.ts'
import { Relay } from './relay.ts'
import { Session } from './session.ts'
import { Roster } from '../watchdog/roster.ts'
import { errorEvent, sendError, sendHead, sendReply, sendWhole } from './replies.ts'
import type { Transport } from '../transport/transport.ts'
import type { Watchdog } from '../watchdog/watchdog.ts'
import { noRoute, unknownOperation } from './unknown.ts'
import type { OperationContext, OperationFinder } from '../contract/served.ts'
import type { Services } from '../store/services.ts'

/** What came of an exchange before it is settled: an answer still to be sent or finished, or an error. */
type Ending = WholeReply | Relay | Session | GatewayError

/** What the engine works with; all of it outlives the exchanges. */
export interface EngineParts {
  operations: OperationFinder
  services: Services
  background: BackgroundWork
  generations: GenerationSource
  transport: Transport
  watchdog: Watchdog
  memory: BodyMemory
  log: Logger
}

/** Takes requests from the server and answers them, each through the chain of the generation it began with. */
export class Engine {
  readonly #parts: EngineParts
  readonly #running = new Roster<LiveExchange>()
  /** Answers read to their end for their usage although the client has left. */
  #drained = 0
  #refusing = false
  #onIdle: (() => void) | undefined

  constructor(parts: EngineParts) {
    this.#parts = parts
  }

  /** Exchanges that have begun and not been settled. */
  get running(): number {
    return this.#running.size
  }

  /** From now on new requests are refused with `draining`. */
  refuse(): void {
    this.#refusing = true
  }

  /** Resolves when no exchange is running: the last one has been settled. */
  idle(): Promise<void> {
    return this.#running.size === 0 ? Promise.resolve() : new Promise((resolve) => (this.#onIdle = resolve))
  }

  /** Ends answers still under way with an error in the client's protocol; each is settled as usual. */
  stop(): void {
    for (const exchange of this.#running) {
      // Whoever waits to try again hears of it first: what fails now is not tried again.
      exchange.abort()
      const error = new GatewayError('draining', 'The gateway is being restarted.')
      if (exchange.standIn) exchange.standIn.fail(error)
      else exchange.relay?.fail(error)
      exchange.session?.fail(error)
    }
  }

  /** Begins an exchange. Never throws and never rejects; the answer goes to the request's client. */
  handle(incoming: Incoming): void {
    const { generations, operations, log } = this.#parts
    const generation = generations.enter()
    const { method, target, headers, remoteAddress, body, client, socket } = incoming
    const mark = target.indexOf('?')
    const path = mark === -1 ? target : target.slice(0, mark)
    const query = mark === -1 ? '' : target.slice(mark + 1)
    const match = operations.find(method, path, headers, query)
    const { operation = unknownOperation, parameters = {} } = match ?? {}
    const request = { method, path, query, headers, operation, parameters, remoteAddress }
    const exchange = new LiveExchange(request, client, generation.config.settings.limits, generation.chain.onModel, (reader) => receive(reader, body, this.#parts), log)
    const refusal = match?.operation ? (this.#refusing ? restarting() : socketRefusal(exchange, socket)) : noRoute(request, match?.allow, operations)
    void this.#run(exchange, generation, refusal, socket)
  }

  async #run(exchange: LiveExchange, generation: Generation, refusal: GatewayError | undefined, socket: SocketOffer | undefined): Promise<void> {
    this.#running.add(exchange)
    exchange.client.onGone = () => this.#leave(exchange)
    let ending: Ending
    let unsettled: Promise<void> | undefined
    try {
      if (refusal) throw refusal
      const asked = this.#ask(exchange, generation, 0)
      const reply = asked instanceof Promise ? await asked : asked
      const { begins, goesOn } = exchange.request.operation
      if (begins && !reply && mayBegin(exchange)) this.#parts.background.admit(exchange)
      if (goesOn && !reply && (goesOn.when?.(exchange) ?? true)) await this.#answerEarly(exchange, generation)
      if (socket && !reply) ending = await this.#converse(exchange, generation, socket)
      else ending = await (reply ? ownAnswer(exchange, reply, generation.chain, this.#parts) : attemptAnswer(exchange, generation, this.#parts))
      if (ending instanceof Relay) {
        if (!ending.over) await this.#relay(exchange, ending)
        if (ending.attempt.error) throw ending.attempt.error
        if (exchange.standIn) await exchange.standIn.keep(ending.release())
      }
    } catch (error) {
      ending = asGatewayError(error)
    }
    try {
      const outcome = outcomeOf(exchange, ending)
      const settled = settle(exchange, generation.chain, outcome)
      // A refusal has nothing at stake, so it need not wait for a disk.
      if (outcome.kind === 'rejected') unsettled = settled
      else if (settled) await settled
    } catch (error) {
      // What must be on disk is not: whoever saw the end of this answer would have had it for nothing.
      exchange.complain('an exchange could not be settled', { error: reasons(error) })
      ending = asGatewayError(error)
    }
    try {
      send(exchange, ending)
    } catch (error) {
      exchange.complain('an answer could not be sent', { error: reasons(error) })
      sendFailure(exchange, new GatewayError('internal_error', 'The answer could not be sent.'))
    } finally {
      exchange.client.onGone = null
      this.#running.delete(exchange)
      if (this.#running.size === 0) this.#onIdle?.()
      if (exchange.held) this.#parts.memory.reclaim(exchange.held)
      exchange.upload?.close()
      if (unsettled) void unsettled.catch(ignore).then(() => generation.leave())
      else generation.leave()
    }
  }

  /**
   * Asks the plugins from one on, and reads the body: a reply when the exchange needs no upstream. Waits only for what is a
   * promise, and is one only then.
   */
  #ask(exchange: LiveExchange, generation: Generation, from: number): Awaitable<Reply | undefined> {
    const { operation } = exchange.request
    const { onRequest } = operation.open ? openChain : generation.chain
    for (let i = from; i < onRequest.length; i++) {
      const { plugin, readsBody, call } = onRequest[i]!
      if (readsBody) {
        const ready = this.#ready(exchange, generation, false)
        if (ready instanceof Promise) return ready.then(() => this.#ask(exchange, generation, i))
      }
      exchange.plugin = plugin
      try {
        const reply = call(exchange)
        if (reply instanceof Promise) return this.#askOn(exchange, generation, i, reply)
        if (reply) return reply
      } catch (error) {
        throw asGatewayError(error, plugin)
      }
      if (exchange.gone) throw clientClosed()
    }
    const ready = this.#ready(exchange, generation, true)
    if (ready instanceof Promise) return ready.then(() => this.#handle(exchange, generation))
    return operation.handle && this.#handle(exchange, generation)
  }

  /** Reads the body; with what it goes on with as soon as it is known whose that would be. `last`: nobody says who is asking any more. */
  #ready(exchange: LiveExchange, generation: Generation, last: boolean): Awaitable<unknown> {
    const { recall } = exchange.request.operation
    const body = exchange.read()
    if (!recall || exchange.recalled) return body
    if (body instanceof Promise) return body.then(() => this.#ready(exchange, generation, last))
    if (!last && !exchange.find(caller)) return undefined
    exchange.recalled = true
    return recall(exchange, this.#contextOf(generation))
  }

  #contextOf({ catalogue }: Generation): OperationContext {
    const { services, background, memory } = this.#parts
    return { catalogue, services, background, memory }
  }

  /** Answers the client of an exchange that goes on without it; resolves when it is the exchange's turn. */
  async #answerEarly(exchange: LiveExchange, generation: Generation): Promise<void> {
    const { background, watchdog } = this.#parts
    exchange.plugin = ''
    const accepted = await background.accept(exchange, this.#contextOf(generation))
    if (!exchange.streaming) {
      const reply = await ownAnswer(exchange, accepted, generation.chain, this.#parts)
      exchange.set(answered, true)
      if (!(reply instanceof Relay)) sendReply(exchange, reply)
    }
    await background.goOn(exchange, watchdog)
  }

  /** The reply of the gateway itself; undefined when an upstream is to answer. */
  #handle(exchange: LiveExchange, generation: Generation): Awaitable<Reply | undefined> {
    return exchange.request.operation.handle?.(exchange, this.#contextOf(generation))
  }

  async #askOn(exchange: LiveExchange, generation: Generation, asked: number, pending: Promise<Reply | void>): Promise<Reply | undefined> {
    try {
      const reply = await pending
      if (reply) return reply
    } catch (error) {
      throw asGatewayError(error, generation.chain.onRequest[asked]!.plugin)
    }
    if (exchange.gone) throw clientClosed()
    return this.#ask(exchange, generation, asked + 1)
  }

  /** Shows the client an answer as it comes. How far it came when it breaks is known to the relay. */
  #relay(exchange: LiveExchange, relay: Relay): Promise<void> | undefined {
    if (!relay.whole && !exchange.gone) {
      sendHead(exchange, relay.response!)
      relay.commit()
    }
    return relay.over ? undefined : relay.finished
  }

  /** Opens a session and waits for its end. */
  async #converse(exchange: LiveExchange, generation: Generation, socket: SocketOffer): Promise<Session> {
    const { chain, catalogue } = generation
    const session = await openSession(exchange, socket, { chain, catalogue, mayGoOn: (open) => this.#askWhileOpen(open) }, this.#parts)
    await session.finished
    return session
  }

  /** Asks the plugins that are in use now: a key may have been taken out of the file since the exchange began. */
  #askWhileOpen(exchange: LiveExchange): void {
    const generation = this.#parts.generations.enter()
    try {
      for (const { plugin, call } of generation.chain.whileOpen) {
        exchange.plugin = plugin
        try {
          call(exchange)
        } catch (error) {
          throw asGatewayError(error, plugin)
        }
      }
    } finally {
      generation.leave()
    }
  }

  #leave(exchange: LiveExchange): void {
    const { relay, limits } = exchange
    const { onDisconnect, disconnectDrain } = limits
    exchange.gone = true
    exchange.abort()
    // What begins work is heard to its end: nobody else knows that it has begun.
    if (!relay || relay.over) return
    if (mayBegin(exchange)) return exchange.streaming ? relay.drain(disconnectDrain.time, disconnectDrain.bytes) : undefined
    // Nothing was delivered yet, or reading on is not wanted or too much: the upstream hears of it at once.
    if (!exchange.client.headSent || onDisconnect === 'abort' || this.#drained >= disconnectDrain.concurrent) {
      relay.fail(clientClosed())
      return
    }
    this.#drained++
    exchange.defer(() => void this.#drained--)
    relay.drain(disconnectDrain.time, disconnectDrain.bytes)
  }
}

/** Whether work goes on when the exchange is over. */
function mayBegin(exchange: LiveExchange): boolean {
  const { operation } = exchange.request
  return operation.begins !== undefined && (operation.mayBegin?.(exchange) ?? true)
}

/** Of operations that anybody may ask. */
const openChain: Pick<Chain, 'onRequest'> = { onRequest: [] }

/** How it ended, as plugins and records see it. */
function outcomeOf(exchange: LiveExchange, ending: Ending): Outcome {
  const { relay, session } = exchange
  const error = ending instanceof GatewayError ? ending : ending instanceof Session ? ending.error : undefined
  const leftEarly = exchange.gone || error?.code === 'client_closed' || error?.code === 'client_stalled'
  const kind = leftEarly ? 'aborted' : !error ? 'completed' : exchange.attempts.length === 0 && !relay ? 'rejected' : 'failed'
  const sent = session ? 101 : ending instanceof GatewayError || ending instanceof Relay || ending instanceof Session ? relay?.response?.status : ending.status
  const status = exchange.client.headSent ? sent! : leftEarly ? 499 : (error?.status ?? sent!)
  if (error?.code === 'internal_error' || error?.code === 'answer_not_inspected') {
    exchange.complain('an exchange failed inside the gateway', { error: reasons(error.cause) })
  }
  // A whole answer is settled in the turn in which it ended.
  const now = ending instanceof Relay || ending instanceof Session ? ending.attempt.endedAt! : performance.now()
  // What a complete answer still holds back goes out as soon as this outcome is settled.
  const due = kind === 'completed' && relay ? relay.outlet.waiting : 0
  const firstByteAt = relay?.outlet.firstByteAt ?? session?.attempt.firstByteAt ?? (due > 0 ? now : undefined)
  return {
    kind,
    status,
    error: error ?? (leftEarly ? clientClosed() : undefined),
    bytes: (session?.bytes ?? relay?.outlet.bytes ?? 0) + due,
    firstByteMs: firstByteAt === undefined ? undefined : firstByteAt - exchange.startedAt,
    durationMs: now - exchange.startedAt
  }
}

/** What a release has still to do. */
interface Due {
  plugin: string
  promise: Promise<unknown>
}

/**
 * Starts every release, newest first, and tells every plugin: once per exchange. The promise is of what the end waits for, if
 * there is anything; it rejects with what a release threw on purpose, which is a GatewayError. Mistakes are logged.
 */
function settle(exchange: LiveExchange, chain: Chain, outcome: Outcome): Promise<void> | undefined {
  const dues: Due[] = []
  for (let i = exchange.releases.length - 1; i >= 0; i--) {
    const { plugin, call } = exchange.releases[i]!
    exchange.plugin = plugin
    try {
      const promise = call(outcome)
      if (promise instanceof Promise) dues.push({ plugin, promise: heeded(promise) })
    } catch (error) {
      dues.push({ plugin, promise: heeded(Promise.reject(error)) })
    }
  }
  for (let i = 0; i < chain.onSettled.length; i++) {
    const { plugin, call } = chain.onSettled[i]!
    exchange.plugin = plugin
    try {
      call(exchange, outcome)
    } catch (error) {
      exchange.complain('a plugin failed when told of the outcome', { plugin, error: reasons(error) })
    }
  }
  const turns = exchange.session?.settled
  if (turns) dues.push({ plugin: '', promise: heeded(turns) })
  const awaited = outcome.kind === 'completed' ? exchange.awaited : []
  return dues.length + awaited.length === 0 ? undefined : heeded(conclude(exchange, dues, awaited))
}

async function conclude(exchange: LiveExchange, dues: readonly Due[], awaited: readonly Promise<void>[]): Promise<void> {
  let failure: GatewayError | undefined
  for (const { plugin, promise } of dues) {
    try {
      await promise
    } catch (error) {
      if (error instanceof GatewayError) failure ??= error
      else exchange.complain('a release failed', { plugin, error: reasons(error) })
    }
  }
  if (failure) throw failure
  for (const promise of awaited) await promise
}

/** The promise, whose rejection is looked at later. */
function heeded<T>(promise: Promise<T>): Promise<T> {
  promise.catch(ignore)
  return promise
}

function ignore(): void {}

/** The answer, or what is left of it: the last thing the client sees of this exchange. */
function send(exchange: LiveExchange, ending: Ending): void {
  if (exchange.standIn?.tookOver) {
    if (ending instanceof Relay && !ending.whole && !exchange.client.headSent) sendHead(exchange, ending.response!)
    return exchange.standIn.finish(ending instanceof GatewayError ? ending : undefined)
  }
  if (exchange.session) return exchange.session.release(ending instanceof GatewayError ? ending : undefined)
  if (ending instanceof GatewayError) return sendFailure(exchange, ending)
  if (ending instanceof Session) return
  if (!(ending instanceof Relay)) return sendReply(exchange, ending)
  if (ending.whole) return sendWhole(exchange, ending.response!, ending.release())
  // A short stream may have ended before its head was due.
  if (!exchange.client.headSent) sendHead(exchange, ending.response!)
  exchange.client.end(ending.release())
}

/** An error in the client's protocol: a reply, or when the head is out the stream's error event and no end marker. */
function sendFailure(exchange: LiveExchange, error: GatewayError): void {
  const { client } = exchange
  if (exchange.gone || error.code === 'client_stalled') client.cut()
  else if (!client.headSent) sendError(exchange, error)
  else if (exchange.streaming) client.end(errorEvent(exchange, error))
  else client.cut()
}

/** A chain of causes in one line, with the place of the innermost. */
function reasons(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? (error.stack ?? String(error)) : `${error.message}: ${reasons(error.cause)}`
}
