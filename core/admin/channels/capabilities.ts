// The route of capabilities: how each feature is translated between the protocols of a client and of a channel.
import { capabilityMatrix } from '../../protocols/translation/matrix.ts'
import type { Answer, Call } from '../api/contract.ts'
import { pageOf } from '../api/query.ts'

/** Lists pairs of protocols: all, or those of one client protocol or channel protocol. */
export function listCapabilities({ query }: Call): Answer {
  const [client, channel] = [query.get('client'), query.get('channel')]
  const pairs = capabilityMatrix().filter(
    (pair) => (client ?? pair.client) === pair.client && (channel ?? pair.channel) === pair.channel
  )
  return { json: pageOf(pairs, (pair) => `${pair.client} ${pair.channel}`, query) }
}
