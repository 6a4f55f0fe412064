// Shows the rights of tenants, projects, members and keys.
import type { Budget, Rights } from '../../catalogue/caller.ts'
import { formatDollars } from '../../money/money.ts'
import { showTime } from '../api/entry.ts'

/** Rights as the admin API shows them. Absent values are null. */
export interface ShownRights {
  enabled: boolean
  models: readonly string[]
  endpoints: readonly string[]
  limits: Rights['limits']
  budget: readonly ShownBudget[]
  /** RFC 3339. */
  expires: string | null
  tags: NonNullable<Rights['tags']>
}

/** A budget as in the file, and its amount in nano-dollars as well. */
export interface ShownBudget {
  usd: string
  usd_nano: string
  per: Budget['per']
  /** Percent; absent when there are none. */
  alerts?: readonly number[]
}

/** Shows rights. */
export function showRights({ enabled, models, endpoints, limits, budgets, expires, tags }: Rights): ShownRights {
  return {
    enabled,
    models,
    endpoints,
    limits,
    budget: budgets.map(showBudget),
    expires: showTime(expires),
    tags: tags ?? {}
  }
}

function showBudget({ limit, per, alerts }: Budget): ShownBudget {
  return { usd: formatDollars(limit), usd_nano: String(limit), per, ...(alerts && { alerts }) }
}
