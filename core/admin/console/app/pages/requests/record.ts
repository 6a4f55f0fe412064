// A request as the API shows it, and the columns of the log.
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { Money } from '../../parts/money.ts'
import { counted, duration } from '../../parts/number.ts'
import { Status } from '../../parts/status.ts'
import type { Tone } from '../../parts/status.ts'
import type { Column } from '../../parts/table.ts'
import { Id, Text } from '../../parts/text.ts'
import { Time } from '../../parts/time.ts'

/** A record of the request log. Actors of one tenant see no channels, attempts, times and decisions. */
export interface RequestRecord {
  readonly request_id: string
  readonly time: string
  readonly tenant: string | null
  readonly project: string | null
  readonly member: string | null
  readonly key: string | null
  readonly model: string | null
  readonly requested_model: string | null
  readonly endpoint: string
  readonly client_protocol: string
  readonly channel?: string | null
  readonly channel_protocol?: string | null
  readonly status: number
  readonly error_code: string | null
  readonly outcome: 'completed' | 'rejected' | 'failed' | 'aborted'
  readonly streamed: boolean
  readonly usage: Readonly<Record<string, number>> | null
  readonly usage_source: string | null
  readonly cost_nano: string
  readonly cost_lines: readonly { class: string; units: number; usd_per_million: string }[] | null
  readonly price_version: string | null
  readonly reserved_nano: string | null
  readonly attempts?: readonly Attempt[]
  readonly first_byte_ms: number | null
  readonly duration_ms: number
  readonly client_request_id: string | null
  readonly times?: { plugins_ms: number; refused_by?: string; answered_by?: string; omitted?: number }
  readonly dropped?: readonly string[]
  readonly tags?: Readonly<Record<string, string>>
  readonly reason?: Readonly<Record<string, unknown>>
  readonly decision?: Decision
}

interface Attempt {
  readonly channel: string
  readonly credential?: string
  readonly error?: string
  readonly upstream_error?: { code?: string; type?: string; param?: string; message?: string }
}

/** How the channel was chosen. */
export interface Decision {
  readonly order: readonly { channel: string; rank: number; weight: number; health?: { reason: string } }[]
  readonly excluded: readonly { channel: string; credential?: string; by: string; code: string; reason: string }[]
  readonly stopped?: string
  readonly models?: readonly { model: string; code: string; reason: string }[]
  readonly omitted?: number
}

/** How good a request's end was. A client that left is nobody's fault. */
export function toneOf({ outcome, status }: Pick<RequestRecord, 'outcome' | 'status'>): Tone {
  if (outcome === 'completed') return 'good'
  if (outcome === 'aborted') return 'idle'
  return status >= 500 || outcome === 'failed' ? 'bad' : 'warn'
}

/** The status in the log: sign, number, and code. */
export function Outcome({ record }: { record: RequestRecord }): VNode {
  const { status, error_code } = record
  return h(Status, { tone: toneOf(record) }, error_code === null ? String(status) : `${status} ${error_code}`)
}

const text = (value: string | null | undefined): VNode =>
  value === null || value === undefined || value === ''
    ? html`<span class="quiet">–</span>`
    : h(Text, { text: value, most: 32 })

function named(
  id: string,
  title: string,
  read: (record: RequestRecord) => string | null | undefined
): Column<RequestRecord> {
  return {
    id,
    title,
    sorts: false,
    value: read,
    cell: (row) => text(read(row)),
    filter: (row) => read(row) ?? undefined
  }
}

const tokens = ({ usage }: RequestRecord, side: 'input' | 'output'): number | null =>
  usage === null
    ? null
    : Object.entries(usage).reduce(
        (sum, [name, units]) =>
          (name.endsWith('output') ? 'output' : 'input') === side &&
          name !== 'reasoning' &&
          /input|output|cache/.test(name)
            ? sum + units
            : sum,
        0
      )

const count = (value: number | null): string => (value === null ? '–' : counted(value))

/** The columns. `whole`: with channels. */
export function columnsOf(whole: boolean): readonly Column<RequestRecord>[] {
  const channels: readonly Column<RequestRecord>[] = whole
    ? [named('channel', 'Channel', ({ channel }) => channel)]
    : []
  const tenants: readonly Column<RequestRecord>[] = whole ? [named('tenant', 'Tenant', ({ tenant }) => tenant)] : []
  return [
    { id: 'time', title: 'Time', sorts: false, value: ({ time }) => time, cell: ({ time }) => h(Time, { at: time }) },
    {
      id: 'status',
      title: 'Status',
      sorts: false,
      value: ({ status, error_code }) => `${status} ${error_code ?? ''}`.trim(),
      cell: (record) => h(Outcome, { record }),
      filter: ({ status }) => String(status)
    },
    named('model', 'Model', ({ model }) => model),
    ...tenants,
    named('key', 'Key', ({ key }) => key),
    ...channels,
    named('endpoint', 'Endpoint', ({ endpoint }) => endpoint),
    {
      id: 'first',
      title: 'First event',
      align: 'end',
      sorts: false,
      value: ({ first_byte_ms }) => first_byte_ms,
      cell: ({ first_byte_ms }) => (first_byte_ms === null ? '–' : duration(first_byte_ms))
    },
    {
      id: 'duration',
      title: 'Duration',
      align: 'end',
      sorts: false,
      value: ({ duration_ms }) => duration_ms,
      cell: ({ duration_ms }) => duration(duration_ms)
    },
    {
      id: 'input',
      title: 'Tokens in',
      align: 'end',
      sorts: false,
      value: (row) => tokens(row, 'input'),
      cell: (row) => count(tokens(row, 'input'))
    },
    {
      id: 'output',
      title: 'Tokens out',
      align: 'end',
      sorts: false,
      value: (row) => tokens(row, 'output'),
      cell: (row) => count(tokens(row, 'output'))
    },
    {
      id: 'cost',
      title: 'Cost',
      align: 'end',
      sorts: false,
      value: ({ cost_nano }) => BigInt(cost_nano),
      cell: ({ cost_nano }) => h(Money, { nano: cost_nano })
    },
    { ...named('project', 'Project', ({ project }) => project), optional: true },
    { ...named('member', 'Member', ({ member }) => member), optional: true },
    { ...named('code', 'Error', ({ error_code }) => error_code), optional: true },
    { ...named('outcome', 'Outcome', ({ outcome }) => outcome), optional: true },
    {
      id: 'id',
      title: 'Request',
      optional: true,
      sorts: false,
      value: ({ request_id }) => request_id,
      cell: ({ request_id }) => h(Id, { id: request_id })
    },
    {
      id: 'client',
      title: "Client's id",
      optional: true,
      sorts: false,
      value: ({ client_request_id }) => client_request_id,
      cell: ({ client_request_id }) => text(client_request_id)
    }
  ]
}
