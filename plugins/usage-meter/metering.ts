// The stages that meter one answer, and tell what it consumed in units that its model has a price for.
import type { Catalogue } from '../../core/catalogue/catalogue.ts'
import { inForce } from '../../core/contract/contract.ts'
import type { Attempt, Emit, Exchange, Mapper, Message, Model, Observer } from '../../core/contract/contract.ts'
import { goingOn, reservation } from '../../core/contract/slots.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import type { Protocol } from '../../core/protocols/index.ts'
import type { Rates } from '../../core/money/price.ts'
import type { Counter } from '../../core/telling/metrics.ts'
import { answers, estimatedInput, heldInput, outputLimit, promptsOf, searchOf, soundOf } from '../estimate.ts'
import { chargeableAt } from './conversion.ts'
import type { Bounds, Meter } from './meter.ts'

/** What the stages of all answers share. */
export interface Telling {
  readonly catalogue: Pick<Catalogue, 'models'>
  readonly bytesPerToken: number
  readonly rejected: Counter
  readonly estimated: Counter
}

/** A stage that meters one answer. Closures in its place would take twice its memory, as long as a stream is open. */
abstract class Metering {
  readonly borrows = true
  protected readonly meter: Meter
  readonly #exchange: Exchange
  readonly #attempt: Attempt
  readonly #telling: Telling

  constructor(exchange: Exchange, attempt: Attempt, meter: Meter, telling: Telling) {
    this.#exchange = exchange
    this.#attempt = attempt
    this.meter = meter
    this.#telling = telling
  }

  end(complete: boolean): void {
    const exchange = this.#exchange
    const attempt = this.#attempt
    const { catalogue, bytesPerToken, rejected, estimated } = this.#telling
    // The exchange has begun work that goes on, which is metered at its end.
    if (exchange.find(goingOn)) return
    const model = catalogue.models.get(attempt.model)
    const metered = this.meter.read(complete, () => boundsOf(exchange, model))
    attempt.usage = inPriced(exchange, metered, model, bytesPerToken)
    const { name: channel } = attempt.channel
    if (this.meter.insane) rejected.add({ channel })
    if (attempt.usage.source === 'estimated' || attempt.usage.source === 'partial') estimated.add({ channel })
  }
}

/** Of an answer that the client sees as it is. */
export class ShownMetering extends Metering implements Observer {
  observe(message: Message): void {
    this.meter.see(message)
  }
}

/** Of a stream that tells of its usage because the gateway asked for it: SDKs fail on a chunk without choices. */
export class UnaskedMetering extends Metering implements Mapper {
  readonly takes = 'runs'

  map(message: Message, emit: Emit): void {
    this.meter.see(message)
    const data = message.kind === 'event' ? this.meter.protocol.withoutUsage(message) : undefined
    if (data === undefined) emit(message)
    else if (data !== 'nothing') emit(message.withData(data))
  }
}

/**
 * Returns the bounds of an estimate: of the prompt by what the model reads and what was held, of the answer by its
 * limits.
 */
export function boundsOf(exchange: Exchange, model: Model | undefined): Bounds {
  const { body, request } = exchange
  const metering = request.operation.metering!
  const most = Math.min(readAtMost(exchange, model), exchange.find(heldInput) ?? Infinity)
  const limit = metering.outputLimits.length > 0 ? (outputLimit(body, metering) ?? Infinity) : Infinity
  const output = Math.min(limit, model?.maxOutputTokens ?? Infinity) * answers(body, metering)
  const sound = ratesOf(exchange, model)?.second !== undefined ? soundOf(body, metering) : undefined
  return { input: (bytesPerToken) => estimatedInput(exchange, bytesPerToken, most), output, sound }
}

/**
 * Returns the most tokens that the model reads. It reads each prompt of a list, and each searched document, by itself.
 */
function readAtMost({ body, request }: Exchange, model: Model | undefined): number {
  const metering = request.operation.metering!
  if (model?.contextWindow === undefined || metering.searched) return Infinity
  return model.contextWindow * promptsOf(body, metering)
}

/** Converts a usage to units that the price of the request has. */
function inPriced(
  exchange: Exchange,
  metered: MeteredUsage,
  model: Model | undefined,
  bytesPerToken: number
): MeteredUsage {
  const rates = ratesOf(exchange, model)
  const { body, request } = exchange
  const metering = request.operation.metering!
  if (!rates) return metered
  return chargeableAt(metered, rates, () => ({
    searches: searchOf(body, metering)?.units ?? 0,
    seconds: soundOf(body, metering)?.second ?? 0,
    input: estimatedInput(exchange, bytesPerToken, exchange.find(heldInput) ?? Infinity)
  }))
}

/** The rates of the hold, which may be those of a service tier or a kind of picture; else those of the model. */
function ratesOf(exchange: Exchange, model: Model | undefined): Rates | undefined {
  const price = exchange.find(reservation)?.price ?? (model && inForce(model.prices, exchange.receivedAt)?.price)
  return price?.perMillion
}

export function askedByUs({ body }: Exchange, protocol: Protocol): boolean {
  return protocol.askForUsage(body.lens) !== undefined
}
