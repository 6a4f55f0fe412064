// The life of a request as a waterfall: each step where it began, as long as it took.
import { html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { duration } from '../../parts/number.ts'
import { visible } from '../../parts/text.ts'

/** A step as the API tells it. */
export interface Step {
  readonly what: 'received' | 'body' | 'hook' | 'attempt' | 'shown' | 'end' | 'settled' | 'recorded'
  readonly at_ms: number | null
  readonly duration_ms: number
  readonly plugin?: string
  readonly hook?: string
  readonly attempt?: number
  readonly channel?: string
  readonly head_ms?: number | null
  readonly first_event_ms?: number | null
  readonly status?: number | null
  readonly error_code?: string | null
  readonly outcome?: string
}

function nameOf(step: Step): string {
  switch (step.what) {
    case 'received':
      return 'Head of the request'
    case 'body':
      return 'Body read and checked'
    case 'hook':
      return `${visible(step.plugin ?? '')} · ${visible(step.hook ?? '')}`
    case 'attempt':
      return `Attempt ${step.attempt}: ${visible(step.channel ?? '')}`
    case 'shown':
      return 'First event to the client'
    case 'end':
      return 'End of the answer'
    case 'settled':
      return 'Settled on disk'
    case 'recorded':
      return 'Recorded on disk'
  }
}

function saidOf(step: Step): string {
  const { what, status, error_code, outcome, head_ms, first_event_ms } = step
  if (what === 'end') return [status, error_code ?? outcome].filter(Boolean).join(' ')
  if (what !== 'attempt') return ''
  const parts = [
    status === null || status === undefined ? undefined : String(status),
    outcome === 'answered' ? undefined : (error_code ?? outcome),
    head_ms === null || head_ms === undefined ? undefined : `head ${duration(head_ms)}`,
    first_event_ms === null || first_event_ms === undefined ? undefined : `first event ${duration(first_event_ms)}`
  ]
  return parts.filter(Boolean).join(' · ')
}

const kindOf = ({ what, outcome, error_code }: Step): string =>
  (what === 'attempt' && outcome !== 'answered') || (what === 'end' && error_code) ? 'bad' : what

/** The waterfall, as a table: its bars are pictures of the figures beside them. */
export function Waterfall({ steps }: { steps: readonly Step[] }): VNode {
  const whole = Math.max(1, ...steps.map(({ at_ms, duration_ms }) => (at_ms ?? 0) + duration_ms))
  const share = (ms: number): string => `${(Math.max(0, Math.min(ms, whole)) / whole) * 100}%`
  return html`
    <table class="waterfall">
      <thead>
        <tr>
          <th scope="col">Step</th>
          <th scope="col" class="end">At</th>
          <th scope="col" class="end">Took</th>
          <th scope="col"><span class="quiet">0 to ${duration(whole)}</span></th>
        </tr>
      </thead>
      <tbody>
        ${steps.map((step) => {
          const { at_ms, duration_ms, first_event_ms, what } = step
          const said = saidOf(step)
          return html`<tr>
            <th scope="row">
              ${nameOf(step)}${said === '' ? null : html`<small class="quiet">${visible(said)}</small>`}
            </th>
            <td class="end number">${at_ms === null ? '–' : duration(at_ms)}</td>
            <td class="end number">${duration_ms > 0 ? duration(duration_ms) : '–'}</td>
            <td class="lane" aria-hidden="true">
              ${
                at_ms === null
                  ? null
                  : html`<span
                        class=${`span ${kindOf(step)}`}
                        style=${{ left: share(at_ms), width: share(duration_ms) }}
                      ></span>
                      ${
                        what === 'attempt' && first_event_ms !== null && first_event_ms !== undefined
                          ? html`<span class="tick" style=${{ left: share(at_ms + first_event_ms) }}></span>`
                          : null
                      }`
              }
            </td>
          </tr>`
        })}
      </tbody>
    </table>
  `
}
