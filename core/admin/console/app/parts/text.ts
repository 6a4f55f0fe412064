// Text that others wrote, in one line and cut, with all of it on hover and focus.
import { h, html } from '../html.ts'
import type { VNode } from '../html.ts'
import { visible } from '../signs.ts'
import { Tip } from './tip.ts'

export { visible } from '../signs.ts'

/** A text in one line, cut at its end after `most` characters; all of it on hover and focus. */
export function Text({ text, most = 120 }: { text: string; most?: number }): VNode {
  const shown = visible(text)
  if (shown.length <= most) return html`<span class="text">${shown}</span>`
  return h(Tip, { tip: shown.slice(0, 4000) }, html`<span class="text">${shown.slice(0, most - 1)}…</span>`)
}

/** An identifier: in the middle it is cut, as its ends tell it from others; all of it on hover and focus. */
export function Id({ id, most = 20 }: { id: string; most?: number }): VNode {
  const shown = visible(id)
  if (shown.length <= most) return html`<code class="id">${shown}</code>`
  const half = Math.floor((most - 1) / 2)
  return h(Tip, { tip: shown }, html`<code class="id">${shown.slice(0, half)}…${shown.slice(-half)}</code>`)
}
