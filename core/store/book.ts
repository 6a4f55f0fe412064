// The ledger of this store: decides in memory whether a request is admitted, and leaves it to the writer to save the
// changes.
import { tagsOf } from '../catalogue/caller.ts'
import type { Scope } from '../catalogue/caller.ts'
import { parsePrice, renderPrice } from '../money/price.ts'
import type { Price } from '../money/price.ts'
import { noUsage, parsePieces } from '../money/usage.ts'
import type { Batch } from './batch.ts'
import { Cell } from './cell.ts'
import { Hold } from './hold.ts'
import type { HoldKeeper } from './hold.ts'
import type { Balance, BudgetStanding, Ledger, Reservation, ReserveRequest } from './ledger.ts'
import { LookedAt } from './looked-at.ts'
import { Purse } from './purse.ts'
import type { Limited } from './purse.ts'
import type { Reader } from './reader.ts'
import type { Row } from './sqlite.ts'
import { day, horizon, windowOf, windowsOf } from './window.ts'
import type { Period } from './window.ts'
import type { Troubles } from './troubles.ts'
import { unavailable } from './writer.ts'
import type { Writer } from './writer.ts'
import type { Snapshot } from './writer-thread.ts'

/**
 * Owns the balances while the process lives. The balances on disk are some batches behind. There is one book per store.
 */
export class Book implements Ledger, HoldKeeper {
  readonly #writer: Writer
  readonly #reader: Reader
  readonly #troubles: Troubles
  readonly #now: () => number
  /**
   * The beginning of a month, in Unix milliseconds. All balances of windows since then are in memory. Older ones may
   * have been removed from memory, and are read again when the clock goes back to them.
   */
  #since: number
  #recalling = false
  /** How many balances were removed from memory. */
  #forgotten = 0
  /** The balances by scope, then by window. */
  readonly #cells = new Map<string, Map<string, Cell>>()
  /** Purses by the array of a caller's scopes, which stays the same object until the configuration is reloaded. */
  #purses = new WeakMap<readonly Scope[], Purse>()
  readonly #prices = new Map<string, string>()
  readonly #knownPrices = new WeakSet<Price>()
  /** The holds whose end is not on disk yet. The keys are made by {@link nameOf}. */
  readonly #live = new Map<string, Hold>()
  /** How many of them are parts, by the id of the request. */
  readonly #parts = new Map<string, number>()
  /** The cells that changed since their balance was last written to a batch. */
  readonly #moved: Cell[] = []

  /** `now` decides only which windows {@link Book.balances} calls current. */
  constructor(
    writer: Writer,
    { since, balances, prices, detached }: Snapshot,
    reader: Reader,
    troubles: Troubles,
    now: () => number
  ) {
    this.#writer = writer
    this.#reader = reader
    this.#troubles = troubles
    this.#now = now
    this.#since = since
    this.#load(balances)
    for (const { version, json } of prices) this.#prices.set(version as string, json as string)
    for (const row of detached) this.#resume(row)
  }

