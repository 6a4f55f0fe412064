// Says short things to whoever cannot see them, and shows them for a moment: "copied", "12 results". Never ticks.
import { signal } from '@preact/signals'
import { html } from '../html.ts'
import type { VNode } from '../html.ts'

const said = signal('')
let timer: ReturnType<typeof setTimeout> | undefined

/** Says something; it goes after four seconds. */
export function say(text: string): void {
  said.value = text
  clearTimeout(timer)
  timer = setTimeout(() => (said.value = ''), 4000)
}

/** Where it is said. There is one, in the frame. */
export function Announcer(): VNode {
  return html`<div class="announcer" role="status">${said.value === '' ? null : html`<span>${said.value}</span>`}</div>`
}
