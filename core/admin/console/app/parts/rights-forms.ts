// Dialogs that make and change what has rights: tenants, projects, members, keys. Their fields are the API's own.
import { useState } from 'preact/hooks'
import { send } from '../api.ts'
import { h, html } from '../html.ts'
import type { VNode } from '../html.ts'
import { useLoad } from '../load.ts'
import { bodySchema } from './body-schema.ts'
import { Dialog, useAction } from './dialog.ts'
import { SchemaForm } from './form.ts'
import type { FormProps, Values } from './form.ts'
import { patchOf } from './patch.ts'
import type { Schema } from './schema.ts'
import { Problem, When } from './states.ts'

/** What a dialog needs. */
interface FormDialogProps<T> {
  title: string
  /** What its button says. */
  action: string
  method: 'POST' | 'PATCH'
  /** The path as the API's description has it, and as it is asked. */
  route: string
  path: string
  value: Values
  form?: Pick<FormProps, 'without' | 'first' | 'offers'>
  close: () => void
  /** Called with the answer; it closes the dialog. */
  done: (answer: T) => void
}

/** A dialog with the form of a route. Of a change it sends what differs from `value`. */
export function FormDialog<T>(props: FormDialogProps<T>): VNode {
  const { title, action, method, route, path, value: before, form = {}, close, done } = props
  const schema = useLoad(() => bodySchema(method, route), [route])
  const [value, setValue] = useState(before)
  const { run, busy, error } = useAction(async () => {
    done(await send<T>(method, path, method === 'PATCH' ? patchOf(before, value) : value))
  })
  const children = (found: Schema): VNode => html`
    <form onSubmit=${(event: Event) => (event.preventDefault(), run())}>
      ${h(SchemaForm, { schema: found, value, change: setValue, error, ...form })}
      ${error ? h(Problem, { error }) : null}
      <p class="actions end">
        <button type="button" onClick=${close}>Cancel</button>
        <button class="primary" disabled=${busy}>${busy ? 'Wait…' : action}</button>
      </p>
    </form>
  `
  return h(Dialog, { title, close }, h(When<Schema>, { loaded: schema, children }))
}
