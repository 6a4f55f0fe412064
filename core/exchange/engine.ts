// Runs exchanges from the request's head to their settlement: the one place where an exchange ends.
import { OwnAllowance } from '../allowance.ts'
import type { Allowance } from '../allowance.ts'
import { ask, contextOf } from './ask.ts'
import { attemptAnswer } from './attempts/attempts.ts'
import type { BackgroundWork } from './background/background.ts'
import type { BodyMemory } from '../bodies/body-memory.ts'
import { ChainFigures } from './state/chain-figures.ts'
import type { Incoming, SocketOffer } from '../clients/client.ts'
import { outcomeOf, send, sendFailure } from './ending.ts'
import type { Ending } from './ending.ts'
import type { Awaitable, WholeReply } from '../contract/contract.ts'
import { asGatewayError, GatewayError, reasons, restarting } from '../errors.ts'
import { LiveExchange } from './state/exchange.ts'
import { Inspection } from './inspection.ts'
import type { Generation, GenerationSource } from './state/generation.ts'
import { hearOut, isHeardOut } from './state/leaving.ts'
import { rehearse } from './rehearsal/rehearse.ts'
import type { AskedRequest, Rehearsed } from './rehearsal/rehearse.ts'
import type { Logger } from '../telling/log.ts'
import { receive } from './requests/receive.ts'
import { ownAnswer } from './own-answer.ts'
import { otherwise } from '../contract/otherwise.ts'
import { answered, caller } from '../contract/slots.ts'
import { openSession, socketRefusal } from './sessions/open-session.ts'
import { Relay } from './answers/relay.ts'
import type { Session } from './sessions/session.ts'
import { settle } from './settlement.ts'
import { Roster } from '../watchdog/roster.ts'
import { sendHead, sendReply } from './replies.ts'
import type { Transport } from '../transport/transport.ts'
import type { Watchdog } from '../watchdog/watchdog.ts'
import { progressOf } from './progress.ts'
import type { Progress } from './progress.ts'
import { noRoute } from './requests/unknown.ts'
import { requestOf } from './requests/served-request.ts'
import type { OperationFinder } from '../contract/served.ts'
import type { Services } from '../store/services.ts'

/** What the engine works with; all of it outlives the exchanges. */
export interface EngineParts {
  operations: OperationFinder
  services: Services
  background: BackgroundWork
  generations: GenerationSource
  transport: Transport
  watchdog: Watchdog
  memory: BodyMemory
  /** Of a gateway with several engines: how many answers are read on in all. */
  drains?: Allowance | undefined
  log: Logger
}

/** Takes requests from the server and answers them, each through the chain of the generation it began with. */
export class Engine {
  /** What plugins take and refuse. */
  readonly figures = new ChainFigures()
  readonly #parts: EngineParts
  readonly #running = new Roster<LiveExchange>()
  readonly #inspection: Inspection
  /** Answers read to their end for their usage although the client has left. */
  readonly #drains: Allowance
  #refusing = false
  #retiring = false
  #onIdle: (() => void) | undefined

  constructor(parts: EngineParts) {
    this.#parts = parts
    this.#drains = parts.drains ?? new OwnAllowance()
    this.#inspection = new Inspection(this.#running, parts.watchdog, (open, end) => this.#askWhileOpen(open, end))
  }

  /** Exchanges that have begun and not been settled. */
  get running(): number {
    return this.#running.size
  }

