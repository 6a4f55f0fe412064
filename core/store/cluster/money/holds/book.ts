// The ledger of a node: the holds that it has made and goes on with. Slices admit them in memory, or the database does.
import type { Scope } from '../../../../catalogue/caller.ts'
import type { Price } from '../../../../money/price.ts'
import { Roster } from '../../../../watchdog/roster.ts'
import { Hold } from '../../../embedded/balance/hold.ts'
import type { HoldKeeper } from '../../../embedded/balance/hold.ts'
import { LookedAt } from '../../../embedded/balance/looked-at.ts'
import { HoldTable } from '../../../embedded/book/hold-table.ts'
import { maxNano, mostHeld } from '../../../embedded/balance/cell.ts'
import { emptyBatch } from '../../../embedded/rows/batch.ts'
import { unavailable } from '../../../embedded/writer/unavailable.ts'
import type {
  Balance,
  BudgetStanding,
  BudgetWatcher,
  Ledger,
  Reservation,
  ReserveRequest,
  Sale
} from '../../../ledger.ts'
import type { Spans } from '../../../window.ts'
import type { Awaitable } from '../../../../awaitable.ts'
import type { Mirror } from '../balances/mirror.ts'
import type { Charge, End } from '../sending/operations.ts'
import { placesIn } from '../balances/plan.ts'
import type { Place, Plans } from '../balances/plan.ts'
import type { Sender } from '../sending/sender.ts'
import type { Slices, Taken } from '../slices/slices.ts'
import type { Views } from '../balances/views.ts'
import type { Alarms } from './alarms.ts'
import { Decisions, reservedAlready } from './decisions.ts'
import type { Question } from './decisions.ts'
import { EarlyHold } from './early.ts'
import { nameOf } from './live.ts'
import type { Live } from './live.ts'
import type { Prices } from './prices.ts'
import { KnownPurses } from './purses.ts'
import { Turn } from './turn.ts'
import { endUnwritten } from './unwritten.ts'
import type { Told } from './unwritten.ts'

/** Milliseconds after which progress is written that nobody waits for. */
const company = 250

const none: Taken = []

/** What a book is made of. */
export interface BookParts extends Told {
  readonly mirror: Mirror
  readonly slices: Slices
  readonly plans: Plans
  readonly prices: Prices
  readonly views: Views
  readonly alarms: Alarms
  /** Takes the end of a hold that others have ended; resolves when it is in the log of the node. */
  late(end: Charge): Promise<void>
  /** How long a request waits for the slices of others, in milliseconds. */
  readonly patience: number
  /** Why no money may be decided on at present; undefined when nothing is in the way. */
  refuses(): string | undefined
}

/** The ledger of one node. */
export class Book implements Ledger, HoldKeeper {
  readonly left = false
  readonly #parts: BookParts
  #sender!: Sender
  readonly #live = new HoldTable<Live>()
  /** Those that this node had before another node did, and has again as others. */
  readonly #replaced = new WeakMap<Hold, Live>()
  /** What was asked for and is not answered. */
  readonly #asked = new HoldTable<Question>()
  #later: NodeJS.Timeout | undefined
  readonly #decisions: Decisions
  readonly #purses: KnownPurses
  /** Those that were admitted in memory, and of which the database has not said that it has them. */
  readonly #early = new Roster<EarlyHold>()
  /** When the latest of them will be in the database. */
  #latest: Promise<void> | undefined
  /** What is ended and detached in the present turn of the event loop. */
  readonly turn = new Turn()

