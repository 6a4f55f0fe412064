// Finds out what would become of a request, by the code that real ones go through, up to where it would be sent.
import { SilentClient, sourceOf } from '../../clients/silent-client.ts'
import type { Awaitable } from '../../contract/contract.ts'
import type { Attempt } from '../../contract/attempt.ts'
import { caller } from '../../contract/slots.ts'
import { asGatewayError } from '../../errors.ts'
import type { GatewayError } from '../../errors.ts'
import { ask, contextOf } from '../ask.ts'
import type { AskParts } from '../ask.ts'
import { tryChannels } from '../attempts/attempts.ts'
import { candidatesOf } from '../attempts/candidates.ts'
import { LiveExchange } from '../state/exchange.ts'
import type { Generation, GenerationSource } from '../state/generation.ts'
import type { OperationFinder } from '../../contract/served.ts'
import { receive } from '../requests/receive.ts'
import { requestOf } from '../requests/served-request.ts'
import { settle } from '../settlement.ts'
import type { Logger } from '../../telling/log.ts'
import { noRoute } from '../requests/unknown.ts'
import { shownRequest } from './shown-request.ts'
import type { ShownRequest } from './shown-request.ts'
import type { Watchdog } from '../../watchdog/watchdog.ts'

/** What is rehearsed with. */
export interface RehearsalParts extends AskParts {
  operations: OperationFinder
  generations: GenerationSource
  watchdog: Watchdog
  log: Logger
}

/** A request to explain, as a client would send it. */
export interface AskedRequest {
  readonly method: string
  /** The path with its query. */
  readonly target: string
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** The SHA-256 of a key, in the place of one in the headers. */
  readonly key: Buffer | undefined
}

/** What would become of a request. */
export interface Rehearsed {
  /** Everything that was found out about it. Not to be kept: it is over. */
  readonly exchange: LiveExchange
  readonly generation: Generation
  /** The names of plugins of the chain that do not take part in rehearsals. */
  readonly skipped: readonly string[]
  /**
   * `sent`: to the channel of `upstream`. `answered`: by the gateway itself, or by the plugin `by`. `kept`: to where
   * what it names is kept, which is not looked up. `undecided`: the plugin that selects channels was skipped.
   */
  readonly outcome:
    | { kind: 'sent'; upstream: ShownRequest; attempt: Attempt }
    | { kind: 'answered'; by: string; status: number | undefined }
    | { kind: 'kept' | 'undecided' }
    | { kind: 'refused'; error: GatewayError }
}

/**
 * Rehearses a request. `look` is called with what was found while its generation is still in use, and its result is
 * returned.
 */
export async function rehearse<T>(
  asked: AskedRequest,
  parts: RehearsalParts,
  look: (found: Rehearsed) => Awaitable<T>
): Promise<T> {
  const generation = parts.generations.enter()
  try {
    return await rehearseIn(generation, asked, parts, look)
  } finally {
    generation.leave()
  }
}

async function rehearseIn<T>(
  generation: Generation,
  asked: AskedRequest,
  parts: RehearsalParts,
  look: (found: Rehearsed) => Awaitable<T>
): Promise<T> {
  const { operations, log } = parts
  const { chain, skipped } = generation.chain.rehearsed
  const { request, match } = requestOf({ ...asked, remoteAddress: '127.0.0.1' }, operations)
  const exchange = new LiveExchange(
    request,
    new SilentClient(),
    generation.config.settings.limits,
    chain.onModel,
    (reader) => receive(reader, sourceOf(asked.body), parts),
    log,
    { key: asked.key }
  )
  const rehearsed = { config: generation.config, catalogue: generation.catalogue, chain, leave: () => {} }
  let outcome: Rehearsed['outcome']
  try {
    if (!match?.operation) throw noRoute(request, match?.allow, operations)
    outcome = await outcomeOf(exchange, rehearsed, parts)
  } catch (error) {
    outcome = { kind: 'refused', error: asGatewayError(error) }
    await findChannels(exchange, rehearsed, parts)
  }
  try {
    return await look({ exchange, generation, skipped, outcome })
  } finally {
    exchange.abort()
    // What hooks registered to be given back is given back, and nobody else is told.
    await settle(exchange, { ...chain, onSettled: [] }, { kind: 'rejected', status: 0, bytes: 0, durationMs: 0 })
    if (exchange.held) parts.memory.reclaim(exchange.held)
    exchange.upload?.close()
  }
}

/**
 * For a request that was refused before its channels were looked for, by a budget for instance: finds those of a model
 * that its caller may use. What it is refused with there as well is not told.
 */
async function findChannels(exchange: LiveExchange, generation: Generation, parts: RehearsalParts): Promise<void> {
  const { model, request, candidates } = exchange
  const { operation } = request
  if (candidates || !operation.upstream || model === '' || !exchange.find(caller)?.mayUse(model)) return
  try {
    await candidatesOf(exchange, generation.chain, contextOf(generation, parts))
  } catch {
    // A plugin may need what those below the one that refused would have noted.
  }
}

async function outcomeOf(
  exchange: LiveExchange,
  generation: Generation,
  parts: RehearsalParts
): Promise<Rehearsed['outcome']> {
  const { chain } = generation
  const { operation } = exchange.request
  const reply = await ask(exchange, generation, parts)
  if (reply) return { kind: 'answered', by: reply.plugin, status: 'status' in reply.reply ? reply.reply.status : 200 }
  if (!operation.upstream) return { kind: 'answered', by: 'gateway', status: undefined }
  if (!operation.model) return { kind: 'kept' }
  const context = contextOf(generation, parts)
  if (!chain.selectChannel) {
    await candidatesOf(exchange, chain, context)
    return { kind: 'undecided' }
  }
  return tryChannels(exchange, chain, context, (attempt) =>
    Promise.resolve({ kind: 'sent' as const, upstream: shownRequest(exchange, attempt), attempt })
  )
}
