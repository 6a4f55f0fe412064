// Counts tokens for models whose channels cannot: an estimate, marked as such.
import type { Catalogue } from '../../core/catalogue/catalogue.ts'
import { formFor, modelsFor } from '../../core/contract/contract.ts'
import type { Exchange, Reply } from '../../core/contract/contract.ts'
import { estimatedInput } from '../estimate.ts'

/** Bytes per token: English text has four and code three. Too few tokens would be worse than too many. */
const bytesPerToken = 3

/**
 * The answer to a request to count tokens when no channel of the model can count, because only channels of the client's
 * own protocol can; undefined for all other requests.
 */
export function countedFor(exchange: Exchange, catalogue: Catalogue): Reply | undefined {
  const { operation } = exchange.request
  const { counts } = operation
  const channels = counts === undefined ? undefined : modelsFor(exchange, catalogue)[0]?.channels
  if (counts === undefined || !channels || channels.some((channel) => formFor(operation, channel))) return undefined
  exchange.setHeader('x-sluice-estimate', counts)
  return { status: 200, body: { [counts]: estimatedInput(exchange, bytesPerToken, exchange.body.bytes.length) } }
}
