// The head of a page: its name, what it is about in a sentence, and what can be done on it.
import { useEffect } from 'preact/hooks'
import { html } from '../html.ts'
import type { ComponentChildren, VNode } from '../html.ts'

/** Draws the one `h1` of a page and names the window after it. */
export function Head(props: { title: string; about?: ComponentChildren; children?: ComponentChildren }): VNode {
  useEffect(() => {
    document.title = `${props.title} · Sluice`
  }, [props.title])
  return html`
    <div class="head">
      <div>
        <h1 tabindex="-1">${props.title}</h1>
        ${props.about ? html`<p class="quiet">${props.about}</p>` : null}
      </div>
      ${props.children ? html`<div class="actions">${props.children}</div>` : null}
    </div>
  `
}
