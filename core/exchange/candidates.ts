// Finds the channels that can serve an exchange, and lets plugins narrow and order them.
import type { Chain } from './chain.ts'
import type { Catalogue, Channel } from '../catalogue/catalogue.ts'
import type { Awaitable } from '../contract/contract.ts'
import { Candidates } from '../contract/candidates.ts'
import { asGatewayError, GatewayError, unknownModel } from '../errors.ts'
import type { LiveExchange } from './exchange.ts'

/** What may be chosen from, once per exchange. @throws GatewayError `model_not_found`, `protocol_mismatch`, or what a plugin throws */
export function candidatesOf(exchange: LiveExchange, { onCandidates }: Chain, catalogue: Catalogue): Awaitable<Candidates> {
  const candidates = new Candidates(serving(exchange, catalogue))
  return onCandidates.length === 0 ? candidates : narrowed(exchange, onCandidates, candidates)
}

function serving({ model: name, request }: LiveExchange, { channels, models }: Catalogue): readonly Channel[] {
  const { endpoint, upstream = {} } = request.operation
  const model = models.get(name)
  if (!model && name !== '') throw unknownModel(name)
  const all = model?.channels ?? [...channels.values()].sort((a, b) => a.priority - b.priority)
  const serve = all.filter((channel) => channel.endpoints.has(endpoint) && upstream[channel.protocol])
  if (serve.length === 0 && model) {
    throw new GatewayError('protocol_mismatch', `The model \`${name}\` cannot be used with the endpoint ${endpoint}.`, { param: 'model' })
  }
  return serve
}

async function narrowed(exchange: LiveExchange, hooks: Chain['onCandidates'], candidates: Candidates): Promise<Candidates> {
  for (const { plugin, call } of hooks) {
    exchange.plugin = plugin
    try {
      await call(exchange, candidates)
    } catch (error) {
      throw asGatewayError(error, plugin)
    }
  }
  return candidates
}
