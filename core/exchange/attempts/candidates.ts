// Finds the channels that can serve an exchange, and lets plugins narrow and order them.
import type { Chain } from '../state/chain.ts'
import type { Catalogue, Channel, Model } from '../../catalogue/catalogue.ts'
import type { Awaitable } from '../../contract/contract.ts'
import { Candidates } from '../../contract/candidates.ts'
import type { Exclusion } from '../../contract/candidates.ts'
import { GatewayError, unknownModel } from '../../errors.ts'
import type { LiveExchange } from '../state/exchange.ts'
import { runHooks } from '../state/hook-run.ts'
import type { PluginView } from '../state/plugin-view.ts'
import { formFor } from '../../contract/operation.ts'
import type { Operation } from '../../contract/operation.ts'
import type { OperationContext } from '../../contract/served.ts'

/**
 * What may be chosen from, once per exchange and model that is asked; by default that of its name.
 * @throws GatewayError `model_not_found`, `protocol_mismatch`, or what a plugin throws
 */
export function candidatesOf(
  exchange: LiveExchange,
  { onCandidates }: Chain,
  context: OperationContext,
  asked?: Model
): Awaitable<Candidates> {
  const candidates = candidatesFor(exchange, context.catalogue, asked)
  exchange.candidates = candidates
  if (candidates.channels.length === 0 && exchange.model !== '') {
    throw new GatewayError(
      'protocol_mismatch',
      `The model \`${exchange.model}\` cannot be used with the endpoint ${exchange.request.operation.endpoint}.`,
      {
        param: 'model',
        reason: {
          by: 'channel',
          what: `no channel of the model serves the endpoint ${exchange.request.operation.endpoint}: see decision`,
          where: `models.${asked?.name ?? exchange.model}`,
          remedy: 'add the endpoint to a channel that can serve it'
        }
      }
    )
  }
  // Where an answer is kept is no matter of policy: the operation speaks before the plugins.
  const bound = exchange.request.operation.onCandidates?.(exchange, candidates, context)
  return bound instanceof Promise
    ? bound.then(() => narrowed(exchange, onCandidates, candidates, context.catalogue))
    : narrowed(exchange, onCandidates, candidates, context.catalogue)
}

/** Leaves out the channels that are off, and those that drain unless the request is bound to them. */
function leaveSwitched(candidates: Candidates, { switched }: Catalogue): void {
  candidates.keep((channel) => switched.get(channel) !== 'off', {
    code: 'off',
    reason: 'it is switched off (enabled: false)'
  })
  if (candidates.bound) return
  candidates.keep((channel) => switched.get(channel) !== 'draining', {
    code: 'draining',
    reason: 'it drains (drain: true), and takes nothing new'
  })
}

/** The channels of a model that serve an operation, and why the others do not. */
interface Fit {
  readonly serving: readonly Channel[]
  readonly others: readonly Exclusion[]
}

/** What was found of each model. Models are made anew with each generation. */
const fits = new WeakMap<Model, Map<Operation, Fit>>()

function candidatesFor(
  { model: name, request }: LiveExchange,
  { channels, models }: Catalogue,
  asked: Model | undefined
): Candidates {
  const { operation } = request
  const model = asked ?? models.get(name)
  if (model) {
    const { serving, others } = fitOf(model, operation)
    return new Candidates(serving, others, model)
  }
  if (name !== '') throw unknownModel(name)
  const all = [...channels.values()].sort((a, b) => a.priority - b.priority)
  return new Candidates(all.filter((channel) => formFor(operation, channel)))
}

function fitOf(model: Model, operation: Operation): Fit {
  let known = fits.get(model)
  if (!known) fits.set(model, (known = new Map()))
  let fit = known.get(operation)
  if (!fit) known.set(operation, (fit = fitFor(model.channels, operation)))
  return fit
}

function fitFor(channels: readonly Channel[], operation: Operation): Fit {
  const serving = channels.filter((channel) => formFor(operation, channel))
  const others = channels.filter((channel) => !serving.includes(channel))
  return { serving, others: others.map((channel) => ({ channel, by: 'gateway', ...lacks(channel, operation) })) }
}

/** Why a channel does not serve an operation. */
function lacks(
  { name, protocol, endpoints }: Channel,
  { endpoint, upstream }: Operation
): Pick<Exclusion, 'code' | 'reason'> {
  if (!upstream?.[protocol])
    return {
      code: 'endpoint',
      reason: `the protocol ${protocol} of the channel has nothing for the endpoint ${endpoint}`
    }
  const listed = [...endpoints].join(', ')
  return { code: 'endpoint', reason: `channels.${name}.endpoints lists ${listed}, and not what ${endpoint} needs` }
}

function narrowed(
  exchange: LiveExchange,
  hooks: Chain['onCandidates'],
  candidates: Candidates,
  catalogue: Catalogue
): Awaitable<Candidates> {
  if (catalogue.switched.size > 0) leaveSwitched(candidates, catalogue)
  if (hooks.length === 0) return candidates
  const done = runHooks(exchange, hooks, askToNarrow, candidates)
  return done instanceof Promise ? done.then(() => candidates) : candidates
}

function askToNarrow(
  { plugin, call }: Chain['onCandidates'][number],
  view: PluginView,
  candidates: Candidates
): Awaitable<void> {
  candidates.by = plugin
  return call(view, candidates)
}
