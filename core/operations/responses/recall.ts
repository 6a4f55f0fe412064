// What a request for a response continues, of the conversations that the gateway keeps: looked up before an amount is
// held, and read after the chain has let the request in.
import { randomBytes } from 'node:crypto'
import { Lens } from '../../bodies/lens.ts'
import { GatewayError } from '../../contract/contract.ts'
import type { Awaitable, Exchange } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import { recalledInput, slot } from '../../contract/slots.ts'
import type { Owner } from '../../store/owner.ts'
import type { Kept } from '../../store/vault.ts'
import { ownerOf } from '../../contract/owner.ts'
import { notFound } from './holder.ts'
import { findItems } from './item-references.ts'
import { flagOf, mayBeStored, referencesOf } from './references.ts'
import type { References } from './references.ts'

/** What is kept of a response. All members are JSON text; `before` and `own` are lists without their brackets. */
export interface KeptState {
  /** The items of the conversation before the request, and those of the request itself. */
  readonly before: string
  readonly own: string
  readonly response: string
  /** The events as they were sent, of a response that was made in the background and streamed. */
  readonly events?: string | undefined
}

/** The conversation that a request continues, read from the vault. */
export interface Recalled extends Pick<KeptState, 'before' | 'own'> {
  readonly previous: string | undefined
  /** Whether the input differs from what the client wrote. */
  readonly changed: boolean
  /** The id that the response will have; undefined when it is not to be kept. */
  readonly id: string | undefined
  /** The response as its client sees it, as soon as it is there. */
  readonly answer: { response: string | undefined }
}

/** Set by {@link load}. */
export const recalled = slot('responses/recalled').of<Recalled>()

/** Where the conversation is kept. */
interface Source {
  readonly id: string | undefined
  readonly previous: Kept | undefined
  readonly items: References['items']
  /** The responses that hold the items, by item id. `place`: the index in the input, for items that had no id there. */
  readonly wholes: ReadonlyMap<string, Whole>
}

interface Whole {
  readonly kept: Kept
  readonly length: number
  readonly place: number | undefined
}

const source = slot('responses/source').of<Source>()
/**
 * Why the request cannot be continued. It is kept instead of thrown, because a repeated request may be answered from an
 * earlier one before this matters.
 */
const refusal = slot('responses/refusal').of<GatewayError>()

/** How many responses are read for the items of one request. The last one usually holds all of them. */
const mostRead = 16
const idBytes = 24
/** The id that {@link inputItemId} makes for an item of an input. */
const inputItem = new RegExp(`^msg_([0-9a-f]{${2 * idBytes}})_in_(\\d{1,6})$`)

/** Whether the gateway keeps the responses of the requested model. */
export function keepsFor({ model }: Exchange, { catalogue }: OperationContext): boolean {
  return catalogue.models.get(model)?.state === 'gateway'
}

/**
 * Whether the gateway has all that the request refers to.
 * @throws GatewayError the refusal that {@link recall} noted
 */
export function isRecalled(exchange: Exchange): boolean {
  const error = exchange.find(refusal)
  if (error) throw error
  return exchange.find(source) !== undefined
}

/** Whether the gateway itself makes the response in the background. */
export function isOwnBackground(exchange: Exchange): boolean {
  return isRecalled(exchange) && flagOf(exchange.body.fields, 'background')
}

/** The id that the response will have; undefined when the gateway does not keep it. */
export function ownId(exchange: Exchange): string | undefined {
  return exchange.find(source)?.id
}

/** The id of the response that the request continues. */
export function previousOf(exchange: Exchange): string | undefined {
  return exchange.find(source)?.previous?.work.id
}

/** The id to show for an input item without one. `place`: its index in the input. */
export function inputItemId(response: string, place: number): string {
  return `msg_${response.slice('resp_'.length)}_in_${place}`
}

