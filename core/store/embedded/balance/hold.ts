// A hold: an amount reserved for one exchange, or a part of one, until it is settled or voided.
import type { Batch } from '../rows/batch.ts'
import { maxNano } from './cell.ts'
import type { AttemptCost, Reservation, ReserveRequest, Sale, Sent, Settlement } from '../../ledger.ts'
import { costOf, withCall } from '../../../money/price.ts'
import type { Price } from '../../../money/price.ts'
import { incredible, usageOf } from '../../../money/settlement.ts'
import type { Usage } from '../../../money/usage.ts'
import { renderUsage } from '../../../money/usage.ts'
import type { PartCharges } from './charged-parts.ts'
import type { Purse } from './purse.ts'
import type { RowIds } from '../rows/row-ids.ts'
import { renderPieces, whole } from '../rows/units.ts'

/** How a hold ends: with a charge, or without one. */
export type HoldEnd = { readonly settlement: Settlement } | { readonly costs: readonly AttemptCost[] | undefined }

/** What a hold calls of its book. */
export interface HoldKeeper {
  /** Whether the book was handed over to the next process, which then is told of everything. */
  readonly left: boolean
  /** Sees to it that a draft is written; resolves when whoever waits for a hold in it may go on. */
  acknowledge(draft: Gathering): Promise<void>
  /** What was charged for the parts of a request whose hold is open; undefined when nothing was, or it is not known. */
  charged(requestId: string): PartCharges | undefined
  /** Lets the hold outlive its exchange; resolves when that is on disk. */
  detach(hold: Hold, until: number): Promise<void>
  /** A price that is stored; undefined when none has this version. */
  price(version: string): Price | undefined
  /** Queues the prices of a sale that are not stored yet. */
  learn(sale: Sale): void
  /** Ends the hold with a charge; called once. Resolves when the end is on disk. */
  end(hold: Hold, amount: bigint): Promise<void>
  /**
   * Queues the progress of a hold. `first`: nothing is queued for it yet. Without `urgent` it is written together with
   * later operations. Returns what {@link Reservation.durable} waits for too, where that is not the hold itself.
   */
  touch(hold: Hold, first: boolean, urgent: boolean): Promise<void> | undefined
}

/** The draft that a hold waits in. */
export interface Gathering {
  /** Resolves when its batch is on disk: one promise for all of its operations. */
  readonly durable: Promise<void>
}

/** What the database has of a hold of an earlier start: a detached one, or one that its process goes on with. */
export interface Stored {
  rowId: number
  channel: string | null
  delivered: number
  /** Undefined for a hold that is not detached. */
  lease: number | undefined
}

/** A hold. Only the book makes holds. */
export class Hold implements Reservation {
  readonly purse: Purse
  tableNext: this | undefined = undefined
  readonly #book: HoldKeeper
  readonly #request: ReserveRequest
  /** When it was made, by performance.now(). */
  readonly #since = performance.now()
  #sale: Sale
  #channel: string | null = null
  #delivered = 0
  /** The draft that it waits in, until that becomes a batch. */
  #draft: Gathering | undefined
  #durable: Promise<void> | undefined
  /** The id of its row, from when the row is in a batch. */
  #rowId: number | undefined
  /** Until when a detached hold is kept, in Unix milliseconds; undefined when it lives only as long as its exchange. */
  #lease: number | undefined
  #touched = false
  #ended = false
  /** Whether it ended after its book was handed over. */
  #passed = false
  #settlement: Settlement | undefined
  #costs: readonly AttemptCost[] | undefined

  /** `place` is the draft that a new hold begins in, or the row of a hold of an earlier start. */
  constructor(request: ReserveRequest, purse: Purse, place: Gathering | Stored, book: HoldKeeper) {
    this.#request = request
    this.#sale = request
    this.purse = purse
    this.#book = book
    if ('durable' in place) this.#draft = place
    else {
      this.#rowId = place.rowId
      this.#channel = place.channel
      this.#delivered = place.delivered
      this.#lease = place.lease
      this.#durable = Promise.resolve()
    }
  }

