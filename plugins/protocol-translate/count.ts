// Counts tokens for models whose channels cannot, or fail to: an estimate, marked as such.
import type { Catalogue } from '../../core/catalogue/catalogue.ts'
import { formFor, GatewayError, Message, modelsFor, otherwise } from '../../core/contract/contract.ts'
import type { Attempt, Exchange, Mapper, WholeReply } from '../../core/contract/contract.ts'
import { estimatedInput } from '../estimate.ts'

/** Bytes per token: English text has four and code three. Too few tokens would be worse than too many. */
const bytesPerToken = 3

/**
 * The answer to a request to count tokens when no channel of the model can count; undefined for all other requests.
 * Where some of its channels count only for some models, the same answer stands by.
 */
export function countedFor(exchange: Exchange, catalogue: Catalogue): WholeReply | undefined {
  const { operation } = exchange.request
  const { counts } = operation
  const channels = counts === undefined ? undefined : modelsFor(exchange, catalogue)[0]?.channels
  if (counts === undefined || !channels) return undefined
  const forms = channels.flatMap((channel) => formFor(operation, channel) ?? [])
  if (forms.length > 0 && forms.every((form) => form.counts === undefined)) return undefined
  const count = estimatedInput(exchange, bytesPerToken, exchange.body.bytes.length)
  const reply: WholeReply = { status: 200, headers: [['x-sluice-estimate', counts]], body: { [counts]: count } }
  if (forms.length === 0) return reply
  exchange.set(otherwise, reply)
  return undefined
}

/** The stage that tells a count in the client's word for it; undefined where the upstream has the same. */
export function countBack({ request }: Exchange, { form, asked }: Attempt): Mapper | undefined {
  const { counts } = request.operation
  const theirs = form?.counts
  if (counts === undefined || theirs === undefined) return undefined
  return {
    speaks: asked,
    map({ lens }, emit) {
      const count = lens?.json(theirs)
      if (typeof count !== 'number')
        throw new GatewayError('upstream_bad_response', 'The upstream sent a count that cannot be read.')
      emit(new Message('json', Buffer.from(JSON.stringify({ [counts]: count }))))
    }
  }
}
