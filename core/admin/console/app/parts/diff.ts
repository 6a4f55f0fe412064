// What two texts differ in, line by line: removed and added lines with a sign, unchanged ones only near them.
import { html } from '../html.ts'
import type { VNode } from '../html.ts'
import { diffOf } from './diff-lines.ts'
import type { DiffLine } from './diff-lines.ts'

export { diffOf } from './diff-lines.ts'

const signs: Readonly<Record<DiffLine['kind'], string>> = { same: ' ', out: '-', in: '+', skip: '⋯' }

/** Shows what two texts differ in. */
export function Diff({ before, after, name }: { before: string; after: string; name: string }): VNode {
  if (before === after) return html`<p class="quiet">No difference.</p>`
  return html`<pre class="diff" role="region" tabindex="0" aria-label=${name}>
${diffOf(before, after).map(({ kind, text }) => html`<span class=${kind}>${`${signs[kind]} ${text}\n`}</span>`)}</pre>`
}
