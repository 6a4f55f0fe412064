// Money: nano-dollars as text, as the API gives it. A number would lose digits.
import { h, html } from '../html.ts'
import type { VNode } from '../html.ts'
import { fullMoney, shortMoney } from './amounts.ts'
import { Tip } from './tip.ts'

export { allDigits, fullMoney, shortMoney } from './amounts.ts'

/** An amount; all its digits on hover and focus. Null is unknown, and not zero. */
export function Money({ nano, still }: { nano: string | null | undefined; still?: boolean }): VNode {
  if (nano === null || nano === undefined) return html`<span class="quiet">unknown</span>`
  const short = shortMoney(nano)
  const full = fullMoney(nano)
  if (short === full) return html`<span class="number">${short}</span>`
  return h(
    Tip,
    { tip: `${full} (${nano} nano-dollars)`, ...(still && { still }) },
    html`<span class="number">${short}</span>`
  )
}
