// Budgets of other gateways: an amount, and how long it lasts.
import { formatDollars, parseDollars } from '../../money/money.ts'
import type { Entry } from './draft.ts'

/** What is told of a budget that is not exact. */
export const longer = 'its budget_duration has no counterpart, and the next longer one is taken'

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
 * for good. One that has no counterpart becomes the next longer one, so that nobody may spend more than before; then
 * `exact` is false. Undefined without an amount.
 */
export function budgetOf(nano: bigint | undefined, duration: unknown): { budget: Entry; exact: boolean } | undefined {
  if (nano === undefined) return undefined
  const { per, exact } = windowOf(typeof duration === 'string' ? duration : undefined)
  return { budget: { usd: formatDollars(nano), per }, exact }
}

const seconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800, mo: 31 * 86_400 }

function windowOf(duration: string | undefined): { per: string; exact: boolean } {
  if (duration === undefined || duration === '') return { per: 'total', exact: true }
  if (duration === '1mo' || duration === 'monthly') return { per: 'month', exact: true }
  if (duration === 'daily') return { per: 'day', exact: true }
  if (duration === 'weekly') return { per: 'week', exact: true }
  const [, digits, unit = ''] = /^(\d{1,7})(mo|[smhdw])$/.exec(duration) ?? []
  const days = digits === undefined ? Infinity : (Number(digits) * seconds[unit]!) / 86_400
  const whole = Math.max(1, Math.ceil(days))
  return whole > 366 ? { per: 'total', exact: false } : { per: `${whole}d`, exact: whole === days && unit !== 'mo' }
}
