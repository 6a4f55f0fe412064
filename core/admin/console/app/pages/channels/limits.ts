// What is left of the limits of a channel and of each of its credentials, and which of them rest.
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { short } from '../../parts/number.ts'
import { Status } from '../../parts/status.ts'
import { Text, visible } from '../../parts/text.ts'
import { Time } from '../../parts/time.ts'
import { tones } from './channel.ts'
import type { Credential, LimitLeft } from './channel.ts'

/** Nothing for a channel without limits and with one credential. */
export function Limits({
  limits,
  credentials
}: {
  limits: readonly LimitLeft[]
  credentials: readonly Credential[]
}): VNode | null {
  if (limits.length === 0 && credentials.length === 0) return null
  return html`
    ${
      limits.length === 0
        ? null
        : html`<h3>Limits</h3>
          ${listOf(limits)}`
    }
    ${
      credentials.length === 0
        ? null
        : html`<h3>Credentials</h3>
            <ul aria-label="Credentials">
              ${credentials.map(
                ({ name, weight, state, until, reason, successes, failures, limits: own }) =>
                  html`<li>
                    <b>${h(Text, { text: name, most: 60 })}</b> ${h(Status, { tone: tones[state] }, state)}
                    <span class="quiet">weight ${weight}, ${short(successes)} answered, ${short(failures)} failed</span>
                    ${until === null ? null : html`<span>, used again ${h(Time, { at: until })}</span>`}
                    ${reason === null ? null : html`<p>${visible(reason)}</p>`} ${own.length === 0 ? null : listOf(own)}
                  </li>`
              )}
            </ul>`
    }
  `
}

function listOf(limits: readonly LimitLeft[]): VNode {
  return html`<ul>
    ${limits.map(
      ({ name, by, models, limit, left, resets }) =>
        html`<li>
          ${visible(name)}${models === null ? '' : ` of ${visible(models)}`}: ${short(left)} left${
            limit === null ? '' : ` of ${short(limit)}`
          }
          <span class="quiet">${by === 'file' ? 'gateway.yaml' : 'as the upstream told'}</span>
          ${resets === null ? null : html`<span class="quiet">, all of it ${h(Time, { at: resets })}</span>`}
        </li>`
    )}
  </ul>`
}
