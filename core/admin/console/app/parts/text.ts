// Text that others wrote, shown as what it is: signs that cannot be seen, or that turn the order of others, are named.
import { h, html } from '../html.ts'
import type { VNode } from '../html.ts'
import { Tip } from './tip.ts'

/** Control characters, and those that are invisible or change the direction of text. Tab and line feed are none. */
// oxlint-disable-next-line no-control-regex
const strange = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/** The text with the names of such characters in their places: `‹U+202E›`. */
export function visible(text: string): string {
  return text.replace(strange, (sign) => `‹U+${sign.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}›`)
}

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
