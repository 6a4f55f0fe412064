// Which models are asked for a request: the one that it names, and those that stand in for it.
import type { Catalogue, Model } from '../catalogue/catalogue.ts'
import { GatewayError } from '../errors.ts'
import type { Exchange } from './exchange.ts'

/** The header by which a client says that no other model may answer. */
const header = 'x-sluice-fallback'

/**
 * The models that may be asked, in order; empty where the request names none that there is. The first one is what its
 * name stands for.
 * @throws GatewayError `invalid_field` when the client says neither on nor off where it may say whether others stand in
 */
export function modelsFor(exchange: Pick<Exchange, 'model' | 'request'>, { models }: Catalogue): readonly Model[] {
  const model = models.get(exchange.model)
  if (!model) return []
  const { standIns } = model
  if (!standIns) return [model]
  const { operation, headers } = exchange.request
  const only =
    refused(headers[header]) ||
    // A number of tokens is that of one model.
    operation.counts !== undefined ||
    (operation.vectors === true && !standIns.embeddings)
  return only ? standIns.models.slice(0, 1) : standIns.models
}

function refused(said: string | string[] | undefined): boolean {
  if (said === undefined || said === 'on') return false
  if (said === 'off') return true
  throw new GatewayError('invalid_field', `The header \`${header}\` must be on or off.`, { param: header })
}

/**
 * What a model stands in for, as far as a failure is of that kind; undefined where no other model may help. `dear`:
 * what is asked for must not be made twice.
 */
export function occasionOf(
  { code, retryable, costly, details }: GatewayError,
  dear: boolean
): StandInOccasion | undefined {
  const { said, shownCode } = details
  const words = [shownCode, said?.code, said?.type]
  if (code === 'context_length_exceeded' || words.includes('context_length_exceeded')) return 'context'
  if (code === 'upstream_rejected') return words.some((word) => word && filtered.test(word)) ? 'filter' : undefined
  // Whoever was silent may be paid for, and that is all that it shares with what was made.
  if (costly && (dear || !retryable)) return undefined
  return retryable || code === 'no_available_channel' || code === 'protocol_mismatch' ? 'failure' : undefined
}

const filtered = /content_?filter|content_policy|responsible_?ai|safety|moderation/i

/** Why another model is asked. */
export type StandInOccasion = 'failure' | 'context' | 'filter'
