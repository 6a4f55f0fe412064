// Background responses that the gateway makes itself, for upstreams that cannot: how they begin, are shown, and have
// their events repeated.
import { setTimeout as sleep } from 'node:timers/promises'
import { Lens } from '../../bodies/lens.ts'
import { withMembers } from '../../bodies/splice.ts'
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange, Reply, WholeReply } from '../../contract/contract.ts'
import type { LoneWork, OperationContext } from '../../contract/served.ts'
import { slot } from '../../contract/slots.ts'
import { writeResponse } from '../../protocols/openai-responses/answer-encode.ts'
import { isOpen } from '../../store/works.ts'
import { keptKind } from '../../store/vault.ts'
import type { Kept } from '../../store/vault.ts'
import { notFound } from './holder.ts'
import { outlineOf } from './own-state.ts'
import { isOwnBackground, ownId, ownInput, previousOf, recalled, shownStatus, stateOf } from './recall.ts'
import type { KeptState } from './recall.ts'
import { mayBeStored } from './references.ts'

/** Members of a request that its response repeats. */
const repeated = [
  'instructions',
  'max_output_tokens',
  'metadata',
  'parallel_tool_calls',
  'reasoning',
  'temperature',
  'text',
  'tool_choice',
  'tools',
  'top_p',
  'truncation',
  'user'
] as const
/**
 * How long a response with `store: false` is kept, in milliseconds: https://platform.openai.com/docs/guides/background
 */
const shortly = 600_000
/** How many bytes of events are kept for each byte that a conversation may have. */
const mostEvents = 8
/** How often it is looked whether a response has ended that another process makes, in milliseconds. */
const lookEvery = 1000
const nothing = { length: 0, tokens: 0, parts: {} }

/** Headers of a body that is already JSON text. */
const json = [['content-type', 'application/json']] as const
const eventStream = [['content-type', 'text/event-stream; charset=utf-8']] as const

/** The JSON text of the response as it was first shown. */
const beginning = slot('responses/beginning').of<string>()

/** The background work of an exchange whose response the gateway keeps, so that the client can come back for it. */
export const ownBackground: LoneWork = {
  when: isOwnBackground,
  begin: (exchange) => ({
    kind: keptKind,
    id: ownId(exchange),
    details: {},
    ...(!mayBeStored(exchange.body.fields) && { keep: shortly })
  }),
  async keepBeginning(exchange, work, { services: { vault } }) {
    const response = begunResponse(exchange)
    exchange.set(beginning, response)
    const { bytes } = await vault.fill(
      work,
      { before: '', own: ownInput(exchange), response } satisfies KeptState,
      nothing
    )
    return { bytes, details: { background: true, streamed: exchange.streaming } }
  },
  accepted: (exchange) => ({ status: 200, headers: json, body: exchange.find(beginning)! }),
  async keepAnswer(exchange, work, answer, { services: { vault } }) {
    const {
      before,
      own,
      answer: { response }
    } = exchange.find(recalled)!
    if (response === undefined)
      throw new GatewayError('upstream_bad_response', 'The upstream answered without a response.')
    // The stream of a very long response is not kept: only the response can be read then.
    const told = exchange.streaming && answer.length <= mostEvents * vault.largest
    const state: KeptState = { before, own, response, events: told ? answer.toString('utf8') : undefined }
    const { bytes, details } = await vault.fill(work, state, await outlineOf(state))
    return { bytes, details: { ...details, background: true } }
  },
  // The protocol has no event for a cancelled response. Clients take the status from the last response that they are
  // shown.
  calledOff(exchange, told) {
    const begun = new Lens(Buffer.from(exchange.find(beginning)!))
    const event = (type: string, number: number, status: string): string => {
      const response = Buffer.concat(withMembers(begun, new Map([['status', JSON.stringify(status)]]))).toString('utf8')
      return `event: ${type}\ndata: {"type":"${type}","sequence_number":${number},"response":${response}}\n\n`
    }
    const last = lastNumber(told)
    const opening = last === undefined ? event('response.created', 0, 'queued') : ''
    return Buffer.from(`${opening}${event('response.incomplete', (last ?? 0) + 1, 'cancelled')}`)
  }
}

/** Whether a kept response was made in the background. */
export function wasInBackground({ work }: Kept): boolean {
  return work.details['background'] === true
}

/** The reply with a response that the gateway keeps, in its present state. */
export async function shownOf(kept: Kept, { services: { vault } }: OperationContext): Promise<WholeReply> {
  const { response } = await stateOf(kept, vault)
  const { status, error } = kept.work
  if (status === 'succeeded') return { status: 200, headers: json, body: response }
  // The file may already hold the result, but a response that is not settled is not shown.
  const changes = new Map([
    ['status', JSON.stringify(shownStatus(kept))],
    ['output', '[]'],
    ['usage', 'null'],
    ['error', 'null'],
    ['incomplete_details', 'null']
  ])
  if (shownStatus(kept) === 'failed')
    changes.set(
      'error',
      JSON.stringify({ code: 'server_error', message: error?.message ?? 'The response took too long.' })
    )
  return { status: 200, headers: json, body: Buffer.concat(withMembers(new Lens(Buffer.from(response)), changes)) }
}

/**
 * The events of a response, all of them or those after `starting_after`. Those of an unfinished response follow live.
 * @throws GatewayError `invalid_field` when there are no events, or none after that number
 */
