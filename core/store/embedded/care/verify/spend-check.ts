// Checks for `verify` that spend is what the journal adds up to.
import { smaller } from '../../balance/cell.ts'
import { readObject } from '../../database/due.ts'
import type { Report } from './invariants.ts'
import { dayOf, monthOf, spenderOf } from '../../database/spend-sums.ts'
import type { SpendSums } from '../../database/spend-sums.ts'
import { mostOf, sumColumns } from '../../database/spend-table.ts'
import { readRows } from '../../files/sqlite.ts'
import type { Database } from '../../files/sqlite.ts'
import { day } from '../../../window.ts'

/** The sums of one row, by column; units of other classes by the name of their class. */
type Sums = Map<string, bigint>

/** Checks I19. `journal` are the sums of all entries; `whole`: no entry is missing in it. */
export function checkSpend(database: Database, whole: boolean, journal: SpendSums, report: Report): void {
  if (!whole) return report('I19', 'spend', 'cannot be compared, as rows of the journal are missing')
  const expected = new Map<string, Sums>()
  for (const { place, units, ...cell } of journal.take()) {
    const { tenant, project, member, key, tags } = spenderOf(place)
    const { model, channel, price, costPrice } = place
    for (const since of [dayText(place.day), monthText(monthOf(place.day))]) {
      const id = nameOf([since, tenant, project, member, key, tags, model, channel, price, costPrice])
      const sums: Sums = expected.get(id) ?? new Map()
      for (const [name, amount] of Object.entries({ ...cell, ...units })) {
        const sum = (sums.get(name) ?? 0n) + BigInt(amount)
        sums.set(name, smaller(sum, mostOf(name) ?? sum))
      }
      expected.set(id, sums)
    }
  }
  const found = new Set<string>()
  for (const span of ['day', 'month'] as const) {
    for (const row of readRows(database, `SELECT * FROM spend_${span} LEFT JOIN spender ON spender.id = spender`)) {
      const { tenant, project, member, key, tags, model, channel, price, cost_price } = row
      const since = span === 'day' ? dayText(Number(row['day'])) : monthText(Number(row['month']))
      const id = nameOf([since, tenant, project, member, key, tags, model, channel, price, cost_price])
      const others = Object.entries(readObject(row['units']) ?? {}) as [string, number][]
      const sums: Sums = new Map(others.map(([name, number]) => [name, BigInt(number)]))
      for (const name of sumColumns) sums.set(name, row[name] as bigint)
      found.add(id)
      compare(id, sums, expected.get(id) ?? new Map(), report)
    }
  }
  for (const [id, sums] of expected) if (!found.has(id)) compare(id, new Map(), sums, report)
}

function dayText(dayNumber: number): string {
  return new Date(dayNumber * day).toISOString().slice(0, 10)
}

function monthText(month: number): string {
  return dayText(dayOf(month)).slice(0, 7)
}

/** The name of a row. What is empty is `-`. */
function nameOf(parts: readonly unknown[]): string {
  return parts.map((part) => (part === '' || part === null ? '-' : String(part))).join(' ')
}

function compare(id: string, found: Sums, expected: Sums, report: Report): void {
  const wrong = [...new Set([...found.keys(), ...expected.keys()])].flatMap((name) => {
    const [has, due] = [found.get(name) ?? 0n, expected.get(name) ?? 0n]
    return has === due ? [] : [`${name} ${has} where the journal makes ${due}`]
  })
  if (wrong.length > 0) report('I19', `spend ${id}`, `has ${wrong.join(', ')}`)
}
