// The filters of a page: those of its address, each with a way to take it out.
import { html } from '../html.ts'
import type { VNode } from '../html.ts'
import { address, setQuery } from '../router.ts'
import { visible } from './text.ts'
import { shownTime } from './time.ts'

/** What is drawn. */
export interface FiltersProps {
  readonly names: readonly string[]
  /** What they are called, where that is not their name. */
  readonly titles?: Readonly<Record<string, string>>
}

/** Draws the filters that the address has of these names; nothing without any. */
export function Filters({ names, titles = {} }: FiltersProps): VNode | null {
  const given = names.flatMap((name) => {
    const value = address.value.query.get(name)
    return value === null ? [] : [{ name, title: titles[name] ?? name, shown: shownValue(name, value) }]
  })
  if (given.length === 0) return null
  const clear = (): void => setQuery(Object.fromEntries(given.map(({ name }) => [name, undefined])))
  return html`<p class="chips">
    ${given.map(
      ({ name, title, shown }) =>
        html`<span class="chip"
          >${title}: <b>${shown}</b>
          <button
            type="button"
            class="plain"
            aria-label=${`Without ${title} ${shown}`}
            onClick=${() => setQuery({ [name]: undefined })}
          >
            ✕
          </button></span
        >`
    )}
    ${given.length > 1 ? html`<button type="button" class="plain small" onClick=${clear}>Clear</button>` : null}
  </p>`
}

/** Moments as the page shows times; days stay days. */
function shownValue(name: string, value: string): string {
  const isMoment = (name === 'since' || name === 'until') && value.includes('T') && !Number.isNaN(Date.parse(value))
  return isMoment ? shownTime(new Date(value)) : visible(value)
}
