// A purse: the balances that each request of one caller changes, and the budgets that limit them.
import type { Budget, Scope } from '../catalogue/caller.ts'
import { GatewayError } from '../errors.ts'
import { formatDollars } from '../money/money.ts'
import { maxNano, mostHeld, smaller } from './cell.ts'
import type { Cell } from './cell.ts'
import type { BudgetStanding } from './ledger.ts'
import { endOf } from './window.ts'

/** A budget, and the balance that it limits. */
export interface Limited {
  scope: Scope
  budget: Budget
  cell: Cell
}

/** The balances and budgets of one caller. One is made per caller and UTC day. */
export class Purse {
  /** The scopes with their periods as JSON, as in the journal. */
  readonly scopes: string
  /** The tags of the caller as JSON, as in the journal; null when there are none. */
  readonly tags: string | null
  /** The start of the day whose windows these are, in Unix milliseconds. */
  readonly day: number
  readonly #cells: readonly Cell[]
  readonly #budgets: readonly Limited[]
  readonly #moved: Cell[]

  /** `moved` collects the cells whose balances are to be written. */
  constructor(
    { scopes, tags }: Pick<Purse, 'scopes' | 'tags'>,
    day: number,
    cells: readonly Cell[],
    budgets: readonly Limited[],
    moved: Cell[]
  ) {
    this.scopes = scopes
    this.tags = tags
    this.day = day
    this.#cells = cells
    this.#budgets = budgets
    this.#moved = moved
  }

  /**
   * Holds an amount in every balance, or in none.
   * @throws GatewayError `quota_<scope>_exceeded`, naming the outermost budget that cannot carry it, or
   * `invalid_request` when the amount is more than a balance can have
   */
  hold(amount: bigint): void {
    this.check(amount)
    for (const cell of this.#cells) cell.hold(amount, this.#moved)
    if (amount > 0n) for (const { budget, cell } of this.#budgets) cell.limit = budget.limit
  }

  /** Whether every balance can carry an amount. Holds nothing, and throws as {@link Purse.hold} does. */
  check(amount: bigint): void {
    for (const { scope, budget, cell } of this.#budgets) {
      if (amount > 0n && cell.used + amount > budget.limit) throw exceeded(scope, budget, cell, amount, this.day)
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
  }

  /** How much is left in the tightest budget, at least 0; undefined when there is no budget. */
  left(): bigint | undefined {
    let left: bigint | undefined
    for (const { budget, cell } of this.#budgets) {
      const rest = budget.limit - cell.used
      left = left === undefined ? rest : smaller(left, rest)
    }
    return left !== undefined && left < 0n ? 0n : left
  }

  /** All budgets, the outermost first. */
  standings(): BudgetStanding[] {
    return this.#budgets.map(({ scope, budget: { limit, per }, cell: { posted, pending, used } }) => {
      const end = endOf(per, this.day)
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

  #within(most: bigint): boolean {
    for (const cell of this.#cells) if (cell.used > most) return false
    return true
  }
}

function exceeded(
  { kind, id }: Scope,
  { limit, per }: Budget,
  { posted, used, pending }: Cell,
  amount: bigint,
  day: number
): GatewayError {
  const usd = (nano: bigint): string => `${formatDollars(nano)} USD`
  const budget = `the ${kind} budget of ${usd(limit)} ${per === 'total' ? 'in total' : `per ${per}`}`
  const left = limit - used
  const message =
    posted >= limit
      ? `${budget} is used up`
      : left <= 0n
        ? `${budget} is used up, counting ${usd(pending)} held by requests that are still running`
        : `this request may cost up to ${usd(amount)}, and ${usd(left)} of ${budget} is left`
  const freeAt = amount > limit ? undefined : endOf(per, day)
  return new GatewayError(`quota_${kind}_exceeded`, `${message[0]!.toUpperCase()}${message.slice(1)}.`, {
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
