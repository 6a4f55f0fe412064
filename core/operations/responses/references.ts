// Finds what a request for a response refers to: responses, conversations and items that an upstream keeps.
import type { RequestBody } from '../../bodies/body.ts'
import type { Fields } from '../../bodies/fields.ts'
import { GatewayError } from '../../contract/contract.ts'
import type { Awaitable } from '../../contract/contract.ts'
import { findItems } from './item-references.ts'
import type { FoundItem } from './item-references.ts'

/** A reference, and the member that holds it. */
export interface Reference {
  readonly id: string
  readonly param: string
}

/** An item of the input that refers to another one. */
export type ReferredItem = FoundItem & { readonly id: string }

/** All references of a request. */
export interface References {
  /** References by `previous_response_id` and `conversation`. */
  readonly members: readonly Reference[]
  /** Items of the input that only stand for a kept item, in their order. */
  readonly items: readonly ReferredItem[]
  /** Items of the input of which an upstream may read more than the client wrote. */
  readonly partial: readonly ReferredItem[]
}

const longestId = 1024
/** The most references to items in one request. */
const mostItems = 1000

/**
 * Finds what a request refers to; a promise where its input is large.
 * @throws GatewayError `invalid_field` when a reference is malformed or ambiguous, or when there are too many;
 * `missing_field` when `conversation` has no id
 */
export function referencesOf(body: RequestBody): Awaitable<References> {
  const members = membersOf(body)
  const input = body.lens.slice('input')
  if (input?.[0] !== 0x5b) return { members, items: [], partial: [] }
  const items = findItems(
    input,
    ({ reference, partial, odd }) => reference || partial || odd !== undefined,
    mostItems + 1
  )
  return items instanceof Promise
    ? items.then((found) => ({ members, ...sorted(found) }))
    : { members, ...sorted(items) }
}

function sorted(found: readonly FoundItem[]): Pick<References, 'items' | 'partial'> {
  const odd = found.find((item) => item.odd !== undefined)
  if (odd)
    throw new GatewayError(
      'invalid_field',
      `The field \`input[${odd.place}]\` has ${JSON.stringify(odd.odd!.slice(0, 64))}, by which others may take it for another item: write \`type\` and \`id\` once each, as they are spelled here.`,
      { param: `input[${odd.place}]` }
    )
  if (found.length > mostItems)
    throw new GatewayError(
      'invalid_field',
      `The field \`input\` refers to more than ${mostItems} items: send the items.`,
      { param: 'input' }
    )
  const referring = found as readonly ReferredItem[]
  return { items: referring.filter(({ reference }) => reference), partial: referring.filter(({ partial }) => partial) }
}

function membersOf({ fields, lens }: RequestBody): Reference[] {
  const references: Reference[] = []
  const previous = idOf(fields, 'previous_response_id')
  if (previous !== undefined) references.push({ id: previous, param: 'previous_response_id' })
  if (lens.type('conversation') === 'object' && fields.size('conversation') <= longestId) {
    const { id } = fields.json('conversation') as { id?: unknown }
    if (typeof id !== 'string')
      throw new GatewayError('missing_field', 'The field `conversation.id` must be the id of a conversation.', {
        param: 'conversation.id'
      })
    references.push({ id, param: 'conversation' })
  } else {
    const conversation = idOf(fields, 'conversation')
    if (conversation !== undefined) references.push({ id: conversation, param: 'conversation' })
  }
  return references
}

/**
 * Whether a flag is set; false when absent or null.
 * @throws GatewayError `invalid_field` when it is neither true nor false
 */
export function flagOf(fields: Fields, name: string): boolean {
  const flag = fields.flag(name)
  if (flag === undefined)
    throw new GatewayError('invalid_field', `The field \`${name}\` must be true or false.`, { param: name })
  return flag
}

/** Whether an upstream may keep the response: it does unless `store` is false. */
export function mayBeStored(fields: Fields): boolean {
  return !fields.has('store') || isNull(fields, 'store') || flagOf(fields, 'store')
}

/** Whether the value is null: the only value of four bytes that reads as false. */
function isNull(fields: Fields, name: string): boolean {
  return fields.size(name) === 'null'.length && fields.flag(name) === false
}

function idOf(fields: Fields, name: string): string | undefined {
  if (!fields.has(name) || isNull(fields, name)) return undefined
  const id = fields.size(name) > longestId ? undefined : fields.string(name)
  if (id === undefined) throw new GatewayError('invalid_field', `The field \`${name}\` must be an id.`, { param: name })
  return id
}
