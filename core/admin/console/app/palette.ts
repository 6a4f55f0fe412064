// Goes anywhere by typing: opened by Control+K or ⌘K. It has the pages that its reader may see, and their choices.
import { useEffect, useId, useState } from 'preact/hooks'
import { h, html } from './html.ts'
import type { VNode } from './html.ts'
import { allowSingleKeys, singleKeys, useKeys } from './keys.ts'
import { Dialog } from './parts/dialog.ts'
import { places } from './places.ts'
import { go, linkTo } from './router.ts'
import { choose } from './scheme.ts'
import { may } from './session.ts'

interface Command {
  readonly title: string
  act(): void
}

function commands(typed: string): Command[] {
  const all: Command[] = [
    ...places.filter(may).map(({ path, title }) => ({ title, act: () => go(linkTo(path)) })),
    { title: 'Colours: dark', act: () => choose('dark') },
    { title: 'Colours: light', act: () => choose('light') },
    { title: 'Colours: as the system has them', act: () => choose('system') },
    {
      title: singleKeys.value ? 'Turn off shortcuts of a single key' : 'Turn on shortcuts of a single key',
      act: () => allowSingleKeys(!singleKeys.value)
    }
  ]
  const words = typed.toLowerCase().split(/\s+/)
  const found = all.filter(({ title }) => words.every((word) => title.toLowerCase().includes(word)))
  // What looks like the id of a request leads to it.
  const id = typed.trim()
  const known = places.some(({ path }) => path === 'requests')
  if (known && /^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(id))
    found.unshift({ title: `Request ${id}`, act: () => go(linkTo('requests', [id])) })
  return found
}

/** The palette, with the keys that open it and that go to the filter of a page. */
export function Palette(): VNode | null {
  const [shown, setShown] = useState(false)
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
      if (document.querySelector('dialog[open]')) return
      event.preventDefault()
      setShown(true)
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [])
  useKeys({
    '/': () => document.querySelector<HTMLElement>('main input[type="search"], main .filters input')?.focus(),
    '?': () => setShown(true)
  })
  if (!shown) return null
  return h(Dialog, { title: 'Go to', close: () => setShown(false) }, h(Choice, { close: () => setShown(false) }))
}

function Choice({ close }: { close: () => void }): VNode {
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState(0)
  const id = useId()
  const found = commands(typed)
  const place = Math.min(at, found.length - 1)
  const take = (command: Command | undefined): void => {
    if (!command) return
    close()
    command.act()
  }
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step === undefined) return
    event.preventDefault()
    setAt((place + step + found.length) % Math.max(1, found.length))
  }
  const submit = (event: Event): void => {
    event.preventDefault()
    take(found[place])
  }
  return html`
    <form class="palette" onSubmit=${submit}>
      <input class="wide" role="combobox" aria-label="Page or command" aria-expanded="true" aria-controls=${id} autocomplete="off"
        aria-activedescendant=${found.length > 0 ? `${id}-${place}` : undefined} value=${typed} onKeyDown=${press}
        onInput=${(event: Event) => (setTyped((event.target as HTMLInputElement).value), setAt(0))} />
      <ul role="listbox" id=${id} aria-label="Pages and commands">
        ${found.map(
          (command, one) => html`
            <li role="option" id=${`${id}-${one}`} aria-selected=${one === place ? 'true' : 'false'} onClick=${() => take(command)}>${command.title}</li>
          `
        )}
      </ul>
      ${found.length === 0 ? html`<p class="quiet" role="status">Nothing of that name. Ids of requests work too.</p>` : null}
      <p class="quiet keys"><kbd>Ctrl</kbd> <kbd>K</kbd> this · <kbd>/</kbd> filter · <kbd>j</kbd> <kbd>k</kbd> next and previous row · <kbd>Esc</kbd> close</p>
    </form>
  `
}
