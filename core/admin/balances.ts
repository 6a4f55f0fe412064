// Balances: what every tenant, project, member and key has spent and holds in the present windows.
import type { Budget } from '../caller.ts'
import { formatDollars } from '../money.ts'
import type { Config } from '../settings.ts'
import type { Balance } from '../store/ledger.ts'
import type { StoredKey } from '../store/keys.ts'
import { windowOf } from '../store/window.ts'
import type { Route } from './contract.ts'
import { page, pageQuery } from './page.ts'

/** A level that spends, as far as the configuration and the key store know it. */
interface Spender {
  tenant: string
  budget: Budget | undefined
}

export const balanceRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/admin/v1/balances',
    query: ['scope', 'tenant', ...pageQuery],
    handle: ({ query }, { generations, store }) => {
      const spenders = spendersOf(generations.current.config, store.keys.all())
      const rows = balances(store.ledger.balances(query['scope'] === undefined ? {} : { scope: query['scope'] }), spenders, Date.now())
      const wanted = rows.filter(({ scope }) => (
        (query['scope'] === undefined || scope === query['scope']) && (query['tenant'] === undefined || spenders.get(scope)?.tenant === query['tenant'])
      ))
      const { data, next } = page(wanted, ({ scope, window }) => `${scope} ${window}`, query)
      return { body: { data: data.map(show), next } }
    }
  }
]

/**
 * The ledger's rows, and one for every budget on which nothing was spent yet. Limits are those of the present
 * configuration: the ledger learns of a new one with the next request only.
 */
function balances(rows: readonly Balance[], spenders: ReadonlyMap<string, Spender>, now: number): Balance[] {
  const all = new Map(rows.map((row) => [`${row.scope} ${row.window}`, { ...row, limit: undefined as bigint | undefined }]))
  for (const [scope, { budget }] of spenders) {
    if (!budget) continue
    const window = windowOf(budget.per, now)
    const row = all.get(`${scope} ${window}`) ?? { scope, window, limit: undefined, posted: 0n, pending: 0n }
    all.set(`${scope} ${window}`, { ...row, limit: budget.limit })
  }
  return [...all.values()]
}

function spendersOf({ tenants, keys }: Config, stored: readonly StoredKey[]): Map<string, Spender> {
  const spenders = new Map<string, Spender>()
  for (const [tenant, { budget, projects }] of tenants) {
    spenders.set(`tenant:${tenant}`, { tenant, budget })
    for (const [project, { budget: ofProject, members }] of projects) {
      spenders.set(`project:${tenant}/${project}`, { tenant, budget: ofProject })
      for (const [member, { budget: ofMember }] of members) spenders.set(`member:${tenant}/${project}/${member}`, { tenant, budget: ofMember })
    }
  }
  for (const { name, tenant, budget } of [...keys, ...stored]) spenders.set(`key:${name}`, { tenant, budget })
  return spenders
}

/** Money as strings: dollars for people, nano-dollars for sums. */
function show({ scope, window, limit, posted, pending }: Balance): unknown {
  const left = limit === undefined ? undefined : limit - posted - pending
  return {
    scope,
    window,
    limit_usd: limit === undefined ? null : formatDollars(limit),
    spent_usd: formatDollars(posted),
    held_usd: formatDollars(pending),
    left_usd: left === undefined ? null : formatDollars(left),
    spent_nano: posted.toString(),
    held_nano: pending.toString()
  }
}
