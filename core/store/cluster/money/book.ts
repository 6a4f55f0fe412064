// The ledger of a node: the holds that it has made and goes on with. Whether one is admitted the database decides.
import type { Scope } from '../../../catalogue/caller.ts'
import type { Price } from '../../../money/price.ts'
import type { Logger } from '../../../telling/log.ts'
import { Hold } from '../../embedded/balance/hold.ts'
import type { HoldKeeper } from '../../embedded/balance/hold.ts'
import { LookedAt } from '../../embedded/balance/looked-at.ts'
import { Purse } from '../../embedded/balance/purse.ts'
import type { Cell } from '../../embedded/balance/cell.ts'
import { emptyBatch } from '../../embedded/rows/batch.ts'
import { RowIds } from '../../embedded/rows/row-ids.ts'
import { unavailable } from '../../embedded/writer/writer.ts'
import type { Balance, BudgetStanding, BudgetWatcher, Ledger, Reservation, ReserveRequest, Sale } from '../../ledger.ts'
import type { Spans } from '../../window.ts'
import { DatabaseFault } from '../database/fault.ts'
import type { Alarms } from './alarms.ts'
import type { Mirror } from './mirror.ts'
import type { End, Refusal } from './operations.ts'
import { placesIn } from './plan.ts'
import type { Place, Plan, Plans } from './plan.ts'
import type { Prices } from './prices.ts'
import type { Sender } from './sender.ts'
import { purseOf } from './views.ts'
import type { Views } from './views.ts'

/** How often a request is asked for again that a rolling budget refused and had room for a moment later. */
const tries = 3
/** Milliseconds after which progress is written that nobody waits for. */
const company = 250

const durable = Promise.resolve()

/** A hold that has not ended, with what its end takes. */
interface Live {
  readonly hold: Hold
  readonly places: readonly Place[]
  readonly scopes: () => readonly Scope[]
  /** Whether another node has ended it, as this one was not heard of for its lease. */
  lost: boolean
}

/** What a book is made of. */
export interface BookParts {
  readonly mirror: Mirror
  readonly plans: Plans
  readonly prices: Prices
  readonly views: Views
  readonly alarms: Alarms
  readonly log: Logger
  /** Why no money may be decided on at present; undefined when nothing is in the way. */
  refuses(): string | undefined
}

/** The ledger of one node. */
export class Book implements Ledger, HoldKeeper {
  readonly left = false
  readonly #parts: BookParts
  #sender!: Sender
  readonly #live = new Map<string, Live>()
  /** What was asked for and is not answered. */
  readonly #asked = new Set<string>()
  readonly #rowIds = new RowIds(0)
  #later: NodeJS.Timeout | undefined

  constructor(parts: BookParts) {
    this.#parts = parts
  }

  /** Gives it the way to the database, before anything else is called. */
  begin(sender: Sender): void {
    this.#sender = sender
  }

