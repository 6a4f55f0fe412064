// Calendar windows of budgets, in UTC.
import type { Budget } from '../catalogue/caller.ts'

/** How long a window lasts. */
export type Period = Budget['per']

/** Milliseconds of a UTC day: every window begins at a multiple of it. */
export const day = 86_400_000

/** The window of a period at a time (Unix milliseconds): `2026-11-21`, `2026-11` or `total`. */
export function windowOf(per: Period, time: number): string {
  return per === 'total' ? 'total' : new Date(time).toISOString().slice(0, per === 'day' ? 10 : 7)
}

/** Windows that sort before this one, as strings, ended more than a month before the time. `total` sorts after all. */
export function horizon(time: number): string {
  const date = new Date(time)
  return windowOf('month', Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - 1))
}

/** The balances that an amount counts in: those of the scope's period, and always those of its lifetime. */
export function windowsOf(per: Period, time: number): string[] {
  return per === 'total' ? ['total'] : [windowOf(per, time), 'total']
}
