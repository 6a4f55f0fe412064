// A purse: the balances that each request of one caller changes, and the budgets that limit them.
import type { Budget, Scope } from '../../../catalogue/caller.ts'
import { GatewayError } from '../../../errors.ts'
import { formatDollars } from '../../../money/money.ts'
import { maxNano, mostHeld, smaller } from './cell.ts'
import type { Cell } from './cell.ts'
import type { BudgetStanding } from '../../ledger.ts'
import { HourCell } from './hours.ts'
import type { RollingSum } from './hours.ts'
import type { Watch } from './thresholds.ts'
import { endOf, rollingDays } from '../../window.ts'
import type { Span } from '../../window.ts'

/** A budget, and what counts against it. */
export interface Limited {
  scope: Scope
  budget: Budget
  /** The balance of its calendar window, or the sum of its hours. */
  balance: Cell | RollingSum
  /** Of a rolling budget: the cell that says its limit to the next start. */
  stored?: Cell | undefined
  /** The thresholds that are told; undefined when there are none. */
  watch?: Watch | undefined
}

/** Most purses have nothing of rolling budgets, and no thresholds: they share this. */
const none: readonly never[] = []
const unwatched = (): readonly never[] => none

function watchesOf(budgets: readonly Limited[]): () => readonly Watch[] {
  const own = budgets.flatMap(({ watch }) => watch ?? [])
  return own.length > 0 ? () => own : unwatched
}

/** The balances and budgets of one caller. One is made per caller and UTC day, or hour with rolling budgets. */
export class Purse {
  /** The scopes with their spans as JSON, as in the journal. */
  readonly scopes: string
  /** The tags of the caller as JSON, as in the journal; null when there are none. */
  readonly tags: string | null
  /** The time that the windows are of, in Unix milliseconds. `until` is not included. */
  readonly from: number
  readonly until: number
  readonly #cells: readonly Cell[]
  readonly #budgets: readonly Limited[]
  /** What it has of rolling budgets, which may be dropped. */
  readonly #rolling: readonly { readonly dropped: boolean }[]
  readonly #watches: () => readonly Watch[]
  readonly #moved: Cell[]

  /**
   * `moved` collects the cells whose balances are to be written. `watches` are the thresholds that a charge may reach;
   * those of the budgets when it is left out.
   */
  constructor(
    { scopes, tags }: Pick<Purse, 'scopes' | 'tags'>,
    { from, until }: { from: number; until: number },
    cells: readonly Cell[],
    budgets: readonly Limited[],
    moved: Cell[],
    watches?: () => readonly Watch[]
  ) {
    this.scopes = scopes
    this.tags = tags
    this.from = from
    this.until = until
    this.#cells = cells
    this.#budgets = budgets
    const hours = cells.filter((cell) => cell instanceof HourCell)
    const sums = budgets.flatMap(({ balance }) => ('days' in balance ? [balance] : []))
    this.#rolling = hours.length + sums.length > 0 ? [...hours, ...sums] : none
    this.#watches = watches ?? watchesOf(budgets)
    this.#moved = moved
  }

  /** Whether it is of a time. */
  isOf(time: number): boolean {
    return time >= this.from && time < this.until && !this.#rolling.some(({ dropped }) => dropped)
  }

