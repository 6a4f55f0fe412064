// Responses that the gateway makes in the background by itself, for upstreams that cannot: begun, shown as far as they
// are, and told again.
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
/** Milliseconds for which one is there that is not to be stored: https://platform.openai.com/docs/guides/background */
const shortly = 600_000
/** Bytes of events that are kept, for each byte that a conversation may have. */
const mostEvents = 8
const nothing = { length: 0, tokens: 0, parts: {} }

/** Of a body that is JSON as it is written. */
const json = [['content-type', 'application/json']] as const
const eventStream = [['content-type', 'text/event-stream; charset=utf-8']] as const

/** The response as it begins. */
const beginning = slot('responses/beginning').of<string>()

/** An exchange of the gateway's own, whose client may come back. */
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
    // A stream that is much longer than a conversation may be is not told again: its response is read.
    const told = exchange.streaming && answer.length <= mostEvents * vault.largest
    const state: KeptState = { before, own, response, events: told ? answer.toString('utf8') : undefined }
    const { bytes, details } = await vault.fill(work, state, await outlineOf(state))
    return { bytes, details: { ...details, background: true } }
  },
  // There is no event of its own for this: clients take the state from the last response that they are told.
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

/** Whether a response was made in the background. */
export function wasInBackground({ work }: Kept): boolean {
  return work.details['background'] === true
}

/** A response that the gateway keeps, as far as it is. */
export async function shownOf(kept: Kept, { services: { vault } }: OperationContext): Promise<WholeReply> {
  const { response } = await stateOf(kept, vault)
  const { status, error } = kept.work
  if (status === 'succeeded') return { status: 200, headers: json, body: response }
  // What has not been settled is not shown, whatever is in the file.
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
 * The events of a response, from the first or from one on.
 * @throws GatewayError `invalid_field` when it has none, or none that follows
 */
export async function streamOf(
  kept: Kept,
  query: string,
  { services: { vault, works }, background }: OperationContext
): Promise<Reply> {
  const after = startOf(query)
  const live = isOpen(kept.work) && kept.work.details['streamed'] === true ? background.follow(kept.work) : undefined
  if (live) return { headers: eventStream, follows: true, stream: after === undefined ? live : behind(live, after) }
  const work = (await works.find(kept.work, kept.work.id)) ?? kept.work
  const { events } = work.status === 'succeeded' ? await stateOf({ ...kept, work }, vault) : { events: undefined }
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

/** @throws GatewayError `invalid_field` for what is no number of an event */
function startOf(query: string): number | undefined {
  const after = query === '' ? null : new URLSearchParams(query).get('starting_after')
  if (after === null) return undefined
  if (!/^\d{1,15}$/.test(after))
    throw new GatewayError('invalid_field', 'The parameter `starting_after` must be the number of an event.', {
      param: 'starting_after'
    })
  return Number(after)
}

/** The events with a higher number. They are the gateway's own: each is a block with one line of data. */
async function* behind(stream: Iterable<Buffer> | AsyncIterable<Buffer>, after: number): AsyncGenerator<Buffer> {
  let rest = ''
  for await (const bytes of stream) {
    const blocks = (rest + bytes.toString('utf8')).split('\n\n')
    rest = blocks.pop()!
    for (const block of blocks) if (numberOf(block) > after) yield Buffer.from(`${block}\n\n`)
  }
}

/** The number of the last event that was told. */
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

/** What a response is before anything has been done for it. */
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
