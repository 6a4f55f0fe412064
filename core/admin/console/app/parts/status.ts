// States: colour together with a sign and a word, as colour alone tells not everybody.
import { html } from '../html.ts'
import type { VNode } from '../html.ts'

/** How good a state is. */
export type Tone = 'good' | 'warn' | 'bad' | 'idle'

const signs: Readonly<Record<Tone, string>> = { good: '✓', warn: '!', bad: '✕', idle: '○' }

/** A state in a word. */
export function Status({ tone, children }: { tone: Tone; children: string }): VNode {
  return html`<span class=${`status ${tone}`}><span aria-hidden="true">${signs[tone]}</span> ${children}</span>`
}

/** A share of something that has an end, as a bar: what was spent of a budget. `share` is of one. */
export function Meter({ share, label }: { share: number; label: string }): VNode {
  const tone = share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : 'good'
  return html`<span class=${`meter ${tone}`} role="img" aria-label=${label}
    ><span style=${{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }}></span
  ></span>`
}
