// The audit log: who changed what, with filters in the address, what was before and after, and an export.
import { pathWith } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useList } from '../../load.ts'
import { Diff } from '../../parts/diff.ts'
import { Head } from '../../parts/head.ts'
import { Panel } from '../../parts/panel.ts'
import { Failure, Nothing } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { Id, Text } from '../../parts/text.ts'
import { Time } from '../../parts/time.ts'
import { address, linkTo, setQuery } from '../../router.ts'
import { may, ownTenant } from '../../session.ts'
import type { Entry } from './entry.ts'

const path = '/admin/v1/audit'
const filters = ['actor', 'action', 'object_kind', 'object', 'outcome', 'tenant', 'since', 'until'] as const

const keyOf = ({ seq, time, action, object }: Entry): string =>
  seq === undefined ? `${time} ${action} ${object}` : String(seq)

/** The page. */
export default function AuditPage(): VNode {
  const { query, rest } = address.value
  const asked = {
    ...Object.fromEntries(filters.map((name) => [name, query.get(name) ?? undefined])),
    tenant: ownTenant.value ?? query.get('tenant') ?? undefined
  }
  const list = useList<Entry>(path, asked)
  const open = list.rows.find((entry) => keyOf(entry) === rest[0])
  const given = Object.fromEntries(filters.map((name) => [name, query.get(name) ?? undefined]))
  const file = (format: string): VNode =>
    html`<a class="button" download href=${pathWith('/admin/v1/export/audit', { ...asked, format })}
      >${format === 'csv' ? 'CSV' : 'JSON lines'}</a
    > `
  return html`
    ${h(
      Head,
      {
        title: 'Audit',
        about: 'Who changed what, and who was refused. Entries are chained by hashes and never changed.'
      },
      [file('csv'), file('jsonl')]
    )}
    ${h(Filters, { query })} ${list.error ? h(Failure, { error: list.error, again: list.again }) : null}
    <div class=${open ? 'split' : ''}>
      ${h(Table<Entry>, {
        name: 'audit',
        columns,
        rows: list.rows,
        keyOf,
        open: (entry) => linkTo('audit', [keyOf(entry)], given),
        current: rest[0],
        filter: false,
        onFilter: (column, value, not) => {
          if (!not) setQuery({ [column]: value })
        },
        onSort: () => undefined,
        more: list.more,
        busy: list.busy,
        empty: h(Nothing, { title: 'No entries' }, html`<p>Nothing was changed that these filters let through.</p>`)
      })}
      ${open ? h(EntryPanel, { entry: open, back: linkTo('audit', [], given) }) : null}
    </div>
  `
}

const titles: Readonly<Record<(typeof filters)[number], string>> = {
  actor: 'Who',
  action: 'What',
  object_kind: 'Kind of thing',
  object: 'Thing',
  outcome: 'Outcome',
  tenant: 'Tenant',
  since: 'From',
  until: 'Up to'
}

function Filters({ query }: { query: URLSearchParams }): VNode {
  const set = (name: string) => (event: Event) => setQuery({ [name]: (event.target as HTMLInputElement).value.trim() })
  const shown = filters.filter((name) => name !== 'tenant' || may({ whole: true }))
  const field = (name: (typeof filters)[number]): VNode => {
    const value = query.get(name) ?? ''
    if (name === 'outcome')
      return html`<select value=${value} onChange=${set(name)}>
        <option value="">all</option>
        <option value="done" selected=${value === 'done'}>done</option>
        <option value="refused" selected=${value === 'refused'}>refused</option>
      </select>`
    const type = name === 'since' || name === 'until' ? 'date' : 'text'
    return html`<input
      type=${type}
      value=${value.slice(0, type === 'date' ? 10 : undefined)}
      autocomplete="off"
      onChange=${set(name)}
    />`
  }
  const clear = (): void => setQuery(Object.fromEntries(filters.map((name) => [name, undefined])))
  return html`
    <form class="audit-filters" role="search" aria-label="Filters" onSubmit=${(event: Event) => event.preventDefault()}>
      ${shown.map((name) => html`<label class="field"><span>${titles[name]}</span>${field(name)}</label>`)}
      ${shown.some((name) => query.get(name)) ? html`<button type="button" class="small" onClick=${clear}>Clear filters</button>` : null}
    </form>
  `
}

