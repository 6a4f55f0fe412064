// Finds the budgets that are nearly used up, or used up.
import { setImmediate as turn } from 'node:timers/promises'
import type { Budget } from '../../catalogue/caller.ts'
import { formatDollars } from '../../money/money.ts'
import type { Balance } from '../../store/ledger.ts'
import { rollingDays, windowOf } from '../../store/window.ts'
import type { Span } from '../../store/window.ts'
import { keyDocuments } from '../../tenancy/stored.ts'
import type { AdminParts } from '../api/contract.ts'
import type { Trouble } from './trouble.ts'

/** The share of a budget, in percent, from which on it is a trouble, and a serious one. */
const near = 80n
const veryNear = 95n
/** The most budgets of one tenant that are listed, and of all tenants together: those that are used up most. */
export const mostBudgets = 200

type Parts = Pick<AdminParts, 'store' | 'generations'>

/** How many scopes are looked at in one turn of the event loop, as there may be a hundred thousand. */
const atOnce = 500

/** The budgets of which so much was charged in their present window. */
export async function budgetTroubles(parts: Parts, now: number): Promise<Trouble[]> {
  const found: Found[] = []
  for (const [count, scope] of (await parts.store.ledger.scopes()).entries()) {
    if (count % atOnce === atOnce - 1) await turn()
    const budgets = parts.generations.current.catalogue.scope(scope)?.budgets ?? []
    if (budgets.length === 0) continue
    const balances = parts.store.ledger.balances({ scope })
    found.push(...ofScope(scope, budgets, balances instanceof Promise ? await balances : balances, parts, now))
  }
  const counts = new Map<string | null, number>()
  return found
    .sort((one, other) => (one.percent < other.percent ? 1 : one.percent > other.percent ? -1 : 0))
    .map(({ trouble }) => trouble)
    .filter(({ tenant }) => {
      const count = (counts.get(tenant) ?? 0) + 1
      counts.set(tenant, count)
      return count <= mostBudgets
    })
}

interface Found {
  readonly percent: bigint
  readonly trouble: Trouble
}

function ofScope(
  scope: string,
  budgets: readonly Budget[],
  balances: readonly Balance[],
  { store, generations }: Parts,
  now: number
): Found[] {
  const found: Found[] = []
  for (const { window, posted } of balances) {
    if (posted <= 0n) continue
    for (const { limit, per } of budgets) {
      const own = rollingDays(per) === undefined ? windowOf(per as Span, now) : per
      if (own !== window || limit <= 0n || posted * 100n < limit * near) continue
      const percent = (posted * 100n) / limit
      const used = percent >= 100n ? 'is used up' : `is used up to ${percent} %`
      found.push({
        percent,
        trouble: {
          id: `budget ${scope} ${per}`,
          kind: 'budget',
          severity: percent >= 100n ? 'critical' : percent >= veryNear ? 'warning' : 'notice',
          text: `The budget of ${named(scope)} ${perWords(per)} ${used}: $${formatDollars(posted)} of $${formatDollars(limit)}.`,
          remedy:
            percent >= 100n
              ? 'Its requests are refused: raise the budget, or wait until its window ends.'
              : 'Raise the budget, or find out what spends it.',
          link: linkTo(scope),
          tenant: tenantOf(scope, { store, generations })
        }
      })
    }
  }
  return found
}

/** The tenant of a scope: `member:acme/web/alice` begins with it, and a key is asked for it. */
function tenantOf(scope: string, { store, generations }: Parts): string | null {
  const { kind, names } = partsOf(scope)
  if (kind !== 'key') return names[0]!
  const [name] = names
  const stored = store.documents.find(keyDocuments, name!)
  return stored?.tenant ?? generations.current.config.keys.find((key) => key.name === name)?.tenant ?? null
}

function named(scope: string): string {
  const { kind, names } = partsOf(scope)
  return `the ${kind} ${names.join('/')}`
}

/** The page where the budget of a scope is changed. */
function linkTo(scope: string): string {
  const { kind, names } = partsOf(scope)
  return [kind === 'key' ? 'keys' : 'tenants', ...names.map(encodeURIComponent)].join('/')
}

function partsOf(scope: string): { kind: string; names: string[] } {
  const colon = scope.indexOf(':')
  const kind = scope.slice(0, colon)
  const rest = scope.slice(colon + 1)
  return { kind, names: kind === 'key' ? [rest] : rest.split('/') }
}

function perWords(per: Budget['per']): string {
  if (per === 'total') return 'in all'
  return rollingDays(per) === undefined ? `per ${per}` : `of ${per.slice(0, -1)} days`
}
