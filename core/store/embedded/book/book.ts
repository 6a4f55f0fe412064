// The ledger of this store: decides in memory whether a request is admitted, and leaves it to the writer to save the
// changes.
import type { Scope } from '../../../catalogue/caller.ts'
import { parsePrice, renderPrice } from '../../../money/price.ts'
import type { Price } from '../../../money/price.ts'
import type { Estimate } from '../../../money/settlement.ts'
import { parsePieces } from '../../../money/usage.ts'
import type { Usage } from '../../../money/usage.ts'
import type { Batch } from '../rows/batch.ts'
import { Balances } from '../balance/balances.ts'
import { ChargedParts } from '../balance/charged-parts.ts'
import type { PartCharges } from '../balance/charged-parts.ts'
import { Hold } from '../balance/hold.ts'
import { HoldTable } from './hold-table.ts'
import type { Gathering, HoldKeeper } from '../balance/hold.ts'
import type { Balance, BudgetStanding, BudgetWatcher, Ledger, Reservation, ReserveRequest, Sale } from '../../ledger.ts'
import { LookedAt } from '../balance/looked-at.ts'
import { Purses } from './purses.ts'
import type { BalanceReader } from './purses.ts'
import type { Row } from '../files/sqlite.ts'
import type { Troubles } from '../files/troubles.ts'
import type { Drafts } from '../writer/draft.ts'
import type { Snapshot } from '../writer/snapshot.ts'

/** A hold that its process goes on with after the store has gone to the next one. */
export interface KeptHold {
  readonly requestId: string
  readonly part: string
  /** What the channels charge, which is not in the database. */
  readonly costs: ReserveRequest['costs']
}

/** The next process, as the holds see it that it must end. */
export interface Heir {
  touch(hold: Hold): void
  /** Resolves when it is on disk, as {@link Reservation.detach} does. */
  detach(hold: Hold, until: number): Promise<void>
  /** Resolves when it is on disk, as the ends of a {@link Reservation} do. */
  end(hold: Hold): Promise<void>
}

/** Owns the holds and their balances while the process lives. There is one book per store. */
export class Book implements Ledger, HoldKeeper {
  readonly #writer: Drafts
  readonly #purses: Purses
  readonly #prices = new Map<string, string>()
  readonly #knownPrices = new WeakSet<Price>()
  /** The holds whose end is not on disk yet. */
  readonly #live = new HoldTable<Hold>()
  /** What was charged for the parts of requests that have a hold. */
  readonly #charged = new ChargedParts()
  readonly #deferred: boolean
  /** Ends the holds, once the store was handed over. */
  #heir: Heir | undefined

  /**
   * `now` decides only which windows {@link Book.balances} calls current. `deferred`: holds and their ends are
   * acknowledged before they are on disk, as long as the disk keeps up. `memory`: where the balances lie.
   */
  constructor(
    writer: Drafts,
    { since, balances, prices, open, parts }: Pick<Snapshot, 'since' | 'balances' | 'prices' | 'open' | 'parts'>,
    reader: BalanceReader,
    troubles: Pick<Troubles, 'begin' | 'over'>,
    now: () => number,
    kept: readonly KeptHold[] = [],
    deferred = false,
    memory = new Balances(since)
  ) {
    this.#writer = writer
    this.#deferred = deferred
    this.#purses = new Purses(memory, balances, { writer, reader, troubles, now })
    for (const { version, json } of prices) this.#prices.set(version as string, json as string)
    const costs = new Map(kept.map((hold) => [nameOf(hold.requestId, hold.part), hold.costs]))
    for (const row of open) this.#resume(row, costs.get(nameOf(row['request_id'] as string, row['part'] as string)))
    for (const { request_id: id, amount, usage_json: usage } of parts)
      this.#charged.charge(id as string, amount as bigint, JSON.parse(usage as string) as Usage)
  }

  get left(): boolean {
    return this.#heir !== undefined
  }

