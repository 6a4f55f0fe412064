// The filters of the log: each a chip, and a key of the address.
import { useState } from 'preact/hooks'
import { get } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Filters } from '../../parts/filters.ts'
import { setQuery } from '../../router.ts'

/** The filters that there are, with what a value looks like. `whole`: for those alone who see the whole gateway. */
const filters: readonly {
  readonly name: string
  readonly title: string
  readonly hint: string
  readonly whole?: true
  /** It cannot leave out what it would select. */
  readonly only?: true
}[] = [
  { name: 'status', title: 'Status', hint: '429 or 5xx' },
  { name: 'model', title: 'Model', hint: 'gpt-5' },
  { name: 'key', title: 'Key', hint: 'alice-laptop' },
  { name: 'tenant', title: 'Tenant', hint: 'acme', whole: true },
  { name: 'project', title: 'Project', hint: 'web' },
  { name: 'member', title: 'Member', hint: 'alice' },
  { name: 'channel', title: 'Channel asked', hint: 'openai', whole: true },
  { name: 'endpoint', title: 'Endpoint', hint: 'chat' },
  { name: 'code', title: 'Error', hint: 'rate_limit_rpm' },
  { name: 'outcome', title: 'Outcome', hint: 'failed' },
  { name: 'tag', title: 'Tag', hint: 'team or team=search' },
  { name: 'duration_min', title: 'Duration from', hint: '2s', only: true },
  { name: 'duration_max', title: 'Duration to', hint: '500ms', only: true },
  { name: 'cost_min', title: 'Cost from, USD', hint: '0.01', only: true },
  { name: 'cost_max', title: 'Cost to, USD', hint: '1', only: true },
  { name: 'request_id', title: 'Request', hint: 'its id', only: true },
  { name: 'since', title: 'Since', hint: '2026-11-21T08:00:00Z', only: true },
  { name: 'until', title: 'Until', hint: '2026-11-22', only: true }
]

/** The name of a filter in the address; `not`: of what leaves out what it would select. */
export function nameOf(name: string, not: boolean): string {
  return not ? `not_${name}` : name
}

/** The names of some filters in the address, and of what leaves out what they would select. */
const namesOf = (some: typeof filters): string[] =>
  some.flatMap(({ name, only }) => (only ? [name] : [name, nameOf(name, true)]))

const titles = Object.fromEntries(
  filters.flatMap(({ name, title }) => [
    [name, title],
    [nameOf(name, true), `${title} is not`]
  ])
)

/** The filters of an address, as the API takes them. */
export function filtersOf(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries(namesOf(filters).flatMap((name) => (query.get(name) ? [[name, query.get(name)!]] : [])))
}

const spans = [
  ['15 min', 15],
  ['1 h', 60],
  ['24 h', 24 * 60],
  ['7 d', 7 * 24 * 60]
] as const

/** The chips, a field for another one, and spans of time. */
export function FilterBar({ whole }: { whole: boolean }): VNode {
  const offered = filters.filter((one) => whole || !one.whole)
  const [name, setName] = useState('status')
  const [not, setNot] = useState(false)
  const [value, setValue] = useState('')
  const chosen = offered.find((one) => one.name === name)
  const known = useLoad<Record<string, readonly string[]>>(
    (signal) => get('/admin/v1/requests/filters', {}, signal),
    []
  )
  const add = (event: Event): void => {
    event.preventDefault()
    if (value.trim() === '') return
    setQuery({ [nameOf(name, not && !chosen?.only)]: value.trim() }, { replace: false })
    setValue('')
    setNot(false)
  }
  const last = (minutes: number): void =>
    setQuery({ since: new Date(Date.now() - minutes * 60_000).toISOString(), until: undefined }, { replace: false })
  return html`
    <form class="request-filters" onSubmit=${add}>
      <select
        aria-label="What to filter by"
        value=${name}
        onChange=${(event: Event) => setName((event.target as HTMLSelectElement).value)}
      >
        ${offered.map((one) => html`<option value=${one.name}>${one.title}</option>`)}
      </select>
      ${
        chosen?.only
          ? null
          : html`<select
              aria-label="Whether it is this"
              value=${not ? 'not' : 'is'}
              onChange=${(event: Event) => setNot((event.target as HTMLSelectElement).value === 'not')}
            >
              <option value="is">is</option>
              <option value="not">is not</option>
            </select>`
      }
      <input
        type="search"
        class="slim"
        list="request-values"
        autocomplete="off"
        spellcheck=${false}
        aria-label="Value of the filter"
        placeholder=${chosen?.hint}
        value=${value}
        onInput=${(event: Event) => setValue((event.target as HTMLInputElement).value)}
      />
      <datalist id="request-values">
        ${(known.data?.[name] ?? []).map((one) => html`<option value=${one}></option>`)}
      </datalist>
      <button type="submit" class="small">Filter</button>
      <span class="grow"></span>
      ${spans.map(([title, minutes]) => html`<button type="button" class="small" onClick=${() => last(minutes)}>${title}</button>`)}
    </form>
    ${h(Filters, { names: namesOf(offered), titles })}
  `
}
