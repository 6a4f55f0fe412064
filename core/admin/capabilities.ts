// What becomes of each feature on its way from a client of one protocol to a channel of another.
import { capabilityMatrix } from '../protocols/matrix.ts'
import type { Answer, Call } from './contract.ts'
import { pageOf } from './query.ts'

/** By pairs of protocols, all of them or those of one client or channel. */
export function listCapabilities({ query }: Call): Answer {
  const [client, channel] = [query.get('client'), query.get('channel')]
  const pairs = capabilityMatrix().filter(
    (pair) => (client ?? pair.client) === pair.client && (channel ?? pair.channel) === pair.channel
  )
  return { json: pageOf(pairs, (pair) => `${pair.client} ${pair.channel}`, query) }
}
