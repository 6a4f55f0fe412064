// Finds the channels that can serve an exchange, and lets plugins narrow and order them.
import type { Chain } from './chain.ts'
import type { Catalogue, Channel } from '../catalogue/catalogue.ts'
import type { Awaitable } from '../contract/contract.ts'
import { Candidates } from '../contract/candidates.ts'
import { GatewayError, unknownModel } from '../errors.ts'
import type { LiveExchange } from './exchange.ts'
import { runHooks } from './hook-run.ts'
import { formFor } from '../contract/operation.ts'
import type { OperationContext } from '../contract/served.ts'

/**
 * What may be chosen from, once per exchange. @throws GatewayError `model_not_found`, `protocol_mismatch`, or what a
 * plugin throws
 */
export function candidatesOf(
  exchange: LiveExchange,
  { onCandidates }: Chain,
  context: OperationContext
): Awaitable<Candidates> {
  const candidates = new Candidates(serving(exchange, context.catalogue))
  // Where an answer is kept is no matter of policy: the operation speaks before the plugins.
  const bound = exchange.request.operation.onCandidates?.(exchange, candidates, context)
  if (bound instanceof Promise) return bound.then(() => narrowed(exchange, onCandidates, candidates))
  return narrowed(exchange, onCandidates, candidates)
}

function serving({ model: name, request }: LiveExchange, { channels, models }: Catalogue): readonly Channel[] {
  const { operation } = request
  const model = models.get(name)
  if (!model && name !== '') throw unknownModel(name)
  const all = model?.channels ?? [...channels.values()].sort((a, b) => a.priority - b.priority)
  const serve = all.filter((channel) => formFor(operation, channel))
  if (serve.length === 0 && model) {
    throw new GatewayError(
      'protocol_mismatch',
      `The model \`${name}\` cannot be used with the endpoint ${operation.endpoint}.`,
      { param: 'model' }
    )
  }
  return serve
}

function narrowed(exchange: LiveExchange, hooks: Chain['onCandidates'], candidates: Candidates): Awaitable<Candidates> {
  const done = runHooks(hooks, ({ plugin, call }) => call(exchange.seenBy(plugin), candidates))
  return done instanceof Promise ? done.then(() => candidates) : candidates
}
