// Money that was spent against budgets: of a thing, and of what stands above it.
import { get } from '../api.ts'
import type { Page } from '../api.ts'
import { h, html } from '../html.ts'
import type { VNode } from '../html.ts'
import { useLoad } from '../load.ts'
import { Money, shortMoney } from './money.ts'
import { percent } from './number.ts'
import { When } from './states.ts'
import { Meter } from './status.ts'
import { visible } from './text.ts'

/** A balance as the API shows it. */
export interface Balance {
  readonly scope: string
  readonly window: string
  readonly limit_nano: string | null
  readonly posted_nano: string
  readonly pending_nano: string
  readonly left_nano: string | null
  /** Percent of the limit at which an alert is sent, and the highest that was told in this window. */
  readonly alerts: readonly number[]
  readonly told: number | null
}

/**
 * Spend against the budgets of these scopes, outermost first. Of all of them a request has to fit, so the one with the
 * least left binds.
 */
export function Balances({
  scopes,
  tenant,
  turn
}: {
  scopes: readonly string[]
  tenant: string
  turn?: unknown
}): VNode {
  const loaded = useLoad(
    async (signal) => {
      const pages = await Promise.all(
        scopes.map((scope) => get<Page<Balance>>('/admin/v1/balances', { scope, tenant }, signal))
      )
      return pages.flatMap(({ data }) => data).filter(({ limit_nano: limit }) => limit !== null)
    },
    [scopes.join(' '), turn]
  )
  return h(When<readonly Balance[]>, { loaded, children: draw })
}

/** `Alerts at 50, 80 and 100 %: told at 80 %.` */
function alertsText({ alerts, told }: Balance): string {
  const [last, ...before] = alerts.toReversed()
  const all = before.length === 0 ? String(last) : `${before.toReversed().join(', ')} and ${last}`
  return `${alerts.length === 1 ? 'Alert' : 'Alerts'} at ${all} %: ${told === null ? 'none told yet' : `told at ${told} %`}.`
}

function draw(balances: readonly Balance[]): VNode {
  if (balances.length === 0)
    return html`<p class="quiet">No budget stands above this: only limits and the price hold it.</p>`
  const least = balances.reduce((one, other) => (BigInt(other.left_nano!) < BigInt(one.left_nano!) ? other : one))
  return html`
    <ul class="balances">
      ${balances.map((balance) => {
        const { scope, window, limit_nano: limit, posted_nano: posted, pending_nano: pending } = balance
        const share = limit === '0' ? 1 : Number((BigInt(posted) * 10_000n) / BigInt(limit!)) / 10_000
        return html`<li>
          <span
            >${visible(scope)}${' '}<span class="quiet">${window}</span
            >${balance === least ? html` <b>binds</b>` : null}</span
          >
          ${h(Meter, { share, label: `${scope}: ${percent(share)} of ${shortMoney(limit!)} spent` })}
          <span class="number"
            >${h(Money, { nano: posted })} of
            ${h(Money, { nano: limit })}${` (${percent(share)})`}${pending === '0' ? null : html`, ${h(Money, { nano: pending })} held`}</span
          >
          ${balance.alerts.length === 0 ? null : html`<span class="quiet">${alertsText(balance)}</span>`}
        </li>`
      })}
    </ul>
    <p class="quiet">
      ${h(Money, { nano: least.left_nano })} are left for the next requests, by ${visible(least.scope)}.
    </p>
  `
}
