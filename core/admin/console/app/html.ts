// What all modules draw with: elements by html`…`, components by h(Component, {…}), whose properties are checked.
import { h as make } from 'preact'
import type { Component, ComponentChildren, FunctionComponent, VNode } from 'preact'
import htm from 'htm'

const build = htm.bind(make) as (strings: readonly string[], ...values: unknown[]) => VNode

/** The texts of each template as {@link spaced} made them. htm knows a template by its texts. */
const made = new WeakMap<TemplateStringsArray, readonly string[]>()

/** Makes elements of markup; values in it are never read as markup. Nothing would check components in it. */
export function html(strings: TemplateStringsArray, ...values: unknown[]): VNode {
  let texts = made.get(strings)
  if (!texts) made.set(strings, (texts = spaced(strings)))
  return build(texts, ...values)
}

/**
 * Makes a space of each line break between words and elements, as HTML does: htm leaves them out, and a formatter that
 * breaks a long line would join words. Those behind an opening tag and before a closing one, and around all, are left
 * to htm.
 */
function spaced(strings: TemplateStringsArray): readonly string[] {
  const last = strings.length - 1
  return strings.map((text, place) =>
    text.replace(/\s*\n\s*/g, (found, at: number) => {
      const [before, after] = [text.slice(0, at), text.slice(at + found.length)]
      const around = (place === 0 && before === '') || (place === last && after === '')
      return around || opened(before) || after.startsWith('</') ? found : ' '
    })
  )
}

/** Whether a text ends with an opening tag, which may have begun in the text before. */
function opened(text: string): boolean {
  if (!text.endsWith('>') || text.endsWith('/>')) return false
  return !text.slice(Math.max(0, text.lastIndexOf('<'))).startsWith('</')
}

type Properties<P> = Omit<P, 'children'> & { key?: string | number | undefined } & ('children' extends keyof P
    ? { children?: P['children'] }
    : unknown)

/** Makes a component with its properties, which are checked; children may follow them. */
export const h = make as unknown as <P>(
  component: ((props: P) => ComponentChildren) | (new (props: P) => Component<P>),
  properties: NoInfer<Properties<P>>,
  ...children: ComponentChildren[]
) => VNode

export type { ComponentChildren, FunctionComponent, VNode }
