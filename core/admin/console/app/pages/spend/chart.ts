// Spend by day as a chart: the five greatest of the other dimension, and the rest together.
import { h } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { Chart } from '../../parts/chart.ts'
import { shortMoney } from '../../parts/money.ts'
import { visible } from '../../parts/text.ts'
import type { Sum } from './sum.ts'

const dayMs = 86_400_000
const mostLines = 5

interface ChartProps {
  rows: readonly Sum[]
  /** The dimension beside the day; undefined for none. */
  other: string | undefined
  /** Days in UTC; `until` is not included. */
  since: string
  until: string
}

/** The chart. A day without spend is zero, as nothing was charged then. */
export function SpendChart({ rows, other, since, until }: ChartProps): VNode | null {
  const start = Date.parse(since)
  const days = Math.min(400, Math.round((Date.parse(until) - start) / dayMs))
  if (!(days > 0)) return null
  const lines = new Map<string, bigint[]>()
  const totals = new Map<string, bigint>()
  for (const row of rows) {
    const { day } = row
    const place = typeof day === 'string' ? Math.round((Date.parse(day) - start) / dayMs) : NaN
    if (!(place >= 0 && place < days)) continue
    const name = other === undefined ? 'All' : nameOf(row[other])
    const line = lines.get(name) ?? Array<bigint>(days).fill(0n)
    line[place] = line[place]! + BigInt(row.charge_nano)
    lines.set(name, line)
    totals.set(name, (totals.get(name) ?? 0n) + BigInt(row.charge_nano))
  }
  const ranked = [...totals].sort(([, one], [, two]) => (one < two ? 1 : -1)).map(([name]) => name)
  const shown = ranked.slice(0, mostLines)
  const rest = ranked.slice(mostLines)
  const drawn = shown.map((name) => ({ label: name, line: lines.get(name)! }))
  if (rest.length > 0)
    drawn.push({
      label: `${rest.length} others`,
      line: Array.from({ length: days }, (_, at) => rest.reduce((sum, name) => sum + lines.get(name)![at]!, 0n))
    })
  const sums = Array.from({ length: days }, (_, at) => drawn.reduce((sum, { line }) => sum + line[at]!, 0n))
  const highest = sums.reduce((best, sum, at) => (sum > sums[best]! ? at : best), 0)
  const day = new Date(start + highest * dayMs).toISOString().slice(0, 10)
  return h(Chart, {
    name: `Spend a day: highest ${shortMoney(String(sums[highest]))} on ${day}`,
    days: true,
    times: sums.map((_, at) => (start + at * dayMs) / 1000),
    series: drawn.map(({ label, line }) => ({
      label,
      values: line.map(Number),
      show: (value: number) => shortMoney(String(Math.round(value)))
    }))
  })
}

function nameOf(value: unknown): string {
  if (value === null || value === undefined) return 'none'
  return visible(typeof value === 'string' ? value : JSON.stringify(value)).slice(0, 60)
}
