// The one table of what the admin listener answers.
import { balanceRoutes } from './balances.ts'
import { channelRoutes } from './channels.ts'
import { configRoutes } from './config.ts'
import type { Route } from './contract.ts'
import { healthRoutes } from './health.ts'
import { keyRoutes } from './keys.ts'
import { requestRoutes } from './requests.ts'
import { tenantRoutes } from './tenants.ts'

export const routes: readonly Route[] = [
  ...healthRoutes, ...requestRoutes, ...balanceRoutes, ...channelRoutes, ...configRoutes, ...keyRoutes, ...tenantRoutes
]

const byPath = Map.groupBy(routes, ({ path }) => path)

/** What a raw path leads to: its operations, and the decoded argument where it takes one. */
export function findRoutes(path: string): { operations: readonly Route[]; argument: string } | undefined {
  const exact = byPath.get(path)
  if (exact) return { operations: exact, argument: '' }
  const slash = path.lastIndexOf('/')
  const operations = byPath.get(`${path.slice(0, slash)}/{name}`)
  try {
    const argument = decodeURIComponent(path.slice(slash + 1))
    return operations && argument !== '' ? { operations, argument } : undefined
  } catch {
    return undefined
  }
}
