// Tries channels one after another until one begins to answer.
import type { Attempt } from '../../contract/attempt.ts'
import type { BodyMemory } from '../../bodies/body-memory.ts'
import { candidatesOf } from './candidates.ts'
import type { Candidates } from '../../contract/candidates.ts'
import type { Catalogue, Channel, Model, StandIns } from '../../catalogue/catalogue.ts'
import type { Chain } from '../state/chain.ts'
import type { AttemptFailure, Awaitable } from '../../contract/contract.ts'
import { isRefusalOf, rememberRefusal } from '../../contract/extras.ts'
import { formFor } from '../../contract/operation.ts'
import { refusedModels } from '../../contract/slots.ts'
import { modelsFor, occasionOf } from '../../contract/stand-ins.ts'
import type { OperationContext } from '../../contract/served.ts'
import { asGatewayError, GatewayError, unknownModel } from '../../errors.ts'
import type { LiveExchange } from '../state/exchange.ts'
import { runHooks } from '../state/hook-run.ts'
import type { PluginView } from '../state/plugin-view.ts'
import { patienceOf } from '../answers/patience.ts'
import { Relay } from '../answers/relay.ts'
import { stagesOf } from './staging.ts'
import { headersOf } from './upstream-head.ts'
import { Finished, Series } from '../../transport/series.ts'
import type { Transport, UpstreamRequest } from '../../transport/transport.ts'
import type { Background } from '../../contract/background.ts'
import type { Services } from '../../store/services.ts'
import type { Watchdog } from '../../watchdog/watchdog.ts'

/** What an attempt is made with. */
export interface AttemptParts {
  transport: Transport
  watchdog: Watchdog
  services: Services
  background: Background
  memory: BodyMemory
}

/** Of the generation that the exchange began with. */
export interface AttemptSetting {
  chain: Chain
  catalogue: Catalogue
}

/**
 * The relay of the first attempt that can be committed: there is something to show, and what the exchange holds its
 * first byte back for has come. Before that nothing has reached the client, so a failed attempt can be followed by
 * another; whether and where is asked of the chain.
 * @throws GatewayError the last failure, `no_available_channel`, or `client_closed`
 */
export function attemptAnswer(exchange: LiveExchange, setting: AttemptSetting, parts: AttemptParts): Promise<Relay> {
  const { chain, catalogue } = setting
  const context: OperationContext = {
    catalogue,
    services: parts.services,
    background: parts.background,
    memory: parts.memory
  }
  return tryChannels(exchange, chain, context, (attempt) => {
    const relay = send(exchange, chain, attempt, parts, context)
    return relay.opened.then(() => due(exchange, relay))
  })
}

/** The relay, as soon as what it shows may be shown. @throws its error when it broke in the meantime */
function due(exchange: LiveExchange, relay: Relay): Awaitable<Relay> {
  // A whole answer is sent when it is settled, which waits for more than this.
  if (!relay.whole && exchange.awaited.length > 0) return held(exchange, relay).then(() => unbroken(exchange, relay))
  return unbroken(exchange, relay)
}

/** An answer that broke before it was shown: another channel may still give one. */
function unbroken({ gone }: LiveExchange, relay: Relay): Relay {
  const { error } = relay.attempt
  if (relay.over && error && !gone) throw error
  return relay
}

/**
 * What comes of the first attempt that succeeds; one that fails can be followed by another, as long as nothing has
 * reached the client: at another channel of the model, and then with a model that stands in for it.
 * @throws GatewayError the last failure of a channel that was asked, what none of them can carry,
 * `no_available_channel`, or why the exchange is over
 */
export function tryChannels<T>(
  exchange: LiveExchange,
  chain: Chain,
  context: OperationContext,
  make: (attempt: Attempt) => Promise<T>
): Promise<T> {
  const model = context.catalogue.models.get(exchange.model)
  if (model?.standIns) return tryModels(exchange, chain, context, make, model.standIns)
  const tried = tryModel(exchange, chain, context, make, model)
  return model?.pattern === undefined ? tried : tried.catch((error: unknown) => Promise.reject(named(error, model)))
}

/** Nobody but the client has said that there is such a model, so it is told that there is none. */
function named(error: unknown, { name, pattern }: Model): GatewayError {
  const failure = asGatewayError(error)
  if (failure.code !== 'upstream_model_missing') return failure
  const what = `no upstream of ${pattern} knows the model ${name}`
  return unknownModel(name, { by: 'model', what, where: `models.${pattern}`, remedy: null })
}