/** Looks up what a request continues, and its size. What the gateway does not keep is left to an upstream. */
export function recall(exchange: Exchange, context: OperationContext): Awaitable<void> {
  if (!keepsFor(exchange, context))
    return exchange.body.fields.has('previous_response_id') ? lookAt(exchange, context) : undefined
  return lookUp(exchange, context).catch((error: unknown) => {
    if (!(error instanceof GatewayError) || error.status >= 500) throw error
    exchange.set(refusal, error)
  })
}

/** Notes how many tokens an upstream will read of a response that it keeps, if the request refers to nothing else. */
async function lookAt(exchange: Exchange, { services: { routes } }: OperationContext): Promise<void> {
  const { members, items } = await referencesOf(exchange.body)
  const [previous, ...others] = members
  if (previous?.param !== 'previous_response_id' || others.length > 0 || items.length > 0) return
  const tokens = (await routes.find(ownerOf(exchange), previous.id))?.tokens
  if (tokens != null) exchange.set(recalledInput, { bytes: tokens, tokens })
}

async function lookUp(exchange: Exchange, { services: { vault } }: OperationContext): Promise<void> {
  const { members, items } = await referencesOf(exchange.body)
  const owner = ownerOf(exchange)
  const { fields } = exchange.body
  const [member] = members
  const previous = member?.param === 'previous_response_id' ? await vault.find(owner, member.id) : undefined
  if (member && !previous) return
  if (previous && previous.work.status !== 'succeeded') {
    throw new GatewayError(
      'invalid_request',
      `The response that \`previous_response_id\` names is ${shownStatus(previous)}: only one that is complete can be gone on with.`,
      { param: 'previous_response_id' }
    )
  }
  if (members.length > 1) throw notFound()
  const wholes = new Map<string, Whole>()
  await Promise.all(
    [...new Set(items.map(({ id }) => id))].map(async (id) => {
      const whole = await wholeOf(id, owner, vault)
      if (whole) wholes.set(id, whole)
    })
  )
  if (!previous && items.length > 0 && wholes.size === 0) return
  if (!items.every(({ id }) => wholes.has(id))) throw notFound()
  const id =
    mayBeStored(fields) || flagOf(fields, 'background') ? `resp_${randomBytes(idBytes).toString('hex')}` : undefined
  exchange.set(source, { id, previous, items, wholes })
  if (!previous && items.length === 0) return
  const referred = items.reduce((sum, { id }) => sum + wholes.get(id)!.length, 0)
  // A longer conversation is refused when it is read.
  const within = (count: number): number => Math.min(count, vault.largest)
  exchange.set(recalledInput, {
    bytes: within((previous?.outline.length ?? 0) + referred),
    tokens: within((previous?.outline.tokens ?? 0) + Math.ceil(referred / 3))
  })
}

async function wholeOf(
  id: string,
  owner: Owner,
  vault: OperationContext['services']['vault']
): Promise<Whole | undefined> {
  const [, response, place] = inputItem.exec(id) ?? []
  const part = response === undefined ? await vault.findWhole(owner, id) : { id: `resp_${response}`, length: undefined }
  const kept = part && (await vault.find(owner, part.id))
  return part && kept?.work.status === 'succeeded'
    ? { kept, length: part.length ?? kept.outline.length, place: place === undefined ? undefined : Number(place) }
    : undefined
}

/** The status that clients are shown. */
export function shownStatus({ work: { status } }: Kept): string {
  return status === 'succeeded' ? 'completed' : status === 'expired' ? 'failed' : status
}

/**
 * Reads the conversation that {@link recall} has found. Its bytes are taken from the memory for bodies until the
 * exchange is settled.
 * @throws GatewayError `response_not_found` when it is gone; `request_too_large` when it is longer than may be kept;
 * `overloaded` when there is no memory for it
 */