  get durable(): Promise<void> {
    return (this.#durable ??= this.#book.acknowledge(this.#draft!))
  }

  get requestId(): string {
    return this.#request.requestId
  }

  get part(): string {
    return this.#request.part ?? ''
  }

  get amount(): bigint {
    return this.#request.amount
  }

  get price(): Price {
    return this.#sale.price
  }

  get detached(): boolean {
    return this.#lease !== undefined && !this.#ended
  }

  /** Until when a detached hold is kept, in Unix milliseconds; undefined for one that lives as long as its exchange. */
  get lease(): number | undefined {
    return this.#lease
  }

  /** Whether it has ended; its end may not be on disk yet. */
  get ended(): boolean {
    return this.#ended
  }

  /** What was charged for the parts of its request, which its book knows. */
  get parts(): PartCharges | undefined {
    return this.#book.charged(this.requestId)
  }

  /** What it was charged, as the journal has it; undefined while it is open, and for one that was given back. */
  get charge(): { readonly amount: bigint; readonly usage: Usage } | undefined {
    const end = this.#settlement
    if (!end) return undefined
    const own = this.#costPrice(end.channel)
    return { amount: end.amount, usage: own ? withCall(end.usage, own) : end.usage }
  }

  /** What it is charged by. */
  get sale(): Sale {
    return this.#sale
  }

  /** What recovery needs of it. */
  get request(): Readonly<ReserveRequest> {
    return this.#request
  }

  /** How far the exchange has come. */
  get progress(): { readonly channel: string | null; readonly delivered: number; readonly sale: Sale | undefined } {
    const { model, price, costs } = this.#sale
    const sale = this.#sale === this.#request ? undefined : { model, price, costs }
    return { channel: this.#channel, delivered: this.#delivered, sale }
  }

  get sent(): Sent | undefined {
    const usage = usageOf(this.#request.estimate, this.#delivered)
    return this.#channel === null ? undefined : { channel: this.#channel, usage, delivered: this.#delivered > 0 }
  }

  /** How it has ended. */
  get end(): HoldEnd {
    return this.#settlement ? { settlement: this.#settlement } : { costs: this.#costs }
  }

  dispatched(channel: string, sale?: Sale): void {
    if (this.#ended) throw this.#over()
    if (sale) {
      this.#sale = sale
      if (!this.#book.left) this.#book.learn(sale)
    }
    this.#channel = channel
    if (this.#rowId !== undefined || this.#book.left) this.#touch(true)
  }

  delivered(units: number): void {
    if (this.#ended) return
    const begins = this.#delivered === 0 && this.#lease !== undefined
    this.#delivered = units
    if (this.#rowId !== undefined || this.#book.left) this.#touch(begins)
  }

  detach(until: number): Promise<void> {
    if (this.#ended) throw this.#over()
    if (!Number.isSafeInteger(until))
      throw new RangeError(`${this.requestId} cannot be held until ${until}: times are whole milliseconds`)
    this.#lease = until
    this.#durable = this.#book.detach(this, until)
    return this.#durable
  }

  settle(settlement: Settlement): Promise<void> {
    return this.#end(settlement.amount, settlement.costs, settlement)
  }

  void(costs?: readonly AttemptCost[]): Promise<void> {
    return this.#end(0n, costs, undefined)
  }

  #end(amount: bigint, costs: readonly AttemptCost[] | undefined, settlement: Settlement | undefined): Promise<void> {
    if (this.#ended) throw this.#over()
    const problem = this.#problem(amount, costs)
    this.#ended = true
    if (!problem) {
      this.#settlement = settlement
      this.#costs = costs
    }
    this.#passed = this.#book.left
    this.#draft = undefined
    this.#durable = this.#book.end(this, problem ? 0n : amount)
    if (problem) throw problem
    return this.#durable
  }

  /** Says why an end cannot be written, if it cannot. A row that the database refuses would hold up all other rows. */
  #problem(amount: bigint, costs: readonly AttemptCost[] | undefined): Error | undefined {
    if (amount < 0n || !this.purse.fits(amount, this.amount)) {
      return new RangeError(
        `${this.requestId} cannot be charged ${amount} nano-dollars, and was given back what it held: a charge is from 0 to what a balance can hold`
      )
    }
    if (!costs) return undefined
    const attempts = new Set<number>()
    for (const { attempt, amount: cost } of costs) {
      if (cost < 0n || cost > maxNano)
        return new RangeError(
          `${this.requestId} cannot have cost ${cost} nano-dollars, and was given back what it held`
        )
      if (attempts.has(attempt))
        return new Error(
          `${this.requestId} has two costs for attempt ${attempt}, and was given back what it held: an attempt has one`
        )
      attempts.add(attempt)
    }
    return undefined
  }

  #touch(urgent: boolean): void {
    const first = !this.#touched
    this.#touched = true
    const durable = this.#book.touch(this, first, urgent)
    if (durable) this.#durable = durable
  }

  #over(): Error {
    return new Error(
      `${this.requestId} was ${this.#settlement ? 'settled' : 'voided'} already: a reservation ends once`
    )
  }

  /**
   * Moves to another draft and returns true, unless it has ended, somebody waits for it, or it began before `young`.
   */
  moveTo(next: Gathering, young: number): boolean {
    if (this.#ended || this.#durable || this.#since < young) return false
    this.#draft = next
    return true
  }

  /** Whether it needs a row. One that ended after the store was handed over is ended there, by its row. */
  get lasts(): boolean {
    return !this.#ended || this.#passed
  }

  /** Writes its row under a free id. Runs after every {@link Hold.writeEnd} of the batch. */
  writeOpen(batch: Batch, rowIds: RowIds): void {
    this.#durable ??= this.#draft!.durable
    this.#draft = undefined
    this.#rowId = rowIds.take()
    const { estimate, endpoint = null, clientProtocol = null, streamed = false, time } = this.#request
    const { model, price } = this.#sale
    batch.opened.push(
      this.#rowId,
      this.requestId,
      this.part,
      this.purse.scopes,
      this.amount,
      model,
      price.version,
      whole(estimate.input),
      whole(estimate.maxOutput),
      this.#channel === null ? 0 : 1,
      this.#channel,
      whole(this.#delivered),
      endpoint,
      clientProtocol,
      streamed ? 1 : 0,
      time,
      renderPieces(estimate.pieces),
      this.purse.tags,
      this.#costPrice(this.#channel)?.version ?? null
    )
  }

  /** Writes its progress since its row was written. */
  writeTouch(batch: Batch): void {
    this.#touched = false
    if (this.lasts) {
      const cost = this.#costPrice(this.#channel)?.version ?? null
      const { model, price } = this.#sale
      batch.touched.push(this.#channel, cost, whole(this.#delivered), model, price.version, this.#rowId!)
    }
  }

  /** Writes until when it is kept. Runs after every {@link Hold.writeOpen} of the batch. */
  writeLease(batch: Batch): void {
    if (this.lasts) batch.leased.push(this.#lease!, this.#rowId!)
  }

  /** Writes its end to the journal, and frees the id of its row for another hold. */
  writeEnd(batch: Batch, rowIds: RowIds): void {
    const { time } = this.#request
    const { model, price } = this.#sale
    const { entries } = batch
    const { scopes, tags } = this.purse
    if (this.#rowId !== undefined) rowIds.give(this.#rowId)
    for (const cost of this.#costs ?? []) {
      const { attempt, channel, usage, amount, source } = cost
      entries.push(
        'cost',
        this.requestId,
        this.part,
        `cost:${attempt}`,
        scopes,
        amount,
        0n,
        renderUsage(usage),
        cost.model ?? model,
        channel,
        cost.price ?? price.version,
        source,
        time,
        tags,
        ...this.#costFor(usage, channel, cost)
      )
    }
    const end = this.#settlement
    if (!end)
      entries.push(
        'void',
        this.requestId,
        this.part,
        'terminal',
        scopes,
        0n,
        this.amount,
        null,
        model,
        this.#channel,
        price.version,
        null,
        time,
        tags,
        null,
        null
      )
    else {
      const { channel, source } = end
      const { amount, usage } = this.charge!
      entries.push(
        'settle',
        this.requestId,
        this.part,
        'terminal',
        scopes,
        amount,
        this.amount,
        renderUsage(usage),
        model,
        channel,
        price.version,
        source,
        time,
        tags,
        ...this.#costFor(usage, channel)
      )
    }
  }

  #costPrice(channel: string | null): Price | undefined {
    const { costs } = this.#sale
    return costs && channel !== null ? costs.get(channel) : undefined
  }

  /**
   * What the upstream charges, and the version of its price; nothing where it is not known, or cannot be true. `of`:
   * the attempt, which may have been for another model than the last one.
   */
  #costFor(usage: Usage, channel: string, of?: AttemptCost): [cost: bigint | null, version: string | null] {
    const own = of?.model === undefined ? this.#costPrice(channel) : undefined
    const price = own ?? (of?.costPrice === undefined ? undefined : this.#book.price(of.costPrice))
    const cost = price ? costOf(usage, price) : undefined
    return cost === undefined || cost > incredible ? [null, null] : [cost, price!.version]
  }
}
