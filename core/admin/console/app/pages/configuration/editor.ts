// A small editor for gateway.yaml: line numbers, problems at their lines, and completion. What is edited is a plain
// text field of the browser, so that the keyboard, screen readers and undoing work as everywhere.
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks'
import { html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { say } from '../../parts/announcer.ts'
import { visible } from '../../parts/text.ts'
import { offersAt } from './completion.ts'
import type { Node, Offer } from './completion.ts'

/** The height of a line in pixels; the style has the same. */
const lineHeight = 18

/** What an editor needs. */
export interface EditorProps {
  readonly label: string
  readonly text: string
  readonly readOnly: boolean
  readonly schema: Node | undefined
  /** Problems by line, counted from 1. */
  readonly marks: ReadonlyMap<number, string>
  change(text: string): void
  /** The line to go to; another object goes there again. */
  readonly to?: { readonly line: number } | undefined
}

/** Offers at a place of the text, one of which is chosen. */
interface Offered {
  readonly offers: readonly Offer[]
  readonly chosen: number
  readonly line: number
  readonly column: number
}

/** The editor. Ctrl and space offer what may stand there; while something is offered, Tab and Enter take it. */
export function Editor({ label, text, readOnly, schema, marks, change, to }: EditorProps): VNode {
  const field = useRef<HTMLTextAreaElement>(null)
  const gutter = useRef<HTMLDivElement>(null)
  const [scroll, setScroll] = useState({ top: 0, left: 0 })
  const [offered, setOffered] = useState<Offered>()
  const id = useId()
  const lines = useMemo(() => text.split('\n').length, [text])
  useEffect(() => {
    const element = field.current
    if (!to || !element) return
    const before = text.split('\n').slice(0, to.line - 1)
    const at = before.reduce((sum, line) => sum + line.length + 1, 0)
    element.focus()
    element.setSelectionRange(at, at)
    element.scrollTop = Math.max(0, (to.line - 6) * lineHeight)
  }, [to])
  const offer = (): void => {
    const element = field.current!
    if (!schema || readOnly || element.selectionStart !== element.selectionEnd) return setOffered(undefined)
    const at = element.selectionStart
    const offers = offersAt(element.value, at, schema)
    const before = element.value.slice(0, at).split('\n')
    if (offers.length === 0) return setOffered(undefined)
    setOffered({ offers, chosen: 0, line: before.length, column: before.at(-1)!.length })
  }
  const take = ({ text: written, from, label: name }: Offer): void => {
    const element = field.current!
    element.setSelectionRange(from, element.selectionEnd)
    // The one way of changing a field that its undoing knows of.
    if (!document.execCommand('insertText', false, written))
      element.setRangeText(written, from, element.selectionEnd, 'end')
    change(element.value)
    setOffered(undefined)
    say(`Took ${name}`)
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if ((event.ctrlKey || event.metaKey) && event.key === ' ') {
      event.preventDefault()
      offer()
    } else if (offered) {
      const { offers, chosen } = offered
      const move = { ArrowDown: 1, ArrowUp: -1 }[event.key]
      if (move !== undefined) setOffered({ ...offered, chosen: (chosen + move + offers.length) % offers.length })
      else if (event.key === 'Enter' || event.key === 'Tab') take(offers[chosen]!)
      else if (event.key === 'Escape') setOffered(undefined)
      else return
      event.preventDefault()
      event.stopPropagation()
    } else if (event.key === 'Enter' && !readOnly) indent(event)
  }
  const indent = (event: KeyboardEvent): void => {
    const element = field.current!
    const line = element.value.slice(0, element.selectionStart).split('\n').at(-1)!
    const deeper = /:\s*$/.test(line) ? '  ' : ''
    event.preventDefault()
    document.execCommand('insertText', false, `\n${/^ */.exec(line)![0]}${deeper}`)
  }
  const onInput = (event: InputEvent): void => {
    change((event.target as HTMLTextAreaElement).value)
    if (event.inputType === 'insertText' || offered) offer()
  }
  const onScroll = (): void => {
    const { scrollTop: top, scrollLeft: left } = field.current!
    if (gutter.current) gutter.current.scrollTop = top
    setScroll({ top, left })
  }
  const open = offered && offered.line * lineHeight >= scroll.top
  return html`
    <div class="editor">
      <div class="gutter" aria-hidden="true" ref=${gutter}>
        <div>
          ${Array.from({ length: lines }, (_, index) => {
            const problem = marks.get(index + 1)
            return html`<span class=${problem === undefined ? '' : 'wrong'} title=${problem}
              >${problem === undefined ? '' : '✕ '}${index + 1}</span
            >`
          })}
        </div>
      </div>
      <textarea
        ref=${field}
        aria-label=${label}
        aria-describedby=${`${id}-help`}
        aria-autocomplete=${schema && !readOnly ? 'list' : undefined}
        aria-controls=${open ? `${id}-offers` : undefined}
        aria-activedescendant=${open ? `${id}-${offered.chosen}` : undefined}
        spellcheck=${false}
        autocomplete="off"
        autocapitalize="off"
        wrap="off"
        readonly=${readOnly}
        value=${text}
        onInput=${onInput}
        onKeyDown=${onKeyDown}
        onScroll=${onScroll}
        onBlur=${() => setTimeout(() => setOffered(undefined), 150)}
        onClick=${() => setOffered(undefined)}
      ></textarea>
      ${
        open
          ? html`<ul
              class="offers-box"
              role="listbox"
              id=${`${id}-offers`}
              aria-label="What may stand here"
              style=${{
                top: `${offered.line * lineHeight - scroll.top + 8}px`,
                left: `min(calc(60px + ${offered.column}ch - ${scroll.left}px), calc(100% - 260px))`
              }}
            >
              ${offered.offers.map(
                (one, place) =>
                  html`<li
                    role="option"
                    id=${`${id}-${place}`}
                    aria-selected=${place === offered.chosen}
                    ref=${(element: HTMLElement | null) => place === offered.chosen && element?.scrollIntoView({ block: 'nearest' })}
                    onMouseDown=${(event: Event) => (event.preventDefault(), take(one))}
                  >
                    <b>${visible(one.label)}</b> <span class="quiet">${one.about}</span>
                  </li>`
              )}
            </ul>`
          : null
      }
      <p class="quiet help" id=${`${id}-help`}>
        ${readOnly ? 'Read only.' : 'Ctrl and space offer what may stand at the cursor; Enter or Tab takes it, Escape does not.'}
      </p>
    </div>
  `
}
