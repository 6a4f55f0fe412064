// Budgets of other gateways: an amount, and how long it lasts.
import { formatDollars, parseDollars } from '../../money/money.ts'
import type { Entry } from './draft.ts'

/**
 * Dollars of another gateway in nano-dollars, as it counts them in floating-point numbers; undefined for what is none,
 * and for less than nothing.
 */
export function nanoOf(value: unknown): bigint | undefined {
  if (typeof value !== 'string' && typeof value !== 'number') return undefined
  const number = value === '' ? NaN : Number(value)
  return Number.isFinite(number) && number >= 0 ? parseDollars(number.toFixed(9)) : undefined
}

/**
 * A budget as the file has it, of nano-dollars. `duration` as LiteLLM writes it: `30d`, `24h`, `1mo`; without one it is
 * for good. Undefined without an amount, and for a duration that has no counterpart.
 */
export function budgetOf(nano: bigint | undefined, duration: unknown): Entry | undefined {
  const per = windowOf(typeof duration === 'string' ? duration : undefined)
  return per === undefined || nano === undefined ? undefined : { usd: formatDollars(nano), per }
}

function windowOf(duration: string | undefined): string | undefined {
  if (duration === undefined || duration === '') return 'total'
  if (duration === '1mo' || duration === 'monthly') return 'month'
  if (duration === 'daily') return 'day'
  if (duration === 'weekly') return 'week'
  const [, digits, unit] = /^(\d{1,7})([smhdw])$/.exec(duration) ?? []
  if (digits === undefined) return undefined
  const days = (Number(digits) * { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 }[unit as 'd']) / 86_400
  return Number.isInteger(days) && days >= 1 && days <= 366 ? `${days}d` : undefined
}
