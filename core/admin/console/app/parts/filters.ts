// The filters of a page: those of its address, each with a way to take it out.
import { html } from '../html.ts'
import type { VNode } from '../html.ts'
import { address, setQuery } from '../router.ts'
import { visible } from './text.ts'

/** Draws the filters that the address has of these names; nothing without any. */
export function Filters({ names }: { names: readonly string[] }): VNode | null {
  const given = names.flatMap((name) => {
    const value = address.value.query.get(name)
    return value === null ? [] : [{ name, value }]
  })
  if (given.length === 0) return null
  return html`<p class="chips">
    ${given.map(
      ({ name, value }) =>
        html`<span class="chip"
          >${name}: ${visible(value)}
          <button
            type="button"
            class="plain"
            aria-label=${`Without ${name} ${value}`}
            onClick=${() => setQuery({ [name]: undefined })}
          >
            ✕
          </button></span
        >`
    )}
  </p>`
}
