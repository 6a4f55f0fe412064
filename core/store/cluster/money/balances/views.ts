// Reads what the book says: balances, and what is left of budgets.
import { Cell } from '../../../embedded/balance/cell.ts'
import { hourOf, Hours } from '../../../embedded/balance/hours.ts'
import { Purse } from '../../../embedded/balance/purse.ts'
import type { Limited } from '../../../embedded/balance/purse.ts'
import { unavailable } from '../../../embedded/writer/unavailable.ts'
import type { Balance } from '../../../ledger.ts'
import { daysOf, windowOf } from '../../../window.ts'
import type { Lane } from '../../database/lane.ts'
import type { Hoursum, Plan } from './plan.ts'

interface HourRow {
  scope: string
  hour: number
  posted: bigint
  pending: bigint
  /** Whether it is what nodes have admitted by themselves and not written. */
  unwritten: boolean
}

const noMoves: Cell[] = []

/** Questions to the book, as of the moment when it is asked. */
export class Views {
  readonly #lane: Lane
  readonly #now: () => number
  /** For each plan the read under way, and one behind it that all who ask meanwhile share. */
  readonly #running = new Map<Plan, Promise<Purse>>()
  readonly #waiting = new Map<Plan, Promise<Purse>>()

  constructor(lane: Lane, now: () => number) {
    this.#lane = lane
    this.#now = now
  }

  /**
   * The balances of a plan as they stand, in a purse that nothing is held in.
   * @throws GatewayError `billing_unavailable` when the database does not answer
   */
  purse(plan: Plan): Promise<Purse> {
    const waiting = this.#waiting.get(plan)
    if (waiting) return waiting
    const before = this.#running.get(plan)
    const read = async (): Promise<Purse> => {
      await before?.catch(() => {})
      this.#waiting.delete(plan)
      const purse = this.#purse(plan)
      this.#running.set(plan, purse)
      try {
        return await purse
      } catch (error) {
        throw unavailable((error as Error).message)
      } finally {
        if (this.#running.get(plan) === purse) this.#running.delete(plan)
      }
    }
    const asked = read()
    this.#waiting.set(plan, asked)
    return asked
  }

  async #purse(plan: Plan): Promise<Purse> {
    const calendar = plan.limits.flatMap(({ of }) => ('to' in of ? [] : [of]))
    const [cells, hours] = await Promise.all([
      this.#cells(
        calendar.map(({ scope }) => scope),
        calendar.map(({ window }) => window)
      ),
      this.#hours(plan.limits.flatMap(({ of, budget }) => ('to' in of ? [{ ...of, window: budget.per }] : [])))
    ])
    const budgets = plan.limits.map(({ scope, budget, of }): Limited => {
      if ('to' in of) return { scope, budget, balance: hours.get(of.scope)!.sum((of.to - of.from + 1) / 24, of.to) }
      return { scope, budget, balance: cells.get(of.key) ?? Cell.of(of.scope, of.window) }
    })
    return new Purse(plan.texts, plan, [], budgets, noMoves)
  }

  /** The balances of the current windows, sorted by scope, and of rolling budgets. */
  async balances(scope: string | undefined): Promise<Balance[]> {
    const now = this.#now()
    const current = [windowOf('day', now), windowOf('week', now), windowOf('month', now), 'total']
    const { rows } = await this.#lane.query<Omit<Balance, 'limit'> & { limit: bigint | null }>(
      `select c.scope, c."window", b."limit", b.posted, b.pending from sluice.cell c join sluice.balance b on b.id = c.id
        where ($1::text is null or c.scope = $1) and (c."window" = any ($2) or c."window" ~ '^[0-9]+d$')
        order by c.scope collate "C", array_position($2, c."window"), length(c."window"), c."window"`,
      [scope ?? null, current]
    )
    const last = hourOf(now)
    const rolling = rows.flatMap(({ scope: of, window }): Hoursum[] => {
      const days = daysOf(window)
      return days === undefined ? [] : [{ scope: of, from: last - days * 24 + 1, to: last }]
    })
    const hours = await this.#hours(rolling)
    return rows.map(({ limit, ...row }) => {
      const days = daysOf(row.window)
      if (days === undefined) return { ...row, limit: limit ?? undefined }
      const { posted, pending } = hours.get(row.scope)!.sum(days, last)
      return { scope: row.scope, window: row.window, limit: limit ?? undefined, posted, pending }
    })
  }

  /** All scopes that have balances. */
  async scopes(): Promise<string[]> {
    const { rows } = await this.#lane.query<{ scope: string }>('select distinct scope from sluice.cell')
    return rows.map(({ scope }) => scope)
  }

  async #cells(scopes: readonly string[], windows: readonly string[]): Promise<Map<string, Cell>> {
    if (scopes.length === 0) return new Map()
    const { rows } = await this.#lane.query<{ scope: string; window: string; posted: bigint; pending: bigint }>(
      `select c.scope, c."window", b.posted, b.pending from unnest($1::text[], $2::text[]) as n(scope, "window")
        join sluice.cell c on c.scope = n.scope and c."window" = n."window" join sluice.balance b on b.id = c.id`,
      [scopes, windows]
    )
    return new Map(
      rows.map(({ scope, window, posted, pending }) => [
        `${scope} ${window}`,
        Cell.of(scope, window, undefined, posted, pending)
      ])
    )
  }

  /** `window`: that of a budget, for which what is admitted and not written counts in the last hour. */
  async #hours(sums: readonly (Hoursum & { readonly window?: string })[]): Promise<Map<string, Hours>> {
    const hours = new Map(sums.map(({ scope }) => [scope, new Hours(scope)]))
    if (sums.length === 0) return hours
    // At one moment, as what is written is not unwritten any more.
    const { rows } = await this.#lane.query<HourRow>(
      `select distinct c.scope, c.hour, b.posted, b.pending, false as unwritten
          from unnest($1::text[], $2::int[], $3::int[]) as n(scope, first, last)
          join sluice.cell c on c.scope = n.scope and c.hour between n.first and n.last join sluice.balance b on b.id = c.id
        union all select n.scope, n.last, 0, sum(s.used)::bigint, true
          from unnest($1::text[], $3::int[], $4::text[]) as n(scope, last, "window")
          join sluice.cell c on c.scope = n.scope and c."window" = n."window"
          join sluice.slice s on s.cell = c.id and s.used_hour <= n.last
          join sluice.node o on o.name = s.node and o.expires > clock_timestamp() group by n.scope, n.last, n."window"`,
      [
        sums.map(({ scope }) => scope),
        sums.map(({ from }) => from),
        sums.map(({ to }) => to),
        sums.map(({ window }) => window ?? null)
      ]
    )
    for (const [scope, own] of hours) own.load(hoursOf(rows.filter((row) => row.scope === scope)))
    return hours
  }
}

/** The hours of a scope. Each of its budgets has the same unwritten, as a request counts in all of them. */
function hoursOf(rows: readonly HourRow[]): readonly HourRow[] {
  const written = rows.filter(({ unwritten }) => !unwritten)
  const [most] = rows.filter(({ unwritten }) => unwritten).sort((a, b) => (a.pending < b.pending ? 1 : -1))
  if (!most) return written
  const last = written.find(({ hour }) => hour === most.hour)
  const pending = most.pending + (last?.pending ?? 0n)
  return [...written.filter((row) => row !== last), { ...most, posted: last?.posted ?? 0n, pending }]
}
