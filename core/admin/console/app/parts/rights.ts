// What tenants, projects, members and keys are shown with in common, and how a form edits it.
import { html } from '../html.ts'
import type { VNode } from '../html.ts'
import { shortMoney } from './money.ts'
import type { Values } from './form.ts'
import { shownValue } from './schema.ts'
import { visible } from './text.ts'

/** A budget as the API shows it. */
export interface ShownBudget {
  readonly usd: string
  readonly usd_nano: string
  readonly per: string
  readonly alerts?: readonly number[]
}

/** Rights as the API shows them. */
export interface ShownRights {
  readonly enabled: boolean
  readonly models: readonly string[]
  readonly endpoints?: readonly string[]
  readonly limits: Values
  readonly budget: readonly ShownBudget[]
  readonly expires: string | null
  readonly tags: Readonly<Record<string, string>>
}

/** A budget in words: `$5.00 a day, alerts at 80 %`. */
export function budgetText({ usd_nano: nano, per, alerts }: ShownBudget): string {
  const each = per === 'total' ? 'in all' : /^\d+d$/.test(per) ? `in ${per.slice(0, -1)} days` : `a ${per}`
  return `${shortMoney(nano)} ${each}${alerts && alerts.length > 0 ? `, alerts at ${alerts.join(', ')} %` : ''}`
}

/** Budgets in one cell. */
export function budgetsText(budgets: readonly ShownBudget[]): string {
  return budgets.map(budgetText).join('; ')
}

/** Rights as a form edits them: what says nothing is left out. */
export function editable({ enabled, models, endpoints, limits, budget, expires, tags }: ShownRights): Values {
  const budgets = budget.map(({ usd, per, alerts }) => ({
    usd,
    ...(/^\d+d$/.test(per) ? { days: Number(per.slice(0, -1)) } : { per }),
    ...(alerts && { alerts })
  }))
  const all = (patterns: readonly string[] | undefined): boolean => !patterns || patterns.join() === '*'
  return {
    ...(!enabled && { enabled }),
    ...(!all(models) && { models }),
    ...(!all(endpoints) && { endpoints }),
    ...(Object.keys(limits).length > 0 && { limits }),
    ...(budgets.length > 0 && { budget: budgets.length === 1 ? budgets[0] : budgets }),
    ...(expires !== null && { expires }),
    ...(Object.keys(tags).length > 0 && { tags })
  }
}

/** Facts in two columns. */
export function Facts({ of }: { of: readonly (readonly [name: string, value: VNode | string | null])[] }): VNode {
  return html`<dl class="facts">
    ${of.map(([name, value]) =>
      value === null
        ? null
        : html`<dt>${name}</dt>
            <dd>${value}</dd>`
    )}
  </dl>`
}

/** Limits in words: `rpm 60, tpm 10000`. */
export function limitsText(limits: Values): string {
  return Object.entries(limits)
    .map(([name, value]) => visible(`${name} ${shownValue(value)}`))
    .join(', ')
}
