// Copying. Pages of plain http beyond loopback have no clipboard: there the text is selected, to be copied by hand.
import { html } from '../html.ts'
import type { VNode } from '../html.ts'
import { say } from './announcer.ts'

/** Copies a text, and says so; where the browser does not let pages copy, says that. */
export async function copy(text: string, what = 'Copied'): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    say(what)
  } catch {
    say('This browser lets no page copy here: select the text, and copy it by hand.')
  }
}

/** A button that copies a text. */
export function Copy({ text, label = 'Copy' }: { text: string | (() => string); label?: string }): VNode {
  const take = (): void => void copy(typeof text === 'string' ? text : text())
  return html`<button type="button" class="small" onClick=${take}>${label}</button>`
}

/** A text to take away, whole: a snippet, a secret that is shown once. */
export function Snippet({ text, label }: { text: string; label: string }): VNode {
  const select = (event: FocusEvent): void => getSelection()?.selectAllChildren(event.currentTarget as HTMLElement)
  return html`
    <div class="snippet">
      <pre tabindex="0" role="textbox" aria-readonly="true" aria-multiline="true" aria-label=${label} onFocus=${select}>
${text}</pre>
      <button type="button" class="small" aria-label=${`Copy: ${label}`} onClick=${() => void copy(text)}>Copy</button>
    </div>
  `
}
