// Money: nano-dollars as text, as the API gives it. A number would lose digits.
import { h, html } from '../html.ts'
import type { VNode } from '../html.ts'
import { Tip } from './tip.ts'

/** Nano-dollars as dollars with all their digits: `-0.000105`. At least two decimals. */
export function allDigits(nano: string): string {
  const negative = nano.startsWith('-')
  const digits = (negative ? nano.slice(1) : nano).padStart(10, '0')
  const decimals = digits.slice(-9).replace(/0{1,7}$/, '')
  const whole = digits.slice(0, -9).replace(/\B(?=(\d{3})+$)/g, ',')
  return `${negative ? '-' : ''}${whole}.${decimals}`
}

/** Nano-dollars in short, for people: `$12.35`, `$0.000105`, `$1,204`. Three digits at least count. */
export function shortMoney(nano: string): string {
  const full = allDigits(nano)
  const sign = full.startsWith('-') ? '-' : ''
  const [whole = '0', decimals = '00'] = full.replace('-', '').split('.')
  if (whole !== '0') return `${sign}$${whole.length > 4 ? whole : `${whole}.${decimals.slice(0, 2)}`}`
  const leading = /^0*/.exec(decimals)![0].length
  if (leading >= decimals.length) return '$0.00'
  return `${sign}$0.${decimals.slice(0, Math.max(2, leading + 3)).replace(/(\.\d\d\d*?)0+$/, '$1')}`
}

/** An amount; all its digits on hover and focus. Null is unknown, and not zero. */
export function Money({ nano, still }: { nano: string | null | undefined; still?: boolean }): VNode {
  if (nano === null || nano === undefined) return html`<span class="quiet">unknown</span>`
  const short = shortMoney(nano)
  const full = `$${allDigits(nano)}`.replace('$-', '-$')
  if (short === full) return html`<span class="number">${short}</span>`
  return h(
    Tip,
    { tip: `${full} (${nano} nano-dollars)`, ...(still && { still }) },
    html`<span class="number">${short}</span>`
  )
}