  reserve(request: ReserveRequest): Reservation {
    const { requestId, part = '', amount, price, costs, time } = request
    const draft = this.#writer.admit()
    const name = nameOf(requestId, part)
    if (this.#live.has(name)) throw new Error(`${requestId} has a reservation already: it needs another id or part`)
    if (amount < 0n || !Number.isSafeInteger(time)) {
      throw new RangeError(
        `${requestId} asks to hold ${amount} nano-dollars at ${time}: amounts are not negative, and times are whole milliseconds`
      )
    }
    const purse = this.#purse(request.scopes, time)
    if (!this.#knownPrices.has(price)) this.#learn(price)
    if (costs) for (const cost of costs.values()) if (!this.#knownPrices.has(cost)) this.#learn(cost)
    purse.hold(amount)
    const hold = new Hold(request, purse, draft, this)
    this.#follow(name, hold)
    draft.opened.push(hold)
    draft.count()
    this.#writer.wakeSoon()
    return hold
  }

  look(request: ReserveRequest): Reservation {
    this.#purse(request.scopes, request.time).check(request.amount)
    return new LookedAt(request)
  }

  detached(requestId: string, part = ''): Reservation | undefined {
    const hold = this.#live.get(nameOf(requestId, part))
    return hold?.detached ? hold : undefined
  }

  balances({ scope }: { scope?: string } = {}): Balance[] {
    const now = this.#now()
    if (now < this.#since) void this.#recall(now)
    const current = [windowOf('day', now), windowOf('month', now), 'total']
    const scopes = scope === undefined ? [...this.#cells.keys()].sort() : [scope]
    return scopes.flatMap((id) => {
      const cells = this.#cells.get(id)
      return current.flatMap((window) => {
        const cell = cells?.get(window)
        return cell ? [{ scope: id, window, limit: cell.limit, posted: cell.posted, pending: cell.pending }] : []
      })
    })
  }

  affordable(scopes: readonly Scope[], time: number): bigint | undefined {
    return this.#purse(scopes, time).left()
  }

  standings(scopes: readonly Scope[], time: number): BudgetStanding[] {
    return this.#purse(scopes, time).standings()
  }

  price(version: string): Price | undefined {
    const json = this.#prices.get(version)
    return json === undefined ? undefined : parsePrice(version, json)
  }

  /** Whether the request, or a part of it, has a hold whose end is not on disk yet. */
  owes(requestId: string): boolean {
    return this.#live.has(requestId) || this.#parts.has(requestId)
  }

  hurry(): void {
    this.#writer.wake()
  }

  touch(hold: Hold, first: boolean, urgent: boolean): void {
    const { draft } = this.#writer
    if (first) {
      draft.touched.push(hold)
      draft.count()
    }
    if (urgent) this.#writer.wake()
    else this.#writer.wakeLater()
  }

  detach(hold: Hold): Promise<void> {
    const { draft } = this.#writer
    draft.detached.push(hold)
    draft.count()
    this.#writer.wake()
    return draft.durable
  }

  end(hold: Hold, amount: bigint): Promise<void> {
    const { draft } = this.#writer
    hold.purse.post(hold.amount, amount)
    draft.ended.push(hold)
    draft.count()
    this.#writer.wake()
    return draft.durable
  }

  /** Adds the changes of all balances to a batch, so that the balances on disk are those after it. */
  balance(batch: Batch): void {
    batch.balanced = true
    for (const cell of this.#moved) cell.write(batch)
    this.#moved.length = 0
  }

  /** Removes holds from memory. The writer calls it when their ends are on disk. */
  forget(ended: readonly Hold[]): void {
    for (const { requestId, part } of ended) {
      this.#live.delete(nameOf(requestId, part))
      if (part === '') continue
      const left = this.#parts.get(requestId)! - 1
      if (left > 0) this.#parts.set(requestId, left)
      else this.#parts.delete(requestId)
    }
  }

  #purse(scopes: readonly Scope[], time: number): Purse {
    const known = this.#purses.get(scopes)
    if (known && time >= known.day && time < known.day + day && known.day >= this.#since) return known
    if (time < this.#since) {
      void this.#recall(time)
      throw unavailable(`the clock went back to ${new Date(time).toISOString()}: what was spent then is being read`)
    }
    this.#since = Math.max(this.#since, horizon(time))
    const limited: Limited[] = []
    const cells = new Set<Cell>()
    const periods: Record<string, Period> = {}
    for (const scope of scopes) {
      const { id, budget } = scope
      const per = budget?.per ?? 'total'
      const [first, ...rest] = windowsOf(per, time).map((window) => this.#cell(id, window))
      for (const cell of [first!, ...rest]) cells.add(cell)
      periods[id] = per
      // Only a budget in total limits the window `total`. A limit of a budget that was removed from the configuration
      // must not show any longer.
      if (!budget) first!.limit = undefined
      for (const cell of rest) cell.limit = undefined
      if (budget) limited.push({ scope, budget, cell: first! })
    }
    const tags = tagsOf(scopes)
    const texts = { scopes: JSON.stringify(periods), tags: tags ? JSON.stringify(tags) : null }
    const purse = new Purse(texts, Math.floor(time / day) * day, [...cells], limited, this.#moved)
    this.#purses.set(scopes, purse)
    return purse
  }

  /** Takes over a hold that was detached before this start. The balances include it already. */
  #resume(row: Row): void {
    const text = (name: string): string => row[name] as string
    const count = (name: string): number => Number(row[name])
    const [scopes, time] = [text('scopes'), count('ts_ms')]
    const cells = Object.entries(JSON.parse(scopes) as Record<string, Period>).flatMap(([id, per]) =>
      windowsOf(per, time).map((window) => this.#cell(id, window))
    )
    const [requestId, part] = [text('request_id'), text('part')]
    const [channel, tags] = [row['channel'] as string | null, row['tags'] as string | null]
    const cost = row['cost_price'] === null ? undefined : this.price(text('cost_price'))
    const request: ReserveRequest = {
      requestId,
      part,
      scopes: [],
      amount: row['amount'] as bigint,
      model: text('model'),
      price: this.price(text('price_version'))!,
      costs: cost && new Map([[channel ?? '', cost]]),
      estimate: { input: count('input_units'), maxOutput: count('max_out') },
      time
    }
    const delivered = Math.min(count('delivered_units'), count('max_out'))
    const pieces = parsePieces(row['pieces'] as string | null)
    const recovered =
      delivered > 0 ? { ...noUsage, input: count('input_units'), ...pieces, output: delivered } : undefined
    const stored = {
      rowId: count('id'),
      channel,
      lease: count('lease_until'),
      recovered
    }
    const purse = new Purse({ scopes, tags }, time, cells, [], this.#moved)
    this.#follow(nameOf(requestId, part), new Hold(request, purse, stored, this))
  }

  #follow(name: string, hold: Hold): void {
    this.#live.set(name, hold)
    if (hold.part !== '') this.#parts.set(hold.requestId, (this.#parts.get(hold.requestId) ?? 0) + 1)
  }

  #cell(scope: string, window: string): Cell {
    const known = this.#cells.get(scope)?.get(window)
    if (known) return known
    const cell = new Cell(scope, window)
    this.#keep(cell)
    const windows = this.#cells.get(scope)!
    const oldest = windowOf('month', this.#since)
    for (const [name, other] of windows) if (name < oldest && other.settled && windows.delete(name)) this.#forgotten++
    return cell
  }

  /**
   * Reads the balances of windows from a time on that were removed from memory. Requests that need them are refused
   * until then.
   */
  async #recall(time: number): Promise<void> {
    if (this.#recalling) return
    this.#recalling = true
    try {
      const forgotten = this.#forgotten
      const since = horizon(time)
      // Cells in memory keep changing during the read, and are kept. A cell that is not in memory has no holds, so the
      // database has its current balance.
      if (!(await this.#writer.flushed())) return
      const { rows } = await this.#reader.ask({ kind: 'balances', from: windowOf('month', since) })
      if (this.#forgotten !== forgotten) return
      this.#load(rows)
      this.#since = since
      // A purse may hold a cell that was removed from memory, and in whose place another one was loaded.
      this.#purses = new WeakMap()
      this.#troubles.over('history')
    } catch (error) {
      // The next request in such a window tries again.
      this.#troubles.begin('history', String(error))
    } finally {
      this.#recalling = false
    }
  }

  #load(rows: readonly Row[]): void {
    for (const row of rows) {
      const [scope, window, limit] = [row['scope'] as string, row['window'] as string, row['limit'] as bigint | null]
      if (!this.#cells.get(scope)?.has(window))
        this.#keep(new Cell(scope, window, limit ?? undefined, row['posted'] as bigint, row['pending'] as bigint))
    }
  }

  #keep(cell: Cell): void {
    let windows = this.#cells.get(cell.scope)
    if (!windows) this.#cells.set(cell.scope, (windows = new Map()))
    windows.set(cell.window, cell)
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

function nameOf(requestId: string, part: string): string {
  return part === '' ? requestId : `${requestId} ${part}`
}