export async function load(exchange: Exchange, { services: { vault }, memory }: OperationContext): Promise<void> {
  const { id, previous, items, wholes } = exchange.find(source)!
  const { lens } = exchange.body
  const input = lens.slice('input') ?? Buffer.alloc(0)
  // It is held twice: as text, and as the bytes of an attempt.
  const room = 2 * ((exchange.find(recalledInput)?.bytes ?? 0) + input.length)
  if (!memory.take(room))
    throw new GatewayError('overloaded', 'The gateway holds as many requests as it can. Try again.', {
      retryAfterMs: 1000
    })
  exchange.defer(() => memory.give(room))
  let before = ''
  if (previous) before = afterwards(await stateOf(previous, vault))
  let own = ownInput(exchange)
  if (items.length > 0) {
    const texts = await readItems(wholes, vault)
    const pieces: (Buffer | string)[] = []
    let at = 0
    for (const { id: item, from, to } of items) {
      pieces.push(input.subarray(at, from), texts.get(item)!)
      at = to
    }
    own = inner(Buffer.from([...pieces, input.subarray(at)].join('')))
  }
  if (before.length + own.length > vault.largest) throw tooLong(vault.largest)
  exchange.set(recalled, {
    before,
    own,
    previous: previous?.work.id,
    changed: previous !== undefined || items.length > 0,
    id,
    answer: { response: undefined }
  })
}

/** The items of a request as its client wrote them, as a list without its brackets. A text becomes a message. */
export function ownInput({ body: { lens } }: Exchange): string {
  const input = lens.slice('input')
  return input?.[0] === 0x22 ? `{"type":"message","role":"user","content":${input.toString('utf8')}}` : inner(input)
}

/**
 * The items, by their id. Each response is read once. The one referred to last is read first, as it also holds the
 * items of those before it.
 */
async function readItems(
  wholes: Source['wholes'],
  vault: OperationContext['services']['vault']
): Promise<Map<string, string>> {
  const texts = new Map<string, string>()
  let read = 0
  for (const [id, { kept }] of [...wholes].reverse()) {
    if (texts.has(id)) continue
    if (++read > mostRead)
      throw new GatewayError(
        'invalid_field',
        `The field \`input\` refers to items of more than ${mostRead} responses: send the items.`,
        { param: 'input' }
      )
    const state = await stateOf(kept, vault)
    const wanted = (found: string | undefined): boolean => found !== undefined && wholes.has(found) && !texts.has(found)
    const places = new Map(
      [...wholes]
        .filter(([, whole]) => whole.kept.work.id === kept.work.id && whole.place !== undefined)
        .map(([name, { place }]) => [place, name])
    )
    for (const list of [state.own, afterwards(state)]) {
      const bytes = Buffer.from(`[${list}]`)
      for (const item of await findItems(
        bytes,
        (found) => wanted(found.id) || (list === state.own && places.has(found.place))
      )) {
        const name = (list === state.own && places.get(item.place)) || item.id!
        texts.set(name, bytes.toString('utf8', item.from, item.to))
      }
    }
    if (!texts.has(id)) throw notFound()
  }
  return texts
}

/**
 * What is kept of a response.
 * @throws GatewayError `response_not_found` when it is gone
 */
export async function stateOf(kept: Kept, vault: OperationContext['services']['vault']): Promise<KeptState> {
  const state = (await vault.read(kept)) as KeptState | undefined
  if (!state) throw notFound()
  return state
}

/** The items of a conversation, including those of its response. */
export function afterwards({ before, own, response }: KeptState): string {
  return joinedItems(before, own, inner(new Lens(Buffer.from(response)).slice('output')))
}

export function joinedItems(...items: readonly string[]): string {
  return items.filter((text) => text !== '').join(',')
}

/** The items of a list as they are written, without its brackets. */
function inner(list: Buffer | undefined): string {
  return list?.[0] === 0x5b ? list.toString('utf8', 1, list.length - 1).trim() : ''
}

function tooLong(most: number): GatewayError {
  return new GatewayError(
    'request_too_large',
    `The conversation is longer than the ${most} bytes that are kept of one. Begin another one, with a summary.`,
    { param: 'input' }
  )
}
