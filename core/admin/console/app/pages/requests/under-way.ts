// Requests that have not ended, and are in no row of the log: asked for again and again while somebody looks.
import { useEffect, useState } from 'preact/hooks'
import { get } from '../../api.ts'
import type { Page } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { paused } from '../../live.ts'
import { useLoad } from '../../load.ts'
import { Lacking } from '../../parts/lacking.ts'
import { bytes, counted, duration } from '../../parts/number.ts'
import { Failure, Nothing } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { Id, Text } from '../../parts/text.ts'

/** A request under way. Actors of one tenant see no channels and attempts. */
interface UnderWayRequest {
  readonly request_id: string
  readonly tenant: string | null
  readonly key: string | null
  readonly model: string | null
  readonly endpoint: string
  readonly state: 'reading' | 'deciding' | 'waiting' | 'answering' | 'session' | 'settling'
  readonly age_ms: number
  readonly channel?: string | null
  readonly attempts?: number
  readonly silent_ms: number | null
  readonly bytes: number
  readonly events: number
  readonly client_left: boolean
  readonly background: boolean
}

/** Milliseconds between two looks. */
const every = 2000
/** An upstream that was silent for so long, in milliseconds, is marked. */
const long = 10_000

const words: Readonly<Record<UnderWayRequest['state'], string>> = {
  reading: 'its body is read',
  deciding: 'in the chain',
  waiting: 'waits for its upstream',
  answering: 'is answered',
  session: 'session',
  settling: 'is settled'
}

const text = (value: string | null | undefined): VNode | string =>
  value === null || value === undefined ? '–' : h(Text, { text: value, most: 32 })

function columnsOf(whole: boolean): readonly Column<UnderWayRequest>[] {
  const all: (Column<UnderWayRequest> | false)[] = [
    { id: 'age', title: 'For', align: 'end', value: (row) => row.age_ms, cell: (row) => duration(row.age_ms) },
    {
      id: 'state',
      title: 'State',
      value: ({ state }) => words[state],
      cell: ({ state, silent_ms, client_left, background }) =>
        h(
          Status,
          { tone: silent_ms !== null && silent_ms >= long ? 'warn' : 'idle' },
          `${words[state]}${background ? ', in the background' : ''}${client_left ? ', its client left' : ''}`
        )
    },
    {
      id: 'silent',
      title: 'Upstream silent',
      align: 'end',
      value: (row) => row.silent_ms,
      cell: ({ silent_ms }) => (silent_ms === null ? '–' : duration(silent_ms))
    },
    whole && { id: 'tenant', title: 'Tenant', value: (row) => row.tenant, cell: (row) => text(row.tenant) },
    { id: 'key', title: 'Key', value: (row) => row.key, cell: (row) => text(row.key) },
    { id: 'model', title: 'Model', value: (row) => row.model, cell: (row) => text(row.model) },
    whole && { id: 'channel', title: 'Channel', value: (row) => row.channel, cell: (row) => text(row.channel) },
    whole && { id: 'attempts', title: 'Attempts', align: 'end', value: (row) => row.attempts },
    { id: 'events', title: 'Events', align: 'end', value: (row) => row.events, cell: (row) => counted(row.events) },
    { id: 'bytes', title: 'Sent', align: 'end', value: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
    { id: 'endpoint', title: 'Endpoint', optional: true, value: (row) => row.endpoint },
    { id: 'id', title: 'Request', value: (row) => row.request_id, cell: (row) => h(Id, { id: row.request_id }) }
  ]
  return all.filter((column) => column !== false)
}

/** What can be opened over the log. `tenant`: of this one alone. */
export function UnderWay({ tenant, whole }: { tenant: string | undefined; whole: boolean }): VNode {
  const [open, setOpen] = useState(false)
  return html`<details
    class="under-way"
    onToggle=${(event: Event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}
  >
    <summary>Requests under way</summary>
    ${open ? h(List, { tenant, whole }) : null}
  </details>`
}

function List({ tenant, whole }: { tenant: string | undefined; whole: boolean }): VNode {
  const [turn, setTurn] = useState(0)
  const { data, error, again } = useLoad<Page<UnderWayRequest> & { missing_workers?: readonly number[] }>(
    (signal) => get('/admin/v1/requests/under-way', { tenant, limit: '200' }, signal),
    [tenant, turn],
    { keep: true }
  )
  const stopped = paused.value
  useEffect(() => {
    if (stopped || (!data && !error)) return undefined
    const look = (): void => {
      if (document.visibilityState === 'visible') setTurn((before) => before + 1)
    }
    const timer = setTimeout(look, every)
    document.addEventListener('visibilitychange', look)
    return () => {
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', look)
    }
  }, [data, error, stopped])
  if (error) return h(Failure, { error, again })
  return html`${h(Lacking, { workers: data?.missing_workers })}
  ${h(Table<UnderWayRequest>, {
    name: 'requests under way',
    columns: columnsOf(whole),
    rows: data?.data ?? [],
    keyOf: ({ request_id }) => request_id,
    busy: !data,
    empty: h(Nothing, { title: 'No request is under way' }, html`<p>Those that have ended are in the log below.</p>`)
  })}
  ${data && data.next !== null ? html`<p class="quiet">These are the 200 oldest; there are more.</p>` : null}`
}
