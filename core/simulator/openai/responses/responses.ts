// /v1/responses: creates responses whole, as streams or in the background, and reads, resumes, cancels and deletes
// them.
import { isRefused, jsonAnswer, streamAnswer } from '../../answer.ts'
import type { Answer } from '../../answer.ts'
import type { Call, Endpoint } from '../../endpoint.ts'
import type { Directive } from '../../directive.ts'
import type { Ending } from '../../ending.ts'
import { eventWriter } from '../../events.ts'
import { integer, invalid, oneOf } from '../../fields.ts'
import type { Fields } from '../../fields.ts'
import { Refusal } from '../../refusal.ts'
import type { Counts } from '../../stats.ts'
import { checkSize } from '../../words/composition.ts'
import { sign } from '../../words/signature.ts'
import { KeptResponse, usageOf } from './kept.ts'
import { readResponseRequest } from './read-request.ts'
import type { ResponseRequest } from './request.ts'

/** https://platform.openai.com/docs/api-reference/responses */
export const responseEndpoints: readonly Endpoint[] = [
  { method: 'POST', path: '/v1/responses', answer: create },
  { method: 'POST', path: '/v1/responses/input_tokens', answer: countInput },
  { method: 'POST', path: '/v1/responses/compact', answer: compact },
  { method: 'GET', path: '/v1/responses/{id}', answer: read },
  { method: 'DELETE', path: '/v1/responses/{id}', answer: remove },
  { method: 'POST', path: '/v1/responses/{id}/cancel', answer: cancel },
  { method: 'GET', path: '/v1/responses/{id}/input_items', answer: listInput }
]

/** How long background responses with `store: false` are kept, in milliseconds. */
const backgroundKept = 600_000
const compactedTokens = 20

function create(call: Call): Answer {
  const request = readResponseRequest(call)
  const { directive, stream, background, store } = request
  if (isRefused(directive)) return jsonAnswer(null, directive)
  checkSize(directive, stream && !background, 1)
  const kept = store || background
  const response = new KeptResponse(request, kept ? call.state.newId('resp_') : undefined)
  if (kept) call.state.responses.keep(response)
  return background ? begin(call, response) : complete(call, response)
}

/** Ends a response, and keeps its output items so that later requests can refer to them. */
function finish({ state }: Call, response: KeptResponse): boolean {
  const counts = response.finish()
  if (state.responses.find(response.id))
    for (const item of response.output()) state.items.keep(item as Fields & { id: string })
  return counts
}

/** A response in the foreground. It ends with its answer, and is cancelled when the client leaves. */
function complete(call: Call, response: KeptResponse): Answer {
  const { directive, stream } = response.request
  const counts = response.ending === 'failed' ? {} : response.counts
  const ended = (ending: Ending): void => {
    if (ending === 'completed') finish(call, response)
    else response.cancel()
  }
  if (stream) return { ...eventAnswer(response.events(), directive, counts), ended }
  return { ...jsonAnswer(response.showEnd(), directive, counts), ended }
}

/** A response in the background. It goes on without a client, and is added to the statistics when it ends. */
function begin(call: Call, response: KeptResponse): Answer {
  const { state, requestId } = call
  const { first_event_ms: _, gap_ms: __, ...directive } = response.request.directive
  state.after(response.remaining, () => {
    if (finish(call, response)) state.count(response.counts, requestId)
  })
  if (!response.request.store) state.after(backgroundKept, () => state.responses.drop(response.id))
  if (directive.expire_ms !== undefined) state.after(directive.expire_ms, () => state.responses.drop(response.id))
  return response.request.stream ? follow(response, directive, 0) : jsonAnswer(response.show(), directive)
}

/** The events from number `from` on. Those that are already due are sent at once. */
function follow(response: KeptResponse, directive: Directive, from: number): Answer {
  function* rest(): Generator<Fields> {
    for (const event of response.events()) if ((event['sequence_number'] as number) >= from) yield event
  }
  return { ...eventAnswer(rest(), directive, {}), dueAt: (n) => response.dueAt(n + from) }
}

/**
 * Events with their names, and the error event if the stream breaks off. That has the error both as documented and as
 * clients read it.
 */
