// Tells the life of a request in order: when it came, what plugins and attempts took, what the client saw and when, and
// when it was settled.
import type { AttemptRecord, RequestRecord } from '../../store/requests.ts'
import { nullable, number, object, oneOf, said, text } from '../api/shape.ts'
import type { Shape } from '../api/shape.ts'

/**
 * One step. `received`: the head of the request came. `body`: its body came, and was checked. `hook`: a call of a
 * plugin that took a tenth of a millisecond or longer. `attempt`: a channel was asked. `shown`: the client got the
 * first event or byte. `end`: the answer ended, or the error that took its place. `settled`: its charge and its record
 * were on disk; `recorded`: the record, where nothing was held.
 */
export interface Step {
  what: 'received' | 'body' | 'hook' | 'attempt' | 'shown' | 'end' | 'settled' | 'recorded'
  /** Milliseconds from the arrival; null in records of before 2026-11-23. */
  at_ms: number | null
  duration_ms: number
  plugin?: string
  hook?: string
  /** Counts the attempts from 1. */
  attempt?: number
  channel?: string
  /** From the start of the attempt. */
  head_ms?: number | null
  first_event_ms?: number | null
  status?: number | null
  error_code?: string | null
  /** `unsent`: the channel could not carry the request. */
  outcome?: 'answered' | 'failed' | 'unsent' | RequestRecord['outcome']
}

const optional = [
  'plugin',
  'hook',
  'attempt',
  'channel',
  'head_ms',
  'first_event_ms',
  'status',
  'error_code',
  'outcome'
]

/** The shape of {@link Step}. */
export const stepShape: Shape = object(
  {
    what: oneOf('received', 'body', 'hook', 'attempt', 'shown', 'end', 'settled', 'recorded'),
    at_ms: said(nullable(number), 'Milliseconds from the arrival of the request.'),
    duration_ms: number,
    plugin: text,
    hook: text,
    attempt: number,
    channel: text,
    head_ms: said(nullable(number), 'From the start of the attempt to the head of its answer.'),
    first_event_ms: said(nullable(number), 'From the start of the attempt to the first event or byte of its answer.'),
    status: nullable(number),
    error_code: nullable(text),
    outcome: text
  },
  { optional }
)

/** The steps in order. `written`: when the record was written. `whole`: with plugins and channels. */
export function timelineOf(record: RequestRecord, written: number, whole: boolean): Step[] {
  const { times, first_byte_ms, duration_ms, status, error_code, outcome } = record
  const steps: Step[] = [{ what: 'received', at_ms: 0, duration_ms: 0 }]
  if (times?.body_ms !== undefined) steps.push({ what: 'body', at_ms: 0, duration_ms: times.body_ms })
  if (whole) {
    for (const { plugin, hook, at_ms, duration_ms: took } of times?.hooks ?? [])
      steps.push({ what: 'hook', at_ms, duration_ms: took, plugin, hook })
    for (const [place, attempt] of record.attempts.entries()) steps.push(attemptStep(attempt, place + 1))
  }
  if (first_byte_ms !== null) steps.push({ what: 'shown', at_ms: first_byte_ms, duration_ms: 0 })
  steps.push({ what: 'end', at_ms: duration_ms, duration_ms: 0, status, error_code, outcome })
  const onDisk = Math.max(0, tenths(written - Date.parse(record.time) - duration_ms))
  const what = record.reserved_nano === null ? 'recorded' : 'settled'
  steps.push({ what, at_ms: duration_ms, duration_ms: onDisk })
  return steps.sort((one, other) => (one.at_ms ?? 0) - (other.at_ms ?? 0))
}

function attemptStep(
  { channel, status, error_code, sent, head_ms, first_byte_ms, duration_ms, at_ms }: AttemptRecord,
  number: number
): Step {
  return {
    what: 'attempt',
    at_ms: at_ms ?? null,
    duration_ms,
    attempt: number,
    channel,
    head_ms: head_ms ?? null,
    first_event_ms: first_byte_ms ?? null,
    status: status ?? null,
    error_code: error_code ?? null,
    outcome: sent === false ? 'unsent' : error_code === undefined ? 'answered' : 'failed'
  }
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10
}
