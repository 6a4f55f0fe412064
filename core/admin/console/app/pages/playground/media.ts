// Endpoints that answer with pictures and sound, or read them: speech, transcripts, pictures.
import { useEffect, useState } from 'preact/hooks'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { duration } from '../../parts/number.ts'
import { Nothing } from '../../parts/states.ts'
import { Id, visible } from '../../parts/text.ts'
import { linkTo, setQuery, address } from '../../router.ts'
import { secret } from './draft.ts'
import type { Setup } from './draft.ts'
import { listAt, parsed, textAt } from './json.ts'
import { reach, refusalIn } from './run.ts'
import { valueOf } from './settings.ts'

const kinds = {
  speech: 'Speech of a text',
  transcription: 'Transcript of a sound',
  picture: 'Picture of a description'
} as const
type Kind = keyof typeof kinds

/** What came of it. Sounds and pictures are addresses of blobs and data. */
interface Outcome {
  readonly sound?: string
  readonly pictures?: readonly string[]
  readonly text?: string
  readonly failure?: string
  readonly id?: string | undefined
  readonly ms: number
}

/** The view. */
export function Media({ now }: { now: Setup }): VNode {
  const asked = address.value.query.get('what')
  const kind: Kind = asked === 'transcription' || asked === 'picture' ? asked : 'speech'
  const [text, setText] = useState('')
  const [voice, setVoice] = useState('alloy')
  const [file, setFile] = useState<File>()
  const [outcome, setOutcome] = useState<Outcome>()
  const [stopping, setStopping] = useState<AbortController>()
  const [wrong, setWrong] = useState<string>()
  useEffect(() => () => stopping?.abort(), [stopping])
  useEffect(() => () => void (outcome?.sound && URL.revokeObjectURL(outcome.sound)), [outcome])
  const send = async (event: Event): Promise<void> => {
    event.preventDefault()
    if (now.key === '' || now.model === '' || (now.key === undefined && secret.value === ''))
      return setWrong('Choose a key and a model first.')
    if (kind === 'transcription' ? !file : text.trim() === '')
      return setWrong(kind === 'transcription' ? 'Choose a file first.' : 'Write a text first.')
    setWrong(undefined)
    setOutcome(undefined)
    const stop = new AbortController()
    setStopping(stop)
    const [path, body] = requestOf(kind, now.model, { text, voice, file })
    const startedAt = performance.now()
    try {
      const reply = await reach(now.key, path, { body, signal: stop.signal })
      setOutcome({
        ...(await read(kind, reply)),
        id: reply.headers.get('x-request-id') ?? undefined,
        ms: performance.now() - startedAt
      })
    } catch (error) {
      const failure = stop.signal.aborted ? 'It was stopped.' : `The answer broke off: ${(error as Error).message}`
      setOutcome({ failure, ms: performance.now() - startedAt })
    } finally {
      setStopping(undefined)
    }
  }
  return html`
    <div class="workbench">
      <form class="asking" onSubmit=${(event: Event) => void send(event)}>
        <label class="field"
          ><span>What to make</span>
          <select onChange=${(event: Event) => setQuery({ what: valueOf(event) })}>
            ${Object.entries(kinds).map(([name, title]) => html`<option value=${name} selected=${name === kind}>${title}</option>`)}
          </select>
        </label>
        ${
          kind === 'transcription'
            ? html`<label class="field"
                ><span>Sound</span>
                <input
                  type="file"
                  accept="audio/*"
                  onChange=${(event: Event) => setFile((event.target as HTMLInputElement).files?.[0])}
                />
              </label>`
            : html`<label class="field wide"
                ><span>${kind === 'speech' ? 'Text' : 'Description'}</span>
                <textarea rows="4" value=${text} onInput=${(event: Event) => setText(valueOf(event))}></textarea>
              </label>`
        }
        ${
          kind === 'speech'
            ? html`<label class="field"
                ><span>Voice</span><input value=${voice} onInput=${(event: Event) => setVoice(valueOf(event))} />
              </label>`
            : null
        }
        ${wrong === undefined ? null : html`<p class="notice bad" role="alert"><b>✕</b> ${wrong}</p>`}
        <p class="actions">
          <button class="primary" disabled=${stopping !== undefined}>${stopping ? 'Running…' : 'Send'}</button>
          ${stopping ? html`<button type="button" class="danger" onClick=${() => stopping.abort()}>Stop</button>` : null}
        </p>
      </form>
      <div class="answers">
        ${outcome ? h(Shown, { outcome }) : h(Nothing, { title: stopping ? 'On its way…' : 'No answer yet' })}
      </div>
    </div>
  `
}

interface Given {
  text: string
  voice: string
  file: File | undefined
}

function requestOf(kind: Kind, model: string, { text, voice, file }: Given): [path: string, body: BodyInit] {
  if (kind === 'speech')
    return ['/v1/audio/speech', JSON.stringify({ model, input: text, voice, response_format: 'wav' })]
  if (kind === 'picture') return ['/v1/images/generations', JSON.stringify({ model, prompt: text })]
  const form = new FormData()
  form.set('model', model)
  form.set('file', file!)
  return ['/v1/audio/transcriptions', form]
}

async function read(kind: Kind, reply: Response): Promise<Omit<Outcome, 'ms' | 'id'>> {
  if (!reply.ok) {
    const { message, code } = await refusalIn(reply)
    return { failure: `${message} (${code})` }
  }
  if (kind === 'speech') {
    const type = reply.headers.get('content-type') ?? 'audio/wav'
    return { sound: URL.createObjectURL(new Blob([await reply.blob()], { type })) }
  }
  const text = await reply.text()
  const json = parsed(text)
  if (kind === 'transcription') return { text: textAt(json, 'text') || text }
  return {
    pictures: listAt(json, 'data').flatMap((one) =>
      textAt(one, 'b64_json') ? [`data:image/png;base64,${textAt(one, 'b64_json')}`] : []
    ),
    // The browser asks nobody else for anything, so pictures elsewhere are shown as their addresses.
    text: listAt(json, 'data')
      .map((one) => textAt(one, 'url'))
      .join('\n')
  }
}

function Shown({ outcome }: { outcome: Outcome }): VNode {
  const { sound, pictures = [], text = '', failure, id, ms } = outcome
  return html`
    <section class="answer" aria-label="Answer">
      ${failure === undefined ? null : html`<p class="notice bad" role="alert"><b>✕</b> ${visible(failure)}</p>`}
      ${sound === undefined ? null : html`<audio controls src=${sound} aria-label="Speech"></audio>`}
      ${pictures.map((source, place) => html`<img class="made" alt=${`Picture ${place + 1}`} src=${source} />`)}
      ${text === '' ? null : html`<pre class="answer-text">${visible(text)}</pre>`}
      <dl class="figures">
        <div>
          <dt>Whole</dt>
          <dd class="number">${duration(ms)}</dd>
        </div>
        ${
          id === undefined || id.startsWith('adm_')
            ? null
            : html`<div>
                <dt>Request</dt>
                <dd><a href=${linkTo('requests', [id])}>${h(Id, { id, most: 14 })}</a></dd>
              </div>`
        }
      </dl>
    </section>
  `
}
