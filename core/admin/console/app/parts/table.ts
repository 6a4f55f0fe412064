// The one table: sorts, filters, copies, shows columns of choice, and draws only the rows that can be seen.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { h, html } from '../html.ts'
import type { ComponentChildren, VNode } from '../html.ts'
import { recall, remember } from '../remembered.ts'
import { say } from './announcer.ts'
import { copy } from './copy.ts'
import { Menu } from './menu.ts'
import { counted } from './number.ts'
import { matches, sorted, tsvOf } from './table-rows.ts'
import type { Sort, Valued } from './table-rows.ts'

export type { Sort } from './table-rows.ts'

/** A column. */
export interface Column<T> extends Valued<T> {
  /** What is shown; absent: the value. */
  cell?(row: T): ComponentChildren
  /** `end` for numbers. */
  readonly align?: 'end'
  /** Not shown until the reader chooses it. */
  readonly optional?: boolean
  /** False where the API has no order by it, though it has a value. */
  readonly sorts?: boolean
  /** The text that a filter by this cell takes; absent or undefined: none. */
  filter?(row: T): string | undefined
  /** False where the API cannot leave out what has a value. */
  readonly filtersOut?: boolean
}

/** The height of a row in pixels; the style has the same. */
const rowHeight = 28
/** From so many rows on the table scrolls in a box of its own, and rows out of sight are not drawn. */
const windowed = 60
/** Rows that are drawn beyond the box, at each side. */
const spare = 8

/** What a table needs. */
export interface TableProps<T> {
  /** Its name for whoever cannot see it, and for what the browser remembers of it: `keys`. */
  name: string
  columns: readonly Column<T>[]
  rows: readonly T[]
  keyOf(row: T): string
  /** Where a row leads, from its first column. */
  open?(row: T): string | undefined
  /** The key of the row that is open beside the table. */
  current?: string | undefined
  /** The order at first; without one that of `rows`. */
  sort?: Sort
  /** Called when the reader sorts, where the API sorts; without it the table does. */
  onSort?(sort: Sort | undefined): void
  /** Loads more rows, which happens when the end comes into sight. */
  more?: (() => void) | undefined
  busy?: boolean
  /** Whether a field filters what is loaded; default true. Off where the API filters. */
  filter?: boolean
  /** Called with what the reader wants to see alone, or not at all; cells of columns with `filter` offer it. */
  onFilter?(column: string, value: string, not: boolean): void
  /** What is shown instead of rows. */
  empty: ComponentChildren
  /** More for the line over the table. */
  children?: ComponentChildren
}

/** The table. */
export function Table<T>(props: TableProps<T>): VNode {
  const { columns, name } = props
  const [sort, setSort] = useState<Sort | undefined>(props.sort)
  const [wanted, setWanted] = useState('')
  const [chosen, setChosen] = useState<readonly string[] | undefined>(() => chosenOf(name, columns))
  const shown = columns.filter((column) => (chosen ? chosen.includes(column.id) : !column.optional))
  const rows = useMemo(() => {
    const found = wanted === '' ? props.rows : props.rows.filter((row) => matches(row, columns, wanted))
    return sort && !props.onSort ? sorted(found, columns, sort) : found
  }, [props.rows, columns, wanted, sort])
  const order = (column: Column<T>): void => {
    const next =
      sort?.column !== column.id
        ? { column: column.id, down: column.align === 'end' }
        : sort.down === (column.align === 'end')
          ? { column: column.id, down: !sort.down }
          : undefined
    setSort(next)
    props.onSort?.(next)
    say(next ? `Sorted by ${column.title}, ${next.down ? 'highest first' : 'lowest first'}` : 'Not sorted')
  }
  const choose = (next: readonly string[] | undefined): void => {
    setChosen(next)
    remember(`columns.${name}`, next)
  }
  return html`
    <div class="table">
      <div class="table-bar">
        ${
          props.filter === false
            ? null
            : html`<input
                type="search"
                class="slim"
                placeholder="Filter"
                aria-label=${`Filter ${name}`}
                value=${wanted}
                onInput=${(event: Event) => setWanted((event.target as HTMLInputElement).value)}
              />`
        }
        ${props.children}
        <span class="grow"></span>
        <span class="quiet number" role="status">${countOf(rows.length, props)}</span>
        <button
          type="button"
          class="small"
          disabled=${rows.length === 0}
          onClick=${() => void copy(tsvOf(rows, shown), `Copied ${rows.length} rows`)}
        >
          Copy
        </button>
        ${h(ColumnChoice<T>, { columns, shown, choose })}
      </div>
      ${rows.length === 0 && !props.busy ? props.empty : h(Box<T>, { ...props, rows, columns: shown, sort, order })}
    </div>
  `
}