  /** The holds that have not ended. */
  get open(): readonly Hold[] {
    return [...this.#live.values()].map(({ hold }) => hold)
  }

  async reserve(request: ReserveRequest): Promise<Reservation> {
    const { requestId, part = '', amount, time, scopes } = request
    const name = nameOf(requestId, part)
    if (amount < 0n || !Number.isSafeInteger(time))
      throw new RangeError(
        `${requestId} asks to hold ${amount} nano-dollars at ${time}: amounts are not negative, and times are whole milliseconds`
      )
    if (this.#live.has(name) || this.#asked.has(name)) throw reservedAlready(requestId)
    const reason = this.#parts.refuses() ?? (this.#sender.full ? 'too much waits for the database' : undefined)
    if (reason !== undefined) throw unavailable(reason)
    const plan = this.#parts.plans.of(scopes, time)
    this.learn(request)
    this.#asked.add(name)
    for (let i = 0; i < tries; i++) {
      const made = await this.#ask(request, plan, name)
      if (made) return made
    }
    this.#asked.delete(name)
    throw unavailable('the budgets change too fast to say which one is used up')
  }

  /** Asks the database for a hold. Undefined when a budget refused that has room by now. */
  #ask(request: ReserveRequest, plan: Plan, name: string): Promise<Reservation | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<Reservation | undefined>()
    const cells: Cell[] = []
    const purse = new Purse(plan.texts, plan, cells, [], [])
    const hold = new Hold(request, purse, { since: 0, durable }, this)
    let failed = false
    const over = (error: unknown): void => {
      this.#asked.delete(name)
      reject(error as Error)
    }
    this.#sender.queue.admissions.push({
      hold,
      plan,
      admitted: () => {
        this.#asked.delete(name)
        this.#live.set(name, { hold, places: plan.places, scopes: () => plan.scopes, lost: false })
        for (const { key } of plan.places) {
          const known = this.#parts.mirror.get(key)
          if (known) cells.push(known.cell)
        }
        // Its caller was told that it cannot be accounted for.
        if (failed) hold.void().catch(() => {})
        else resolve(hold)
      },
      refused: (refusal) => {
        if (failed) this.#asked.delete(name)
        else this.#check(plan, refusal, request).then(() => resolve(undefined), over)
      },
      failed: (error, dropped) => {
        if (dropped) this.#asked.delete(name)
        failed = true
        reject(refusedOr(error, request))
      }
    })
    this.#sender.wake()
    return promise
  }

  /** Throws what says which budget cannot carry an amount, unless it can by now. */
  async #check(plan: Plan, refusal: Refusal, { requestId, amount }: ReserveRequest): Promise<void> {
    if (refusal.taken) throw reservedAlready(requestId)
    const purse = purseOf(plan, refusal) ?? (await this.#parts.views.purse(plan))
    purse.check(amount)
  }

  async look(request: ReserveRequest): Promise<Reservation> {
    const purse = await this.#parts.views.purse(this.#parts.plans.of(request.scopes, request.time))
    purse.check(request.amount)
    return new LookedAt(request)
  }

  detached(requestId: string, part = ''): Reservation | undefined {
    const live = this.#live.get(nameOf(requestId, part))
    return live?.hold.detached && !live.lost ? live.hold : undefined
  }

  scopes(): Promise<readonly string[]> {
    return this.#parts.views.scopes()
  }

  balances({ scope }: { scope?: string } = {}): Promise<Balance[]> {
    return this.#parts.views.balances(scope)
  }

  watch(watcher: BudgetWatcher): void {
    this.#parts.alarms.watch(watcher)
  }

  price(version: string): Price | undefined {
    return this.#parts.prices.find(version)
  }

  affordable(scopes: readonly Scope[], time: number): Promise<bigint | undefined> | undefined {
    const plan = this.#parts.plans.of(scopes, time)
    return plan.limits.length === 0 ? undefined : this.#parts.views.purse(plan).then((purse) => purse.left())
  }

  async standings(scopes: readonly Scope[], time: number): Promise<readonly BudgetStanding[]> {
    return (await this.#parts.views.purse(this.#parts.plans.of(scopes, time))).standings()
  }

  hurry(): void {
    this.#sender.wake()
  }

  learn(sale: Sale): void {
    this.#sender.queue.prices.push(...this.#parts.prices.fresh(sale))
  }

  touch(hold: Hold, first: boolean, urgent: boolean): Promise<void> | undefined {
    if (urgent) return this.#touch(hold, undefined)
    if (first) {
      this.#sender.queue.touch(hold, undefined, undefined)
      this.#later ??= setTimeout(() => {
        this.#later = undefined
        this.#sender.wake()
      }, company).unref()
    }
    return undefined
  }

  detach(hold: Hold, until: number): Promise<void> {
    return this.#touch(hold, until)
  }

  #touch(hold: Hold, until: number | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // Nobody may wait for it.
    promise.catch(ignore)
    const failed = (error: Error): void => reject(unavailable(error.message))
    this.#sender.queue.touch(hold, until, { done: resolve, failed })
    this.#sender.wake()
    return promise
  }

  end(hold: Hold, charged: bigint): Promise<void> {
    const name = nameOf(hold.requestId, hold.part)
    const live = this.#live.get(name)!
    this.#live.delete(name)
    const rows = emptyBatch(0, 0)
    hold.writeEnd(rows, this.#rowIds)
    if (live.lost) {
      this.#tellLost(hold, charged)
      return durable
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    promise.catch(ignore)
    this.queueEnd({
      requestId: hold.requestId,
      part: hold.part,
      places: live.places,
      held: hold.amount,
      charged,
      entries: rows.entries,
      scopes: live.scopes,
      time: hold.request.time,
      done: resolve,
      failed: (error) => reject(unavailable(error.message))
    })
    return promise
  }

  /** Has an end written. */
  queueEnd(end: End): void {
    this.#sender.queue.ends.push(end)
    this.#sender.wake()
  }

  /** Goes on with a hold that the database has. `costs`: see {@link resumed}. */
  follow(hold: Hold): void {
    const spans = JSON.parse(hold.purse.scopes) as Record<string, Spans>
    const scopes = (): Scope[] => Object.keys(spans).flatMap((id) => this.#parts.alarms.watcher?.scope(id) ?? [])
    const places = placesIn(spans, hold.request.time)
    this.#live.set(nameOf(hold.requestId, hold.part), { hold, places, scopes, lost: false })
  }

  /** Forgets a hold whose end is queued already. Returns the balances that it counts in. */
  release(requestId: string, part: string): { hold: Hold; places: readonly Place[] } | undefined {
    const name = nameOf(requestId, part)
    const live = this.#live.get(name)
    this.#live.delete(name)
    return live
  }

  /** A hold that this node has, open; undefined when it has none. */
  find(requestId: string, part: string): Hold | undefined {
    return this.#live.get(nameOf(requestId, part))?.hold
  }

  /** Whether a hold is open here, is being asked for, or its end is on its way. */
  knows(requestId: string, part: string): boolean {
    const name = nameOf(requestId, part)
    return this.#live.has(name) || this.#asked.has(name) || this.#sender.ends(requestId, part)
  }

  /** The open holds, by {@link nameOf}. */
  get names(): readonly string[] {
    return [...this.#live.keys()]
  }

  /** Another node has ended this hold. */
  lose(name: string): void {
    const live = this.#live.get(name)
    if (live) live.lost = true
  }

  #tellLost({ requestId, part }: Hold, charged: bigint): void {
    this.#parts.log.error('another node has ended a request by estimate, as this one was not heard of for too long', {
      exchange: requestId,
      part,
      would_be_nano: String(charged)
    })
  }

  /** Ends it: nothing may be called after it. */
  close(): void {
    clearTimeout(this.#later)
  }
}

/** The name of a hold within a node. */
export function nameOf(requestId: string, part: string): string {
  return part === '' ? requestId : `${requestId} ${part}`
}

function reservedAlready(requestId: string): Error {
  return new Error(`${requestId} has a reservation already: it needs another id or part`)
}

/** Why a request cannot be held: the database cannot say at present, or refuses this very request. */
function refusedOr(error: Error, { requestId }: ReserveRequest): Error {
  return error instanceof DatabaseFault && error.ofContent
    ? new Error(`${requestId} cannot be held: ${error.message}`)
    : unavailable(error.message)
}

function ignore(): void {}
