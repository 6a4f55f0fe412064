// What is wrong now, each with what to do about it and where.
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { connection, troubles } from '../../live.ts'
import type { Trouble } from '../../live.ts'
import { Status } from '../../parts/status.ts'
import type { Tone } from '../../parts/status.ts'
import { visible } from '../../parts/text.ts'
import { Ago } from '../../parts/time.ts'

const tones: Readonly<Record<Trouble['severity'], Tone>> = { critical: 'bad', warning: 'warn', notice: 'idle' }

/** How many are shown before the reader asks for all. */
const first = 8

/** The list of what is wrong. */
export function Troubles(): VNode {
  const all = troubles.value
  if (all === undefined)
    return html`<p class="quiet">
      ${connection.value?.connected === false ? 'What is wrong is not known while the stream is not connected.' : ''}
    </p>`
  if (all.length === 0) return html`<p class="notice good">${h(Status, { tone: 'good' }, 'Nothing is wrong')}</p>`
  const [shown, rest] = [all.slice(0, first), all.slice(first)]
  return html`
    <section aria-labelledby="wrong">
      <h2 id="wrong">What is wrong now</h2>
      <ul class="troubles">
        ${shown.map(line)}
      </ul>
      ${
        rest.length === 0
          ? null
          : html`<details>
              <summary>${rest.length} more</summary>
              <ul class="troubles">
                ${rest.map(line)}
              </ul>
            </details>`
      }
    </section>
  `
}

function line({ id, severity, text, remedy, since, link }: Trouble): VNode {
  return html`<li key=${id}>
    ${h(Status, { tone: tones[severity] }, severity)}
    <span class="grow"><b>${visible(text)}</b> ${visible(remedy)}</span>
    ${since === null ? null : html`<span class="quiet">${h(Ago, { at: since })}</span>`}
    <a href=${`/console/${link}`} aria-label=${`See to it: ${visible(text)}`}>See to it</a>
  </li>`
}
