// Operations on a response that is kept: read, cancel, delete it, and list its input. Only its owner may use them.
import type { Candidates } from '../../contract/candidates.ts'
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange, Observer } from '../../contract/contract.ts'
import type { ParameterSchema } from '../../contract/operation.ts'
import { shownModel } from '../../contract/slots.ts'
import type { OperationContext, ServedOperation } from '../../contract/served.ts'
import { noteEnd, openWork } from './background.ts'
import { ownerOf } from '../../contract/owner.ts'
import { keepHolder, notFound } from './holder.ts'
import { shownOf, streamOf, wasInBackground } from './own-background.ts'
import { findOwn, pageOf } from './own-state.ts'
import { tellOfModel } from '../retired.ts'
import { stateOf } from './recall.ts'

/** What differs between these operations. `under` is added to the path of the response. */
interface Own extends Partial<ServedOperation> {
  name: string
  summary: string
  method: 'GET' | 'POST' | 'DELETE'
  under?: string
}

/** An operation on one kept response. It is free, and is sent to the channel that holds the response. */
function kept({ under = '', method, parameters = {}, ...own }: Own): ServedOperation {
  // Other query parameters are dropped: they could replace those of the channel's own address.
  const known = Object.keys(parameters)
  return {
    endpoint: 'responses',
    method,
    paths: [`/v1/responses/{response_id}${under}`],
    protocol: 'openai-responses-kept',
    body: 'none',
    upstream: {
      openai: {
        protocol: 'openai-responses-kept',
        method,
        target: ({ parameters: { response_id: id }, query }) =>
          `/responses/${encodeURIComponent(id!)}${under}${passed(query, known)}`
      }
    },
    onCandidates: toHolder,
    onFailure: forget,
    onResponse: (exchange, _response, context) => noteEnd(exchange, idOf(exchange), context),
    parameters,
    ...own
  }
}

const include: ParameterSchema = {
  type: 'array',
  items: { type: 'string' },
  description: 'What else to tell of it, as `include[]=…`.'
}

/** https://platform.openai.com/docs/api-reference/responses/get */
export const readResponse = kept({
  name: 'responses.retrieve',
  summary: 'Reads a response that is kept, or takes its stream up again.',
  method: 'GET',
  stream: { in: 'query', name: 'stream' },
  async onRequest(exchange, context) {
    const own = await findOwn(exchange, context)
    return own && (exchange.streaming ? streamOf(own, exchange.request.query, context) : shownOf(own, context))
  },
  parameters: {
    include,
    stream: {
      type: 'boolean',
      default: false,
      description:
        'Tells its events, from the first or from one on; of responses that were made in the background and streamed.'
    },
    starting_after: {
      type: 'integer',
      minimum: 0,
      description: 'The number of the last event that is not to be told again.'
    },
    include_obfuscation: { type: 'boolean', description: 'Whether events are padded to one length.' }
  }
})

/** https://platform.openai.com/docs/api-reference/responses/cancel */
export const cancelResponse = kept({
  name: 'responses.cancel',
  summary: 'Calls a response off that is made in the background.',
  method: 'POST',
  under: '/cancel',
  async onRequest(exchange, context) {
    const own = await findOwn(exchange, context)
    if (!own) return undefined
    if (!wasInBackground(own))
      throw new GatewayError('invalid_request', 'Only a response that is made in the background can be called off.')
    return shownOf({ ...own, work: await context.background.cancel(own.work) }, context)
  }
})

/** https://platform.openai.com/docs/api-reference/responses/delete */
export const deleteResponse = kept({
  name: 'responses.delete',
  summary: 'Deletes a response at its upstream, and what led there.',
  method: 'DELETE',
  async onRequest(exchange, context) {
    const own = await findOwn(exchange, context)
    if (!own) return undefined
    await context.services.vault.forget(
      own.work.ended === null ? { ...own, work: await context.background.cancel(own.work) } : own
    )
    return { status: 200, body: { id: idOf(exchange), object: 'response', deleted: true } }
  },
  async onCandidates(exchange, candidates, context) {
    await toHolder(exchange, candidates, context)
    // The usage has to be read before the response is deleted.
    const { works } = context.services
    const [owner, id] = [ownerOf(exchange), idOf(exchange)]
    const work = await openWork(owner, id, works)
    if (work) await context.background.stop(work)
  },
  onResponse: (exchange, _response, { services, background }): Observer => ({
    observe() {
      const [owner, id] = [ownerOf(exchange), idOf(exchange)]
      exchange.showAfter(() => services.routes.remove(owner, id))
      exchange.showAfter(async () => {
        const work = await openWork(owner, id, services.works)
        if (work) await background.saw(work, { deleted: true })
      })
    }
  })
})

/** https://platform.openai.com/docs/api-reference/responses/input-items */
export const listInputItems = kept({
  name: 'responses.input_items',
  summary: 'Lists what a response was the answer to.',
  method: 'GET',
  under: '/input_items',
  async onRequest(exchange, context) {
    const own = await findOwn(exchange, context)
    return (
      own && {
        status: 200,
        body: pageOf(await stateOf(own, context.services.vault), new URLSearchParams(exchange.request.query))
      }
    )
  },
  onResponse: () => undefined,
  parameters: {
    after: { type: 'string', description: 'The item that the page follows.' },
    limit: { type: 'integer', minimum: 1, maximum: 100, default: 20, description: 'Items of a page.' },
    order: { type: 'string', enum: ['asc', 'desc'], default: 'desc', description: 'Which comes first.' },
    include
  }
})

async function toHolder(
  exchange: Exchange,
  candidates: Candidates,
  { catalogue, services }: OperationContext
): Promise<void> {
  const route = await services.routes.find(ownerOf(exchange), idOf(exchange))
  if (route?.kind !== 'response') throw notFound()
  exchange.set(shownModel, route.model)
  tellOfModel(exchange, route.model, { catalogue })
  keepHolder(candidates, [route], catalogue)
}

/** Forgets a response that its upstream does not know any more. */
async function forget(exchange: Exchange, error: GatewayError, { services }: OperationContext): Promise<GatewayError> {
  if (error.code !== 'upstream_rejected' || error.status !== 404) return error
  await services.routes.remove(ownerOf(exchange), idOf(exchange))
  return notFound()
}

function idOf({ request }: Exchange): string {
  return request.parameters['response_id']!
}

/** The known parameters of a query, encoded, with the question mark. */
function passed(query: string, known: readonly string[]): string {
  if (query === '') return ''
  const kept = new URLSearchParams()
  for (const [name, value] of new URLSearchParams(query))
    if (known.includes(name.replace(/\[\d*\]$/, ''))) kept.append(name, value)
  return kept.size === 0 ? '' : `?${kept.toString()}`
}
