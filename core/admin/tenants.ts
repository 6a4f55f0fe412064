// The route of tenants: the tree of tenants, projects and members, with the models and the budget of each.
import type { Budget } from '../catalogue/caller.ts'
import { formatDollars } from '../money/money.ts'
import type { AdminParts, Answer, Call } from './contract.ts'
import { pageOf } from './query.ts'

/** Lists the tenants. `scope` is the name that balances have for each level. */
export function listTenants({ query }: Call, { generations }: AdminParts): Answer {
  const { data, next } = pageOf([...generations.current.config.tenants.values()], ({ name }) => name, query)
  const shown = data.map(({ name: tenant, models, budget, projects }) => ({
    name: tenant,
    scope: `tenant:${tenant}`,
    models,
    budget: showBudget(budget),
    projects: Array.from(projects, ([project, { budget, members }]) => ({
      name: project,
      scope: `project:${tenant}/${project}`,
      budget: showBudget(budget),
      members: Array.from(members, ([member, { models, budget }]) => ({
        name: member,
        scope: `member:${tenant}/${project}/${member}`,
        models,
        budget: showBudget(budget)
      }))
    }))
  }))
  return { json: { data: shown, next } }
}

/** A budget as in the file, and its amount in nano-dollars as well. */
export interface ShownBudget {
  usd: string
  usd_nano: string
  per: Budget['per']
}

/** Shows a budget; null when there is none. */
export function showBudget(budget: Budget | undefined): ShownBudget | null {
  return budget ? { usd: formatDollars(budget.limit), usd_nano: String(budget.limit), per: budget.per } : null
}
