// Spend by any two dimensions: as a chart where one of them is time, as a table, and as a file.
import { pathWith } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useList } from '../../load.ts'
import { Filters } from '../../parts/filters.ts'
import { Head } from '../../parts/head.ts'
import { Money } from '../../parts/money.ts'
import { counted, short } from '../../parts/number.ts'
import { Failure, Nothing } from '../../parts/states.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { visible } from '../../parts/text.ts'
import { address, setQuery } from '../../router.ts'
import { may, ownTenant } from '../../session.ts'
import { SpendChart } from './chart.ts'
import type { Sum } from './sum.ts'

const path = '/admin/v1/spend'
const filters = ['tenant', 'project', 'member', 'key', 'model', 'channel', 'tag'] as const
const dimensions = ['day', 'month', 'tenant', 'project', 'member', 'key', 'model', 'channel', 'tag'] as const
const dayMs = 86_400_000
const typed = (event: Event): string => (event.target as HTMLInputElement).value

/** A day in UTC, by which the API adds up. */
const dayOf = (time: number): string => new Date(time).toISOString().slice(0, 10)

/** The page. */
export default function SpendPage(): VNode {
  const { query } = address.value
  const known = dimensions.filter((name) => name !== 'channel' || may({ whole: true }))
  const first = query.get('by') ?? 'day'
  const second = query.get('and') ?? 'model'
  const by = [...new Set([first, second])].filter((name) => name !== 'none')
  const since = query.get('since') ?? dayOf(Date.now() - 29 * dayMs)
  const until = query.get('until') ?? undefined
  const given = Object.fromEntries(filters.map((name) => [name, query.get(name) ?? undefined]))
  const asked = { ...given, tenant: ownTenant.value ?? given['tenant'], since, until, by: by.join(',') }
  const list = useList<Sum>(path, asked)
  const total = list.rows.reduce((sum, { charge_nano: nano }) => sum + BigInt(nano), 0n)
  const requests = list.rows.reduce((sum, one) => sum + one.requests, 0)
  const file = (format: string): VNode =>
    html`<a class="button" download href=${pathWith('/admin/v1/export/spend', { ...asked, format })}
      >${format === 'csv' ? 'CSV' : 'JSON lines'}</a
    > `
  return html`
    ${h(Head, { title: 'Spend', about: 'What was charged, to the nano-dollar as in the books. Days are in UTC.' }, [file('csv'), file('jsonl')])}
    <div class="actions spend-bar">
      ${pick('By', 'by', first, known)} ${pick('and', 'and', second, ['none', ...known])}
      ${date('From', 'since', since)} ${date('Before', 'until', until ?? '')}
    </div>
    ${h(Filters, { names: filters })} ${list.error ? h(Failure, { error: list.error, again: list.again }) : null}
    <div class="tiles">
      <div class="tile">Charged<b>${h(Money, { nano: String(total) })}${list.more ? '+' : ''}</b></div>
      <div class="tile">Requests<b>${counted(requests)}${list.more ? '+' : ''}</b></div>
      <div class="tile">
        A request<b>${requests === 0 ? '–' : h(Money, { nano: String(total / BigInt(requests)) })}</b>
      </div>
    </div>
    ${list.more ? html`<p class="notice warn">There are more sums than are shown: load more below, choose fewer days, or take the file.</p>` : null}
    ${by.includes('day') && list.rows.length > 0 ? h(SpendChart, { rows: list.rows, other: by.find((name) => name !== 'day'), since, until: until ?? dayOf(Date.now() + dayMs) }) : null}
    ${h(Table<Sum>, {
      name: 'spend',
      columns: columnsOf(by),
      rows: list.rows,
      keyOf: (sum) => by.map((name) => JSON.stringify(sum[name])).join(' '),
      more: list.more,
      busy: list.busy,
      onFilter: (column: string, value: string) => setQuery({ [column]: value }),
      empty: h(Nothing, { title: 'Nothing was spent' }, html`<p>Choose other days, or take a filter out.</p>`)
    })}
  `
}

function pick(label: string, name: string, value: string, words: readonly string[]): VNode {
  return html`<label
    >${label}${' '}
    <select class="slim" aria-label=${label} onChange=${(event: Event) => setQuery({ [name]: typed(event) })}>
      ${words.map((word) => html`<option selected=${word === value}>${word}</option>`)}
    </select></label
  >`
}

function date(label: string, name: string, value: string): VNode {
  return html`<label
    >${label}${' '}<input
      class="slim"
      type="date"
      aria-label=${label}
      value=${value}
      onChange=${(event: Event) => setQuery({ [name]: typed(event) || undefined })}
  /></label>`
}

/** What a group is called; of tags all names and values. */
function groupText(value: unknown): string | null {
  if (value === null || value === undefined) return null
  return visible(typeof value === 'string' ? value : JSON.stringify(value))
}

function columnsOf(by: readonly string[]): Column<Sum>[] {
  const money = (id: string, title: string, optional = false): Column<Sum> => ({
    id,
    title,
    align: 'end',
    optional,
    value: (sum) => (typeof sum[`${id}_nano`] === 'string' ? BigInt(sum[`${id}_nano`] as string) : null),
    cell: (sum) => h(Money, { nano: sum[`${id}_nano`] as string | null })
  })
  const units = (id: string, title: string): Column<Sum> => ({
    id,
    title,
    align: 'end',
    value: ({ usage }) => usage[id] ?? 0,
    cell: ({ usage }) => short(usage[id] ?? 0)
  })
  const canFilter = (name: string): boolean => (filters as readonly string[]).includes(name) && name !== 'tag'
  const groups = by.map((name): Column<Sum> => ({
    id: name,
    title: `${name[0]!.toUpperCase()}${name.slice(1)}`,
    value: (sum) => groupText(sum[name]),
    cell: (sum) => groupText(sum[name]) ?? html`<span class="quiet">none</span>`,
    filtersOut: false,
    ...(canFilter(name) && { filter: (sum: Sum) => (typeof sum[name] === 'string' ? sum[name] : undefined) })
  }))
  const inside = may({ whole: true })
    ? [money('cost', 'Cost'), money('margin', 'Margin', true), money('failed', 'Failed', true)]
    : []
  return [
    ...groups,
    {
      id: 'requests',
      title: 'Requests',
      align: 'end',
      value: ({ requests }) => requests,
      cell: ({ requests }) => counted(requests)
    },
    money('charge', 'Charged'),
    ...inside,
    units('input', 'Input tokens'),
    units('output', 'Output tokens')
  ]
}
