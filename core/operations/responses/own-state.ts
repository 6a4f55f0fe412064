// Responses of models whose state the gateway keeps: conversations go on without an upstream that remembers them.
import { Lens } from '../../bodies/lens.ts'
import type { Fields } from '../../bodies/fields.ts'
import { withMembers } from '../../bodies/splice.ts'
import type { Catalogue } from '../../catalogue/catalogue.ts'
import type { Attempt } from '../../contract/attempt.ts'
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange, Message, Stage } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import { asObject } from '../../protocols/object.ts'
import type { Kept, Outline } from '../../store/vault.ts'
import { ownerOf } from '../../contract/owner.ts'
import { openings } from './background.ts'
import { idIn } from './holder.ts'
import { findItems } from './item-references.ts'
import { afterwards, inputItemId, isOwnBackground, joinedItems, recalled } from './recall.ts'
import type { KeptState } from './recall.ts'
import { flagOf, mayBeStored } from './references.ts'
import { tellOfModel } from '../retired.ts'

/** Output items of one response that may be referred to, of which the first count. */
const mostItems = 1000

/** Whether the gateway keeps anything at all. */
function keepsAny({ models }: Catalogue): boolean {
  for (const { state } of models.values()) if (state === 'gateway') return true
  return false
}

/** Says all of the conversation in the request. */
export function tellAll(exchange: Exchange, { body }: Attempt): void {
  const known = exchange.find(recalled)
  if (!known) return
  if (known.changed) body.setRaw('input', `[${joinedItems(known.before, known.own)}]`)
  if (known.previous !== undefined) body.set('previous_response_id', null)
}

const encrypted = 'reasoning.encrypted_content'
/** Bytes of the names of what is to be included: all that there are take less. */
const longestInclude = 4096

/**
 * What is to be included, with the thoughts that an upstream does not keep: they have to come back from it to be told
 * again. Undefined where nothing is to be changed, as for what is no list of names, which the upstream refuses.
 */
function withThoughts(fields: Fields): unknown[] | undefined {
  if (fields.size('include') > longestInclude) return undefined
  const asked = fields.json('include') ?? []
  return Array.isArray(asked) && !asked.includes(encrypted) ? [...(asked as unknown[]), encrypted] : undefined
}

/** Likewise of a request for a response, of which the upstream is to keep nothing. */
export function askUnkept(exchange: Exchange, attempt: Attempt): void {
  if (!exchange.find(recalled)) return
  tellAll(exchange, attempt)
  const { body, translated } = attempt
  body.set('store', false)
  if (flagOf(exchange.body.fields, 'background')) body.set('background', false)
  const included = translated ? undefined : withThoughts(exchange.body.fields)
  if (included) body.set('include', included)
}

/** Makes a response the gateway's own: with its id, and with what its upstream was not told. */
export function adoptOwn(exchange: Exchange): Stage | undefined {
  const known = exchange.find(recalled)
  if (!known) return undefined
  const { id, previous } = known
  const changes = new Map([['previous_response_id', JSON.stringify(previous ?? null)]])
  if (id !== undefined) changes.set('id', JSON.stringify(id)).set('store', String(mayBeStored(exchange.body.fields)))
  if (isOwnBackground(exchange)) changes.set('background', 'true')
  return {
    map(message, emit) {
      const told = responseIn(message)
      if (!told) return emit(message)
      const response = Buffer.concat(withMembers(told, changes))
      emit(
        message.withData(
          message.kind === 'json'
            ? response
            : Buffer.concat(withMembers(message.lens!, new Map([['response', response.toString('utf8')]])))
        )
      )
    }
  }
}

/** Keeps the response as its client sees it. */
export function keepOwn(exchange: Exchange, { services: { vault } }: OperationContext): Stage | undefined {
  const known = exchange.find(recalled)
  if (known?.id === undefined) return undefined
  const { before, own, id, answer } = known
  return {
    takes: 'messages',
    observe(message) {
      const told = responseIn(message)
      if (!told || (message.kind === 'event' && !isLast(message))) return
      const response = told.bytes.toString('utf8')
      answer.response = response
      // What is made in the background is kept with the end of that.
      if (isOwnBackground(exchange)) return
      const state: KeptState = { before, own, response }
      const label = { ...ownerOf(exchange), id, model: exchange.model, requestId: exchange.id }
      exchange.showAfter(async () => vault.keep(label, state, await outlineOf(state)))
    }
  }
}

/** The response in a whole answer, or in an event that has one. */
function responseIn(message: Message): Lens | undefined {
  if (message.kind === 'json') return message.lens
  if (message.kind !== 'event' || !message.data.includes('"response"')) return undefined
  return message.lens?.inside('response')
}

/** A response that the gateway keeps; undefined when it is not one of those. */
export async function findOwn(
  exchange: Exchange,
  { catalogue, services: { vault } }: OperationContext
): Promise<Kept | undefined> {
  const found = keepsAny(catalogue)
    ? await vault.find(ownerOf(exchange), exchange.request.parameters['response_id']!)
    : undefined
  if (found) tellOfModel(exchange, found.work.model, { catalogue })
  return found
}

/** A page of what a kept response was the answer to. */
export function pageOf({ own, response }: KeptState, query: URLSearchParams): unknown {
  const asked = query.get('limit') ?? '20'
  const limit = /^\d{1,3}$/.test(asked) ? Number(asked) : NaN
  const order = query.get('order') ?? 'desc'
  if (!(limit >= 1 && limit <= 100))
    throw new GatewayError('invalid_field', 'The parameter `limit` must be a whole number from 1 to 100.', {
      param: 'limit'
    })
  if (order !== 'asc' && order !== 'desc')
    throw new GatewayError('invalid_field', 'The parameter `order` must be `asc` or `desc`.', { param: 'order' })
  const { id } = JSON.parse(response) as { id: string }
  const items = (JSON.parse(`[${own}]`) as unknown[]).map((item, at) => ({
    type: 'message',
    id: inputItemId(id, at),
    ...asObject(item)
  }))
  if (order === 'desc') items.reverse()
  const after = query.get('after')
  const first = after === null ? 0 : items.findIndex((item) => item.id === after) + 1
  // With the first page again clients would go round for ever.
  if (after !== null && first === 0)
    throw new GatewayError('invalid_field', 'The parameter `after` must be the id of an item of this response.', {
      param: 'after'
    })
  const data = items.slice(first, first + limit)
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: first + limit < items.length
  }
}

function isLast(message: Message): boolean {
  return !openings.has(message.lens?.string('type') ?? message.event)
}

/** What a request takes in that goes on with it. */
export async function outlineOf(state: KeptState): Promise<Outline> {
  const lens = new Lens(Buffer.from(state.response))
  const length = Buffer.byteLength(afterwards(state))
  const counted = asObject(lens.json('usage'))?.['total_tokens']
  const output = lens.type('output') === 'array' ? lens.slice('output')! : undefined
  const parts: Record<string, number> = {}
  for (const item of output ? await findItems(output, (found) => idIn(found) !== undefined, mostItems) : [])
    parts[item.id!] = item.to - item.from
  return {
    length,
    tokens: typeof counted === 'number' && counted >= 0 ? Math.min(counted, length) : Math.ceil(length / 3),
    parts
  }
}
