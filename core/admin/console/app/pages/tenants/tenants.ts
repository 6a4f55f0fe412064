// Tenants with their projects and members: what each may use and spend, and what it has spent.
import { useState } from 'preact/hooks'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useList } from '../../load.ts'
import { Head } from '../../parts/head.ts'
import { budgetsText, limitsText } from '../../parts/rights.ts'
import { FormDialog } from '../../parts/rights-forms.ts'
import { Failure, Nothing } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { address, linkTo } from '../../router.ts'
import { may, ownTenant } from '../../session.ts'
import { pathOf, tones } from './level.ts'
import type { Level, Tenant } from './level.ts'
import { LevelPanel } from './panel.ts'

const path = '/admin/v1/tenants'

const columns: readonly Column<Level>[] = [
  { id: 'name', title: 'Tenant / project / member', value: (level) => pathOf(level).join(' / ') },
  { id: 'kind', title: 'Kind', value: ({ scope }) => scope.slice(0, scope.indexOf(':')) },
  {
    id: 'state',
    title: 'State',
    value: ({ state }) => state,
    cell: ({ state }) => h(Status, { tone: tones[state] }, state)
  },
  { id: 'budget', title: 'Budget', value: ({ budget }) => budgetsText(budget) || null },
  { id: 'limits', title: 'Limits', value: ({ limits }) => limitsText(limits) || null },
  { id: 'models', title: 'Models', value: ({ models }) => models.join(', ') },
  { id: 'source', title: 'From', value: ({ source }) => source }
]

/** The page. */
export default function TenantsPage(): VNode {
  const { rest } = address.value
  const list = useList<Tenant>(path, { tenant: ownTenant.value })
  const [making, setMaking] = useState(false)
  const rows = list.rows.flatMap((tenant) => [
    tenant,
    ...tenant.projects.flatMap((project) => [project, ...project.members])
  ])
  const open = rest.length === 0 ? undefined : rest.join('/')
  const about = 'Who may use the gateway: tenants, their projects, and the members of these, each within the one above.'
  return html`
    ${h(Head, { title: 'Tenants', about }, may({ needs: 'operate' }) ? html`<button type="button" class="primary" onClick=${() => setMaking(true)}>Make a tenant</button>` : null)}
    ${list.error ? h(Failure, { error: list.error, again: list.again }) : null}
    <div class=${open === undefined ? '' : 'split'}>
      ${h(Table<Level>, {
        name: 'tenants',
        columns,
        rows,
        keyOf: (level) => pathOf(level).join('/'),
        more: list.more,
        busy: list.busy,
        open: (level) => linkTo('tenants', pathOf(level)),
        current: open,
        empty: h(Nothing, { title: 'There are no tenants' }, html`<p>Make one: every key belongs to a tenant.</p>`)
      })}
      ${
        open === undefined
          ? null
          : h(LevelPanel, { key: open, names: rest, changed: list.again, back: linkTo('tenants') })
      }
    </div>
    ${
      making
        ? h(FormDialog<Level>, {
            title: 'Make a tenant',
            action: 'Make',
            method: 'POST',
            route: path,
            path,
            value: {},
            form: { first: ['name', 'budget', 'limits', 'models'] },
            close: () => setMaking(false),
            done: () => {
              setMaking(false)
              list.again()
            }
          })
        : null
    }
  `
}
