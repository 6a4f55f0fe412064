// Who may use the admin API by a token of their own: made, changed, given new tokens, revoked.
import { useState } from 'preact/hooks'
import { send } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useList, useLoad } from '../../load.ts'
import { bodySchema } from '../../parts/body-schema.ts'
import { Snippet } from '../../parts/copy.ts'
import { Confirm, Dialog, useAction } from '../../parts/dialog.ts'
import { SchemaForm } from '../../parts/form.ts'
import type { Values } from '../../parts/form.ts'
import { Head } from '../../parts/head.ts'
import { Failure, Nothing, Problem, When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import type { Tone } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { Time } from '../../parts/time.ts'
import { may } from '../../session.ts'

const path = '/admin/v1/operators'

/** An operator as the API shows it. */
interface Operator {
  readonly name: string
  readonly role: string
  readonly tenant: string | null
  readonly enabled: boolean
  readonly state: 'active' | 'disabled' | 'expired' | 'revoked'
  readonly tokens: readonly { hint: string; created: string; expires: string; last_used: string | null }[]
  readonly created: string
}

const tones: Readonly<Record<Operator['state'], Tone>> = {
  active: 'good',
  disabled: 'idle',
  expired: 'warn',
  revoked: 'idle'
}

/** What is being done, in a dialog. */
type Doing =
  | { what: 'make' }
  | { what: 'change' | 'revoke' | 'token'; operator: Operator }
  | { what: 'issued'; name: string; token: string }

/** The page. */
export default function OperatorsPage(): VNode {
  const list = useList<Operator>(path)
  const [doing, setDoing] = useState<Doing>()
  const close = (): void => setDoing(undefined)
  // By then what shows the token may have taken the place of what asked.
  const closeAsked = (): void => setDoing((now) => (now?.what === 'issued' ? now : undefined))
  const issued = ({ name, token }: Operator & { token: string }): void => {
    setDoing({ what: 'issued', name, token })
    list.again()
  }
  const about = 'People and programs with a token of their own for the admin API and this console.'
  return html`
    ${h(Head, { title: 'Operators', about }, may({ needs: 'operate' }) ? html`<button type="button" class="primary" onClick=${() => setDoing({ what: 'make' })}>Make an operator</button>` : null)}
    ${list.error ? h(Failure, { error: list.error, again: list.again }) : null}
    ${h(Table<Operator>, {
      name: 'operators',
      columns: may({ needs: 'operate' }) ? [...columns, actions(setDoing)] : columns,
      rows: list.rows,
      keyOf: ({ name }) => name,
      sort: { column: 'name', down: false },
      more: list.more,
      busy: list.busy,
      empty: h(
        Nothing,
        { title: 'There are no operators yet' },
        html`<p>
          Until there are, admin.token of gateway.yaml is the only way in, and everybody who has it is an owner.
        </p>`
      )
    })}
    ${doing?.what === 'make' ? h(Make, { close, issued }) : null}
    ${doing?.what === 'change' ? h(Change, { operator: doing.operator, close, done: list.again }) : null}
    ${doing?.what === 'token' ? h(NewToken, { operator: doing.operator, close: closeAsked, issued }) : null}
    ${doing?.what === 'revoke' ? h(Revoke, { operator: doing.operator, close, done: list.again }) : null}
    ${doing?.what === 'issued' ? h(Issued, { ...doing, close }) : null}
  `
}

const columns: readonly Column<Operator>[] = [
  { id: 'name', title: 'Name', value: ({ name }) => name },
  { id: 'role', title: 'Role', value: ({ role }) => role },
  { id: 'tenant', title: 'Tenant', value: ({ tenant }) => tenant ?? 'all' },
  {
    id: 'state',
    title: 'State',
    value: ({ state }) => state,
    cell: ({ state }) => h(Status, { tone: tones[state] }, state)
  },
  {
    id: 'used',
    title: 'Last used',
    value: ({ tokens }) => tokens[0]?.last_used,
    cell: ({ tokens }) => h(Time, { at: tokens[0]?.last_used, absent: 'never' })
  },
  {
    id: 'expires',
    title: 'Token until',
    value: ({ tokens }) => tokens[0]?.expires,
    cell: ({ tokens }) => h(Time, { at: tokens[0]?.expires })
  },
  {
    id: 'created',
    title: 'Made',
    optional: true,
    value: ({ created }) => created,
    cell: ({ created }) => h(Time, { at: created })
  }
]

function actions(act: (doing: Doing) => void): Column<Operator> {
  const button = (operator: Operator, what: 'change' | 'revoke' | 'token', title: string): VNode =>
    html`<button
      type="button"
      class="small"
      aria-label=${`${title}: ${operator.name}`}
      onClick=${() => act({ what, operator })}
    >
      ${title}
    </button> `
  return {
    id: 'actions',
    title: 'Actions',
    cell: (operator) =>
      operator.state === 'revoked'
        ? html`<span class="quiet">none</span>`
        : [
            button(operator, 'change', 'Change'),
            button(operator, 'token', 'New token'),
            button(operator, 'revoke', 'Revoke')
          ]
  }
}

function Make({
  close,
  issued
}: {
  close: () => void
  issued: (operator: Operator & { token: string }) => void
}): VNode {
  const schema = useLoad(() => bodySchema('POST', path), [])
  const [value, setValue] = useState<Values>({ role: 'viewer' })
  const { run, busy, error } = useAction(async () =>
    issued(await send<Operator & { token: string }>('POST', path, value))
  )
  return h(
    Dialog,
    { title: 'Make an operator', close },
    h(When<Awaited<ReturnType<typeof bodySchema>>>, {
      loaded: schema,
      children: (found) => html`
        <form onSubmit=${(event: Event) => (event.preventDefault(), run())}>
          ${h(SchemaForm, { schema: found, value, change: setValue, error })} ${error ? h(Problem, { error }) : null}
          <p class="actions end">
            <button type="button" onClick=${close}>Cancel</button><button class="primary" disabled=${busy}>Make</button>
          </p>
        </form>
      `
    })
  )
}

function Change({ operator, close, done }: { operator: Operator; close: () => void; done: () => void }): VNode {
  const { name, role, tenant, enabled } = operator
  const [value, setValue] = useState<Values>({ role, enabled, ...(tenant !== null && { tenant }) })
  const schema = useLoad(() => bodySchema('PATCH', `${path}/{operator}`), [])
  const { run, busy, error } = useAction(async () => {
    // A merge patch: what was emptied is null.
    await send('PATCH', `${path}/${encodeURIComponent(name)}`, { tenant: null, ...value })
    done()
    close()
  })
  return h(
    Dialog,
    { title: `Change ${name}`, close },
    h(When<Awaited<ReturnType<typeof bodySchema>>>, {
      loaded: schema,
      children: (found) => html`
        <form onSubmit=${(event: Event) => (event.preventDefault(), run())}>
          ${h(SchemaForm, { schema: found, value, change: setValue, error })} ${error ? h(Problem, { error }) : null}
          <p class="actions end">
            <button type="button" onClick=${close}>Cancel</button><button class="primary" disabled=${busy}>Save</button>
          </p>
        </form>
      `
    })
  )
}

interface NewTokenProps {
  operator: Operator
  close: () => void
  issued: (operator: Operator & { token: string }) => void
}

function NewToken({ operator: { name }, close, issued }: NewTokenProps): VNode {
  const act = async (): Promise<void> =>
    issued(await send<Operator & { token: string }>('POST', `${path}/${encodeURIComponent(name)}/tokens`))
  return h(
    Confirm,
    { title: `New token for ${name}`, action: 'Give a new token', act, close },
    html`<p>The present token stops working at once.</p>`
  )
}

function Revoke({
  operator: { name },
  close,
  done
}: {
  operator: Operator
  close: () => void
  done: () => void
}): VNode {
  const act = async (): Promise<void> => {
    await send('DELETE', `${path}/${encodeURIComponent(name)}`)
    done()
  }
  return h(
    Confirm,
    { title: `Revoke ${name}`, action: 'Revoke', act, close, typed: name },
    html`<p>Its tokens stop working at once, for good, and its name stays taken. The audit log keeps what it did.</p>`
  )
}

function Issued({ name, token, close }: { name: string; token: string; close: () => void }): VNode {
  return h(
    Dialog,
    { title: `The token of ${name}`, close },
    html`
      <p>It is shown this once. Who has it may do what the role of ${name} allows.</p>
      ${h(Snippet, { text: token, label: 'Token' })}
      <p class="actions end"><button type="button" class="primary" onClick=${close}>I have kept it</button></p>
    `
  )
}
