// What is beside a list: one of its rows, opened. It has the focus, Escape closes it, and its row has the focus back.
import { useEffect, useRef } from 'preact/hooks'
import { html } from '../html.ts'
import type { ComponentChildren, VNode } from '../html.ts'
import { go, moves } from '../router.ts'

/** What a panel needs. */
export interface PanelProps {
  /** What it is, for whoever cannot see it. */
  label: string
  /** The address without it. */
  back: string
  class?: string
  children?: ComponentChildren
}

/** Draws it. Rows are found by their addresses: that of the page is that of the row. */
export function Panel({ label, back, class: more = '', children }: PanelProps): VNode {
  const box = useRef<HTMLElement>(null)
  useEffect(() => {
    const { current } = box
    const { pathname } = location
    // Whoever opens an address that names a row begins at the top of the page.
    if (moves.peek() > 0) current?.focus()
    return () => {
      const now = document.activeElement
      if (now === document.body || current?.contains(now)) rowOf(pathname)?.focus({ preventScroll: true })
    }
  }, [location.pathname])
  const press = (event: KeyboardEvent): void => {
    const own = (event.target as Element).closest('dialog, input, textarea, select') === null
    if (event.key !== 'Escape' || event.defaultPrevented || !own) return
    event.preventDefault()
    go(back)
  }
  return html`<section class=${`panel ${more}`} aria-label=${label} tabindex="-1" ref=${box} onKeyDown=${press}>
    ${children}
  </section>`
}

function rowOf(pathname: string): HTMLElement | undefined {
  return [...document.querySelectorAll<HTMLAnchorElement>('.table td a')].find((one) => one.pathname === pathname)
}
