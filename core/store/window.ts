// Computes the windows of budgets, in UTC: calendar ones, and the hours that rolling ones are made of.
import type { Budget } from '../catalogue/caller.ts'

/** Milliseconds of an hour and of a UTC day: every window begins at a multiple of them. */
export const hour = 3_600_000
export const day = 24 * hour

/** How long a window lasts in which a scope's amounts are summed up. A rolling budget adds up its hours. */
export type Span = (typeof spans)[number] | 'total'

const spans = ['day', 'week', 'month', 'hour'] as const

/**
 * The spans in which the amounts of one scope count besides the total, as the journal names them: `day`, or
 * `["month", "hour"]`. `total` when there is no other.
 */
export type Spans = Span | readonly Span[]

/** The days of a rolling budget; undefined for one of a calendar window. */
export function rollingDays(per: Budget['per']): number | undefined {
  return per === 'day' || !per.endsWith('d') ? undefined : Number(per.slice(0, -1))
}

/** The spans that a scope with these budgets counts in. */
export function spansOf(budgets: readonly Budget[]): Spans {
  const needed = new Set<string>(budgets.map(({ per }) => (rollingDays(per) === undefined ? per : 'hour')))
  const found = spans.filter((span) => needed.has(span))
  return found.length > 1 ? found : (found[0] ?? 'total')
}

/** Reads the spans of a scope in a row of the journal; undefined when they are none. */
export function readSpans(value: unknown): Spans | undefined {
  if (Array.isArray(value)) return value.length > 0 && value.every(isSpan) ? value : undefined
  return isSpan(value) ? value : undefined
}

function isSpan(value: unknown): value is Span {
  return value === 'total' || spans.some((span) => span === value)
}

/**
 * The window of a span that contains a time in Unix milliseconds: `2026-11-21T13`, `2026-11-21`, `2026-W47` (ISO 8601,
 * from Monday on), `2026-11` or `total`.
 */
export function windowOf(span: Span, time: number): string {
  if (span === 'total') return 'total'
  if (span === 'week') return weekOf(time)
  return new Date(time).toISOString().slice(0, span === 'hour' ? 13 : span === 'day' ? 10 : 7)
}

/** The windows in which an amount counts: those of the scope's spans, and always the total. */
export function windowsOf(spans: Spans, time: number): string[] {
  const named = typeof spans === 'string' ? [spans] : spans
  return [...named.filter((span) => span !== 'total').map((span) => windowOf(span, time)), 'total']
}

/** Whether a window is an hour. */
export function isHour(window: string): boolean {
  return window.length === 13
}

/** The days of the window of a rolling budget, such as `30d`; undefined for any other window. */
export function daysOf(window: string): number | undefined {
  return window.endsWith('d') ? Number(window.slice(0, -1)) : undefined
}

/** When the window that contains a time ends, in Unix milliseconds; undefined for the total. */
export function endOf(span: Span, time: number): number | undefined {
  if (span === 'total') return undefined
  if (span === 'hour' || span === 'day') {
    const length = span === 'hour' ? hour : day
    return Math.floor(time / length) * length + length
  }
  if (span === 'week') return mondayOf(time) + 7 * day
  const date = new Date(time)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
}

/** When a window ends, by its name, in Unix milliseconds; undefined for those of rolling budgets and totals. */
export function overAt(window: string): number | undefined {
  const [, year, week, month, date, hours] = /^(\d{4})-(?:W(\d\d)|(\d\d)(?:-(\d\d)(?:T(\d\d))?)?)$/.exec(window) ?? []
  // The first week of a year has the fourth of January.
  if (week !== undefined) return mondayOf(Date.UTC(Number(year), 0, 4)) + Number(week) * 7 * day
  if (month === undefined) return undefined
  const span = hours !== undefined ? 'hour' : date !== undefined ? 'day' : 'month'
  return endOf(span, Date.UTC(Number(year), Number(month) - 1, Number(date ?? 1), Number(hours ?? 0)))
}

/**
 * The beginning of the month before the one that contains a time, in Unix milliseconds. Windows that ended earlier may
 * be removed from memory.
 */
export function horizon(time: number): number {
  const date = new Date(time)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - 1)
}

/** A name: every day, week and month whose name sorts before it ended by a time, which begins a month. */
export function oldestWindow(since: number): string {
  const [month, week] = [windowOf('month', since), windowOf('week', since)]
  return month < week ? month : week
}

/** The first millisecond of the Monday of a week. The first day of Unix time was a Thursday. */
function mondayOf(time: number): number {
  const days = Math.floor(time / day)
  return (days - ((((days + 3) % 7) + 7) % 7)) * day
}

/** The week by ISO 8601: it belongs to the year that its Thursday is in. */
function weekOf(time: number): string {
  const thursday = mondayOf(time) + 3 * day
  const year = new Date(thursday).getUTCFullYear()
  const week = Math.floor((thursday - Date.UTC(year, 0)) / (7 * day)) + 1
  return `${year}-W${String(week).padStart(2, '0')}`
}