  /** The holds that have not ended. */
  get open(): readonly Hold[] {
    return [...this.#live].filter((hold) => !hold.ended)
  }

  /** The holds whose end is not on disk. */
  get unsettled(): readonly Hold[] {
    return [...this.#live]
  }

  /** An open hold, detached or not; undefined when there is none. */
  find(requestId: string, part: string): Hold | undefined {
    const hold = this.#live.get(requestId, part)
    return hold?.ended ? undefined : hold
  }

  /**
   * Hands the open holds over: from now on everything that becomes of them is told to the heir. What was queued before
   * is still written, and every hold that is open now gets a row. No hold can be made any more.
   */
  leave(heir: Heir): void {
    this.#heir = heir
  }

  reserve(request: ReserveRequest): Reservation {
    const { requestId, part = '', amount, time } = request
    if (this.#heir) throw new Error('this ledger was handed over, and holds nothing any more')
    const draft = this.#writer.admit()
    if (this.#live.get(requestId, part))
      throw new Error(`${requestId} has a reservation already: it needs another id or part`)
    if (amount < 0n || !Number.isSafeInteger(time)) {
      throw new RangeError(
        `${requestId} asks to hold ${amount} nano-dollars at ${time}: amounts are not negative, and times are whole milliseconds`
      )
    }
    const purse = this.#purses.of(request.scopes, time)
    this.learn(request)
    purse.hold(amount)
    const hold = new Hold(request, purse, draft, this)
    this.#live.add(hold)
    draft.opened.push(hold)
    draft.count()
    this.#writer.wakeSoon()
    return hold
  }

  look(request: ReserveRequest): Reservation {
    this.#purses.of(request.scopes, request.time).check(request.amount)
    return new LookedAt(request)
  }

  detached(requestId: string, part = ''): Reservation | undefined {
    const hold = this.#live.get(requestId, part)
    return hold?.detached ? hold : undefined
  }

  /** See {@link Ledger.scopes}. */
  scopes(): readonly string[] {
    return this.#purses.scopes()
  }

  balances(filter?: { scope?: string }): Balance[] {
    return this.#purses.balances(filter)
  }

  /** Who is told of thresholds. */
  get watcher(): BudgetWatcher | undefined {
    return this.#purses.watcher
  }

  watch(watcher: BudgetWatcher): void {
    this.#purses.watch(watcher)
  }

  affordable(scopes: readonly Scope[], time: number): bigint | undefined {
    return this.#purses.of(scopes, time).left()
  }

  standings(scopes: readonly Scope[], time: number): BudgetStanding[] {
    return this.#purses.of(scopes, time).standings()
  }

  /** A price that another thread has put. */
  know(version: string, json: string): void {
    this.#prices.set(version, json)
  }

  price(version: string): Price | undefined {
    const json = this.#prices.get(version)
    return json === undefined ? undefined : parsePrice(version, json)
  }

  /** Whether the request, or a part of it, has a hold whose end is not on disk yet. */
  owes(requestId: string): boolean {
    return this.#live.has(requestId)
  }

  acknowledge(draft: Gathering): Promise<void> {
    if (this.#deferred && this.#writer.keepsUp) {
      this.#writer.wakeSoon()
      return acknowledged
    }
    this.#writer.wake()
    return draft.durable
  }

  touch(hold: Hold, first: boolean, urgent: boolean): undefined {
    if (this.#heir) return void this.#heir.touch(hold)
    const { draft } = this.#writer
    if (first) {
      draft.touched.push(hold)
      draft.count()
    }
    if (urgent) this.#writer.wake()
    else this.#writer.wakeLater()
  }

  detach(hold: Hold, until: number): Promise<void> {
    if (this.#heir) return this.#heir.detach(hold, until)
    const { draft } = this.#writer
    draft.detached.push(hold)
    draft.count()
    this.#writer.wake()
    return draft.durable
  }

  charged(requestId: string): PartCharges | undefined {
    return this.#charged.get(requestId)
  }

  end(hold: Hold, amount: bigint): Promise<void> {
    if (this.#heir) return this.#heir.end(hold).finally(() => this.forget([hold]))
    if (hold.part !== '') this.#note(hold)
    const { draft } = this.#writer
    hold.purse.post(hold.amount, amount)
    draft.ended.push(hold)
    draft.count()
    return this.acknowledge(draft)
  }

  /** Notes the charge for a part, unless its request has ended: nobody would forget it. */
  #note({ requestId, charge }: Hold): void {
    if (charge && this.#live.get(requestId, '')) this.#charged.charge(requestId, charge.amount, charge.usage)
  }

  /** Adds the changes of all balances to a batch, so that the balances on disk are those after it. */
  balance(batch: Batch): void {
    this.#purses.write(batch)
  }

  /** Removes holds from memory. The writer calls it when their ends are on disk. */
  forget(ended: readonly Hold[]): void {
    for (let i = 0; i < ended.length; i++) {
      this.#live.delete(ended[i]!)
      if (ended[i]!.part === '') this.#charged.delete(ended[i]!.requestId)
    }
  }

  /**
   * Takes over an open hold of another thread, which has gone. `row`: as stored, but with an id of this book's writer.
   * The balances include it already. `prices`: those in the journal, as JSON by version. `charged`: for the parts of
   * its request that have ended there.
   */
  takeOver(row: Row, prices: ReadonlyMap<string, string>, charged?: PartCharges): Hold {
    for (const name of ['price_version', 'cost_price']) {
      const version = row[name] as string | null
      const json = version === null ? undefined : prices.get(version)
      if (json !== undefined) this.#prices.set(version!, json)
    }
    const hold = this.#resume(row, undefined)
    if (charged && hold.part === '') this.#charged.charge(hold.requestId, charged.amount, charged.usage)
    return hold
  }

  /** Takes over a hold of an earlier start. The balances include it already. */
  #resume(row: Row, kept: KeptHold['costs']): Hold {
    const text = (name: string): string => row[name] as string
    const count = (name: string): number => Number(row[name])
    const [scopes, time] = [text('scopes'), count('ts_ms')]
    const [requestId, part] = [text('request_id'), text('part')]
    const [channel, tags] = [row['channel'] as string | null, row['tags'] as string | null]
    const cost = row['cost_price'] === null ? undefined : this.price(text('cost_price'))
    for (const price of kept?.values() ?? []) this.#learn(price)
    const estimate: Estimate = {
      input: count('input_units'),
      maxOutput: count('max_out'),
      pieces: parsePieces(row['pieces'] as string | null)
    }
    const request: ReserveRequest = {
      requestId,
      part,
      scopes: [],
      amount: row['amount'] as bigint,
      model: text('model'),
      price: this.price(text('price_version'))!,
      costs: kept ?? (cost && new Map([[channel ?? '', cost]])),
      estimate,
      time,
      endpoint: (row['endpoint'] as string | null) ?? undefined,
      clientProtocol: (row['client_protocol'] as string | null) ?? undefined,
      streamed: count('streamed') === 1
    }
    const stored = {
      rowId: count('id'),
      channel,
      delivered: count('delivered_units'),
      lease: row['lease_until'] === null ? undefined : count('lease_until')
    }
    const purse = this.#purses.stored({ scopes, tags }, time)
    const hold = new Hold(request, purse, stored, this)
    this.#live.add(hold)
    return hold
  }

  learn({ price, costs }: Sale): void {
    if (!this.#knownPrices.has(price)) this.#learn(price)
    if (costs) for (const cost of costs.values()) if (!this.#knownPrices.has(cost)) this.#learn(cost)
  }

  /** Queues a new price, so that it is stored before the holds made at it. */
  #learn(price: Price): void {
    const json = renderPrice(price)
    const stored = this.#prices.get(price.version)
    if (stored !== undefined && stored !== json) {
      throw new Error(
        `the price version ${price.version} is ${stored} in the ledger and ${json} now: a price that changes needs another version`
      )
    }
    this.#knownPrices.add(price)
    if (stored !== undefined) return
    this.#prices.set(price.version, json)
    this.#writer.draft.prices.push(price.version, json)
  }
}

const acknowledged = Promise.resolve()

function nameOf(requestId: string, part: string): string {
  return `${requestId} ${part}`
}
