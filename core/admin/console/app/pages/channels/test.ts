// Tries a channel with small real requests, and shows what came of each.
import { useState } from 'preact/hooks'
import { send } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { Dialog, useAction } from '../../parts/dialog.ts'
import { Money } from '../../parts/money.ts'
import { duration } from '../../parts/number.ts'
import { Problem } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { visible } from '../../parts/text.ts'
import { pathOf } from './channel.ts'
import type { Channel, TestResult } from './channel.ts'

/** Milliseconds that a test may take: an upstream may be slow to say no. */
const patience = 180_000

/** The dialog. */
export function Test({ channel, close }: { channel: Channel; close: () => void }): VNode {
  const { name, models } = channel
  const [model, setModel] = useState('')
  const [results, setResults] = useState<readonly TestResult[]>()
  const { run, busy, error } = useAction(async () => {
    const body = model === '' ? {} : { model }
    const answer = await send<{ results: TestResult[] }>('POST', `${pathOf(name)}/test`, body, { patience })
    setResults(answer.results)
  })
  return h(
    Dialog,
    { title: `Test ${name}`, close, wide: true },
    html`
      <form onSubmit=${(event: Event) => (event.preventDefault(), run())}>
        <p>Small real requests are sent there, also when it is switched off. The upstream may charge you for them.</p>
        <label class="field"
          >Model
          <select value=${model} onChange=${(event: Event) => setModel((event.target as HTMLSelectElement).value)}>
            <option value="">One for each endpoint</option>
            ${Object.keys(models).map((one) => html`<option value=${one}>${one}</option>`)}
          </select></label
        >
        ${error ? h(Problem, { error }) : null}
        <div role="status">${results ? h(Results, { results }) : busy ? 'Testing…' : ''}</div>
        <p class="actions end">
          <button type="button" onClick=${close}>Close</button>
          <button class="primary" disabled=${busy}>${results ? 'Test again' : 'Test'}</button>
        </p>
      </form>
    `
  )
}

function Results({ results }: { results: readonly TestResult[] }): VNode {
  return html`<div class="table-box" role="region" tabindex="0" aria-label="Results">
    <table>
      <thead>
        <tr>
          <th scope="col">Endpoint</th>
          <th scope="col">Model</th>
          <th scope="col">Result</th>
          <th scope="col" class="end">First byte</th>
          <th scope="col" class="end">Duration</th>
          <th scope="col" class="end">Cost</th>
        </tr>
      </thead>
      <tbody>
        ${results.map(
          ({ endpoint, model, ok, status, error, first_byte_ms: first, duration_ms: whole, cost_nano: nano }) =>
            html`<tr>
                <td>${endpoint}</td>
                <td>${visible(model)}</td>
                <td>
                  ${h(Status, { tone: ok ? 'good' : 'bad' }, ok ? `works, ${status}` : `fails, ${status ?? 'no answer'}`)}
                </td>
                <td class="end">${first === null ? '–' : duration(first)}</td>
                <td class="end">${duration(whole)}</td>
                <td class="end">${h(Money, { nano })}</td>
              </tr>
              ${
                error
                  ? html`<tr>
                      <td colspan="6" class="wraps"><code>${error.code}</code> ${visible(error.said)}</td>
                    </tr>`
                  : null
              }`
        )}
      </tbody>
    </table>
  </div>`
}