const columns: readonly Column<Entry>[] = [
  { id: 'time', title: 'Time', sorts: false, value: ({ time }) => time, cell: ({ time }) => h(Time, { at: time }) },
  {
    id: 'actor',
    title: 'Who',
    sorts: false,
    filtersOut: false,
    value: ({ actor, actor_name: name }) => name ?? actor,
    cell: ({ actor, actor_name: name }) => h(Text, { text: name ?? actor, most: 32 }),
    filter: ({ actor }) => actor
  },
  { id: 'role', title: 'Role', sorts: false, optional: true, value: (entry) => entry.actor_role },
  {
    id: 'action',
    title: 'What',
    sorts: false,
    filtersOut: false,
    value: ({ action }) => action,
    filter: ({ action }) => action
  },
  {
    id: 'object_kind',
    title: 'Kind',
    sorts: false,
    filtersOut: false,
    value: (entry) => entry.object_kind,
    filter: (entry) => entry.object_kind
  },
  {
    id: 'object',
    title: 'Thing',
    sorts: false,
    filtersOut: false,
    value: ({ object }) => object,
    cell: ({ object }) => h(Text, { text: object, most: 40 }),
    filter: ({ object }) => object
  },
  {
    id: 'outcome',
    title: 'Outcome',
    sorts: false,
    filtersOut: false,
    value: ({ outcome }) => outcome ?? 'done',
    cell: ({ outcome = 'done' }) => h(Status, { tone: outcome === 'done' ? 'good' : 'bad' }, outcome),
    filter: ({ outcome = 'done' }) => outcome
  },
  { id: 'tenant', title: 'Tenant', sorts: false, optional: true, value: ({ tenant }) => tenant },
  { id: 'address', title: 'From', sorts: false, optional: true, value: (entry) => entry.address }
]

const shownJson = (value: Readonly<Record<string, unknown>> | null): string =>
  value === null ? '' : JSON.stringify(value, null, 2)

function EntryPanel({ entry, back }: { entry: Entry; back: string }): VNode {
  const { before, after } = entry
  return h(
    Panel,
    { label: 'Entry', back },
    html`
      <div class="dialog-head">
        <h2>${entry.action} · ${h(Text, { text: entry.object, most: 40 })}</h2>
        <a class="button plain small" href=${back} aria-label="Close">✕</a>
      </div>
      <dl>
        <dt>Time</dt>
        <dd>${h(Time, { at: entry.time })}</dd>
        <dt>Who</dt>
        <dd>
          ${h(Text, { text: entry.actor_name ?? entry.actor })}
          <span class="quiet">${entry.actor_kind}${entry.actor_role ? `, ${entry.actor_role}` : ''}</span>
        </dd>
        ${
          entry.address
            ? html`<dt>From</dt>
                <dd><code>${entry.address}</code></dd>`
            : null
        }
        ${
          entry.request_id
            ? html`<dt>Request</dt>
                <dd>${h(Id, { id: entry.request_id, most: 44 })}</dd>`
            : null
        }
        <dt>Outcome</dt>
        <dd>${h(Status, { tone: entry.outcome === 'refused' ? 'bad' : 'good' }, entry.outcome ?? 'done')}</dd>
        ${
          entry.why
            ? html`<dt>Why</dt>
                <dd>${h(Text, { text: entry.why, most: 2000 })}</dd>`
            : null
        }
        ${
          entry.times
            ? html`<dt>Times</dt>
                <dd>${entry.times}</dd>`
            : null
        }
        ${
          entry.hash
            ? html`<dt>Hash</dt>
                <dd>${h(Id, { id: entry.hash, most: 32 })}</dd>`
            : null
        }
      </dl>
      <h3>Before and after</h3>
      ${
        before === null && after === null
          ? html`<p class="quiet">Nothing was changed by it.</p>`
          : h(Diff, { before: shownJson(before), after: shownJson(after), name: 'Before and after' })
      }
    `
  )
}
