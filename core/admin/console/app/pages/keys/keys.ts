// Keys: a list, one of them beside it, and what makes new ones.
import { useState } from 'preact/hooks'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useList } from '../../load.ts'
import { Filters } from '../../parts/filters.ts'
import { Head } from '../../parts/head.ts'
import { budgetsText } from '../../parts/rights.ts'
import { FormDialog } from '../../parts/rights-forms.ts'
import { Failure, Nothing } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { Time } from '../../parts/time.ts'
import { address, linkTo, setQuery } from '../../router.ts'
import { may, ownTenant } from '../../session.ts'
import { tones } from './key.ts'
import type { IssuedKey, Key } from './key.ts'
import { Made } from './made.ts'
import { KeyPanel } from './panel.ts'

const path = '/admin/v1/keys'
const filters = ['tenant', 'project', 'member', 'state', 'source'] as const

const columns: readonly Column<Key>[] = [
  { id: 'name', title: 'Name', value: ({ name }) => name },
  {
    id: 'state',
    title: 'State',
    value: ({ state }) => state,
    filter: ({ state }) => state,
    filtersOut: false,
    cell: ({ state }) => h(Status, { tone: tones[state] }, state)
  },
  { id: 'tenant', title: 'Tenant', value: ({ tenant }) => tenant, filter: ({ tenant }) => tenant, filtersOut: false },
  {
    id: 'project',
    title: 'Project',
    value: ({ project }) => project,
    filter: ({ project }) => project ?? undefined,
    filtersOut: false
  },
  {
    id: 'member',
    title: 'Member',
    value: ({ member }) => member,
    filter: ({ member }) => member ?? undefined,
    filtersOut: false
  },
  { id: 'budget', title: 'Budget', value: ({ budget }) => budgetsText(budget) || null },
  { id: 'models', title: 'Models', optional: true, value: ({ models }) => models.join(', ') },
  {
    id: 'expires',
    title: 'Expires',
    value: ({ expires }) => expires,
    cell: ({ expires }) => h(Time, { at: expires, absent: 'never' })
  },
  { id: 'source', title: 'From', value: ({ source }) => source, filter: ({ source }) => source, filtersOut: false },
  {
    id: 'created',
    title: 'Made',
    optional: true,
    value: ({ created }) => created,
    cell: ({ created }) => h(Time, { at: created })
  }
]

/** The page. */
export default function KeysPage(): VNode {
  const { query, rest } = address.value
  const [open] = rest
  const asked = Object.fromEntries(filters.map((name) => [name, query.get(name) ?? undefined]))
  const list = useList<Key>(path, { ...asked, tenant: ownTenant.value ?? asked['tenant'] })
  const [making, setMaking] = useState(false)
  const [issued, setIssued] = useState<IssuedKey>()
  const kept = Object.fromEntries(query)
  const made = (key: IssuedKey): void => {
    setMaking(false)
    setIssued(key)
    list.again()
  }
  const about = 'What clients come in with: each belongs to a tenant, and may be narrower than it.'
  return html`
    ${h(Head, { title: 'Keys', about }, may({ needs: 'manage' }) ? html`<button type="button" class="primary" onClick=${() => setMaking(true)}>Make a key</button>` : null)}
    ${h(Filters, { names: filters })} ${list.error ? h(Failure, { error: list.error, again: list.again }) : null}
    <div class=${open === undefined ? '' : 'split'}>
      ${h(Table<Key>, {
        name: 'keys',
        columns,
        rows: list.rows,
        keyOf: ({ name }) => name,
        sort: { column: 'name', down: false },
        more: list.more,
        busy: list.busy,
        open: ({ name }) => linkTo('keys', [name], kept),
        current: open,
        onFilter: (column: string, value: string) => setQuery({ [column]: value }),
        empty: h(Nothing, { title: 'No key is like this' }, html`<p>Make one, or take a filter out.</p>`)
      })}
      ${
        open === undefined
          ? null
          : h(KeyPanel, {
              key: open,
              name: open,
              changed: list.again,
              issued: setIssued,
              back: linkTo('keys', [], kept)
            })
      }
    </div>
    ${
      making
        ? h(FormDialog<IssuedKey>, {
            title: 'Make a key',
            action: 'Make',
            method: 'POST',
            route: path,
            path,
            value: { tenant: ownTenant.value ?? query.get('tenant') ?? undefined },
            form: {
              first: ['tenant', 'project', 'member', 'name', 'budget', 'models'],
              without: ['key', 'key_sha256']
            },
            close: () => setMaking(false),
            done: made
          })
        : null
    }
    ${issued ? h(Made, { name: issued.name, secret: issued.key, close: () => setIssued(undefined) }) : null}
  `
}
