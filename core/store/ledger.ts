// The interface of the ledger: money is reserved before an exchange and settled after it, exactly once. Other folders
// reach money only through it.
import type { Budget, Scope } from '../catalogue/caller.ts'
import type { Level } from '../errors.ts'
import type { Nano } from '../money/money.ts'
import type { Price } from '../money/price.ts'
import type { Estimate } from '../money/settlement.ts'
import type { Usage } from '../money/usage.ts'
import type { Awaitable } from '../awaitable.ts'

/** Where a charge's usage came from. `recovered` is written at a restart, for an exchange that a crash cut off. */
export type UsageSource = 'upstream' | 'measured' | 'partial' | 'estimated' | 'recovered' | 'manual'

/** The amount that an exchange asks to hold before it is dispatched, and what recovery needs to end that hold. */
export interface ReserveRequest {
  requestId: string
  /**
   * The part of the exchange, where one is charged in parts: a realtime session has a part for each turn. Default: the
   * whole exchange.
   */
  part?: string | undefined
  /** Outermost first. When a budget cannot carry the amount, the error names its scope. */
  scopes: readonly Scope[]
  /** The most that the exchange may cost at `price`. */
  amount: Nano
  model: string
  price: Price
  /**
   * What the upstreams charge the operator, by the name of the channel. What a channel costs that is not in it is not
   * known.
   */
  costs?: ReadonlyMap<string, Price> | undefined
  /** What recovery charges an exchange that a crash interrupted. */
  estimate: Estimate
  /** When the request arrived, in Unix milliseconds. It decides the windows, also for the later settlement. */
  time: number
  /** For the request record that recovery writes for the exchange. Default: `unknown`. */
  endpoint?: string | undefined
  clientProtocol?: string | undefined
  streamed?: boolean | undefined
}

/** By what an exchange is charged: the model that it is sent to, and the prices of that model. */
export type Sale = Pick<ReserveRequest, 'model' | 'price' | 'costs'>

/** What one attempt costs the operator; a journal row besides the charge to the tenant. */
export interface AttemptCost {
  /** Counts from 1. 0: the one that was under way when its process was gone. */
  attempt: number
  channel: string
  usage: Usage
  amount: Nano
  source: UsageSource
  /** The version of what the channel charges, for holds that outlive their start: those forget what others charge. */
  costPrice?: string | undefined
  /** The model that was asked, and the version of its price, where they are not those that the hold ends with. */
  model?: string | undefined
  price?: string | undefined
}

/**
 * The end of a reservation with a charge. The amount may be more than was reserved: the true amount is always recorded.
 */
export interface Settlement {
  usage: Usage
  amount: Nano
  source: UsageSource
  channel: string
  costs?: readonly AttemptCost[]
}

/** What is known of an exchange that an upstream was asked for, whatever became of its process. */
export interface Sent {
  /** Who was asked last. */
  readonly channel: string
  /** What any exchange is charged whose process is gone: what it brought, and what of the answer was delivered. */
  readonly usage: Usage
  /** Whether anything of the answer was delivered. */
  readonly delivered: boolean
}

/**
 * An open hold. The first call of `settle` or `void` ends it; a second one throws, as it would be a double charge. An
 * end that cannot be written (a negative amount, one that no balance can carry, two costs for one attempt) throws a
 * RangeError or Error; the hold ends all the same, and everything is given back.
 */
export interface Reservation {
  readonly requestId: string
  readonly amount: Nano
  /** The price of its settlement: that of the model that was asked last. A reload does not change it. */
  readonly price: Price
  /** Whether it was detached and has not ended. */
  readonly detached?: boolean
  /** For whoever ends the hold without its exchange: how far that came. Undefined when no upstream was asked. */
  readonly sent?: Sent | undefined
  /**
   * Resolves when the hold, or its end, is on disk. The client's first byte waits for it, the dispatch does not.
   * Reading this property sends the hold to the disk at once; otherwise it is written with others, within some
   * milliseconds. Rejects with `billing_unavailable` when the disk has failed for some seconds; the hold stays open and
   * must still be ended.
   */
  readonly durable: Promise<void>
  /**
   * Call it before an upstream is asked. From then on the upstream may bill, so recovery charges an estimate instead of
   * voiding. `sale`: of the model that the channel is asked for, where it is another one than before. It must cost no
   * more than the reservation holds.
   */
  dispatched(channel: string, sale?: Sale): void
  /**
   * Records the output units delivered so far, for recovery. They are kept in memory and written with the next batch;
   * the first of a detached hold are written at once.
   */
  delivered(units: number): void
  /**
   * Lets the hold outlive its exchange and the process: the code that continues the work finds it by {@link
   * Ledger.detached}. Resolves and rejects as `durable` does, and is in one batch with everything else queued in the
   * same tick of the event loop. `until`, in Unix milliseconds, is when its owner will surely have ended it: a start
   * after that ends it as one that nobody goes on with, unless there is open work of its request.
   */
  detach(until: number): Promise<void>
  /**
   * Posts the charge, in memory at once; resolves when it is on disk. Rejects with `billing_unavailable` when the disk
   * has failed for some seconds; the charge stands, and is written as soon as the disk allows.
   */
  settle(settlement: Settlement): Promise<void>
  /** Ends the hold without a charge. Resolves and rejects as `settle` does. */
  void(costs?: readonly AttemptCost[]): Promise<void>
}

