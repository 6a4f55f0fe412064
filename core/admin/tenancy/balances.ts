// The route of balances: what tenants, projects, members and keys have spent in their current windows, and what is
// left.
import type { Budget } from '../../catalogue/caller.ts'
import { formatDollars } from '../../money/money.ts'
import { toldOf } from '../../program/alerts.ts'
import type { Config } from '../../catalogue/settings.ts'
import type { Documents } from '../../store/documents.ts'
import { Levels, scopeOf, storedRights } from '../../tenancy/levels.ts'
import { keyDocuments } from '../../tenancy/stored.ts'
import type { Balance } from '../../store/ledger.ts'
import { daysOf, rollingDays, windowOf } from '../../store/window.ts'
import type { Span } from '../../store/window.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { pageOf } from '../api/query.ts'

/** A tenant, project, member or key of the configuration or the key store. */
interface Spender {
  tenant: string
  budgets: readonly Budget[]
}

/** Lists the balances of the current windows: all, or those of one scope or tenant. */
export async function listBalances({ query }: Call, { generations, store }: AdminParts): Promise<Answer> {
  const scope = query.get('scope')
  const tenant = query.get('tenant')
  const spenders = spendersOf(generations.current.config, store.documents)
  const balances = await store.ledger.balances(scope === undefined ? {} : { scope })
  const all = withBudgets(balances, spenders, Date.now()).filter(
    (balance) =>
      (scope === undefined || balance.scope === scope) &&
      (tenant === undefined || spenders.get(balance.scope)?.tenant === tenant)
  )
  const { data, next } = pageOf(all, ({ scope, window }) => `${scope} ${window}`, query)
  return {
    json: {
      data: data.map((balance) => {
        const spender = spenders.get(balance.scope)
        return {
          ...showBalance(balance),
          ...alertsOf(balance, spender, store.documents),
          tenant: spender?.tenant ?? null
        }
      }),
      next
    }
  }
}

/** The thresholds of the budget of a window, in percent, and the highest that was told in it. */
function alertsOf({ scope, window }: Balance, spender: Spender | undefined, documents: Documents): object {
  const budget = spender?.budgets.find(({ per }) => windowName(per, Date.now()) === window)
  const told = budget && toldOf(documents, scope, budget.per, window)
  return { alerts: budget?.alerts ?? [], told: told || null }
}

/** The window of a budget at a time, as balances name it. */
function windowName(per: Budget['per'], now: number): string {
  return rollingDays(per) === undefined ? windowOf(per as Span, now) : per
}

/**
 * Returns the balances of the ledger, and one for each budget of which nothing was spent yet. Limits are those of the
 * configuration in use: the ledger learns of a new limit only with the next request. A rolling budget that was removed
 * has no window any more.
 */
function withBudgets(balances: readonly Balance[], spenders: ReadonlyMap<string, Spender>, now: number): Balance[] {
  const all = new Map(
    balances.map((balance) => [
      `${balance.scope} ${balance.window}`,
      { ...balance, limit: undefined as bigint | undefined }
    ])
  )
  for (const [scope, { budgets }] of spenders) {
    for (const { limit, per } of budgets) {
      const window = windowName(per, now)
      const id = `${scope} ${window}`
      all.set(id, { ...(all.get(id) ?? { scope, window, posted: 0n, pending: 0n }), limit })
    }
  }
  return [...all.values()].filter(({ window, limit }) => limit !== undefined || daysOf(window) === undefined)
}

function spendersOf(config: Config, documents: Documents): Map<string, Spender> {
  const spenders = new Map<string, Spender>()
  for (const { path, rights } of new Levels(config, documents).all())
    spenders.set(scopeOf(path), { tenant: path[0], budgets: rights.budgets })
  for (const { name, tenant, budgets } of config.keys) spenders.set(`key:${name}`, { tenant, budgets })
  for (const { name, tenant, settings } of documents.all(keyDocuments))
    spenders.set(`key:${name}`, { tenant, budgets: storedRights(settings, 'key').budgets })
  return spenders
}

/**
 * Shows a balance. Posted was charged, pending is held by requests under way, and left is what new requests may still
 * reserve.
 */
export function showBalance({ scope, window, limit, posted, pending }: Balance): object {
  const left = limit === undefined ? undefined : limit - posted - pending
  return {
    scope,
    window,
    ...amount('limit', limit),
    ...amount('posted', posted),
    ...amount('pending', pending),
    ...amount('left', left)
  }
}

/**
 * Shows an amount in both forms that request records have too: in dollars for people, in nano-dollars for computing.
 */
function amount(name: string, nano: bigint | undefined): object {
  return {
    [`${name}_usd`]: nano === undefined ? null : formatDollars(nano),
    [`${name}_nano`]: nano === undefined ? null : String(nano)
  }
}
