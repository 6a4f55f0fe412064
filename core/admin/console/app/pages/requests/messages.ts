// What was asked and answered, where that is kept. It is fetched when somebody asks for it: the audit log notes it.
import { useState } from 'preact/hooks'
import { get } from '../../api.ts'
import type { ApiError } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { shownError } from '../../load.ts'
import { Problem } from '../../parts/states.ts'
import { visible } from '../../parts/text.ts'

interface Kept {
  readonly kept: string | null
  readonly input: readonly unknown[] | null
  readonly output: unknown
  readonly why_not: string | null
}

/** The button, and then the messages. */
export function Messages({ id }: { id: string }): VNode {
  const [kept, setKept] = useState<Kept>()
  const [error, setError] = useState<ApiError>()
  const [busy, setBusy] = useState(false)
  const show = (): void => {
    setBusy(true)
    setError(undefined)
    get<Kept>(`/admin/v1/requests/${encodeURIComponent(id)}/messages`)
      .then(setKept, (failed: unknown) => setError(shownError(failed)))
      .finally(() => setBusy(false))
  }
  return html`
    <h3>Messages</h3>
    ${error ? h(Problem, { error }) : null}
    ${
      kept
        ? html`${kept.why_not === null ? null : html`<p class="quiet">${kept.why_not}</p>`}
          ${kept.input?.map((item) => h(Item, { item }))} ${itemsOf(kept.output).map((item) => h(Item, { item }))}`
        : html`<p class="quiet">
            Shown where the response is kept for its client. The audit log notes who looked.
            <button type="button" class="small" disabled=${busy} onClick=${show}>Show messages</button>
          </p>`
    }
  `
}

function itemsOf(response: unknown): readonly unknown[] {
  const { output } = (response ?? {}) as { output?: unknown }
  return Array.isArray(output) ? output : []
}

/** A message, or what else the conversation has, as it is. */
function Item({ item }: { item: unknown }): VNode {
  const { role, type, content } = (item ?? {}) as { role?: unknown; type?: unknown; content?: unknown }
  const text = textOf(content)
  const name = [role, type].find((one) => typeof one === 'string') ?? 'item'
  return html`<div class="kept-message">
    <b>${visible(name).slice(0, 40)}</b>
    <pre tabindex="0">${visible(text ?? JSON.stringify(item, null, 2))}</pre>
  </div>`
}

function textOf(content: unknown): string | undefined {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return undefined
  const parts = content.map((part: unknown) => (part as { text?: unknown } | null)?.text)
  return parts.every((part) => typeof part === 'string') ? parts.join('\n') : undefined
}
