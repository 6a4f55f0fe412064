// What a request for a response refers to: responses, conversations and items that an upstream keeps.
import type { RequestBody } from '../../bodies/body.ts'
import type { Fields } from '../../bodies/fields.ts'
import { GatewayError } from '../../contract/contract.ts'

/** Something that is kept, and the member that refers to it. */
export interface Reference {
  readonly id: string
  readonly param: string
}

const longestId = 1024
/** Distinct items referred to in one request. */
const mostItems = 200
/** A larger input is not parsed for what it refers to. */
const largestInput = 4 * 1024 * 1024
/** A letter or an underscore that is written as an escape: what is spelled so is found by parsing alone. */
const escapes = ['\\u005', '\\u006', '\\u007'] as const

/** @throws GatewayError `invalid_field` when a member is no reference, or there are too many */
export function referencesOf({ fields, lens }: RequestBody): Reference[] {
  const references: Reference[] = []
  const previous = idOf(fields, 'previous_response_id')
  if (previous !== undefined) references.push({ id: previous, param: 'previous_response_id' })
  if (lens.type('conversation') === 'object' && fields.size('conversation') <= longestId) {
    const { id } = fields.json('conversation') as { id?: unknown }
    if (typeof id !== 'string') throw new GatewayError('missing_field', 'The field `conversation.id` must be the id of a conversation.', { param: 'conversation.id' })
    references.push({ id, param: 'conversation' })
  } else {
    const conversation = idOf(fields, 'conversation')
    if (conversation !== undefined) references.push({ id: conversation, param: 'conversation' })
  }
  return references.concat(itemsOf(lens.slice('input')))
}

/** Whether a flag is set. @throws GatewayError `invalid_field` when it is neither true nor false */
export function flagOf(fields: Fields, name: string): boolean {
  const flag = fields.flag(name)
  if (flag === undefined) throw new GatewayError('invalid_field', `The field \`${name}\` must be true or false.`, { param: name })
  return flag
}

/** Unless the client says no, upstreams keep a response. */
export function mayBeStored(fields: Fields): boolean {
  return !fields.has('store') || isNull(fields, 'store') || flagOf(fields, 'store')
}

/** Nothing else of four bytes counts as no. */
function isNull(fields: Fields, name: string): boolean {
  return fields.size(name) === 'null'.length && fields.flag(name) === false
}

function idOf(fields: Fields, name: string): string | undefined {
  if (!fields.has(name) || isNull(fields, name)) return undefined
  const id = fields.size(name) > longestId ? undefined : fields.string(name)
  if (id === undefined) throw new GatewayError('invalid_field', `The field \`${name}\` must be an id.`, { param: name })
  return id
}

/** Of items that stand in the input by their id alone. Few have any, so the input is parsed only where it can be. */
function itemsOf(input: Buffer | undefined): Reference[] {
  if (input?.[0] !== 0x5b || !(input.includes('"item_reference"') || escapes.some((escape) => input.includes(escape)))) return []
  const param = 'input'
  if (input.length > largestInput) throw new GatewayError('invalid_field', 'An input as large as this may not refer to items by their id: send the items.', { param })
  const items = JSON.parse(input.toString('utf8')) as unknown[]
  const ids = new Set<string>()
  for (const item of items) {
    const { type, id } = (item ?? {}) as { type?: unknown; id?: unknown }
    if (type !== 'item_reference') continue
    if (typeof id !== 'string') throw new GatewayError('missing_field', 'An item_reference in `input` must have the id of an item.', { param })
    ids.add(id)
  }
  if (ids.size > mostItems) throw new GatewayError('invalid_field', `The field \`input\` refers to more than ${mostItems} items: send the items.`, { param })
  return [...ids].map((id) => ({ id, param }))
}
