// More about something on hover and on focus; Escape closes it (WCAG 1.4.13).
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { html } from '../html.ts'
import type { ComponentChildren, VNode } from '../html.ts'

/** Shows `tip` at what it is around. It can be reached by the keyboard, unless `still`, when what is in it can be. */
export function Tip({ tip, still, children }: { tip: string; still?: boolean; children?: ComponentChildren }): VNode {
  const [place, setPlace] = useState<{ left: number; top: number }>()
  const id = useId()
  const box = useRef<HTMLElement>(null)
  // A link is come to itself: what is in it is no further stop.
  const [inLink, setInLink] = useState(false)
  useEffect(() => setInLink(box.current?.closest('a') !== null), [])
  const open = (event: Event): void => {
    const { left, bottom, top } = (event.currentTarget as HTMLElement).getBoundingClientRect()
    const below = bottom + 100 < innerHeight
    setPlace({ left: Math.max(4, Math.min(left, innerWidth - 330)), top: below ? bottom + 2 : Math.max(4, top - 60) })
  }
  const close = (): void => setPlace(undefined)
  return html`
    <span
      class="tip"
      ref=${box}
      tabindex=${still || inLink ? undefined : 0}
      aria-describedby=${place ? id : undefined}
      onMouseEnter=${open}
      onMouseLeave=${close}
      onFocusIn=${open}
      onFocusOut=${close}
      onKeyDown=${(event: KeyboardEvent) => event.key === 'Escape' && place && (event.stopPropagation(), close())}
      >${children}${
        place
          ? html`<span
              class="tip-box"
              role="tooltip"
              id=${id}
              style=${{ left: `${place.left}px`, top: `${place.top}px` }}
              >${tip}</span
            >`
          : null
      }</span
    >
  `
}
