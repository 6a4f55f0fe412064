// Who is signed in: one's own sessions, and for who runs the gateway those of others, each with a way to end it.
import { useState } from 'preact/hooks'
import { send } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useList } from '../../load.ts'
import { say } from '../../parts/announcer.ts'
import { Confirm } from '../../parts/dialog.ts'
import { Head } from '../../parts/head.ts'
import { Failure, Nothing } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { Text } from '../../parts/text.ts'
import { Ago, Time } from '../../parts/time.ts'
import { known, may } from '../../session.ts'
import { browserOf } from './browser.ts'

const path = '/admin/v1/sessions'

/** A session as the API shows it. */
interface Session {
  readonly session: string
  readonly how: string
  readonly id: string
  readonly name: string | null
  readonly role: string | null
  readonly tenant: string | null
  readonly address: string | null
  readonly agent: string | null
  readonly created: string
  readonly seen: string
  readonly idle_ends: string
  readonly expires: string
}

/** The page. */
export default function SessionsPage(): VNode {
  const list = useList<Session>(path)
  const [ending, setEnding] = useState<readonly Session[]>()
  const me = known.value
  const own = list.rows.filter(({ id }) => id === me?.id)
  const others = list.rows.filter(({ id }) => id !== me?.id)
  const beside = own.filter(({ session }) => session !== me?.session)
  const end = async (): Promise<void> => {
    for (const { session } of ending ?? []) await send('DELETE', `${path}/${encodeURIComponent(session)}`)
    say(ending?.length === 1 ? 'The session is over' : `${ending?.length} sessions are over`)
    list.again()
  }
  const table = (name: string, rows: readonly Session[], more: readonly Column<Session>[]): VNode =>
    h(Table<Session>, {
      name,
      columns: [...more, ...columns, actions((session) => setEnding([session]))],
      rows,
      keyOf: ({ session }) => session,
      sort: { column: 'seen', down: true },
      more: list.more,
      busy: list.busy,
      empty: h(
        Nothing,
        { title: 'You have no session' },
        html`<p>A page of this machine comes in without one, and so does a program with a token.</p>`
      )
    })
  return html`
    ${h(
      Head,
      {
        title: 'Sessions',
        about: 'Where you are signed in. A session that you do not know is somebody else’s: end it.'
      },
      beside.length > 0
        ? html`<button type="button" class="danger" onClick=${() => setEnding(beside)}>End all others of mine</button>`
        : null
    )}
    ${list.error ? h(Failure, { error: list.error, again: list.again }) : null} ${table('own sessions', own, [])}
    ${
      may({ whole: true }) && others.length > 0
        ? html`<h2>Of others</h2>
            ${table('sessions of others', others, whose)}`
        : null
    }
    ${
      ending
        ? h(
            Confirm,
            {
              title: ending.length === 1 ? 'End a session' : `End ${ending.length} sessions`,
              action: 'End',
              act: end,
              close: () => setEnding(undefined)
            },
            html`<p>The next request of that browser is refused, and asks to sign in again.</p>`
          )
        : null
    }
  `
}

/** How somebody proved who they are. */
const ways: Readonly<Record<string, string>> = {
  admin_token: 'admin.token',
  operator_token: 'a token',
  oidc: 'OpenID Connect'
}

const columns: readonly Column<Session>[] = [
  {
    id: 'agent',
    title: 'Browser',
    value: ({ agent }) => browserOf(agent),
    cell: ({ session, agent }) =>
      html`${browserOf(agent)}${' '}
      ${session === known.value?.session ? h(Status, { tone: 'good' }, 'this one') : null}`
  },
  { id: 'address', title: 'From', value: ({ address }) => address },
  {
    id: 'created',
    title: 'Signed in',
    value: ({ created }) => created,
    cell: ({ created }) => h(Time, { at: created })
  },
  { id: 'seen', title: 'Last used', value: ({ seen }) => seen, cell: ({ seen }) => h(Ago, { at: seen }) },
  {
    id: 'ends',
    title: 'Ends at the latest',
    value: ({ expires }) => expires,
    cell: ({ expires }) => h(Time, { at: expires })
  },
  { id: 'how', title: 'By', value: ({ how }) => ways[how] ?? how },
  {
    id: 'called',
    title: 'What the browser calls itself',
    optional: true,
    value: ({ agent }) => agent,
    cell: ({ agent }) => h(Text, { text: agent ?? '–', most: 60 })
  }
]

const whose: readonly Column<Session>[] = [
  { id: 'who', title: 'Who', value: ({ name, id }) => name ?? id },
  { id: 'role', title: 'Role', value: ({ role }) => role },
  { id: 'tenant', title: 'Tenant', value: ({ tenant }) => tenant ?? 'all' }
]

function actions(end: (session: Session) => void): Column<Session> {
  return {
    id: 'actions',
    title: 'Actions',
    cell: (one) => {
      const here = one.session === known.value?.session
      const mayEnd = one.id === known.value?.id || may({ needs: 'operate' })
      return here || !mayEnd
        ? html`<span class="quiet">${here ? 'sign out ends it' : 'none'}</span>`
        : html`<button
            type="button"
            class="small"
            aria-label=${`End the session of ${one.name ?? one.id} by ${browserOf(one.agent)} from ${one.address ?? 'nowhere known'}`}
            onClick=${() => end(one)}
          >
            End
          </button>`
    }
  }
}
