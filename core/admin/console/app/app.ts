// What is around every page: the bar, the navigation, sign-in, and what is shown when a page fails.
import { Component } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { send } from './api.ts'
import type { ApiError } from './api.ts'
import { h, html } from './html.ts'
import type { ComponentChildren, FunctionComponent, VNode } from './html.ts'
import { shownError } from './load.ts'
import { allowSingleKeys, singleKeys } from './keys.ts'
import { loadedPage, loadPage } from './pages.ts'
import { Palette } from './palette.ts'
import { Announcer } from './parts/announcer.ts'
import { Dialog } from './parts/dialog.ts'
import { Menu } from './parts/menu.ts'
import { Failure, Waiting } from './parts/states.ts'
import { groups, places } from './places.ts'
import type { Place } from './places.ts'
import { address, go, linkTo, moves } from './router.ts'
import { choose, scheme } from './scheme.ts'
import type { Scheme } from './scheme.ts'
import { known, may, who } from './session.ts'
import { SignIn } from './sign-in.ts'

/** The console. `error`: why the API could not say who is there. */
export function App({ error }: { error: ApiError | undefined }): VNode {
  const now = who.value
  if (error) return html`<main class="alone">${h(Failure, { error, again: () => location.reload() })}</main>`
  if (!known.value) return html`<main class="alone">${h(SignIn, {})}</main>`
  return html`
    <a class="skip" href="#main">Skip to the content</a>
    ${h(Bar, {})}
    <div class="frame">
      <nav class="places" id="places" aria-label="Pages">${h(Navigation, {})}</nav>
      <main id="main" tabindex="-1">${h(Catch, { key: address.value.place }, h(CurrentPage, {}))}</main>
    </div>
    ${h(Announcer, {})} ${h(Palette, {})} ${now ? null : h(Dialog, { title: 'Your session is over' }, h(SignIn, { again: true }))}
  `
}

function Bar(): VNode {
  const [shown, setShown] = useState(false)
  const place = address.value.place
  useEffect(() => setShown(false), [place])
  useEffect(() => void document.documentElement.classList.toggle('menu', shown), [shown])
  return html`
    <header class="bar">
      <button
        type="button"
        class="plain menu-button"
        aria-expanded=${shown}
        aria-controls="places"
        onClick=${() => setShown(!shown)}
      >
        ☰ <span>Menu</span>
      </button>
      <a class="brand" href="/console/">Sluice</a>
      <span class="grow"></span>
      ${h(Person, {})}
    </header>
  `
}

function SchemeChoice(): VNode {
  const titles: Readonly<Record<Scheme, string>> = {
    system: 'Colours: system',
    light: 'Colours: light',
    dark: 'Colours: dark'
  }
  return html`
    <select
      class="slim wide"
      aria-label="Colours"
      value=${scheme.value}
      onChange=${(event: Event) => choose((event.target as HTMLSelectElement).value as Scheme)}
    >
      ${Object.entries(titles).map(([value, title]) => html`<option value=${value}>${title}</option>`)}
    </select>
  `
}

/** Who is there, with what is theirs. Without a session there is no way out: this machine needs no sign-in. */
function Person(): VNode | null {
  const { value } = known
  const leave = (): void =>
    void send('POST', '/admin/logout').then(
      () => location.reload(),
      () => location.reload()
    )
  if (!value) return null
  const where = value.tenant === null ? '' : ` of ${value.tenant}`
  const title = html`<span class="person"
      ><b>${value.name ?? value.id}</b>${' '}<span class="quiet">${value.role}${where}</span></span
    >
    <span aria-hidden="true">▾</span>`
  return h(
    Menu,
    { title, class: 'plain' },
    html`
      <p class="quiet">${value.role}${where}</p>
      ${places.filter((place) => place.group === undefined && may(place)).map(({ path, title: name }) => html`<p><a href=${linkTo(path)}>${name}</a></p>`)}
      <p>${h(SchemeChoice, {})}</p>
      <label
        ><input
          type="checkbox"
          checked=${singleKeys.value}
          onChange=${(event: Event) => allowSingleKeys((event.target as HTMLInputElement).checked)}
        />
        Shortcuts of a single key</label
      >
      ${value.csrf === null ? null : html`<p><button type="button" class="small" onClick=${leave}>Sign out</button></p>`}
    `
  )
}

function Navigation(): VNode[] {
  const { place: current } = address.value
  return groups.flatMap((group) => {
    const shown = places.filter((place) => place.group === group && may(place))
    return shown.length === 0
      ? []
      : [
          html`<h2>${group}</h2>
            <ul>
              ${shown.map(
                ({ path, title }) =>
                  html`<li>
                    <a href=${linkTo(path)} aria-current=${path === current ? 'page' : undefined}>${title}</a>
                  </li>`
              )}
            </ul>`
        ]
  })
}

/** The page of the address. It is loaded first, once. */
function CurrentPage(): VNode | null {
  const { place } = address.value
  const found = places.find(({ path }) => path === place)
  const first = places.find(may)
  useEffect(() => {
    if (place === '' && first) go(linkTo(first.path), { replace: true })
  }, [place])
  if (place === '' && first) return null
  if (!found) return h(NoPage, {})
  return may(found) ? h(LoadedPage, { place: found, key: place }) : h(NotForYou, { place: found })
}

function LoadedPage({ place }: { place: Place }): VNode {
  const [state, setState] = useState<{ page?: FunctionComponent | undefined; error?: ApiError }>({
    page: loadedPage(place.path)
  })
  const load = (): void => {
    setState({})
    loadPage(place.path).then(
      (page) => setState({ page }),
      (error: unknown) => setState({ error: shownError(error) })
    )
  }
  useEffect(() => {
    if (!state.page) load()
  }, [])
  useHeading(state.page)
  if (state.error) return h(Failure, { error: state.error, again: load })
  return state.page ? h(state.page, {}) : h(Waiting, {})
}

/** Lets a reader who cannot see that the page changed hear its heading. */
function useHeading(page: unknown): void {
  useEffect(() => {
    if (page && moves.peek() > 0) document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true })
  }, [page])
}

function NoPage(): VNode {
  useHeading(true)
  return html`<h1 tabindex="-1">There is no such page</h1>
    <p>The navigation has those that there are.</p>`
}

function NotForYou({ place }: { place: Place }): VNode {
  useHeading(place)
  return html`<h1 tabindex="-1">${place.title}</h1>
    <p class="notice warn">
      Your role ${known.value?.role} does not see this page. An owner can give you another one.
    </p>`
}

/** Shows why a page failed, instead of nothing. */
class Catch extends Component<{ children?: ComponentChildren }, { error?: unknown }> {
  override componentDidCatch(error: unknown): void {
    this.setState({ error })
    // The browser's console has where it happened.
    console.error(error)
  }

  override render(): ComponentChildren {
    const { error } = this.state
    if (error === undefined) return this.props.children
    return h(Failure, { error: shownError(error), again: () => location.reload() })
  }
}
