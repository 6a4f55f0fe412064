// Says whose part of something is lacking, where several workers serve and some did not answer.
import { html } from '../html.ts'
import type { VNode } from '../html.ts'

/** Shows nothing when all answered. `workers`: the numbers of those that did not. */
export function Lacking({ workers = [] }: { workers?: readonly number[] | undefined }): VNode | null {
  if (workers.length === 0) return null
  const who = workers.length === 1 ? `Worker ${workers[0]}` : `Workers ${workers.join(', ')}`
  return html`<p class="notice" role="status">${who} did not answer: what is theirs is lacking here.</p>`
}