  constructor(parts: BookParts) {
    this.#parts = parts
    const { mirror, views, patience, slices } = parts
    this.#purses = new KnownPurses(mirror)
    this.#decisions = new Decisions({
      mirror,
      views,
      patience,
      keeper: this,
      asked: this.#asked,
      send: (admission) => {
        this.#sender.queue.decisions.push(admission)
        this.#sender.wake()
      },
      made: ({ plan }, hold) => this.#hold(hold, plan.places, () => plan.scopes, undefined),
      take: (question) => this.#take(question),
      takeAgain: ({ request, plan }, taken) => slices.takeAgain(plan.limits, request.amount, taken),
      putBack: (taken, amount) => slices.putBack(taken, amount),
      admit: (question, taken) => this.#admit(question, taken),
      checkOpen: () => this.#checkOpen()
    })
  }

  #hold(hold: Hold, places: readonly Place[], scopes: Live['scopes'], early: EarlyHold | undefined): void {
    const { requestId, part } = hold
    this.#live.add({ requestId, part, hold, places, scopes, early, written: !early, lost: false, tableNext: undefined })
  }

  /** Gives it the way to the database, before anything else is called. */
  begin(sender: Sender): void {
    this.#sender = sender
  }

  /** Others have given back slices of a budget, by the name of its balance. */
  returned(key: string): void {
    this.#decisions.returned(key)
  }

  /** The holds that have not ended. */
  get open(): readonly Hold[] {
    return [...this.#live].map(({ hold }) => hold)
  }

  reserve(request: ReserveRequest): Awaitable<Reservation> {
    const { requestId, part = '', amount, time, scopes } = request
    if (amount < 0n || !Number.isSafeInteger(time))
      throw new RangeError(
        `${requestId} asks to hold ${amount} nano-dollars at ${time}: amounts are not negative, and times are whole milliseconds`
      )
    if (this.#live.get(requestId, part) || this.#asked.get(requestId, part)) throw reservedAlready(requestId)
    this.#checkOpen()
    const plan = this.#parts.plans.of(scopes, time)
    const question: Question = { requestId, part, request, plan, tableNext: undefined }
    this.learn(request)
    this.#asked.add(question)
    const taken = this.#take(question)
    return this.#admit(question, taken) ?? this.#decisions.decide(question, taken)
  }

  #checkOpen(): void {
    const reason = this.#parts.refuses() ?? (this.#sender.full ? 'too much waits for the database' : undefined)
    if (reason !== undefined) throw unavailable(reason)
  }

  /** Takes what it can from the slices of this node. */
  #take({ request: { amount }, plan: { limits } }: Question): Taken {
    if (limits.length === 0 || amount === 0n) return none
    const now = performance.now()
    return this.#sender.sure(now) ? this.#parts.slices.take(limits, amount, now) : limits.map(() => undefined)
  }

  /**
   * Holds an amount in memory, where slices carry all of it and no other node can have taken this one for gone. The
   * database hears of it when somebody waits for that, or some milliseconds later: most have ended by then.
   */
  #admit({ request, plan }: Question, taken: Taken): Hold | undefined {
    if (taken.includes(undefined) || !this.#sender.sure(performance.now())) return undefined
    const purse = this.#purses.of(plan)
    // Whether the largest sums can be accounted for the database checks.
    if (!purse?.fits(request.amount, mostHeld - maxNano)) return undefined
    const { queue } = this.#sender
    const { gathering } = queue
    this.#latest = gathering.durable
    const hold = new Hold(request, purse, gathering, this)
    const early = new EarlyHold(hold, plan, taken, gathering, this.#parts.slices, this.#overEarly)
    this.#early.add(early)
    this.#hold(hold, plan.places, () => plan.scopes, early)
    queue.admissions.push(early)
    this.#sender.wakeSoon()
    return hold
  }

  /** The database has a hold that was admitted in memory, or it is lost. */
  readonly #overEarly = (early: EarlyHold, lost: boolean): void => {
    const { hold, taken } = early
    const { requestId, part } = hold
    this.#early.delete(early)
    const question = this.#asked.get(requestId, part)
    if (question) this.#asked.delete(question)
    if (lost) this.#parts.slices.putBack(taken, hold.amount)
    const live = this.#live.get(requestId, part)
    if (!live) return
    live.early = undefined
    live.written = !lost
    live.lost ||= lost
  }

  async look(request: ReserveRequest): Promise<Reservation> {
    await this.#written()
    const purse = await this.#parts.views.purse(this.#parts.plans.of(request.scopes, request.time))
    purse.check(request.amount)
    return new LookedAt(request)
  }

  detached(requestId: string, part = ''): Reservation | undefined {
    const live = this.#live.get(requestId, part)
    return live?.hold.detached && !live.lost ? live.hold : undefined
  }

  scopes(): Promise<readonly string[]> {
    return this.#parts.views.scopes()
  }

  async balances({ scope }: { scope?: string } = {}): Promise<Balance[]> {
    await this.#written()
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
    await this.#written()
    return (await this.#parts.views.purse(this.#parts.plans.of(scopes, time))).standings()
  }

  acknowledge({ durable }: Parameters<HoldKeeper['acknowledge']>[0]): Promise<void> {
    this.#sender.wake()
    return durable
  }

  /** What is read after it has everything that was admitted here before. */
  async #written(): Promise<void> {
    if (!this.#latest) return
    this.#sender.wake()
    await this.#latest.catch(ignore)
  }

  /** Resolves when the database has all holds that were made before, or never will: it may be away for long. */
  async decided(): Promise<void> {
    if (this.#early.size === 0) return
    await Promise.all([...this.#early].map((early) => new Promise<void>((resolve) => early.then(resolve, ignore))))
  }

  learn(sale: Sale): void {
    this.#sender.queue.prices.push(...this.#parts.prices.fresh(sale))
  }

  touch(hold: Hold, first: boolean, urgent: boolean): Promise<void> | undefined {
    if (urgent) return this.#touch(hold, undefined)
    const live = this.#of(hold)
    // Whoever has it now writes its progress.
    if (live?.lost) return undefined
    if (live?.early) live.early.then(() => this.touch(hold, first, urgent), ignore)
    else if (first) {
      this.#sender.queue.touch(hold, undefined, undefined)
      this.#later ??= setTimeout(() => {
        this.#later = undefined
        this.#sender.wake()
      }, company).unref()
    }
    return undefined
  }

  /** Others may have ended parts, too: what the record of a request says that others have ended, the journal tells. */
  charged(): undefined {}

  detach(hold: Hold, until: number): Promise<void> {
    return this.turn.add(hold.requestId, this.#touch(hold, until))
  }

  #touch(hold: Hold, until: number | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // Nobody may wait for it.
    promise.catch(ignore)
    const failed = (error: Error): void => reject(unavailable(error.message))
    const live = this.#of(hold)!
    const { early } = live
    const touch = (): void => {
      // Nothing is shown of a hold that the database never had, or that another node has ended.
      if (early ? early.lost : !live.written) return failed(new Error('its hold was not written in time'))
      if (live.lost) return failed(new Error('other nodes took this one for gone'))
      if (hold.ended) return resolve()
      this.#sender.queue.touch(hold, until, { done: resolve, failed })
      this.#sender.wake()
    }
    if (early) {
      early.then(touch, reject)
      this.#sender.wake()
    } else touch()
    return promise
  }

  end(hold: Hold, charged: bigint): Promise<void> {
    return this.turn.add(hold.requestId, this.#end(hold, charged))
  }

  #end(hold: Hold, charged: bigint): Promise<void> {
    const { requestId, part } = hold
    const live = this.#of(hold)!
    this.#live.delete(live)
    const rows = emptyBatch(0, 0)
    hold.writeEnd(rows, this.#sender.rowIds)
    const { places, scopes } = live
    const due = { requestId, part, places, charged, entries: rows.entries, scopes, time: hold.request.time }
    if (live.lost) return live.written ? this.#parts.late(due) : endUnwritten(hold, charged, this.#parts)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const end: End = {
      ...due,
      held: hold.amount,
      done: resolve,
      failed: (error) => reject(unavailable(error.message))
    }
    if (!live.early) this.queueEnd(end)
    else {
      const { early } = live
      early.endWith(end)
      early.then(() => {
        if (early.ended) return
        if (!early.lost) return this.queueEnd(end)
        endUnwritten(hold, charged, this.#parts).then(resolve, reject)
      }, reject)
      this.#sender.wake()
    }
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
    this.#hold(hold, placesIn(spans, hold.request.time), scopes, undefined)
  }

  /** Forgets a hold whose end is queued already. Returns the balances that it counts in. */
  release(requestId: string, part: string): { hold: Hold; places: readonly Place[] } | undefined {
    const live = this.#live.get(requestId, part)
    if (live) this.#live.delete(live)
    return live
  }

  /** A hold that this node has, open; undefined when it has none. */
  find(requestId: string, part: string): Hold | undefined {
    return this.#live.get(requestId, part)?.hold
  }

  #of(hold: Hold): Live | undefined {
    return this.#replaced.get(hold) ?? this.#live.get(hold.requestId, hold.part)
  }

  /** Another node has a hold, or had it meanwhile: what is known of it here is not true any more. */
  replace(requestId: string, part: string): void {
    const live = this.#live.get(requestId, part)
    if (!live || live.early) return
    live.lost = true
    this.#live.delete(live)
    this.#replaced.set(live.hold, live)
  }

  /** Tells whether a hold is open here, is being asked for, or its end was on its way when this was called. */
  known(): (hold: { readonly request_id: string; readonly part: string }) => boolean {
    const ending = new Set(this.#sender.ends.map(({ requestId, part }) => nameOf(requestId, part)))
    return ({ request_id: requestId, part }) =>
      this.#live.get(requestId, part)?.lost === false ||
      this.#asked.get(requestId, part) !== undefined ||
      ending.has(nameOf(requestId, part))
  }

  /** Other nodes have ended all holds but those of these names ({@link nameOf}). */
  loseAllBut(names: ReadonlySet<string>): void {
    for (const live of this.#live) live.lost ||= !names.has(nameOf(live.requestId, live.part))
  }

  /** Ends it: nothing may be called after it. */
  close(): void {
    clearTimeout(this.#later)
  }
}

function ignore(): void {}