async function tryModels<T>(
  exchange: LiveExchange,
  chain: Chain,
  context: OperationContext,
  make: (attempt: Attempt) => Promise<T>,
  { on }: StandIns
): Promise<T> {
  const refused = exchange.find(refusedModels)
  const all = modelsFor(exchange, context.catalogue)
  const models = refused ? all.filter(({ name }) => !refused.has(name)) : all
  for (let at = 0; ; at++) {
    const model = models[at]!
    try {
      return await tryModel(exchange, chain, context, make, model, at + 1 < models.length ? on : noOccasion)
    } catch (error) {
      const failure = asGatewayError(error)
      const { candidates } = exchange
      // What it refers to is kept where this model is served, and nowhere else.
      const isHere = candidates?.bound && candidates.channels.length > 0
      const occasion = candidates?.bound && !isHere ? 'failure' : occasionOf(failure, exchange.dear)
      const ends = isHere || exchange.over || hasWaitedTwice(exchange)
      const goesOn = candidates?.model === model && !ends && occasion && on.has(occasion)
      if (at + 1 < models.length && goesOn) exchange.passed.push({ candidates, error: failure })
      else throw exchange.over || !occasion ? failure : lastSaid(exchange, failure)
    }
  }
}

/** No client waits for a third whole answer as long as one may take, at whichever channels and models. */
function hasWaitedTwice({ streaming, attempts }: LiveExchange): boolean {
  return !streaming && attempts.filter(({ error }) => error?.code === 'upstream_timeout_first_byte').length > 1
}

/** What the last channel said that was asked, whichever model it was asked for; else why the first model was not. */
function lastSaid({ attempts, passed }: LiveExchange, failure: GatewayError): GatewayError {
  return attempts.findLast(({ dispatched }) => dispatched)?.error ?? passed[0]?.error ?? failure
}

const noOccasion: StandIns['on'] = new Set()

/**
 * Tries one model. A channel that cannot carry the request is passed over with all that are like it. `on`: when another
 * one is asked instead.
 */
async function tryModel<T>(
  exchange: LiveExchange,
  chain: Chain,
  context: OperationContext,
  make: (attempt: Attempt) => Promise<T>,
  model: Model | undefined,
  on = noOccasion
): Promise<T> {
  const failures: AttemptFailure[] = []
  const found = candidatesOf(exchange, chain, context, model)
  const candidates = found instanceof Promise ? await found : found
  candidates.replaceable = on.has('failure') && !candidates.bound
  /** The attempt that was refused for what the gateway added; the next one goes to the same channel without it. */
  let refused: Attempt | undefined
  for (;;) {
    const without = failures.at(-1)?.attempt === refused ? refused?.added : undefined
    const selected = without === undefined ? select(exchange, chain, failures, candidates) : refused!.channel
    const channel = selected instanceof Promise ? await selected : selected
    candidates.by = 'gateway'
    if (exchange.over) throw exchange.over
    if (!channel) throw await told(exchange, lastWord(exchange, failures), context)
    const attempt = exchange.attempt(channel, without)
    attempt.blockIsRefusal = on.has('filter') && !candidates.bound
    try {
      exchange.request.operation.onAttempt?.(exchange, attempt)
      const prepared = runHooks(exchange, chain.onAttempt, askToPrepare, attempt)
      if (prepared instanceof Promise) await prepared
      if (exchange.over) throw exchange.over
      const made = await make(attempt)
      if (without !== undefined) rememberRefusal(channel, without)
      return made
    } catch (error) {
      const failure = asGatewayError(error)
      attempt.error = failure
      attempt.endedAt ??= performance.now()
      failures.push({ attempt, error: failure })
      if (failure.details.elsewhere) leaveAlike(exchange, candidates, attempt, failure)
      if (!refused && !exchange.over && isRefusedForAdded(exchange, attempt, failure)) refused = attempt
      else if (isMadeAllTheSame(exchange, attempt, failure)) {
        candidates.stop('it may have been made, and is too dear to be asked for twice')
        throw await told(exchange, asCostly(failure), context)
      } else if (!failure.retryable || exchange.over) throw await told(exchange, failure, context)
    }
  }
}

/** The channel of the next attempt, as the plugin that selects it says; undefined when none is to be asked. */
function select(
  exchange: LiveExchange,
  { selectChannel }: Chain,
  failures: readonly AttemptFailure[],
  candidates: Candidates
): Awaitable<Channel | undefined> {
  candidates.by = selectChannel!.plugin
  return runHooks(exchange, [selectChannel!], askForChannel, { failures, candidates })
}

function askForChannel(
  { call }: NonNullable<Chain['selectChannel']>,
  view: PluginView,
  { failures, candidates }: { failures: readonly AttemptFailure[]; candidates: Candidates }
): Awaitable<Channel | undefined> {
  return call(view, failures, candidates)
}

