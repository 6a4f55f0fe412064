// Spend as CSV: a line for each sum, with all classes of units.
import { pricedClasses } from '../../money/classes.ts'
import type { SpendGroup } from '../../store/spend.ts'
import type { ShownSum } from '../requests/spend.ts'
import { csvLine } from './csv.ts'

const units = [...pricedClasses, 'reasoning'] as const

/** Renders sums, with a line of names before them. */
export async function* spendCsv(
  by: readonly SpendGroup[],
  shown: AsyncIterable<ShownSum> | Iterable<ShownSum>
): AsyncGenerator<string> {
  let columns: string[] | undefined
  for await (const { usage, ...row } of shown) {
    if (!columns) yield csvLine([...(columns = Object.keys(row)), ...units])
    yield csvLine([
      ...columns.map((name) => (row as Record<string, unknown>)[name]),
      ...units.map((name) => usage[name] ?? 0)
    ])
  }
  if (!columns) yield csvLine([...by, 'requests', 'charge_usd'])
}
