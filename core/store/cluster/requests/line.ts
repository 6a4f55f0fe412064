// A record as it is stored: its JSON, and the columns that it is searched by.
import type { RequestRecord } from '../../requests.ts'
import { plain } from '../database/text.ts'

/** A record that is to be written. */
export interface Line {
  readonly record: RequestRecord
  readonly json: string
  /** When it arrived, in Unix milliseconds. */
  readonly time: number
}

/** The columns but for the names of a row, `time` and `request_id`, with their types. */
export const lineColumns = {
  tenant: 'text',
  key: 'text',
  model: 'text',
  project: 'text',
  member: 'text',
  endpoint: 'text',
  channels: 'text[]',
  code: 'text',
  outcome: 'text',
  tags: 'text[]',
  status: 'int',
  cost: 'bigint',
  duration: 'double precision',
  json: 'text'
} as const

/** Lines as rows of SQL, from the JSON of {@link columnsOf} in the first value of a statement. */
export const lineRows = `json_to_recordset($1) r(time bigint, request_id text, ${Object.entries(lineColumns)
  .map((column) => column.join(' '))
  .join(', ')})`

/** What a record is searched by, and its JSON. */
export function columnsOf({
  record,
  json,
  time
}: Line): Record<keyof typeof lineColumns | 'time' | 'request_id', unknown> {
  const { attempts, channel, tags = {} } = record
  const channels = attempts.length < 2 ? [attempts[0]?.channel ?? channel] : attempts.map((attempt) => attempt.channel)
  return {
    time,
    request_id: plain(record.request_id),
    tenant: plain(record.tenant ?? ''),
    key: plain(record.key ?? ''),
    model: plain(record.model ?? ''),
    project: plain(record.project ?? ''),
    member: plain(record.member ?? ''),
    endpoint: plain(record.endpoint),
    channels: [...new Set(channels)].filter((name) => name != null),
    code: plain(record.error_code ?? ''),
    outcome: record.outcome,
    tags: Object.entries(tags).map(([name, value]) => plain(`${name}=${value}`)),
    status: record.status,
    cost: record.cost_nano,
    duration: record.duration_ms,
    json
  }
}
