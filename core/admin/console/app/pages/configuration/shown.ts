// What the views of the configuration show alike: problems with their places, changes in words, and reloads.
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { Text } from '../../parts/text.ts'

/** What is wrong, and where: `gateway.yaml:31:5`. */
export interface Problem {
  readonly place: string
  readonly message: string
}

/** A reload as the API shows it. */
export interface Reload {
  readonly ok: boolean
  readonly reason: string
  readonly by: string | null
  readonly time: string
  readonly duration_ms: number
  readonly problems: readonly Problem[]
  readonly changes: readonly string[]
}

/** Problems as a list. `go` goes to a place, where the editor has it. */
export function Problems({
  problems,
  title,
  go
}: {
  problems: readonly Problem[]
  title: string
  go?: (place: string) => void
}): VNode | null {
  if (problems.length === 0) return null
  return html`
    <div class="notice bad">
      <p><b>✕ ${title}</b></p>
      <ul>
        ${problems.map(
          ({ place, message }) =>
            html`<li>
              ${
                go
                  ? html`<button type="button" class="small plain" onClick=${() => go(place)}>
                      <code>${ending(place)}</code>
                    </button>`
                  : html`<code>${ending(place)}</code>`
              }
              ${h(Text, { text: message, most: 600 })}
            </li>`
        )}
      </ul>
    </div>
  `
}

/** The end of a place: the name of the file with line and column. */
function ending(place: string): string {
  return place.split('/').at(-1)!
}

/** Changes in words. */
export function Changes({ changes, none }: { changes: readonly string[]; none: string }): VNode {
  if (changes.length === 0) return html`<p class="quiet">${none}</p>`
  return html`<ul>
    ${changes.map((change) => html`<li>${h(Text, { text: change, most: 400 })}</li>`)}
  </ul>`
}
