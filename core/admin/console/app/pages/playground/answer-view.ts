// One answer while it comes: its text, its calls, what it took and what it cost.
import { useState } from 'preact/hooks'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { Copy } from '../../parts/copy.ts'
import { Money } from '../../parts/money.ts'
import { counted, duration } from '../../parts/number.ts'
import { Status } from '../../parts/status.ts'
import { Id, Text, visible } from '../../parts/text.ts'
import type { Tone } from '../../parts/status.ts'
import { linkTo } from '../../router.ts'
import type { Message, Part, ToolCall } from './conversation.ts'
import { Markdown } from './markdown.ts'
import type { Progress, Run } from './run.ts'
import { valueOf } from './settings.ts'

const states: Readonly<Record<Progress['state'], readonly [Tone, string]>> = {
  running: ['idle', 'running'],
  done: ['good', 'done'],
  stopped: ['warn', 'stopped'],
  failed: ['bad', 'failed']
}

/** An answer. `goOn` takes what follows in the conversation: the answer, and what is said to it. */
export function AnswerView({
  run,
  goOn
}: {
  run: Run
  goOn: (messages: readonly Message[], send: boolean) => void
}): VNode {
  const now = run.progress.value
  const { model, answer, state, failure, dialect } = now
  const [tone, word] = states[state]
  const [plain, setPlain] = useState(false)
  const said: Message = {
    role: 'assistant',
    parts: [
      ...(answer.text === '' ? [] : [{ kind: 'text', text: answer.text } as const]),
      ...answer.calls.map((call): Part => ({ kind: 'call', ...call }))
    ],
    ...(answer.raw !== undefined && { raw: { protocol: dialect.name, content: answer.raw } })
  }
  const follow = (results: readonly Part[]): void =>
    goOn(
      [said, { role: 'user', parts: results.length > 0 ? results : [{ kind: 'text', text: '' }] }],
      results.length > 0
    )
  return html`
    <section class="answer" aria-label=${`Answer of ${model}`} aria-busy=${state === 'running'}>
      <div class="answer-head">
        <h2>${h(Text, { text: model, most: 40 })}</h2>
        ${h(Status, { tone }, word)}
        <span class="grow"></span>
        ${
          state === 'running'
            ? html`<button type="button" class="danger small" onClick=${run.stop}>Stop</button>`
            : html`<label class="check small"
                  ><input type="checkbox" checked=${plain} onChange=${() => setPlain(!plain)} /> Plain text</label
                >
                ${answer.text === '' ? null : h(Copy, { text: answer.text })}`
        }
      </div>
      ${h(Figures, { now })}
      ${failure ? html`<p class="notice bad" role="alert"><b>✕</b> ${visible(failure.message)} <code>${visible(failure.code)}</code></p>` : null}
      ${
        answer.thoughts === ''
          ? null
          : html`<details class="thoughts">
              <summary>Thoughts</summary>
              <pre>${visible(answer.thoughts)}</pre>
            </details>`
      }
      ${
        answer.text === ''
          ? null
          : plain
            ? html`<pre class="answer-text">${visible(answer.text)}</pre>`
            : h(Markdown, { text: answer.text })
      }
      ${answer.pictures.map(
        ({ media, data }, place) =>
          html`<img class="made" alt=${`Picture ${place + 1} of the answer`} src=${`data:${media};base64,${data}`} />`
      )}
      ${state === 'running' ? null : h(Follow, { calls: answer.calls, follow, empty: said.parts.length === 0 })}
    </section>
  `
}

/** Tokens, times and money. What is not known yet is a dash. */
function Figures({ now }: { now: Progress }): VNode {
  const { answer, firstMs, totalMs, record, id, state } = now
  const generating = totalMs !== undefined && firstMs !== undefined ? totalMs - firstMs : undefined
  // What came in one piece tells no speed.
  const rate =
    answer.output !== undefined && generating !== undefined && generating >= 50
      ? (answer.output / generating) * 1000
      : undefined
  const figure = (title: string, value: VNode | string): VNode =>
    html`<div>
      <dt>${title}</dt>
      <dd class="number">${value}</dd>
    </div>`
  const recorded = id !== undefined && !id.startsWith('adm_')
  return html`<dl class="figures">
    ${figure('First event', firstMs === undefined ? '–' : duration(firstMs))}
    ${figure('Whole', totalMs === undefined ? '–' : duration(totalMs))}
    ${figure('Tokens in', answer.input === undefined ? '–' : counted(answer.input))}
    ${figure('Tokens out', answer.output === undefined ? '–' : counted(answer.output))}
    ${figure('Tokens a second', rate === undefined ? '–' : counted(Math.round(rate * 10) / 10))}
    ${figure('Cost', record ? h(Money, { nano: record.cost_nano }) : state === 'running' || !recorded ? '–' : '…')}
    ${figure('Ended by', answer.finish === undefined ? '–' : h(Text, { text: answer.finish, most: 24 }))}
    ${recorded ? figure('Request', html`<a href=${linkTo('requests', [id])}>${h(Id, { id, most: 14 })}</a>`) : null}
  </dl>`
}

/** The calls with fields for what the tools say, and the way on. */
function Follow({
  calls,
  follow,
  empty
}: {
  calls: readonly ToolCall[]
  follow: (results: readonly Part[]) => void
  empty: boolean
}): VNode | null {
  const [results, setResults] = useState<Readonly<Record<number, string>>>({})
  if (empty) return null
  if (calls.length === 0)
    return html`<p class="actions">
      <button type="button" class="small" onClick=${() => follow([])}>Go on with this answer</button>
    </p>`
  const submit = (event: Event): void => {
    event.preventDefault()
    follow(calls.map(({ id, name }, place) => ({ kind: 'result', id, name, text: results[place] ?? '' })))
  }
  return html`<form onSubmit=${submit}>
    ${calls.map(
      (call, place) => html`
        <fieldset class="call">
          <legend>Call of ${visible(call.name)}</legend>
          <pre tabindex="0" role="region" aria-label=${`Arguments of ${call.name}`}>${visible(call.arguments)}</pre>
          <label class="field wide"
            ><span>What ${visible(call.name)} answers</span>
            <textarea
              rows="2"
              value=${results[place] ?? ''}
              onInput=${(event: Event) => setResults({ ...results, [place]: valueOf(event) })}
            ></textarea>
          </label>
        </fieldset>
      `
    )}
    <p class="actions"><button class="primary">Send what the tools answer</button></p>
  </form>`
}