  /** The ids of those exchanges. */
  get ids(): readonly string[] {
    return [...this.#running].map(({ id }) => id)
  }

  /** What those exchanges are doing; with a tenant, its own alone. */
  underWay(tenant: string | null | undefined): Progress[] {
    const now = performance.now()
    const all = [...this.#running]
    return (tenant ? all.filter((one) => one.find(caller)?.tenant === tenant) : all).map((one) => progressOf(one, now))
  }

  /** From now on new requests are refused with `draining`. */
  refuse(): void {
    this.#refusing = true
  }

  /** Ends sessions, each at the end of the response that is under way; new ones are refused with `draining`. */
  retire(): void {
    this.#retiring = true
    for (const exchange of this.#running) exchange.retire()
  }

  /** Resolves when no exchange is running: the last one has been settled. */
  idle(): Promise<void> {
    return this.#running.size === 0 ? Promise.resolve() : new Promise((resolve) => (this.#onIdle = resolve))
  }

  /**
   * Ends what is still under way, in whatever phase it is, with an error in the client's protocol; each exchange is
   * settled as usual.
   */
  stop(): void {
    this.#refusing = true
    for (const exchange of this.#running) exchange.stop(new GatewayError('draining', 'The gateway is being restarted.'))
  }

  /** Begins an exchange. Never throws and never rejects; the answer goes to the request's client. */
  handle(incoming: Incoming): void {
    const { generations, operations, log } = this.#parts
    const generation = generations.enter()
    const { body, client, socket, sponsor } = incoming
    const { request, match } = requestOf(incoming, operations)
    const exchange = new LiveExchange(
      request,
      client,
      generation.config.settings.limits,
      generation.chain.onModel,
      (reader) => receive(reader, body, this.#parts),
      log,
      undefined,
      sponsor
    )
    const refusal = match?.operation
      ? this.#refusing || (this.#retiring && socket)
        ? restarting()
        : socketRefusal(exchange, socket)
      : noRoute(request, match?.allow, operations)
    void this.#run(exchange, generation, refusal, socket)
  }

  /** See {@link rehearse}. Never rejects because of what was asked. */
  rehearse<T>(asked: AskedRequest, look: (found: Rehearsed) => Awaitable<T>): Promise<T> {
    return rehearse(asked, this.#parts, look)
  }

  async #run(
    exchange: LiveExchange,
    generation: Generation,
    refusal: GatewayError | undefined,
    socket: SocketOffer | undefined
  ): Promise<void> {
    this.#running.add(exchange)
    this.#inspection.begin()
    // Assigned where it is written, it would be made in the old space, and keep the exchange until a full collection.
    const leave = (): void => this.#leave(exchange)
    exchange.client.onGone = leave
    let ending: Ending
    let unsettled: Promise<void> | undefined
    try {
      if (refusal) throw refusal
      const asked = ask(exchange, generation, this.#parts)
      const reply = asked instanceof Promise ? await asked : asked
      const { goesOn } = exchange.request.operation
      if (!reply && exchange.beginsWork) {
        const admitted = this.#parts.background.admit(exchange)
        if (admitted) await admitted
      }
      if (goesOn && !reply && (goesOn.when?.(exchange) ?? true)) await this.#answerEarly(exchange, generation)
      if (reply) ending = await ownAnswer(exchange, reply, generation.chain, this.#parts)
      else if (socket) ending = await this.#converse(exchange, generation, socket)
      else {
        try {
          ending = await attemptAnswer(exchange, generation, this.#parts)
        } catch (error) {
          ending = await this.#answerOtherwise(exchange, generation, error)
        }
      }
      if (ending instanceof Relay) {
        if (!ending.over) await this.#relay(exchange, ending)
        if (ending.attempt.error) throw ending.attempt.error
        if (exchange.standIn) await exchange.standIn.keepAnswer(ending.takeRest())
      }
    } catch (error) {
      ending = asGatewayError(error)
    }
    try {
      const outcome = outcomeOf(exchange, ending)
      const settled = settle(exchange, generation.chain, outcome)
      this.figures.note(exchange, outcome.error)
      // A refusal has nothing at stake, so it need not wait for a disk.
      if (outcome.kind === 'rejected') unsettled = settled
      else if (settled) await settled
    } catch (error) {
      // What must be on disk is not: whoever saw the end of this answer would have had it for nothing.
      exchange.complain('an exchange could not be settled', { error: reasons(error) })
      ending = asGatewayError(error)
    }
    this.#finish(exchange, generation, ending, unsettled)
  }

  /** Sends the answer, or the rest of it, and lets the exchange go. `unsettled`: the settlement, where it goes on. */
  #finish(exchange: LiveExchange, generation: Generation, ending: Ending, unsettled: Promise<void> | undefined): void {
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
      if (unsettled) void unsettled.catch(() => {}).then(() => generation.leave())
      else generation.leave()
    }
  }

  /** Answers the client of an exchange that goes on without it; resolves when it is the exchange's turn. */
  async #answerEarly(exchange: LiveExchange, generation: Generation): Promise<void> {
    const { background, watchdog } = this.#parts
    const accepted = await background.accept(exchange, contextOf(generation, this.#parts))
    if (!exchange.streaming) {
      const reply = await ownAnswer(exchange, { reply: accepted, plugin: '' }, generation.chain, this.#parts)
      exchange.set(answered, true)
      // What is to be on disk before the client sees this answer is not that of the exchange's end.
      await Promise.all(exchange.awaited)
      if (!(reply instanceof Relay)) sendReply(exchange, reply)
    }
    await background.goOn(exchange, watchdog)
  }

  /** Answers without an upstream, where all of them failed and the exchange can do without. @throws the failure */
  #answerOtherwise(exchange: LiveExchange, { chain }: Generation, error: unknown): Promise<WholeReply | Relay> {
    const reply = exchange.over ? undefined : exchange.find(otherwise)
    if (!reply) throw error
    return ownAnswer(exchange, { reply, plugin: '' }, chain, this.#parts)
  }

  /** Shows the client an answer as it comes. How far it came when it breaks is known to the relay. */
  #relay(exchange: LiveExchange, relay: Relay): Promise<void> | undefined {
    if (!relay.whole && !exchange.gone) {
      sendHead(exchange, relay.response!)
      relay.commit()
      exchange.committed()
    }
    return relay.over ? undefined : relay.finished
  }

  /** Opens a session and waits for its end. */
  async #converse(exchange: LiveExchange, generation: Generation, socket: SocketOffer): Promise<Session> {
    const { chain, catalogue } = generation
    const session = await openSession(exchange, socket, { chain, catalogue }, this.#parts)
    await session.finished
    return session
  }

  /** Asks the plugins that are in use now: a key may have been taken out of the file since the exchange began. */
  #askWhileOpen(exchange: LiveExchange, end: (reason: GatewayError) => void): void {
    const generation = this.#parts.generations.enter()
    try {
      for (const { plugin, call } of generation.chain.whileOpen) {
        try {
          // As with `onSettled`, it may be asynchronous.
          const told = call(exchange.seenBy(plugin)) as unknown
          if (told instanceof Promise) told.catch((error: unknown) => end(asGatewayError(error, plugin)))
        } catch (error) {
          return end(asGatewayError(error, plugin))
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
    if (!relay || relay.over) return
    // No upstream has the request, so nothing needs to be made.
    if (relay.unsent) return relay.leave()
    // An answer that begins work is read to its end, because only it tells the id of the work.
    if (exchange.beginsWork)
      return exchange.streaming ? relay.drain(disconnectDrain.time, disconnectDrain.bytes) : undefined
    // Reading on is not wanted or too much, or nothing was delivered yet: the upstream hears of it at once.
    const wanted = isHeardOut(exchange) || (exchange.client.headSent && onDisconnect !== 'abort')
    if (!wanted || !this.#drains.take(1, disconnectDrain.concurrent)) {
      relay.leave()
      return
    }
    exchange.defer(() => this.#drains.give(1))
    if (!hearOut(exchange)) relay.drain(disconnectDrain.time, disconnectDrain.bytes)
  }
}
