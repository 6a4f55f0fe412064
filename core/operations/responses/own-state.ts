// Responses of models whose state the gateway keeps: conversations go on without an upstream that remembers them.
import { Lens } from '../../bodies/lens.ts'
import { withMembers } from '../../bodies/splice.ts'
import type { Catalogue } from '../../catalogue/catalogue.ts'
import type { Attempt } from '../../contract/attempt.ts'
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange, Message, Stage } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import { slot } from '../../contract/slots.ts'
import { asObject } from '../../protocols/object.ts'
import { notFound, ownerOf } from './holder.ts'
import { mayBeStored } from './references.ts'
import type { Reference } from './references.ts'

/** What is kept of a response. All are JSON as it is written, the first two without the brackets of the list. */
export interface KeptState {
  /** The items of the conversation before it, and those of its own request. */
  readonly before: string
  readonly own: string
  readonly response: string
}

interface Recalled extends Pick<KeptState, 'before' | 'own'> {
  readonly previous: string | undefined
  readonly stored: boolean
}

const recalled = slot('responses/recalled').of<Recalled>()

/** Whether the gateway keeps anything at all. */
export function keepsAny({ models }: Catalogue): boolean {
  for (const { state } of models.values()) if (state === 'gateway') return true
  return false
}

/**
 * Looks up what a request goes on with. Where it belongs to an upstream after all, says so.
 * @throws GatewayError `response_not_found`; `request_too_large` when the conversation is longer than may be kept
 */
export async function recall(exchange: Exchange, references: readonly Reference[], { services: { vault } }: OperationContext): Promise<'own' | 'upstream'> {
  const { body: { lens, fields } } = exchange
  const [reference, ...others] = references
  let before = ''
  if (reference) {
    const kept = reference.param === 'previous_response_id' ? ((await vault.find(ownerOf(exchange), reference.id)) as KeptState | undefined) : undefined
    if (!kept) return 'upstream'
    if (others.length > 0) throw notFound()
    before = joined(kept.before, kept.own, inner(new Lens(Buffer.from(kept.response)).slice('output')))
  }
  const input = lens.slice('input')
  const own = input?.[0] === 0x22 ? `{"type":"message","role":"user","content":${input.toString('utf8')}}` : inner(input)
  if (before.length + own.length > vault.largest) {
    throw new GatewayError('request_too_large', `The conversation is longer than the ${vault.largest} bytes that are kept of one. Begin another one, with a summary.`, { param: 'input' })
  }
  exchange.set(recalled, { before, own, previous: reference?.id, stored: mayBeStored(fields) })
  return 'own'
}

/** Says all of the conversation in the request, and has its upstream keep nothing. */
export function tellAll(exchange: Exchange, { body, translated }: Attempt): void {
  const known = exchange.find(recalled)
  if (!known) return
  if (known.previous !== undefined) {
    body.setRaw('input', `[${joined(known.before, known.own)}]`)
    body.set('previous_response_id', null)
  }
  if (exchange.request.operation.metering === undefined || exchange.request.operation.name !== 'responses') return
  body.set('store', false)
  // Thoughts that an upstream does not keep have to come back from it to be told again.
  if (!translated && !exchange.body.fields.has('include')) body.set('include', ['reasoning.encrypted_content'])
}

/** Keeps the response as its client sees it. */
export function keepOwn(exchange: Exchange, { services: { vault } }: OperationContext): Stage | undefined {
  const known = exchange.find(recalled)
  if (!known) return undefined
  const changes = new Map([['previous_response_id', JSON.stringify(known.previous ?? null)]])
  if (known.stored) changes.set('store', 'true')
  const keep = (id: string | undefined, response: string): void => {
    if (!known.stored || id === undefined) return
    const label = { ...ownerOf(exchange), id, model: exchange.model, requestId: exchange.id }
    exchange.showAfter(() => vault.keep(label, { before: known.before, own: known.own, response } satisfies KeptState))
  }
  return {
    map(message, emit) {
      const whole = message.kind === 'json'
      const lens = whole || (message.kind === 'event' && message.data.includes('"response"')) ? message.lens : undefined
      const told = whole ? lens : lens?.type('response') === 'object' ? new Lens(lens.slice('response')!) : undefined
      if (!lens || !told) return emit(message)
      const response = Buffer.concat(withMembers(told, changes)).toString('utf8')
      if (whole || isLast(message)) keep(told.string('id'), response)
      emit(message.withData(whole ? Buffer.from(response) : Buffer.concat(withMembers(lens, new Map([['response', response]])))))
    }
  }
}

/** A response that the gateway keeps; undefined when it is not one of those. */
export async function ownResponse(exchange: Exchange, { catalogue, services: { vault } }: OperationContext): Promise<KeptState | undefined> {
  return keepsAny(catalogue) ? ((await vault.find(ownerOf(exchange), exchange.request.parameters['response_id']!)) as KeptState | undefined) : undefined
}

/** A page of what a kept response was the answer to. */
export function pageOf({ own, response }: KeptState, query: URLSearchParams): unknown {
  const limit = Number(query.get('limit') ?? 20)
  const order = query.get('order') ?? 'desc'
  if (!Number.isInteger(limit) || limit < 1 || limit > 100) throw new GatewayError('invalid_field', 'The parameter `limit` must be a whole number from 1 to 100.', { param: 'limit' })
  if (order !== 'asc' && order !== 'desc') throw new GatewayError('invalid_field', 'The parameter `order` must be `asc` or `desc`.', { param: 'order' })
  const { id } = JSON.parse(response) as { id: string }
  const items = (JSON.parse(`[${own}]`) as unknown[]).map((item, at) => ({ type: 'message', id: `msg_${id.slice('resp_'.length)}_in_${at}`, ...asObject(item) }))
  if (order === 'desc') items.reverse()
  const first = query.get('after') === null ? 0 : items.findIndex((item) => item.id === query.get('after')) + 1
  const data = items.slice(first, first + limit)
  return { object: 'list', data, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more: first + limit < items.length }
}

function isLast(message: Message): boolean {
  return !['response.created', 'response.queued', 'response.in_progress'].includes(message.lens?.string('type') ?? message.event)
}

/** The items of a list as they are written, without its brackets. */
function inner(list: Buffer | undefined): string {
  return list?.[0] === 0x5b ? list.toString('utf8', 1, list.length - 1).trim() : ''
}

function joined(...items: readonly string[]): string {
  return items.filter((text) => text !== '').join(',')
}
