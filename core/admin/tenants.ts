// Tenants with their projects and members, as gateway.yaml declares them.
import type { Budget } from '../caller.ts'
import { formatDollars } from '../money.ts'
import type { ConfigTenant } from '../settings.ts'
import type { Route } from './contract.ts'
import { page, pageQuery } from './page.ts'

export const tenantRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/admin/v1/tenants',
    query: pageQuery,
    handle: ({ query }, { generations }) => ({
      body: page([...generations.current.config.tenants.values()].map(show), ({ name }) => name, query)
    })
  }
]

function show({ name, models, budget, projects }: ConfigTenant) {
  return {
    name,
    models,
    budget: budgetOf(budget),
    projects: Array.from(projects, ([project, { budget: ofProject, members }]) => ({
      name: project,
      budget: budgetOf(ofProject),
      members: Array.from(members, ([member, { models: own, budget: ofMember }]) => ({ name: member, models: own, budget: budgetOf(ofMember) }))
    }))
  }
}

function budgetOf(budget: Budget | undefined): { usd: string; per: Budget['per'] } | null {
  return budget ? { usd: formatDollars(budget.limit), per: budget.per } : null
}
