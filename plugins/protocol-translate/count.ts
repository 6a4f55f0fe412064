// Counting tokens for channels that cannot: an estimate, which says that it is one.
import type { Catalogue } from '../../core/catalogue/catalogue.ts'
import { formFor } from '../../core/contract/contract.ts'
import type { Exchange, Reply } from '../../core/contract/contract.ts'
import { estimatedInput } from '../estimate.ts'

/** Bytes of a token: English text has four and code three, and too few tokens are worse than too many. */
const bytesPerToken = 3

/**
 * The answer to a request to count that no channel of its model understands, as those count that speak its protocol
 * alone; undefined for all other requests.
 */
export function countedFor(exchange: Exchange, { models }: Catalogue): Reply | undefined {
  const { operation } = exchange.request
  const { counts } = operation
  const channels = counts === undefined ? undefined : models.get(exchange.model)?.channels
  if (counts === undefined || !channels || channels.some((channel) => formFor(operation, channel))) return undefined
  exchange.setHeader('x-sluice-estimate', counts)
  return { status: 200, body: { [counts]: estimatedInput(exchange, bytesPerToken, exchange.body.bytes.length) } }
}
