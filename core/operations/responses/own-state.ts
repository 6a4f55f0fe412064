// Responses of models whose state the gateway keeps, so that conversations go on at upstreams that remember nothing.
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

/** How many output items of one response can be referred to: the first ones. */
const mostItems = 1000

/** Whether any model of the catalogue has its state kept by the gateway. */
function keepsAny({ models }: Catalogue): boolean {
  for (const { state } of models.values()) if (state === 'gateway') return true
  return false
}

/** Writes the whole conversation into the request of an attempt. */
export function tellAll(exchange: Exchange, { body }: Attempt): void {
  const known = exchange.find(recalled)
  if (!known) return
  if (known.changed) body.setRaw('input', `[${joinedItems(known.before, known.own)}]`)
  if (known.previous !== undefined) body.set('previous_response_id', null)
}

const encrypted = 'reasoning.encrypted_content'
/** The largest `include` that is parsed, in bytes. All of its valid names together take less. */
const longestInclude = 4096

/**
 * The request's `include` with encrypted reasoning added: an upstream that keeps nothing must return it, so that the
 * next request can send it again. Undefined when nothing is to be changed, or when the value is not a list; the
 * upstream refuses that.
 */
function withThoughts(fields: Fields): unknown[] | undefined {
  if (fields.size('include') > longestInclude) return undefined
  const asked = fields.json('include') ?? []
  return Array.isArray(asked) && !asked.includes(encrypted) ? [...(asked as unknown[]), encrypted] : undefined
}

/** Changes a request for a response so that it has the whole conversation and the upstream keeps nothing. */
export function askUnkept(exchange: Exchange, attempt: Attempt): void {
  if (!exchange.find(recalled)) return
  tellAll(exchange, attempt)
  const { body, translated } = attempt
  body.set('store', false)
  if (flagOf(exchange.body.fields, 'background')) body.set('background', false)
  const included = translated ? undefined : withThoughts(exchange.body.fields)
  if (included) body.set('include', included)
}

/** A stage that gives a response the gateway's own id, and the members that the upstream was not sent. */
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

/** A stage that keeps the response as its client sees it. */
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
      // A background response is kept when its exchange ends, together with its events.
      if (isOwnBackground(exchange)) return
      const state: KeptState = { before, own, response }
      const label = { ...ownerOf(exchange), id, model: exchange.model, requestId: exchange.id }
      exchange.showAfter(async () => vault.put(label, state, await outlineOf(state)))
    }
  }
}

/** The response in a whole answer, or in an event that has one. */
function responseIn(message: Message): Lens | undefined {
  if (message.kind === 'json') return message.lens
  if (message.kind !== 'event' || !message.data.includes('"response"')) return undefined
  return message.inside('response') ?? undefined
}

/** The kept response that the path names; undefined when the gateway does not keep it. */
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

/** A page of the input items of a kept response, as `GET /v1/responses/{id}/input_items` shows it. */
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
  const known = new Set<string>()
  // A page goes on behind an id, so every item has one, and no two have the same.
  const idOf = (given: unknown, at: number): string => {
    const own = typeof given === 'string' && given !== '' && !known.has(given) ? given : inputItemId(id, at)
    known.add(own)
    return own
  }
  const items = (JSON.parse(`[${own}]`) as unknown[]).map((item, at) => {
    const members = asObject(item) ?? {}
    return { ...members, type: members['type'] ?? 'message', id: idOf(members['id'], at) }
  })
  if (order === 'desc') items.reverse()
  const after = query.get('after')
  const first = after === null ? 0 : items.findIndex((item) => item.id === after) + 1
  // If the first page were sent again, clients would loop for ever.
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
  return !openings.has(message.lens?.string('type') ?? '')
}

/** How much of a conversation the next request takes in: bytes, tokens, and the bytes of each output item. */
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
