// Budgets of other gateways: an amount, and how long it lasts.
import type { Entry } from './draft.ts'

/**
 * A budget as the file has it. `duration` as LiteLLM writes it: `30d`, `24h`, `1mo`; without one it is for good.
 * Undefined without an amount, and for a duration that has no counterpart.
 */
export function budgetOf(amount: unknown, duration: unknown): Entry | undefined {
  const text = typeof amount === 'string' || typeof amount === 'number' ? Number(amount) : NaN
  if (!Number.isFinite(text) || text < 0) return undefined
  const per = windowOf(typeof duration === 'string' ? duration : undefined)
  // Not as 1e-7, and no further than the nano-dollar.
  return per === undefined ? undefined : { usd: text.toFixed(9).replace(/\.?0+$/, ''), per }
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