  /**
   * Holds an amount in every balance, or in none.
   * @throws GatewayError `quota_<scope>_exceeded`, naming the outermost scope with a budget that cannot carry it, or
   * `invalid_request` when the amount is more than a balance can have
   */
  hold(amount: bigint): void {
    this.check(amount)
    for (const cell of this.#cells) cell.hold(amount, this.#moved)
    let limited: Scope | undefined
    for (const { scope, budget, balance, stored } of this.#budgets) {
      stored?.declare(budget.limit, this.#moved)
      if (amount === 0n) continue
      balance.limitTo(budget.limit, scope !== limited)
      if (stored) limited = scope
    }
  }

  /**
   * Whether every balance can carry an amount. Holds nothing, throws as {@link Purse.hold} does, and tells the
   * thresholds that are reached before it refuses.
   */
  check(amount: bigint): void {
    if (amount > 0n)
      for (const one of this.#budgets)
        if (lacks(one, amount)) {
          // The thresholds of a budget that was lowered may be reached, and no charge follows that would tell of them.
          this.tell()
          throw this.#exceeded(one.scope, amount)
        }
    if (!this.#within(mostHeld - amount))
      throw new GatewayError(
        'invalid_request',
        `This request may cost ${formatDollars(amount)} USD, more than can be accounted for: ask for less output.`
      )
  }

  /** Whether the balances stay within what a column can store when the charge `amount` replaces the hold `held`. */
  fits(amount: bigint, held: bigint): boolean {
    return this.#within(maxNano - amount + held)
  }

  /** Ends a hold of `held` with a charge of `amount`. */
  post(held: bigint, amount: bigint): void {
    const change = amount - held
    for (const cell of this.#cells) cell.post(amount, change, this.#moved)
    this.tell()
  }

  /** Counts a hold of an earlier start, whose amount the balances include. */
  resume(): void {
    for (const cell of this.#cells) cell.hold(0n, this.#moved)
  }

  /** How much is left in the tightest budget, at least 0; undefined when there is no budget. */
  left(): bigint | undefined {
    let left: bigint | undefined
    for (const { budget, balance } of this.#budgets) {
      const rest = budget.limit - balance.used
      left = smaller(left ?? rest, rest)
    }
    return left !== undefined && left < 0n ? 0n : left
  }

  /** All budgets, the outermost first. */
  standings(): BudgetStanding[] {
    return this.#budgets.map(({ scope, budget: { limit, per }, balance }) => {
      const { posted, pending, used } = balance
      const end = 'days' in balance ? balance.freeAt(1n) : endOf(per as Span, this.from)
      return {
        by: 'budget',
        level: scope.kind,
        scope: scope.id,
        per,
        limit_nano: String(limit),
        posted_nano: String(posted),
        pending_nano: String(pending),
        left_nano: String(limit > used ? limit - used : 0n),
        resets_at: end === undefined ? null : new Date(end).toISOString()
      }
    })
  }

  /** The refusal by the budget of a scope that is the last to have enough. */
  #exceeded(scope: Scope, amount: bigint): GatewayError {
    const lacking = this.#budgets
      .filter((one) => one.scope === scope && lacks(one, amount))
      .map((one) => ({ ...one, freeAt: this.#freeAt(one, amount) }))
    return exceeded(
      lacking.reduce((a, b) => ((b.freeAt ?? Infinity) > (a.freeAt ?? Infinity) ? b : a)),
      amount
    )
  }

  /** When a budget has an amount again if nothing more is charged, in Unix milliseconds; undefined for never. */
  #freeAt({ budget: { limit, per }, balance }: Limited, amount: bigint): number | undefined {
    if (amount > limit) return undefined
    return 'days' in balance ? balance.freeAt(balance.used + amount - limit) : endOf(per as Span, this.from)
  }

  /** Tells the thresholds that were reached and not told yet. */
  protected tell(): void {
    for (const watch of this.#watches()) watch.check()
  }

  #within(most: bigint): boolean {
    for (const cell of this.#cells) if (cell.used > most) return false
    return true
  }
}

function lacks({ budget, balance }: Limited, amount: bigint): boolean {
  return balance.used + amount > budget.limit
}

/** How a budget is named in messages, behind its amount. */
function windowWords(per: Budget['per']): string {
  const days = rollingDays(per)
  if (days !== undefined) return days === 1 ? 'in 24 hours' : `in ${days} days`
  return per === 'total' ? 'in total' : `per ${per}`
}

function exceeded(
  { scope: { kind, id }, budget: { limit, per }, balance, freeAt }: Limited & { freeAt: number | undefined },
  amount: bigint
): GatewayError {
  const { posted, used, pending } = balance
  const usd = (nano: bigint): string => `${formatDollars(nano)} USD`
  const budget = `the ${kind} budget of ${usd(limit)} ${windowWords(per)}`
  const left = limit - used
  const message =
    posted >= limit
      ? `${budget} is used up`
      : left <= 0n
        ? `${budget} is used up, counting ${usd(pending)} held by requests that are still running`
        : `this request may cost up to ${usd(amount)}, and ${usd(left)} of ${budget} is left`
  const free = freeAt === undefined ? '' : ` Enough of it is free again at ${shownTime(freeAt)}.`
  return new GatewayError(`quota_${kind}_exceeded`, `${message[0]!.toUpperCase()}${message.slice(1)}.${free}`, {
    reason: {
      by: 'budget',
      level: kind,
      scope: id,
      per,
      limit_nano: String(limit),
      asked_nano: String(amount),
      posted_nano: String(posted),
      pending_nano: String(pending),
      left_nano: String(left > 0n ? left : 0n),
      free_at: freeAt === undefined ? null : new Date(freeAt).toISOString()
    }
  })
}

/** Windows end at full hours: `2026-12-01T00:00Z`. */
function shownTime(time: number): string {
  return `${new Date(time).toISOString().slice(0, 16)}Z`
}