function eventAnswer(events: Iterable<Fields>, directive: Directive, counts: Counts): Answer {
  const write = eventWriter(directive)
  let next = 0
  function* frames(): Generator<string> {
    for (const event of events) {
      next = (event['sequence_number'] as number) + 1
      yield write(JSON.stringify(event), event['type'] as string)
    }
  }
  const failure = (given: unknown): string => {
    const error = { code: 'server_error', message: 'The simulator was told to give up here.', param: null }
    const usual = { type: 'error', sequence_number: next, ...error, error: { type: 'server_error', ...error } }
    return `event: error\ndata: ${typeof given === 'string' ? given : JSON.stringify(given ?? usual)}\n\n`
  }
  return { ...streamAnswer(frames(), directive, counts), failure }
}

function find({ state, params }: Call): KeptResponse {
  const response = state.responses.find(params['id']!)
  if (response) return response
  throw new Refusal(404, `Response with id '${params['id']}' not found.`)
}

function read(call: Call): Answer {
  const response = find(call)
  const directive = response.next()
  if (call.query.get('stream') !== 'true') return jsonAnswer(isRefused(directive) ? null : response.show(), directive)
  const { background, stream } = response.request
  if (!background || !stream)
    throw new Refusal(
      400,
      'This response cannot be streamed because it was not created with background=true and stream=true.',
      { param: 'stream' }
    )
  const after = Number(call.query.get('starting_after') ?? -1)
  if (!integer(-1, Number.MAX_SAFE_INTEGER)(after)) throw invalid('starting_after', 'Expected an integer.')
  return follow(response, directive, after + 1)
}

function cancel(call: Call): Answer {
  const response = find(call)
  const directive = response.next()
  if (isRefused(directive)) return jsonAnswer(null, directive)
  if (!response.request.background) throw new Refusal(400, 'Cannot cancel a synchronous response.')
  response.cancel()
  return jsonAnswer(response.show(), directive)
}

function remove(call: Call): Answer {
  const response = find(call)
  const directive = response.next()
  if (isRefused(directive)) return jsonAnswer(null, directive)
  for (const { id } of response.output()) call.state.items.drop(id as string)
  response.cancel()
  call.state.responses.drop(response.id)
  return jsonAnswer({ id: response.id, object: 'response', deleted: true }, directive)
}

function listInput(call: Call): Answer {
  const response = find(call)
  const directive = response.next()
  const { query } = call
  const limit = Number(query.get('limit') ?? 20)
  if (!integer(1, 100)(limit)) throw invalid('limit', 'Expected an integer from 1 to 100.')
  const order = query.get('order') ?? 'desc'
  if (!oneOf('asc', 'desc')(order)) throw invalid('order', 'Supported values are: asc, desc.')
  const all = response.request.items.map(({ raw }, i): Fields => ({
    type: 'message',
    ...raw,
    id: raw['id'] ?? `msg_${response.id.slice('resp_'.length)}in${i}`
  }))
  if (order === 'desc') all.reverse()
  const first = query.get('after') === null ? 0 : all.findIndex(({ id }) => id === query.get('after')) + 1
  const data = all.slice(first, first + limit)
  const ends = { first_id: data[0]?.['id'] ?? null, last_id: data.at(-1)?.['id'] ?? null }
  return jsonAnswer({ object: 'list', data, ...ends, has_more: first + limit < all.length }, directive)
}

/** Free, so nothing is added to the statistics. */
function countInput(call: Call): Answer {
  const { promptTokens, directive } = readResponseRequest(call)
  return jsonAnswer({ object: 'response.input_tokens', input_tokens: promptTokens }, directive)
}

/** Keeps what users said, and replaces the rest by one opaque item. */
function compact(call: Call): Answer {
  const request = readResponseRequest(call)
  const counts = { prompt: request.promptTokens, cached: 0, completion: compactedTokens }
  const usage = request.directive.usage === undefined ? usageOf(counts) : request.directive.usage
  return jsonAnswer(
    { ...compacted(request, call.state.newId('')), ...(usage !== null && { usage }) },
    request.directive,
    counts
  )
}

function compacted({ context, digest }: ResponseRequest, base: string): Fields {
  const said = context
    .filter(({ kind, role }) => kind === 'message' && role === 'user')
    .map(({ raw }, i): Fields => ({ type: 'message', status: 'completed', ...raw, id: raw['id'] ?? `msg_${base}${i}` }))
  const item = { id: `cmp_${base}`, type: 'compaction', encrypted_content: sign(digest, '') }
  return {
    id: `resp_${base}`,
    object: 'response.compaction',
    created_at: Math.floor(Date.now() / 1000),
    output: [...said, item]
  }
}