function countOf<T>(rows: number, { more, busy }: Pick<TableProps<T>, 'more' | 'busy'>): string {
  return `${counted(rows)}${more ? '+' : ''} ${rows === 1 ? 'row' : 'rows'}${busy ? ', loading…' : ''}`
}

function chosenOf<T>(name: string, columns: readonly Column<T>[]): readonly string[] | undefined {
  const kept = recall(`columns.${name}`)
  if (!Array.isArray(kept)) return undefined
  const known = columns.filter(({ id }) => kept.includes(id)).map(({ id }) => id)
  return known.length > 0 ? known : undefined
}

interface ChoiceProps<T> {
  columns: readonly Column<T>[]
  shown: readonly Column<T>[]
  choose(ids: readonly string[] | undefined): void
}

function ColumnChoice<T>({ columns, shown, choose }: ChoiceProps<T>): VNode {
  const ids = shown.map(({ id }) => id)
  const toggle = (id: string): void => {
    const next = columns.map((column) => column.id).filter((one) => (one === id) !== ids.includes(one))
    if (next.length > 0) choose(next)
  }
  return h(
    Menu,
    { title: 'Columns' },
    html`
      ${columns.map(
        ({ id, title }) =>
          html`<label
            ><input type="checkbox" checked=${ids.includes(id)} onChange=${() => toggle(id)} /> ${title}</label
          >`
      )}
      <button type="button" class="small" onClick=${() => choose(undefined)}>As at first</button>
    `
  )
}

interface BoxProps<T> extends Omit<TableProps<T>, 'sort'> {
  sort: Sort | undefined
  order(column: Column<T>): void
}

function Box<T>(props: BoxProps<T>): VNode {
  const { rows, columns, sort, order } = props
  const box = useRef<HTMLDivElement>(null)
  const [first, setFirst] = useState(0)
  const large = rows.length > windowed
  const height = box.current?.clientHeight ?? 700
  const from = large ? Math.max(0, Math.min(first - spare, rows.length - 1)) : 0
  const to = large ? Math.min(rows.length, first + Math.ceil(height / rowHeight) + spare) : rows.length
  // They come before the end is seen.
  const atEnd = props.more !== undefined && to >= rows.length - windowed && large
  // Without a box there is no scrolling to the end: then a button loads more.
  useEffect(() => {
    if (atEnd) props.more?.()
  }, [atEnd, rows.length])
  // Once for each row that comes into sight, and not for each pixel.
  const scroll = (): void => {
    const row = Math.floor((box.current?.scrollTop ?? 0) / rowHeight)
    if (large && row !== first) setFirst(row)
  }
  const head = (column: Column<T>): VNode => {
    const direction = sort?.column === column.id ? (sort.down ? 'descending' : 'ascending') : undefined
    const arrow = direction === undefined ? '' : sort?.down ? ' ↓' : ' ↑'
    return html`<th scope="col" class=${column.align === 'end' ? 'end' : ''} aria-sort=${direction}>
      ${
        column.value && column.sorts !== false
          ? html`<button type="button" class="plain" onClick=${() => order(column)}>
              ${column.title}<span aria-hidden="true">${arrow}</span>
            </button>`
          : column.title
      }
    </th>`
  }
  return html`
    <div
      class=${large ? 'table-box tall' : 'table-box'}
      ref=${box}
      role="region"
      tabindex="0"
      aria-label=${`Table of ${props.name}`}
      onScroll=${scroll}
      aria-busy=${props.busy ? 'true' : undefined}
    >
      <table aria-rowcount=${large ? rows.length + 1 : undefined}>
        <thead>
          <tr aria-rowindex=${large ? 1 : undefined}>
            ${columns.map(head)}
          </tr>
        </thead>
        <tbody>
          ${
            from > 0
              ? html`<tr aria-hidden="true" key="above">
                  <td colspan=${columns.length} style=${{ height: `${from * rowHeight}px`, padding: 0 }}></td>
                </tr>`
              : null
          }
          ${rows.slice(from, to).map((row, place) =>
            h(Row<T>, {
              key: props.keyOf(row),
              row,
              columns,
              table: props,
              index: large ? from + place + 2 : undefined
            })
          )}
          ${
            to < rows.length
              ? html`<tr aria-hidden="true" key="below">
                  <td
                    colspan=${columns.length}
                    style=${{ height: `${(rows.length - to) * rowHeight}px`, padding: 0 }}
                  ></td>
                </tr>`
              : null
          }
        </tbody>
      </table>
    </div>
    ${props.more && !large ? html`<p><button type="button" onClick=${props.more}>Load more</button></p>` : null}
  `
}

