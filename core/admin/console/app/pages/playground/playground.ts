// The playground: real requests with a key of one's choice, streamed, two models side by side.
import { useEffect, useState } from 'preact/hooks'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { say } from '../../parts/announcer.ts'
import { Head } from '../../parts/head.ts'
import { Nothing } from '../../parts/states.ts'
import { address, linkTo, setQuery } from '../../router.ts'
import { Advanced } from './advanced.ts'
import { AnswerView } from './answer-view.ts'
import { Composer } from './composer.ts'
import type { Message } from './conversation.ts'
import { clear, draft, revise, secret, setup, views } from './draft.ts'
import type { Setup } from './draft.ts'
import { Media } from './media.ts'
import { Realtime } from './realtime/realtime.ts'
import { requestOf } from './request.ts'
import { begin } from './run.ts'
import type { Run } from './run.ts'
import { Settings, useModels } from './settings.ts'

const titles: Readonly<Record<Setup['view'], string>> = {
  chat: 'Chat',
  realtime: 'Realtime',
  media: 'Pictures and sound'
}

/** The page. */
export default function PlaygroundPage(): VNode {
  const now = setup()
  const models = useModels(now.key)
  const about = 'Real requests with a key of your choice. They count against its limits, and spend its budgets.'
  return html`
    ${h(Head, { title: 'Playground', about })}
    <nav class="views" aria-label="Views">
      ${views.map((view) => html`<a href=${addressOf(view)} aria-current=${view === now.view ? 'page' : undefined}>${titles[view]}</a>`)}
    </nav>
    ${h(Settings, { now, models })}
    ${now.view === 'chat' ? h(Chat, { now }) : now.view === 'realtime' ? h(Realtime, { now }) : h(Media, { now })}
  `
}

function addressOf(view: Setup['view']): string {
  return linkTo('playground', [], {
    ...Object.fromEntries(address.value.query),
    view: view === 'chat' ? undefined : view
  })
}

/** Why nothing can be sent yet; undefined when it can. */
export function missing(now: Setup): string | undefined {
  if (now.key === '') return 'Choose a key first.'
  if (now.key === undefined && secret.value === '') return 'Type the secret of a key first.'
  return now.model === '' ? 'Choose a model first.' : undefined
}

function Chat({ now }: { now: Setup }): VNode {
  const [runs, setRuns] = useState<readonly Run[]>([])
  const [wrong, setWrong] = useState<string>()
  const running = runs.some(({ progress }) => progress.value.state === 'running')
  // What nobody looks at any more is not paid for.
  useEffect(() => () => runs.forEach(({ stop }) => stop()), [runs])
  const send = (): void => {
    if (running) return
    const lacking = missing(now)
    if (lacking !== undefined) return setWrong(lacking)
    try {
      const models = now.other === '' ? [now.model] : [now.model, now.other]
      const requests = models.map((model) => [requestOf(now, draft.peek(), model), model] as const)
      setWrong(undefined)
      setRuns(requests.map(([request, model]) => begin(now, request, model)))
      // Where there is room for one column only, the answers are below what was asked.
      requestAnimationFrame(() => document.querySelector('.answers')?.scrollIntoView({ block: 'nearest' }))
      say('Sent')
    } catch (error) {
      setWrong((error as Error).message)
    }
  }
  const goOn = (messages: readonly Message[], sends: boolean): void => {
    revise({ messages: [...draft.peek().messages, ...messages] })
    if (sends) send()
    else document.querySelector<HTMLElement>('.composer fieldset:last-of-type textarea')?.focus()
  }
  return html`
    <div class="workbench">
      <form class="asking" onSubmit=${(event: Event) => (event.preventDefault(), send())}>
        ${h(Composer, { send })}
        ${wrong === undefined ? null : html`<p class="notice bad" role="alert"><b>✕</b> ${wrong}</p>`}
        <p class="actions">
          <button class="primary" disabled=${running}>${running ? 'Running…' : 'Send'}</button>
          ${running ? html`<button type="button" class="danger" onClick=${() => runs.forEach(({ stop }) => stop())}>Stop${runs.length > 1 ? ' both' : ''}</button>` : null}
          <button type="button" onClick=${() => (setRuns([]), clear())}>Begin anew</button>
          <label class="check"
            ><input
              type="checkbox"
              checked=${now.stream}
              onChange=${() => setQuery({ stream: now.stream ? 'no' : undefined })}
            />
            Streamed</label
          >
        </p>
        ${h(Advanced, { now })}
      </form>
      <div class=${runs.length > 1 ? 'answers two' : 'answers'}>
        ${
          runs.length === 0
            ? h(
                Nothing,
                { title: 'No answer yet' },
                html`<p>Say something, and send it by the button or Ctrl and Enter.</p>`
              )
            : runs.map((run) => h(AnswerView, { key: run.number, run, goOn }))
        }
      </div>
    </div>
  `
}
