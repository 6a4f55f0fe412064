// The log of requests: filters in the address, how many there are over time, the rows, and one request beside them.
import { useMemo } from 'preact/hooks'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { singleKeys, useKeys } from '../../keys.ts'
import { useList } from '../../load.ts'
import { Head } from '../../parts/head.ts'
import { counted } from '../../parts/number.ts'
import { Failure, Nothing } from '../../parts/states.ts'
import { Table } from '../../parts/table.ts'
import { address, go, linkTo, setQuery } from '../../router.ts'
import { may, ownTenant } from '../../session.ts'
import { FilterBar, filtersOf, nameOf } from './filters.ts'
import { foundInRows, useNewRows } from './new-rows.ts'
import type { NewRows } from './new-rows.ts'
import { OverTime } from './over-time.ts'
import { RequestPanel } from './panel.ts'
import { columnsOf } from './record.ts'
import type { RequestRecord } from './record.ts'
import { UnderWay } from './under-way.ts'

/** The page. */
export default function RequestsPage(): VNode {
  const { query, rest } = address.value
  const [open] = rest
  const whole = may({ whole: true })
  const filters = filtersOf(query)
  const confined = ownTenant.value === undefined ? filters : { ...filters, tenant: ownTenant.value }
  const list = useList<RequestRecord>('/admin/v1/requests', confined)
  const columns = useMemo(() => columnsOf(whole), [whole])
  const fresh = useNewRows(confined, filters['until'] === undefined, list.at)
  const to = (id: string | undefined): string => linkTo('requests', id === undefined ? [] : [id], filters)
  const place = list.rows.findIndex(({ request_id }) => request_id === open)
  const [newer, older] = place === -1 ? [] : [list.rows[place - 1]?.request_id, list.rows[place + 1]?.request_id]
  const show = (id: string | undefined, otherwise?: () => void): void =>
    id === undefined ? otherwise?.() : go(to(id), { replace: open !== undefined })
  useKeys({ j: () => show(older ?? (open ? undefined : list.rows[0]?.request_id), list.more), k: () => show(newer) })
  const empty = h(
    Nothing,
    { title: Object.keys(filters).length > 0 ? 'No request fits these filters' : 'No requests yet' },
    Object.keys(filters).length > 0
      ? html`<p><a href=${linkTo('requests')}>Take all filters out</a></p>`
      : html`<p>Send one with a key, and it is here as soon as it has ended.</p>`
  )
  const table = html`<div>
    ${h(Table<RequestRecord>, {
      name: 'requests',
      columns,
      rows: list.rows,
      keyOf: ({ request_id }) => request_id,
      open: ({ request_id }) => to(request_id),
      current: open,
      filter: false,
      more: list.more,
      busy: list.busy,
      onFilter: (column, value, not) => setQuery({ [nameOf(column, not)]: value }, { replace: false }),
      empty,
      children: h(Fresh, { fresh, sure: Object.keys(filters).every((name) => foundInRows.has(name)), show: list.again })
    })}
    ${singleKeys.value ? html`<p class="quiet">Keys: <kbd>/</kbd> filter, <kbd>J</kbd> older, <kbd>K</kbd> newer.</p>` : null}
  </div>`
  return html`
    ${h(Head, { title: 'Requests', about: 'Each request with what became of it, and why.' })}
    ${h(FilterBar, { whole })} ${h(OverTime, { filters: confined, ready: list.at !== undefined })}
    ${h(UnderWay, { tenant: confined['tenant'], whole })}
    ${list.error ? h(Failure, { error: list.error, again: list.again }) : null}
    <div class=${open === undefined ? '' : 'split'}>
      ${table}
      ${
        open === undefined
          ? null
          : h(RequestPanel, { id: open, close: to(undefined), previous: newer && to(newer), next: older && to(older) })
      }
    </div>
  `
}

/** What came since, which does not push what is read. `sure`: whether what is counted fits all filters. */
function Fresh({ fresh, sure, show }: { fresh: NewRows; sure: boolean; show(): void }): VNode {
  const { count, more } = fresh
  const load = (event: Event): void => {
    // What is new is at the top.
    ;(event.currentTarget as HTMLElement).closest('.table')?.querySelector('.table-box')?.scrollTo(0, 0)
    show()
  }
  return count === 0 && !more
    ? html`<span class="quiet">Newest first</span>`
    : html`<button type="button" class="small primary" onClick=${load}>
        ${counted(count)}${more ? '+' : ''} ${sure ? 'new' : 'new, of any'}
      </button>`
}
