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
