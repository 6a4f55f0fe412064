// Estimates what a request brings and what it orders, in the units that its model is priced by.
import { noUsage } from '../../core/contract/contract.ts'
import type { Exchange } from '../../core/contract/contract.ts'
import type { Price, Rates } from '../../core/money/price.ts'
import type { Pieces, Usage } from '../../core/money/usage.ts'
import { answers, estimatedInput, heldInput, searchOf, secondsAsked, soundOf } from '../estimate.ts'

/** Estimates what goes in: in characters, seconds or searches where the model is priced by them, else in tokens. */
export function promptUsage(exchange: Exchange, { perMillion }: Price): Usage {
  const pieces = broughtPieces(exchange, perMillion)
  if (pieces) return { ...noUsage, ...pieces }
  return { ...noUsage, input: estimatedInput(exchange, 3, exchange.find(heldInput) ?? Infinity) }
}

/**
 * The pieces that a request costs once an upstream has it, whoever waits for the answer: what it brings, and the
 * pictures and the seconds of a video that it orders, which are made as a whole. Undefined when it has none with a
 * price.
 */
export function orderedPieces(exchange: Exchange, { perMillion }: Price): Pieces | undefined {
  const { body, request } = exchange
  const { metering } = request.operation
  if (metering?.pictures && perMillion.image !== undefined) return { image: answers(body, metering) }
  if (metering?.seconds && perMillion.second !== undefined)
    return { second: secondsAsked(body, metering) * answers(body, metering) }
  return broughtPieces(exchange, perMillion)
}

/** Estimates what a request costs that an upstream has got, and whose answer nobody waits for. */
export function orderedUsage(exchange: Exchange, price: Price): Usage {
  const pieces = orderedPieces(exchange, price)
  return pieces ? { ...noUsage, ...pieces } : promptUsage(exchange, price)
}

function broughtPieces({ body, request }: Exchange, rates: Rates): Pieces | undefined {
  const { metering } = request.operation
  if (!metering) return undefined
  if (metering.characters !== undefined && rates.character !== undefined)
    return { character: body.fields.string(metering.characters)?.length ?? 0 }
  const sound = rates.second === undefined ? undefined : soundOf(body, metering)
  if (sound) return { second: sound.second }
  const search = rates.search === undefined ? undefined : searchOf(body, metering)
  return search && { search: search.units }
}
