// The address of the page: what is shown follows from it alone, so that every view can be sent to somebody.
import { forgetEarly } from './early.ts'
import { signal } from '@preact/signals'

/** An address below `/console/`. */
export interface Address {
  /** The first segment, which names the page. */
  readonly place: string
  /** The segments after it, percent-decoded. */
  readonly rest: readonly string[]
  readonly query: URLSearchParams
}

const base = '/console/'

/** The address that is shown. */
export const address = signal<Address>(read())

/** Counts moves to other pages, by which the frame moves the focus; changes of a query are none. */
export const moves = signal(0)

function read(): Address {
  const [place = '', ...rest] = location.pathname.slice(base.length).split('/')
  return { place, rest: rest.filter((part) => part !== '').map(decoded), query: new URLSearchParams(location.search) }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The address of something: `linkTo('requests', ['req_1'], { tenant: 'acme' })`. Empty values are left out. */
export function linkTo(
  place: string,
  rest: readonly string[] = [],
  query: Readonly<Record<string, string | undefined>> = {}
): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1]))
  const search = new URLSearchParams(given).toString()
  return base + [place, ...rest].map(encodeURIComponent).join('/') + (search === '' ? '' : `?${search}`)
}

/** Shows an address of the console. `replace`: the present one is not kept for the button "back". */
export function go(to: string, { replace = false }: { replace?: boolean } = {}): void {
  const before = address.peek()
  if (replace) history.replaceState(null, '', to)
  else history.pushState(null, '', to)
  arrive(before)
}

function arrive(before: Address): void {
  forgetEarly()
  const now = read()
  address.value = now
  if (now.place === before.place && now.rest.join('/') === before.rest.join('/')) return
  // Going on from the address of the console itself is no move of the reader.
  if (before.place !== '') moves.value++
  scrollTo(0, 0)
}

/** Changes parts of the query; undefined and empty take one out. By default it replaces the address. */
export function setQuery(
  changes: Readonly<Record<string, string | undefined>>,
  { replace = true }: { replace?: boolean } = {}
): void {
  const { query } = address.peek()
  const next = new URLSearchParams(query)
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === '') next.delete(name)
    else next.set(name, value)
  }
  const search = next.toString()
  go(location.pathname + (search === '' ? '' : `?${search}`), { replace })
}

/** Lets links within the console change the address without loading the page anew. Called once. */
export function listen(): void {
  addEventListener('popstate', () => arrive(address.peek()))
  document.addEventListener('click', (event) => {
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return
    const link = (event.target as Element | null)?.closest('a')
    if (!link || link.origin !== location.origin || !link.pathname.startsWith(base)) return
    if (link.target !== '' || link.hasAttribute('download') || link.hash !== '') return
    event.preventDefault()
    go(link.pathname + link.search)
  })
}