export async function streamOf(kept: Kept, query: string, context: OperationContext): Promise<Reply> {
  const {
    services: { works },
    background
  } = context
  const after = startOf(query)
  const live =
    isOpen(kept.work) && kept.work.details['streamed'] === true ? await background.follow(kept.work) : undefined
  if (live) {
    const whole = wholeOf(live, kept, context)
    return { headers: eventStream, follows: true, stream: after === undefined ? whole : behind(whole, after) }
  }
  const work = (await works.find(kept.work, kept.work.id)) ?? kept.work
  if (isOpen(work) && work.details['streamed'] === true)
    return { headers: eventStream, follows: true, stream: whenEnded({ ...kept, work }, query, context) }
  const events = await eventsOf({ ...kept, work }, context)
  if (events === undefined) {
    throw new GatewayError(
      'invalid_field',
      'This response has no stream: it was not made as one in the background, or has not come to its end.',
      { param: 'stream' }
    )
  }
  if (after === undefined) return { headers: eventStream, stream: Buffer.from(events) }
  const rest: Buffer[] = []
  for await (const event of behind([Buffer.from(events)], after)) rest.push(event)
  if (rest.length === 0)
    throw new GatewayError('invalid_field', `There is no event after ${after}.`, { param: 'starting_after' })
  return { headers: eventStream, stream: Buffer.concat(rest) }
}

/** The events that a response is kept with; undefined when it has none. */
async function eventsOf(kept: Kept, { services: { vault } }: OperationContext): Promise<string | undefined> {
  return kept.work.status === 'succeeded' ? (await stateOf(kept, vault)).events : undefined
}

/** What is followed, and the rest as it is kept when that is not told any more. */
async function* wholeOf(live: AsyncIterable<Buffer>, kept: Kept, context: OperationContext): AsyncGenerator<Buffer> {
  let told = 0
  try {
    for await (const bytes of live) {
      told += bytes.length
      yield bytes
    }
  } catch (error) {
    const work = await context.services.works.find(kept.work, kept.work.id)
    const events = work && (await eventsOf({ ...kept, work }, context))
    if (events === undefined) throw error
    yield Buffer.from(events).subarray(told)
  }
}

/**
 * The events of a response that another process makes, all at once when it has ended.
 * @throws GatewayError when it has none then
 */
async function* whenEnded(kept: Kept, query: string, context: OperationContext): AsyncGenerator<Buffer> {
  const { works } = context.services
  for (let { work } = kept; isOpen(work);) {
    await sleep(lookEvery)
    const found = await works.find(work, work.id)
    if (!found) throw notFound()
    work = found
    if (isOpen(work)) {
      yield Buffer.alloc(0)
      continue
    }
    const { stream } = (await streamOf({ ...kept, work }, query, context)) as { stream: Buffer }
    yield stream
  }
}

/**
 * The `starting_after` of a query.
 * @throws GatewayError `invalid_field` when it is not a number
 */
function startOf(query: string): number | undefined {
  const after = query === '' ? null : new URLSearchParams(query).get('starting_after')
  if (after === null) return undefined
  if (!/^\d{1,15}$/.test(after))
    throw new GatewayError('invalid_field', 'The parameter `starting_after` must be the number of an event.', {
      param: 'starting_after'
    })
  return Number(after)
}

/** The events with a higher number. The gateway wrote them, so each is a block with one line of data. */
async function* behind(stream: Iterable<Buffer> | AsyncIterable<Buffer>, after: number): AsyncGenerator<Buffer> {
  let rest = ''
  for await (const bytes of stream) {
    if (bytes.length === 0) yield bytes
    const blocks = (rest + bytes.toString('utf8')).split('\n\n')
    rest = blocks.pop()!
    for (const block of blocks) if (numberOf(block) > after) yield Buffer.from(`${block}\n\n`)
  }
}

/** The number of the last event that was sent. */
function lastNumber(told: readonly Buffer[]): number | undefined {
  for (let at = told.length - 1; at >= 0; at--) {
    const numbers = told[at]!.toString('utf8').split('\n\n').map(numberOf).filter(Number.isFinite)
    if (numbers.length > 0) return numbers.at(-1)
  }
  return undefined
}

function numberOf(block: string): number {
  const [, data] = /^data: ?(.*)$/m.exec(block) ?? []
  return (data === undefined ? undefined : new Lens(Buffer.from(data)).number('sequence_number')) ?? Infinity
}

/** The response before the upstream has been asked, as JSON text. */
function begunResponse(exchange: Exchange): string {
  const { lens, fields } = exchange.body
  const whole = writeResponse({
    id: '',
    created: Math.floor(exchange.receivedAt / 1000),
    model: exchange.requestedModel,
    request: {},
    usage: false
  })
  const changes = new Map<string, string>()
  for (const name of repeated)
    if (lens.has(name) && lens.type(name) !== 'null') changes.set(name, lens.slice(name)!.toString('utf8'))
  changes
    .set('id', JSON.stringify(ownId(exchange)))
    .set('status', '"queued"')
    .set('background', 'true')
    .set('store', String(mayBeStored(fields)))
  changes.set('previous_response_id', JSON.stringify(previousOf(exchange) ?? null))
  return Buffer.concat(withMembers(new Lens(Buffer.from(JSON.stringify(whole))), changes)).toString('utf8')
}
