// The route of requests that have not ended, and are in no log yet: an operator who looks for one that hangs finds it.
import { progressStates } from '../../exchange/progress.ts'
import type { Progress } from '../../exchange/progress.ts'
import type { AdminParts, Answer, Call, Route } from '../api/contract.ts'
import { matching, pageOf, paging } from '../api/query.ts'
import { count, flag, nullable, number, object, oneOf, said, text, time } from '../api/shape.ts'
import { missingWorkers, page } from '../api/shapes.ts'

const filters = ['tenant', 'project', 'member', 'key', 'model', 'endpoint', 'channel', 'state'] as const

/** What actors of one tenant do not see: how the gateway is set up. */
const hidden = ['channel', 'attempts', 'attempt_ms'] as const
/** The longest name of a model that is shown, in characters: it comes from the client. */
const longestName = 128

const shape = object(
  {
    request_id: text,
    time: said(time, 'When it came.'),
    tenant: nullable(text),
    project: nullable(text),
    member: nullable(text),
    key: said(nullable(text), 'Null before it is known, as is whose it is.'),
    model: nullable(text),
    endpoint: text,
    client_protocol: text,
    streamed: flag,
    state: said(
      oneOf(...progressStates),
      'What it is at: its body, plugins or room, an upstream that was asked, the answer, an open session, the end.'
    ),
    age_ms: number,
    channel: said(nullable(text), 'The one that is asked, or was last.'),
    attempts: count,
    attempt_ms: said(nullable(number), 'Since the latest attempt began.'),
    silent_ms: said(nullable(number), 'Since the upstream was last heard, while an answer is waited for or comes.'),
    bytes: said(count, 'Of the answer, as far as they were sent to the client.'),
    events: count,
    client_left: flag,
    background: said(flag, 'It goes on although its client was answered.')
  },
  { optional: hidden }
)

export const underWayRoute: Route = {
  method: 'GET',
  path: '/admin/v1/requests/under-way',
  summary: 'Lists requests that have not ended, the oldest first',
  access: { needs: 'see', tenant: { in: 'query', hidden, closed: ['channel'] } },
  query: [...filters, ...paging],
  answers: { 200: page(shape, { missing_workers: missingWorkers }) },
  handle: listUnderWay
}

/** Lists the exchanges of this process: those of one that has handed over are in its log when they have ended. */
async function listUnderWay({ query }: Call, { engine }: AdminParts): Promise<Answer> {
  const { told, missing } = await engine.underWay(query.get('tenant'))
  const shown = [...told.values()].flat().map(show)
  const { data, next } = pageOf(matching(shown, filters, query), (one) => `${one.time} ${one.request_id}`, query)
  return { json: { data, next, missing_workers: missing } }
}

function show({ id, receivedAt, protocol, streaming, model, ...progress }: Progress) {
  const { tenant, project, member, key, endpoint, state, attempts, channel, bytes, events } = progress
  return {
    request_id: id,
    time: new Date(receivedAt).toISOString(),
    tenant,
    project,
    member,
    key,
    model: model === '' ? null : model.slice(0, longestName),
    endpoint,
    client_protocol: protocol,
    streamed: streaming,
    state,
    age_ms: Math.round(progress.ageMs),
    channel: channel ?? null,
    attempts,
    attempt_ms: rounded(progress.attemptMs),
    silent_ms: rounded(progress.silentMs),
    bytes,
    events,
    client_left: progress.clientLeft,
    background: progress.background
  }
}

function rounded(ms: number | undefined): number | null {
  return ms === undefined ? null : Math.round(ms)
}
