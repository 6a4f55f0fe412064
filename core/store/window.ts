// Computes the calendar windows of budgets, in UTC.
import type { Budget } from '../catalogue/caller.ts'

/** How long a window lasts. */
export type Period = Budget['per']

/** Milliseconds of a UTC day: every window begins at a multiple of it. */
export const day = 86_400_000

/** The window of a period that contains a time in Unix milliseconds: `2026-11-21`, `2026-11` or `total`. */
export function windowOf(per: Period, time: number): string {
  return per === 'total' ? 'total' : new Date(time).toISOString().slice(0, per === 'day' ? 10 : 7)
}

/**
 * The beginning of the month before the one that contains a time, in Unix milliseconds. Windows that ended earlier may
 * be removed from memory.
 */
export function horizon(time: number): number {
  const date = new Date(time)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - 1)
}

/** The windows in which an amount counts: that of the scope's period, and always the total. */
export function windowsOf(per: Period, time: number): string[] {
  return per === 'total' ? ['total'] : [windowOf(per, time), 'total']
}

/** When the window that contains a time ends, in Unix milliseconds; undefined for the total. */
export function endOf(per: Period, time: number): number | undefined {
  if (per === 'total') return undefined
  const date = new Date(time)
  return per === 'day' ? Math.floor(time / day) * day + day : Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
}
