// The shapes of request records, as the admin API shows them.
import {
  count,
  flag,
  listOf,
  mapOf,
  nano,
  nullable,
  number,
  object,
  oneOf,
  said,
  text,
  time,
  usd
} from '../api/shape.ts'
import { decision, reason } from '../api/shapes.ts'
import { stepShape } from './timeline.ts'

const recordMembers = {
  request_id: text,
  time,
  tenant: nullable(text),
  project: nullable(text),
  member: nullable(text),
  key: nullable(text),
  model: nullable(text),
  requested_model: nullable(text),
  endpoint: text,
  client_protocol: text,
  channel: nullable(text),
  channel_protocol: nullable(text),
  status: count,
  error_code: nullable(text),
  outcome: oneOf('completed', 'rejected', 'failed', 'aborted'),
  streamed: flag,
  usage: nullable(mapOf(number)),
  usage_source: nullable(text),
  cost_usd: usd,
  cost_nano: nano,
  cost_lines: nullable(listOf(object({ class: text, units: number, usd_per_million: usd }))),
  price_version: nullable(text),
  reserved_nano: nullable(nano),
  attempts: listOf(object({ channel: text, duration_ms: number }, { open: true })),
  times: object({ plugins_ms: number }, { open: true }),
  first_byte_ms: nullable(number),
  duration_ms: number,
  client_request_id: nullable(text),
  recovered: said(flag, 'Others have written it, as the process of the exchange was gone.'),
  dropped: listOf(text),
  reason,
  decision,
  playground: object({ actor_kind: text, actor: text })
}
const recordOptions = {
  optional: [
    'channel',
    'channel_protocol',
    'attempts',
    'recovered',
    'times',
    'dropped',
    'reason',
    'decision',
    'playground'
  ],
  open: true
}
export const requestRecord = object(recordMembers, recordOptions)
/** A record with the steps of its life. */
export const requestLife = object({ ...recordMembers, timeline: listOf(stepShape) }, recordOptions)
