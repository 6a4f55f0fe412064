// Asks what may answer a request by itself: the plugins from the top of the chain down, then the operation. The body is
// read on the way.
import type { BackgroundWork } from './background/background.ts'
import type { BodyMemory } from '../bodies/body-memory.ts'
import type { Chain, OnRequest } from './state/chain.ts'
import type { Awaitable, Reply } from '../contract/contract.ts'
import type { OperationContext } from '../contract/served.ts'
import { caller } from '../contract/slots.ts'
import type { LiveExchange } from './state/exchange.ts'
import type { Generation } from './state/generation.ts'
import { runHooks } from './state/hook-run.ts'
import type { PluginView } from './state/plugin-view.ts'
import { ofCore } from '../errors.ts'
import type { Services } from '../store/services.ts'

/** What operations are given to work with. */
export interface AskParts {
  services: Services
  background: BackgroundWork
  memory: BodyMemory
}

/** The chain of operations that anybody may ask. */
const openChain: Pick<Chain, 'onRequest'> = { onRequest: [] }

/** A reply of the gateway itself, and the plugin that gave it; empty for an operation's own handler. */
export interface OwnReply {
  reply: Reply
  plugin: string
}

/**
 * A reply when the exchange needs no upstream. Waits only for what is a promise, and is one only then.
 * @throws GatewayError what the request is refused with
 */
export function ask(exchange: LiveExchange, generation: Generation, parts: AskParts): Awaitable<OwnReply | undefined> {
  const { operation } = exchange.request
  const { onRequest } = operation.open ? openChain : generation.chain
  const asked = runHooks(exchange, onRequest, askInTurn, { exchange, generation, parts })
  if (asked instanceof Promise) return asked.then((reply) => reply ?? askOperation(exchange, generation, parts))
  return asked ?? askOperation(exchange, generation, parts)
}

/** Who is asked, and with what. */
interface Asking {
  readonly exchange: LiveExchange
  readonly generation: Generation
  readonly parts: AskParts
}

/** Asks one plugin, with the body where it wants that. */
function askInTurn(
  hook: OnRequest,
  view: PluginView,
  { exchange, generation, parts }: Asking
): Awaitable<OwnReply | undefined> {
  const ready = hook.readsBody ? readBody(exchange, generation, parts, false) : undefined
  return ready instanceof Promise ? ready.then(() => askPlugin(exchange, hook, view)) : askPlugin(exchange, hook, view)
}

/** @throws GatewayError when the exchange is over meanwhile, for which the next plugin need not be asked */
function askPlugin(
  exchange: LiveExchange,
  { plugin, call }: OnRequest,
  view: PluginView
): Awaitable<OwnReply | undefined> {
  const reply = call(view)
  return reply instanceof Promise
    ? reply.then((late) => replyOf(exchange, plugin, late))
    : replyOf(exchange, plugin, reply)
}

function replyOf(exchange: LiveExchange, plugin: string, reply: Reply | void): OwnReply | undefined {
  if (reply) {
    exchange.times.answeredBy = plugin
    return { reply, plugin }
  }
  if (exchange.over) throw ofCore(exchange.over)
  return undefined
}

function askOperation(
  exchange: LiveExchange,
  generation: Generation,
  parts: AskParts
): Awaitable<OwnReply | undefined> {
  const ready = readBody(exchange, generation, parts, true)
  // Handlers make, change and delete things.
  if (exchange.rehearsal) return ready instanceof Promise ? ready.then(() => undefined) : undefined
  if (ready instanceof Promise) return ready.then(() => handle(exchange, generation, parts))
  return exchange.request.operation.onRequest && handle(exchange, generation, parts)
}

/** What operations are given, of the generation that an exchange began with. */
export function contextOf({ catalogue }: Generation, { services, background, memory }: AskParts): OperationContext {
  return { catalogue, services, background, memory }
}

/**
 * With what the body goes on with, as soon as it is known whose that would be. `last`: nobody says who is asking any
 * more.
 */
function readBody(exchange: LiveExchange, generation: Generation, parts: AskParts, last: boolean): Awaitable<unknown> {
  const { onBody: recall } = exchange.request.operation
  const body = exchange.read()
  if (!recall || exchange.recalled) return body
  if (body instanceof Promise) return body.then(() => readBody(exchange, generation, parts, last))
  if (!last && !exchange.find(caller)) return undefined
  exchange.recalled = true
  return recall(exchange, contextOf(generation, parts))
}

/** The reply of the operation itself; undefined when an upstream is to answer. */
function handle(exchange: LiveExchange, generation: Generation, parts: AskParts): Awaitable<OwnReply | undefined> {
  const reply = exchange.request.operation.onRequest?.(exchange, contextOf(generation, parts))
  return reply instanceof Promise ? reply.then(ownReply) : ownReply(reply)
}

function ownReply(reply: Reply | undefined): OwnReply | undefined {
  return reply && { reply, plugin: '' }
}