/** The money of one scope in one window. Amounts are in nano-dollars. */
export interface Balance {
  scope: string
  /** `2026-11-21`, `2026-11` or `total`. */
  window: string
  limit: Nano | undefined
  posted: Nano
  pending: Nano
}

/**
 * A budget that applies to a caller, and what of it is left. Plain JSON; amounts are nano-dollars as decimal strings.
 */
export interface BudgetStanding {
  readonly by: 'budget'
  readonly level: Level
  /** As balances name it: `project:acme/web`. */
  readonly scope: string
  readonly per: string
  readonly limit_nano: string
  readonly posted_nano: string
  readonly pending_nano: string
  readonly left_nano: string
  /** RFC 3339: when its window ends, or the next hour of a rolling budget comes free. Null for one that never does. */
  readonly resets_at: string | null
}

/** A threshold of a budget that was reached. Amounts are in nano-dollars. */
export interface BudgetReached {
  readonly scope: string
  readonly level: Scope['kind']
  readonly per: Budget['per']
  /** `2026-11-21`, `2026-W47`, `2026-11`, `total`; of a rolling budget its days: `30d`. */
  readonly window: string
  /** Percent. */
  readonly threshold: number
  readonly limit: Nano
  readonly posted: Nano
}

/** Who is told of thresholds, and remembers them over a restart. */
export interface BudgetWatcher {
  /** The highest threshold that was told of a budget in a window; 0 for none. */
  told(budget: Pick<BudgetReached, 'scope' | 'per' | 'window'>): number
  /** The budgets that a scope has by now, for what goes on from an earlier start; undefined when it is gone. */
  scope(id: string): Scope | undefined
  /** Called after the charge, in the same turn of the loop. Returns whether it will not be forgotten. */
  reached(reached: BudgetReached): boolean
}

/**
 * The ledger. There is one per process. Admission is decided in memory at once; the changes are saved in group commits.
 */
export interface Ledger {
  /**
   * Holds `amount` in all scopes or in none. In a process that has handed the store over, the next process decides, and
   * a promise is returned.
   * @throws GatewayError `quota_<scope>_exceeded` when a budget cannot carry it (its `reason` says what is left), and
   * `billing_unavailable` when the store cannot take it
   */
  reserve(request: ReserveRequest): Awaitable<Reservation>
  /**
   * What {@link Ledger.reserve} would say, for a request that is only explained. Nothing is held, and the reservation
   * does nothing.
   */
  look(request: ReserveRequest): Awaitable<Reservation>
  /**
   * Finds a hold that was detached, in this process or an earlier one, and has not ended. Nobody else can end it before
   * the current tick of the event loop is over, so of several callers that see the work end, only one settles.
   */
  detached(requestId: string, part?: string): Reservation | undefined
  /** The scopes that have balances, in no order. */
  scopes(): Awaitable<readonly string[]>
  /** The balances of the current windows, sorted by scope. */
  balances(filter?: { scope?: string }): Awaitable<Balance[]>
  /** Tells a watcher of the thresholds of budgets from now on. */
  watch(watcher: BudgetWatcher): void
  /** Finds a price by its version, including prices that are no longer in the configuration. */
  price(version: string): Price | undefined
  /** How much is left in the tightest budget of these scopes at this time; undefined when none has a budget. */
  affordable(scopes: readonly Scope[], time: number): Awaitable<Nano | undefined>
  /** All budgets of these scopes as they stand at this time, the outermost first. */
  standings(scopes: readonly Scope[], time: number): Awaitable<readonly BudgetStanding[]>
}
