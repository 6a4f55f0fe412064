// What all modules draw with: elements by html`…`, components by h(Component, {…}), whose properties are checked.
import { h as make } from 'preact'
import type { Component, ComponentChildren, FunctionComponent, VNode } from 'preact'
import htm from 'htm'

/** Makes elements of markup; values in it are never read as markup. Nothing would check components in it. */
export const html = htm.bind(make) as (strings: TemplateStringsArray, ...values: unknown[]) => VNode

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
