// What is shown instead of data: waiting, nothing there, and a failure with what to do about it.
import { useEffect, useState } from 'preact/hooks'
import type { ApiError } from '../api.ts'
import { h, html } from '../html.ts'
import type { ComponentChildren, VNode } from '../html.ts'
import type { Loaded } from '../load.ts'

/** Says that something is on its way, once that takes longer than a moment. */
export function Waiting({ what = 'Loading' }: { what?: string }): VNode {
  const [shown, setShown] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 200)
    return () => clearTimeout(timer)
  }, [])
  return html`<p class="quiet waiting" role="status">${shown ? `${what}…` : ''}</p>`
}

/** Why something was refused, beside the form or button that asked for it. */
export function Problem({ error }: { error: ApiError }): VNode {
  const where = error.param === undefined ? '' : `${error.param}: `
  return html`<p class="notice bad" role="alert"><b>✕</b> ${where}${error.message} <code>${error.code}</code></p>`
}

/** A failure where data should be, with a way to try again. */
export function Failure({ error, again }: { error: ApiError; again: () => void }): VNode {
  return html`
    <div class="notice bad" role="alert">
      <p><b>✕ ${error.message}</b></p>
      <p class="quiet">${error.status === 0 ? 'No answer' : `Status ${error.status}`} · <code>${error.code}</code></p>
      <p><button type="button" onClick=${again}>Try again</button></p>
    </div>
  `
}

/** Says that there is nothing, and how that could change. */
export function Nothing({ title, children }: { title: string; children?: ComponentChildren }): VNode {
  return html`<div class="nothing">
    <p><b>${title}</b></p>
    ${children}
  </div>`
}

/** Draws what was loaded; until then that it is waited for, or why it failed. */
export function When<T>({ loaded, children }: { loaded: Loaded<T>; children: (data: T) => ComponentChildren }): VNode {
  if (loaded.data !== undefined)
    return html`${loaded.error ? h(Problem, { error: loaded.error }) : null}${children(loaded.data)}`
  return loaded.error ? h(Failure, { error: loaded.error, again: loaded.again }) : h(Waiting, {})
}
