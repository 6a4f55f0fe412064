// Parameters, tools, the body as JSON, and the request as code.
import { useState } from 'preact/hooks'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { Snippet } from '../../parts/copy.ts'
import { setQuery } from '../../router.ts'
import { draft, forgetBody, revise } from './draft.ts'
import type { Setup } from './draft.ts'
import { requestOf } from './request.ts'
import { valueOf } from './settings.ts'
import { snippetsOf } from './snippets.ts'

const example = `[{
  "name": "weather",
  "description": "The weather at a place",
  "parameters": { "type": "object", "properties": { "place": { "type": "string" } }, "required": ["place"] }
}]`

/** What most requests do without. */
export function Advanced({ now }: { now: Setup }): VNode {
  const { tools, more } = draft.value
  // What is there when the page appears is shown; from then on the reader decides.
  const [first] = useState(draft.peek())
  const figure = (name: string, title: string, value: string): VNode =>
    html`<label class="field"
      ><span>${title}</span>
      <input
        inputmode="decimal"
        autocomplete="off"
        placeholder="as the model has it"
        value=${value}
        onChange=${(event: Event) => setQuery({ [name]: valueOf(event) })}
      />
    </label>`
  return html`
    <details class="more">
      <summary>Parameters</summary>
      <div class="choices">
        ${figure('max', 'Most output tokens', now.max)} ${figure('temperature', 'Temperature', now.temperature)}
        ${figure('top_p', 'Top p', now.topP)}
      </div>
      <label class="field wide"
        ><span>More members of the body, as JSON</span>
        <textarea
          rows="3"
          spellcheck=${false}
          placeholder='{"seed": 7}'
          value=${more}
          onInput=${(event: Event) => revise({ more: valueOf(event) })}
        ></textarea>
      </label>
    </details>
    <details class="more" open=${first.tools !== ''}>
      <summary>Tools</summary>
      <label class="field wide"
        ><span>Tools that the model may call, as JSON</span>
        <textarea
          rows="6"
          spellcheck=${false}
          placeholder=${example}
          value=${tools}
          onInput=${(event: Event) => revise({ tools: valueOf(event) })}
        ></textarea>
      </label>
      <p class="quiet">Calls are shown with the answer, where you type what the tool would say.</p>
    </details>
    <details class="more" open=${first.body !== undefined}>
      <summary>The body as JSON</summary>
      ${h(Body, { now })}
    </details>
    <details class="more">
      <summary>As code</summary>
      ${h(Code, { now })}
    </details>
  `
}

/** The request, or why there is none. */
function made(now: Setup): { path: string; text: string } | { wrong: string } {
  try {
    const { path, body } = requestOf(now, draft.value, now.model)
    return { path, text: JSON.stringify(body, null, 2) }
  } catch (error) {
    return { wrong: (error as Error).message }
  }
}

function Body({ now }: { now: Setup }): VNode {
  const { body } = draft.value
  const request = made(now)
  const wrong = 'wrong' in request ? request.wrong : undefined
  return html`
    ${
      body === undefined
        ? html`<p class="quiet">Change it here, and it is sent as it stands; the form does not count then.</p>`
        : html`<p class="notice warn">
            The body is sent as it was typed here.
            <button type="button" class="small" onClick=${forgetBody}>Take the form again</button>
          </p>`
    }
    <textarea
      rows="12"
      spellcheck=${false}
      aria-label="Body of the request"
      value=${body ?? ('text' in request ? request.text : '')}
      onInput=${(event: Event) => revise({ body: valueOf(event) })}
    ></textarea>
    ${wrong === undefined ? null : html`<p class="wrong" role="alert">✕ ${wrong}</p>`}
  `
}

function Code({ now }: { now: Setup }): VNode {
  const [chosen, choose] = useState('curl')
  const request = made(now)
  if ('wrong' in request) return html`<p class="wrong" role="alert">✕ ${request.wrong}</p>`
  const snippets = snippetsOf(now, request)
  const { title, text } = snippets.find((one) => one.name === chosen) ?? snippets[0]!
  return html`
    <label class="field"
      ><span>Language</span>
      <select onChange=${(event: Event) => choose(valueOf(event))}>
        ${snippets.map((one) => html`<option value=${one.name} selected=${one.name === chosen}>${one.title}</option>`)}
      </select>
    </label>
    ${h(Snippet, { text, label: title })}
    <p class="quiet">
      <code>SLUICE_URL</code> is the address of your gateway for clients, such as <code>http://127.0.0.1:8080</code>,
      and <code>SLUICE_KEY</code> the secret of the key.
    </p>
  `
}
