// Whether what is shown is of now: says when the stream is not connected, and lets the reader stop what moves.
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { connection, paused } from '../../live.ts'
import { Status } from '../../parts/status.ts'
import { Ago } from '../../parts/time.ts'

/** The state of the stream, in a word, and the button that pauses it. */
export function Connection(): VNode {
  const now = connection.value
  return html`
    <span role="status" class="live-state">
      ${
        paused.value
          ? h(Status, { tone: 'idle' }, 'paused')
          : now?.connected
            ? h(Status, { tone: 'good' }, 'live')
            : h(Status, { tone: now ? 'bad' : 'idle' }, now ? 'not connected' : 'connecting')
      }
    </span>
    ${now && !now.connected && !paused.value ? html`<span class="quiet">since ${h(Ago, { at: now.since })}; it is tried again</span>` : null}
    <button type="button" aria-pressed=${paused.value} onClick=${() => (paused.value = !paused.value)}>Pause</button>
  `
}
