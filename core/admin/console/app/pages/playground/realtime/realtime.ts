// A conversation over a realtime session: typed, or by microphone and loudspeaker.
import { useEffect, useRef, useState } from 'preact/hooks'
import { h, html } from '../../../html.ts'
import type { VNode } from '../../../html.ts'
import { counted } from '../../../parts/number.ts'
import { Nothing } from '../../../parts/states.ts'
import { Status } from '../../../parts/status.ts'
import type { Tone } from '../../../parts/status.ts'
import { visible } from '../../../parts/text.ts'
import { linkTo } from '../../../router.ts'
import type { Setup } from '../draft.ts'
import { secret } from '../draft.ts'
import { valueOf } from '../settings.ts'
import { RealtimeSession } from './session.ts'
import { openMicrophone } from './sound.ts'
import type { Microphone } from './sound.ts'

const states: Readonly<Record<RealtimeSession['state']['value'], readonly [Tone, string]>> = {
  connecting: ['idle', 'connecting'],
  open: ['good', 'open'],
  closed: ['idle', 'closed']
}

/** The view. The session ends when the reader leaves it. */
export function Realtime({ now }: { now: Setup }): VNode {
  const [session, setSession] = useState<RealtimeSession>()
  const [wrong, setWrong] = useState<string>()
  useEffect(() => () => session?.close(), [session])
  const state = session?.state.value
  const begin = (): void => {
    if (now.key === '' || now.model === '' || (now.key === undefined && secret.value === ''))
      return setWrong('Choose a key and a model first.')
    setWrong(undefined)
    setSession(new RealtimeSession(now.key, now.model))
  }
  return html`<div class="talking">
    <p class="actions">
      ${
        state === 'open' || state === 'connecting'
          ? html`<button type="button" class="danger" onClick=${() => session?.close()}>End the session</button>`
          : html`<button type="button" class="primary" onClick=${begin}>Begin a session</button>`
      }
      ${state ? h(Status, { tone: states[state][0] }, states[state][1]) : null}
    </p>
    ${wrong === undefined ? null : html`<p class="notice bad" role="alert"><b>✕</b> ${wrong}</p>`}
    ${session ? h(Conversation, { session, now }) : h(Nothing, { title: 'No session yet' }, html`<p>Begin one, and type or speak. It spends as long as it is open and answers.</p>`)}
  </div>`
}

function Conversation({ session, now }: { session: RealtimeSession; now: Setup }): VNode {
  const [text, setText] = useState('')
  const [spoken, setSpoken] = useState(false)
  const lines = session.lines.value
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => box.current?.scrollTo(0, box.current.scrollHeight), [lines])
  const open = session.state.value === 'open'
  const { input, output } = session.tokens.value
  const submit = (event: Event): void => {
    event.preventDefault()
    if (text.trim() === '' || !open) return
    session.say(text, spoken)
    setText('')
  }
  return html`
    <div class="talk" role="log" aria-label="What was said" tabindex="0" ref=${box}>
      ${lines.map(
        ({ by, text: said }) =>
          html`<p class=${`line ${by}`}>
            ${by === 'note' ? null : html`<b>${by === 'you' ? 'You' : 'Model'}</b> `}${visible(said)}
          </p>`
      )}
    </div>
    <form class="saying" onSubmit=${submit}>
      <input
        aria-label="Say something"
        placeholder="Say something"
        autocomplete="off"
        disabled=${!open}
        value=${text}
        onInput=${(event: Event) => setText(valueOf(event))}
      />
      <button class="primary" disabled=${!open}>Say</button>
    </form>
    <p class="actions">
      ${h(Listening, { session, open })}
      <label class="check"
        ><input type="checkbox" checked=${spoken} onChange=${() => setSpoken(!spoken)} /> Answers are spoken</label
      >
      <span class="quiet number">${counted(input)} tokens in, ${counted(output)} out</span>
      <a href=${linkTo('requests', [], { key: now.key, endpoint: 'realtime' })}>Its requests and their costs</a>
    </p>
  `
}

/** The button of the microphone. */
function Listening({ session, open }: { session: RealtimeSession; open: boolean }): VNode {
  const [microphone, setMicrophone] = useState<Microphone>()
  const [wrong, setWrong] = useState<string>()
  useEffect(() => {
    if (!open) setMicrophone(undefined)
    return () => microphone?.close()
  }, [microphone, open])
  const listen = async (): Promise<void> => {
    try {
      setMicrophone(await openMicrophone((data) => session.hear(data)))
      setWrong(undefined)
    } catch (error) {
      setWrong((error as Error).message)
    }
  }
  return html`
    ${
      microphone
        ? html`<button type="button" class="danger" onClick=${() => setMicrophone(undefined)}>Microphone off</button>
            <button type="button" onClick=${() => session.answer()}>Answer now</button>`
        : html`<button type="button" disabled=${!open} onClick=${() => void listen()}>Microphone on</button>`
    }
    ${wrong === undefined ? null : html`<span class="wrong" role="alert">✕ ${wrong}</span>`}
  `
}
