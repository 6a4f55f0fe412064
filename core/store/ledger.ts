// The ledger: reserve before, settle after, exactly once. The interface; money never leaves this folder except through
// it.
import type { Scope } from '../catalogue/caller.ts'
import type { Nano } from '../money/money.ts'
import type { Price } from '../money/price.ts'
import type { Usage } from '../money/usage.ts'

/** Where a charge's usage came from. `recovered`: written at restart for an exchange that a crash cut off. */
export type UsageSource = 'upstream' | 'measured' | 'partial' | 'estimated' | 'recovered' | 'manual'

/** What an exchange asks to hold before it is dispatched. */
export interface ReserveRequest {
  requestId: string
  /**
   * Which part of the exchange this is, where one is charged in parts (a realtime session per response). Default: all
   * of it.
   */
  part?: string | undefined
  /** Outermost first; a budget that cannot carry the amount refuses, and the error names that scope. */
  scopes: readonly Scope[]
  /** Worst case at `price`. */
  amount: Nano
  model: string
  price: Price
  /** For recovery: what a crash in mid-answer is charged, together with the delivered units. */
  estimate: { input: number; maxOutput: number }
  /** Unix milliseconds of arrival: decides the windows, also of the later settlement. */
  time: number
  /** For the request record that recovery writes in place of the exchange; `unknown` there when absent. */
  endpoint?: string | undefined
  clientProtocol?: string | undefined
  streamed?: boolean | undefined
}

/** One attempt's cost to us, a row beside the customer's charge. */
export interface AttemptCost {
  attempt: number
  channel: string
  usage: Usage
  amount: Nano
  source: UsageSource
}

/** The end of a reservation with a charge. The amount may exceed the reservation: the truth is always recorded. */
export interface Settlement {
  usage: Usage
  amount: Nano
  source: UsageSource
  channel: string
  costs?: readonly AttemptCost[]
}

/**
 * An open hold. The first call of `settle` or `void` ends it; a second one throws, as it would be a double charge. What
 * can not be written (a negative amount, one that no balance can carry, two costs for an attempt) throws a RangeError
 * or Error, and the hold ends all the same: everything is given back.
 */
export interface Reservation {
  readonly requestId: string
  readonly amount: Nano
  /** That it was made at, and is to be settled at: no reload changes it. */
  readonly price: Price
  /**
   * Of a hold that was detached before this start: what a client was shown until then, as any other hold is ended with
   * after a crash. Undefined when that was nothing, and in the process that made it.
   */
  readonly recovered?: Readonly<Usage> | undefined
  /**
   * Resolves when the hold is on disk, or its end is; the client's first byte waits for it, the dispatch does not.
   * Asking for it sends the hold to the disk at once; otherwise it goes with others, within some milliseconds. Rejects
   * with `billing_unavailable` when the disk has failed for some seconds; the hold stays and is to be ended as any
   * other.
   */
  readonly durable: Promise<void>
  /** An upstream may bill from here on: recovery charges an estimate instead of voiding. */
  dispatched(channel: string): void
  /** Output units delivered so far, for recovery; kept in memory and written with the next batch. */
  delivered(units: number): void
  /**
   * Lets the hold outlive its exchange, and the process: whoever goes on with the work finds it by {@link
   * Ledger.detached}. Resolves and rejects as `durable` does, and is in one batch with whatever else is queued in the
   * same turn of the loop. `until`, Unix milliseconds: when its owner will surely have ended it. A start after that
   * gives back what is still held.
   */
  detach(until: number): Promise<void>
  /**
   * Posts the charge, at once in memory; resolves when it is on disk. Rejects with `billing_unavailable` when the disk
   * has failed for some seconds: the charge stands and is written as soon as the disk allows.
   */
  settle(settlement: Settlement): Promise<void>
  /** Gives everything back; resolves and rejects as `settle` does. */
  void(costs?: readonly AttemptCost[]): Promise<void>
}

/** A scope's money in one window. Amounts are nano-dollars. */
export interface Balance {
  scope: string
  /** `2026-11-21`, `2026-11` or `total`. */
  window: string
  limit: Nano | undefined
  posted: Nano
  pending: Nano
}

/** The book. One per process; admission is decided in memory at once, durability follows in group commits. */
export interface Ledger {
  /**
   * Holds `amount` in all scopes or in none.
   * @throws GatewayError `quota_<scope>_exceeded` when a budget cannot carry it, `billing_unavailable` when the store
   * cannot take it
   */
  reserve(request: ReserveRequest): Reservation
  /**
   * A hold that was detached, in this process or before its start, and has not ended; undefined otherwise. Between
   * asking for it and ending it in the same turn of the loop nobody else can end it, so that of several who see an end
   * one settles.
   */
  detached(requestId: string, part?: string): Reservation | undefined
  /** Balances in scope order, current windows only. */
  balances(filter?: { scope?: string }): Balance[]
  /** A price that was reserved at, also one that no configuration has any more. */
  price(version: string): Price | undefined
  /** What is left of the tightest budget of these scopes at this time; undefined when none has a budget. */
  affordable(scopes: readonly Scope[], time: number): Nano | undefined
}
