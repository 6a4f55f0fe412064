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

/** The beginning of the month before that of a time, in Unix milliseconds: windows that ended before it are history. */
export function horizon(time: number): number {
  const date = new Date(time)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - 1)
}

/** The balances that an amount counts in: those of the scope's period, and always those of its lifetime. */
export function windowsOf(per: Period, time: number): string[] {
  return per === 'total' ? ['total'] : [windowOf(per, time), 'total']
}