interface RowProps<T> {
  row: T
  columns: readonly Column<T>[]
  table: Pick<TableProps<T>, 'open' | 'current' | 'keyOf' | 'onFilter'>
  index: number | undefined
}

function Row<T>({ row, columns, table, index }: RowProps<T>): VNode {
  // Most rows are read alone: the buttons of a row come with the pointer, those of a cell with the focus in it.
  const [pointed, setPointed] = useState(false)
  const [focused, setFocused] = useState<number>()
  const to = table.open?.(row)
  const here = table.current !== undefined && table.current === table.keyOf(row)
  const cell = (column: Column<T>, place: number): VNode => {
    const content = column.cell ? column.cell(row) : String(column.value?.(row) ?? '–')
    const linked =
      place === 0 && to !== undefined
        ? html`<a href=${to} aria-current=${here ? 'true' : undefined}>${content}</a>`
        : content
    const wanted = table.onFilter && column.filter?.(row)
    return html`<td class=${`${column.align === 'end' ? 'end' : ''}${wanted ? ' offering' : ''}`.trim()}>
      ${linked}${wanted && (pointed || focused === place) ? h(Offers<T>, { value: wanted, column, table }) : null}
    </td>`
  }
  const cellOf = (target: EventTarget | null): number | undefined =>
    (target as Element | null)?.closest('td')?.cellIndex ?? undefined
  const leave = ({ currentTarget, relatedTarget }: FocusEvent): void => {
    if (!(currentTarget as Node).contains(relatedTarget as Node | null)) setFocused(undefined)
  }
  return html`<tr
    aria-rowindex=${index}
    class=${here ? 'here' : ''}
    onMouseEnter=${() => setPointed(true)}
    onMouseLeave=${() => setPointed(false)}
    onFocusIn=${({ target }: FocusEvent) => setFocused(cellOf(target))}
    onFocusOut=${leave}
  >
    ${columns.map(cell)}
  </tr>`
}

interface OffersProps<T> {
  value: string
  column: Column<T>
  table: RowProps<T>['table']
}

/** "Only this" and "not this" at a cell whose column filters. */
function Offers<T>({ value, column, table }: OffersProps<T>): VNode {
  const offer = (not: boolean): VNode =>
    html`<button
      type="button"
      class="plain"
      aria-label=${`${not ? 'Not' : 'Only'} ${column.title} ${value}`}
      onClick=${() => table.onFilter?.(column.id, value, not)}
    >
      ${not ? '≠' : '='}
    </button>`
  return html`<span class="offers">${offer(false)}${column.filtersOut === false ? null : offer(true)}</span>`
}
