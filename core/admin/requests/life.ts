// The routes of one request: its life, and the messages that are kept of it.
import { GatewayError } from '../../errors.ts'
import type { RequestRecord, WrittenRecord } from '../../store/requests.ts'
import { auditEntry } from '../api/audit.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { shown } from '../api/query.ts'
import { anything, listOf, nullable, object, oneOf, said, text } from '../api/shape.ts'
import type { Shape } from '../api/shape.ts'
import { showRecord } from './requests.ts'
import { timelineOf } from './timeline.ts'

/** What a request may be under way beside its duration, before something of it is kept, in milliseconds. */
const slack = 60_000
/** The most of either side that is shown, in characters. */
const longest = 1024 * 1024

/** Messages that are kept of a request. */
export const messagesShape: Shape = object({
  request_id: text,
  tenant: nullable(text),
  kept: said(
    nullable(oneOf('response')),
    'Where they are kept: as a response that its client can ask for. Null: nowhere.'
  ),
  id: said(nullable(text), 'Of the response.'),
  input: said(nullable(listOf(anything)), 'The items of the request, without those of the conversation before it.'),
  output: said(nullable(anything), 'The response.'),
  why_not: said(nullable(text), 'Why there are none.')
})

/** Shows a record with the steps of its life. */
export async function showRequest(call: Call, { store }: AdminParts): Promise<Answer> {
  const { record, written } = await recordFor(call, store)
  const timeline = timelineOf(record, written, call.by.tenant === null)
  return { json: { ...showRecord(record, store), timeline } }
}

/**
 * Shows what was asked and answered, where that is kept, and writes to the audit log who looked. Only responses that
 * are kept for their clients have it: the request log never has bodies.
 */
export async function showMessages(call: Call, { store, vault }: AdminParts): Promise<Answer> {
  const { record } = await recordFor(call, store)
  const { request_id, tenant } = record
  const state = await keptOf(record, vault)
  const none = { request_id, tenant, kept: null, id: null, input: null, output: null }
  if (!state) return { json: { ...none, why_not: 'Nothing is kept of its messages: the request log has no bodies.' } }
  const { id, own, response } = state
  const thing = { kind: 'request', id: request_id, tenant }
  await store.documents.change([], auditEntry(call.by, 'request.read_messages', thing, undefined, { response: id }))
  if (own.length + response.length > longest)
    return { json: { ...none, kept: 'response', id, why_not: `They are longer than ${longest} characters.` } }
  const kept = { kept: 'response', id, input: JSON.parse(`[${own}]`), output: JSON.parse(response) }
  return { json: { request_id, tenant, ...kept, why_not: null } }
}

async function keptOf(
  { request_id, tenant, project, time, duration_ms }: RequestRecord,
  vault: AdminParts['vault']
): Promise<{ id: string; own: string; response: string } | undefined> {
  if (tenant === null) return undefined
  const from = Date.parse(time) - slack
  const kept = await vault.ofRequest(
    { tenant, project: project ?? '' },
    request_id,
    from,
    from + duration_ms + 2 * slack
  )
  const state = kept && ((await vault.read(kept)) as { own: string; response: string } | undefined)
  return state && { ...state, id: kept.work.id }
}

/** @throws GatewayError `request_not_found` when there is none, or none of the actor's tenant */
async function recordFor({ names, by }: Call, { requests }: AdminParts['store']): Promise<WrittenRecord> {
  const id = names['request_id']!
  const found = await requests.find(id, by.tenant ?? undefined)
  if (found) return found
  throw new GatewayError('route_not_found', `There is no request ${shown(id)}.`, {
    shownCode: 'request_not_found',
    param: 'request_id'
  })
}
