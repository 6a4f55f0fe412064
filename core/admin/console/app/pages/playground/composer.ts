// What is said to the model: the system prompt, and messages with pictures and sound.
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { say } from '../../parts/announcer.ts'
import { bytes } from '../../parts/number.ts'
import type { Message, Part } from './conversation.ts'
import { draft, revise } from './draft.ts'
import { valueOf } from './settings.ts'

/** The most bytes of one picture or sound: as base64 it still fits into what the gateway takes. */
const largest = 20 * 1024 * 1024

/** The fields for a conversation. `send` is called by Ctrl and Enter. */
export function Composer({ send }: { send: () => void }): VNode {
  const { system, messages } = draft.value
  const change = (place: number, message: Message): void => revise({ messages: messages.with(place, message) })
  const add = (role: Message['role']): void =>
    revise({ messages: [...messages, { role, parts: [{ kind: 'text', text: '' }] }] })
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    send()
  }
  return html`
    <div class="composer" onKeyDown=${onKeyDown}>
      <label class="field wide"
        ><span>System prompt</span>
        <textarea
          rows="2"
          placeholder="None"
          value=${system}
          onInput=${(event: Event) => revise({ system: valueOf(event) })}
        ></textarea>
      </label>
      ${messages.map((message, place) =>
        h(OneMessage, {
          key: place,
          message,
          place,
          only: messages.length === 1,
          change: (next) => change(place, next),
          remove: () => revise({ messages: messages.toSpliced(place, 1) })
        })
      )}
      <p class="actions">
        <button type="button" class="small" onClick=${() => add('user')}>Add a user message</button>
        <button type="button" class="small" onClick=${() => add('assistant')}>Add an assistant message</button>
      </p>
    </div>
  `
}

interface MessageProps {
  message: Message
  place: number
  only: boolean
  change: (next: Message) => void
  remove: () => void
}

function OneMessage({ message, place, only, change, remove }: MessageProps): VNode {
  const { role, parts } = message
  const name = `${role === 'user' ? 'User' : 'Assistant'} message ${place + 1}`
  // What was changed by hand is no longer what the protocol gave.
  const replace = (next: readonly Part[]): void => change({ role, parts: next })
  const attach = async (event: Event): Promise<void> => {
    const input = event.target as HTMLInputElement
    const found = await Promise.all([...(input.files ?? [])].map(partOf))
    input.value = ''
    replace([...parts, ...found.filter((part) => part !== undefined)])
  }
  return html`
    <fieldset class="message">
      <legend>${name}</legend>
      ${parts.map((part, at) => {
        const without = (): void => replace(parts.toSpliced(at, 1))
        if (part.kind === 'text')
          return html`<textarea
            rows=${Math.min(16, Math.max(3, part.text.split('\n').length + 1))}
            aria-label=${`Text of ${name.toLowerCase()}`}
            value=${part.text}
            onInput=${(event: Event) => replace(parts.with(at, { kind: 'text', text: valueOf(event) }))}
          ></textarea>`
        return html`<div class="attached">
          ${shownPart(part)}
          <button type="button" class="small" aria-label=${`Take out ${labelOf(part)}`} onClick=${without}>
            Take out
          </button>
        </div>`
      })}
      <p class="actions">
        ${
          role === 'user'
            ? html`<label class="button small file"
                >Attach a picture or sound<input
                  type="file"
                  multiple
                  accept="image/png,image/jpeg,image/webp,image/gif,audio/wav,audio/mpeg,audio/flac,audio/ogg"
                  aria-label=${`Attach a picture or sound to ${name.toLowerCase()}`}
                  onChange=${(event: Event) => void attach(event)}
              /></label>`
            : null
        }
        ${only ? null : html`<button type="button" class="small" aria-label=${`Remove ${name.toLowerCase()}`} onClick=${remove}>Remove</button>`}
      </p>
    </fieldset>
  `
}

function labelOf(part: Part): string {
  return part.kind === 'text' ? 'the text' : part.name
}

/** A part that is no text, as it can be looked at or listened to. */
function shownPart(part: Exclude<Part, { kind: 'text' }>): VNode {
  switch (part.kind) {
    case 'picture':
      return html`<img alt=${part.name} src=${`data:${part.media};base64,${part.data}`} /> <span>${part.name}</span>`
    case 'sound':
      return html`<span>♪ ${part.name} <span class="quiet">${bytes((part.data.length * 3) / 4)}</span></span>`
    case 'call':
      return html`<span>Call of <code>${part.name}</code> with <code>${part.arguments}</code></span>`
    case 'result':
      return html`<span>Result of <code>${part.name}</code>: <code>${part.text}</code></span>`
  }
}

/** A file as a part of a message; undefined, and said, when it cannot be one. */
async function partOf(file: File): Promise<Part | undefined> {
  const kind = file.type.startsWith('image/') ? 'picture' : file.type.startsWith('audio/') ? 'sound' : undefined
  if (!kind || file.size > largest) {
    say(`${file.name} was not attached: pictures and sounds of at most ${bytes(largest)} can be.`)
    return undefined
  }
  return { kind, media: file.type, name: file.name, data: base64Of(new Uint8Array(await file.arrayBuffer())) }
}

/** Bytes as base64. */
export function base64Of(data: Uint8Array): string {
  let text = ''
  // A call takes only so many arguments.
  for (let at = 0; at < data.length; at += 32_768) text += String.fromCharCode(...data.subarray(at, at + 32_768))
  return btoa(text)
}