function askToPrepare({ call }: Chain['onAttempt'][number], view: PluginView, attempt: Attempt): Awaitable<void> {
  return call(view, attempt)
}

/** What is dear may have been made, whatever became of the answer. */
function isMadeAllTheSame(exchange: LiveExchange, { dispatched }: Attempt, failure: GatewayError): boolean {
  return dispatched && failure.retryable && !failure.details.untaken && exchange.dear
}

function asCostly({ code, message, details }: GatewayError): GatewayError {
  return new GatewayError(code, message, { ...details, costly: true })
}

/**
 * What was wrong with the last channel of a model that was asked; where none could be asked, what the first could not
 * carry.
 */
function lastWord({ model, candidates }: LiveExchange, failures: readonly AttemptFailure[]): GatewayError {
  const { error } = failures.findLast(({ attempt }) => attempt.dispatched) ?? failures[0] ?? {}
  if (error) return error
  const excluded = candidates?.excluded ?? []
  return new GatewayError('no_available_channel', `No channel can serve the model \`${model}\` at the moment.`, {
    reason: {
      by: 'channel',
      what: excluded.length === 0 ? 'no channel was chosen' : `${excluded.length} channels were left out: see decision`,
      where: model === '' ? 'channels' : `models.${model}`,
      remedy: 'add another channel, or mend what its channels are left out for'
    }
  })
}

/** Leaves out the channel of an attempt that could not carry the request, and all that are like it. */
function leaveAlike(exchange: LiveExchange, candidates: Candidates, attempt: Attempt, { message }: GatewayError): void {
  const { protocol } = formFor(exchange.request.operation, attempt.channel)!
  const reason = `${protocol} cannot carry the request: ${message.replace(/\.$/, '')}`
  candidates.keep((other) => !isAlike(exchange, other, attempt), { code: 'protocol', reason })
}

/** A channel that is spoken to as that of the attempt is: it can carry neither more nor less. */
function isAlike({ request }: LiveExchange, other: Channel, { channel }: Attempt): boolean {
  const { operation } = request
  const spoken = formFor(operation, other)?.protocol === formFor(operation, channel)?.protocol
  return spoken && JSON.stringify(other.traits) === JSON.stringify(channel.traits)
}

/** What the client sent itself is its own affair. */
function isRefusedForAdded({ body }: LiveExchange, { added, translated }: Attempt, failure: GatewayError): boolean {
  return added !== undefined && isRefusalOf(added, failure) && (translated || !body.lens.has(added))
}

/** A failure as the operation tells of it. */
function told(exchange: LiveExchange, failure: GatewayError, context: OperationContext): Awaitable<GatewayError> {
  return exchange.request.operation.onFailure?.(exchange, failure, context) ?? failure
}

function send(
  exchange: LiveExchange,
  chain: Chain,
  attempt: Attempt,
  parts: AttemptParts,
  context: OperationContext
): Relay {
  const { streaming } = exchange
  const relay = new Relay(attempt, {
    streaming,
    answers: exchange.request.operation.answers,
    media: exchange.request.operation.media,
    status: exchange.request.operation.status,
    client: exchange.client,
    framing: exchange.request.operation.framing,
    watchdog: parts.watchdog,
    clientStall: exchange.limits.clientStall,
    patience: patienceOf(exchange, attempt, context.catalogue),
    accept: (response) => stagesOf(exchange, chain.onResponse, response, context)
  })
  exchange.relay = relay
  try {
    const request = upstreamRequest(exchange, attempt)
    attempt.dispatched = true
    const { series } = attempt.form ?? {}
    if (series) {
      attempt.finished = new Finished(
        request,
        exchange.attempts.flatMap(({ finished }) => finished ?? [])
      )
      relay.call = new Series(parts.transport, attempt.channel, request, series.heads, relay, attempt.finished)
    } else relay.call = parts.transport.send(attempt.channel, request, relay)
  } catch (error) {
    relay.fail(error)
  }
  return relay
}

/** What an attempt sends, as its plugins have left it. */
export function upstreamRequest(exchange: LiveExchange, attempt: Attempt): UpstreamRequest {
  const headers = headersOf(exchange, attempt)
  return {
    method: attempt.method,
    path: attempt.path,
    headers,
    body: attempt.body.render(),
    once: exchange.dear
  }
}

/** Resolves when the first byte of an answer may be shown, unless it broke in the meantime. */
export async function held(exchange: LiveExchange, relay: Relay): Promise<void> {
  try {
    await Promise.all(exchange.awaited)
  } catch (error) {
    relay.fail(error)
    throw error
  }
}
