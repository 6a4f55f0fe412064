// Dialogs: the browser's own, which keep the focus inside, close by Escape, and give the focus back.
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type { ApiError } from '../api.ts'
import { h, html } from '../html.ts'
import type { ComponentChildren, VNode } from '../html.ts'
import { shownError } from '../load.ts'
import { Problem } from './states.ts'

/**
 * A dialog that is open as long as it is drawn. `close` is called when the reader wants it closed; without it they
 * cannot.
 */
export function Dialog(props: {
  title: string
  close?: () => void
  wide?: boolean
  children?: ComponentChildren
}): VNode {
  const box = useRef<HTMLDialogElement>(null)
  const drawn = useRef(true)
  const id = useId()
  useEffect(() => {
    const dialog = box.current
    const before = document.activeElement
    dialog?.showModal()
    // Not the button that closes it, which stands first.
    dialog?.querySelector<HTMLElement>('input, select, textarea')?.focus()
    return () => {
      drawn.current = false
      // What is behind an open one can have no focus.
      dialog?.close()
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  // A browser closes a dialog by a second Escape though the first was refused: one that has to be answered stays.
  const closed = (): void => {
    // The reader has not closed one that another took the place of.
    if (!drawn.current) return
    if (props.close) props.close()
    else if (box.current?.isConnected) box.current.showModal()
  }
  return html`
    <dialog
      ref=${box}
      class=${props.wide ? 'wide' : ''}
      aria-labelledby=${id}
      onCancel=${(event: Event) => (event.preventDefault(), props.close?.())}
      onClose=${closed}
    >
      <div class="dialog-head">
        <h2 id=${id}>${props.title}</h2>
        ${props.close ? html`<button type="button" class="plain" aria-label="Close" onClick=${props.close}>✕</button>` : null}
      </div>
      ${props.children}
    </dialog>
  `
}

/**
 * Asks before something is done that is not easily undone. `act` does it; when it throws, the dialog says why and
 * stays. `typed`: a word that has to be typed first.
 */
export function Confirm(props: {
  title: string
  action: string
  act: () => Promise<unknown>
  close: () => void
  typed?: string
  children?: ComponentChildren
}): VNode {
  const [typed, setTyped] = useState('')
  const { run, busy, error } = useAction(async () => {
    await props.act()
    props.close()
  })
  const submit = (event: Event): void => {
    event.preventDefault()
    if (props.typed === undefined || typed === props.typed) run()
  }
  const content = html`
    <form onSubmit=${submit}>
      ${props.children}
      ${
        props.typed === undefined
          ? null
          : html`<label class="field"
              >Type <code>${props.typed}</code> to go on
              <input
                value=${typed}
                autocomplete="off"
                onInput=${(event: Event) => setTyped((event.target as HTMLInputElement).value)}
              />
            </label>`
      }
      ${error ? h(Problem, { error }) : null}
      <p class="actions end">
        <button type="button" onClick=${props.close}>Cancel</button>
        <button class="danger" disabled=${busy || (props.typed !== undefined && typed !== props.typed)}>
          ${busy ? 'Wait…' : props.action}
        </button>
      </p>
    </form>
  `
  return h(Dialog, { title: props.title, close: props.close }, content)
}

/** Something that a button does: whether it is under way, and why it failed. */
export function useAction(act: () => Promise<unknown>): {
  run: () => void
  busy: boolean
  error: ApiError | undefined
} {
  const [state, setState] = useState<{ busy: boolean; error?: ApiError }>({ busy: false })
  const alive = useRef(true)
  useEffect(() => () => void (alive.current = false), [])
  const run = (): void => {
    setState({ busy: true })
    act().then(
      () => alive.current && setState({ busy: false }),
      (error: unknown) => alive.current && setState({ busy: false, error: shownError(error) })
    )
  }
  return { run, busy: state.busy, error: state.error }
}
