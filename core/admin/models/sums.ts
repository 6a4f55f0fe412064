// All sums of a query of spend, which come page by page.
import type { SpendPage, SpendQuery, SpendSum } from '../../store/spend.ts'

/** What adds up spend. */
export type Spend = (query: SpendQuery) => Promise<SpendPage>

const ofPage = 1000
/** The most sums that are taken together. */
const most = 20_000

/** Takes all sums of a query. `cut`: there are more than are taken. */
export async function allSums(
  spend: Spend,
  query: Omit<SpendQuery, 'limit' | 'after'>
): Promise<{ sums: SpendSum[]; cut: boolean }> {
  const sums: SpendSum[] = []
  let after: readonly string[] | undefined
  do {
    const page = await spend({ ...query, limit: ofPage, after })
    sums.push(...page.sums)
    after = page.next
  } while (after && sums.length < most)
  return { sums, cut: after !== undefined }
}

/** Two sums as one, of the group of the first. */
export function together(one: SpendSum, other: SpendSum): SpendSum {
  const usage: Record<string, number> = { ...one.usage }
  for (const [name, count] of Object.entries(other.usage)) usage[name] = (usage[name] ?? 0) + count
  return {
    group: one.group,
    requests: one.requests + other.requests,
    charge: one.charge + other.charge,
    cost: one.cost === undefined ? other.cost : one.cost + (other.cost ?? 0n),
    uncosted: one.uncosted + other.uncosted,
    failed: one.failed + other.failed,
    usage
  }
}
