// A button with a box below it: choices that are seldom made. It closes by Escape, and when the reader goes elsewhere.
import { useEffect, useRef } from 'preact/hooks'
import { html } from '../html.ts'
import type { ComponentChildren, VNode } from '../html.ts'
import { address } from '../router.ts'

/** Draws it. `title` is what its button shows. */
export function Menu(props: { title: ComponentChildren; class?: string; children?: ComponentChildren }): VNode {
  const box = useRef<HTMLDetailsElement>(null)
  const { place } = address.value
  const close = (): void => void (box.current && (box.current.open = false))
  useEffect(close, [place])
  useEffect(() => {
    const press = ({ target }: Event): void => {
      if (!box.current?.contains(target as Node)) close()
    }
    addEventListener('pointerdown', press)
    return () => removeEventListener('pointerdown', press)
  }, [])
  const press = (event: KeyboardEvent): void => {
    if (event.key !== 'Escape' || !box.current?.open) return
    event.preventDefault()
    box.current.querySelector('summary')?.focus()
    close()
  }
  const leave = ({ relatedTarget }: FocusEvent): void => {
    if (relatedTarget instanceof Node && !box.current?.contains(relatedTarget)) close()
  }
  return html`
    <details class="choice" ref=${box} onKeyDown=${press} onFocusOut=${leave}>
      <summary class=${`button small ${props.class ?? ''}`}>${props.title}</summary>
      <div class="choice-box">${props.children}</div>
    </details>
  `
}
