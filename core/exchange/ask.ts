// Asks what may answer a request by itself: the plugins from the top of the chain down, then the operation. The body is
// read on the way.
import { clientClosed } from './attempts.ts'
import type { BackgroundWork } from './background/background.ts'
import type { BodyMemory } from '../bodies/body-memory.ts'
import type { Chain } from './chain.ts'
import type { Awaitable, Reply } from '../contract/contract.ts'
import type { OperationContext } from '../contract/served.ts'
import { caller } from '../contract/slots.ts'
import { asGatewayError } from '../errors.ts'
import type { LiveExchange } from './exchange.ts'
import type { Generation } from './generation.ts'
import type { Services } from '../store/services.ts'

/** What operations are given to work with. */
export interface AskParts {
  services: Services
  background: BackgroundWork
  memory: BodyMemory
}

/** The chain of operations that anybody may ask. */
const openChain: Pick<Chain, 'onRequest'> = { onRequest: [] }

/**
 * A reply when the exchange needs no upstream. Waits only for what is a promise, and is one only then. `from`: the
 * first plugin that is asked.
 * @throws GatewayError what the request is refused with
 */
export function ask(
  exchange: LiveExchange,
  generation: Generation,
  parts: AskParts,
  from = 0
): Awaitable<Reply | undefined> {
  const { operation } = exchange.request
  const { onRequest } = operation.open ? openChain : generation.chain
  for (let i = from; i < onRequest.length; i++) {
    const { plugin, readsBody, call } = onRequest[i]!
    if (readsBody) {
      const ready = readBody(exchange, generation, parts, false)
      if (ready instanceof Promise) return ready.then(() => ask(exchange, generation, parts, i))
    }
    exchange.plugin = plugin
    try {
      const reply = call(exchange)
      if (reply instanceof Promise) return askOn(exchange, generation, parts, i, reply)
      if (reply) return reply
    } catch (error) {
      throw asGatewayError(error, plugin)
    }
    if (exchange.gone) throw clientClosed()
  }
  const ready = readBody(exchange, generation, parts, true)
  if (ready instanceof Promise) return ready.then(() => handle(exchange, generation, parts))
  return operation.handle && handle(exchange, generation, parts)
}

/** What operations are given, of the generation that an exchange began with. */
export function contextOf({ catalogue }: Generation, { services, background, memory }: AskParts): OperationContext {
  return { catalogue, services, background, memory }
}

async function askOn(
  exchange: LiveExchange,
  generation: Generation,
  parts: AskParts,
  asked: number,
  pending: Promise<Reply | void>
): Promise<Reply | undefined> {
  try {
    const reply = await pending
    if (reply) return reply
  } catch (error) {
    throw asGatewayError(error, generation.chain.onRequest[asked]!.plugin)
  }
  if (exchange.gone) throw clientClosed()
  return ask(exchange, generation, parts, asked + 1)
}

/**
 * With what the body goes on with, as soon as it is known whose that would be. `last`: nobody says who is asking any
 * more.
 */
function readBody(exchange: LiveExchange, generation: Generation, parts: AskParts, last: boolean): Awaitable<unknown> {
  const { recall } = exchange.request.operation
  const body = exchange.read()
  if (!recall || exchange.recalled) return body
  if (body instanceof Promise) return body.then(() => readBody(exchange, generation, parts, last))
  if (!last && !exchange.find(caller)) return undefined
  exchange.recalled = true
  return recall(exchange, contextOf(generation, parts))
}

/** The reply of the operation itself; undefined when an upstream is to answer. */
function handle(exchange: LiveExchange, generation: Generation, parts: AskParts): Awaitable<Reply | undefined> {
  return exchange.request.operation.handle?.(exchange, contextOf(generation, parts))
}
