// The operations of OpenAI's Responses that make a response, compact a conversation, or count its tokens.
import { openaiTiers } from '../service-tiers.ts'
import type { Channel } from '../../catalogue/catalogue.ts'
import { responsesTools } from '../../protocols/counting/hosted-tools.ts'
import type { Candidates } from '../../contract/candidates.ts'
import type { Awaitable, Exchange } from '../../contract/contract.ts'
import { GatewayError } from '../../contract/contract.ts'
import { formFor } from '../../contract/operation.ts'
import type { Operation, ParameterSchema } from '../../contract/operation.ts'
import type { OperationContext, ServedOperation } from '../../contract/served.ts'
import { responding } from '../conversation.ts'
import { response } from './background.ts'
import { ownerOf } from '../../contract/owner.ts'
import { keepHolder, notFound } from './holder.ts'
import { noteResponse } from './notes.ts'
import { ownBackground } from './own-background.ts'
import { adoptOwn, askUnkept, keepOwn, tellAll } from './own-state.ts'
import { isRecalled, keepsFor, load, recall } from './recall.ts'
import type { Route } from '../../store/routes.ts'
import { refusesForeign } from '../foreign.ts'
import { flagOf, mayBeStored, referencesOf } from './references.ts'
import type { Reference, References } from './references.ts'

const model: ParameterSchema = { type: 'string', description: 'A model of the model list.' }
const input: ParameterSchema = {
  description: 'A text, or a list of messages, calls of tools with their results, and other items.'
}
const instructions: ParameterSchema = { type: 'string', description: 'What the model is told before everything else.' }
const previous: ParameterSchema = {
  type: 'string',
  description: 'A response that is kept where it was made: the conversation goes on from there.'
}

/** https://platform.openai.com/docs/api-reference/responses/create */
export const responses: ServedOperation = {
  name: 'responses',
  endpoint: 'responses',
  summary: "Makes a response in OpenAI's newer protocol, as a whole or as a stream of events.",
  method: 'POST',
  paths: ['/v1/responses'],
  protocol: 'openai-responses',
  body: 'json',
  model: { in: 'body', name: 'model' },
  stream: { in: 'body', name: 'stream' },
  upstream: responding,
  onBody: recall,
  onCandidates: narrow,
  onAttempt: askUnkept,
  stageInProtocol: adoptOwn,
  stageAtClient: keepOwn,
  onResponse: noteResponse,
  begins: response,
  mayBegin: (exchange) => flagOf(exchange.body.fields, 'background') && !isRecalled(exchange),
  goesOn: ownBackground,
  metering: { outputLimits: ['max_output_tokens'], tools: responsesTools, tiers: openaiTiers },
  required: ['model'],
  parameters: {
    model,
    input,
    instructions,
    previous_response_id: previous,
    stream: {
      type: 'boolean',
      default: false,
      description: 'Answers with server-sent events, ended by `response.completed`.'
    },
    background: { type: 'boolean', default: false, description: 'Answers at once; the response is read by its id.' },
    store: { type: 'boolean', description: 'Whether the response is kept; what is the default, the upstream says.' },
    tools: {
      type: 'array',
      items: { type: 'object' },
      description: 'Functions that the model may call, and tools of the upstream.'
    },
    tool_choice: { description: 'Which tool is called: `auto`, `none`, `required`, or one by name.' },
    max_output_tokens: { type: 'integer', minimum: 1, description: 'Most tokens of the answer, reasoning included.' },
    temperature: { type: 'number', minimum: 0, maximum: 2, description: 'Sampling temperature.' },
    top_p: { type: 'number', minimum: 0, maximum: 1, description: 'Nucleus sampling.' },
    reasoning: { type: 'object', description: 'How much the model thinks (`effort`) and whether that is summarized.' },
    text: { type: 'object', description: 'The form of the answer, such as `{"format": {"type": "json_object"}}`.' },
    metadata: { type: 'object', description: 'Labels of your own, repeated in the response.' }
  }
}

/** The most output tokens of a compacted conversation. No member of the request limits them. */
const mostCompacted = 32_768

/** https://platform.openai.com/docs/api-reference/responses/compact */
export const compactResponse: ServedOperation = {
  name: 'responses.compact',
  endpoint: 'responses',
  summary: 'Makes a conversation shorter, where the upstream can: what comes out is the input of the next request.',
  method: 'POST',
  paths: ['/v1/responses/compact'],
  protocol: 'openai-responses',
  body: 'json',
  model: { in: 'body', name: 'model' },
  upstream: { openai: { protocol: 'openai-responses', method: 'POST', target: () => '/responses/compact' } },
  onBody: recall,
  onCandidates: narrow,
  onAttempt: tellAll,
  metering: { outputLimits: [], mostOutput: mostCompacted, tiers: openaiTiers },
  required: ['model'],
  parameters: { model, input, instructions, previous_response_id: previous }
}

/** https://platform.openai.com/docs/api-reference/responses/input-tokens */
export const countInputTokens: ServedOperation = {
  name: 'responses.input_tokens',
  endpoint: 'responses',
  summary: 'Counts the tokens of a request before it is sent, where the upstream can.',
  method: 'POST',
  paths: ['/v1/responses/input_tokens'],
  protocol: 'openai-responses-kept',
  body: 'json',
  model: { in: 'body', name: 'model' },
  upstream: { openai: { protocol: 'openai-responses-kept', method: 'POST', target: () => '/responses/input_tokens' } },
  onBody: recall,
  onCandidates: narrow,
  onAttempt: tellAll,
  required: ['model'],
  parameters: { model, input, instructions, previous_response_id: previous }
}

/**
 * Only channels of this protocol keep responses. So a request to be kept prefers them, and a reference goes to no
 * other.
 */
function narrow(exchange: Exchange, candidates: Candidates, context: OperationContext): Awaitable<void> {
  // Any channel can be sent the conversation that the gateway itself keeps.
  if (isRecalled(exchange)) return load(exchange, context).then(() => checkParts(exchange, candidates, context))
  const references = referencesOf(exchange.body)
  return references instanceof Promise
    ? references.then((found) => toUpstream(found, exchange, candidates, context))
    : toUpstream(references, exchange, candidates, context)
}

function toUpstream(
  { members, items, partial }: References,
  exchange: Exchange,
  candidates: Candidates,
  context: OperationContext
): Awaitable<void> {
  const { operation } = exchange.request
  const native = nativeOf(operation, candidates)
  const references = [...members, ...idsOf(items).map((id) => ({ id, param: 'input' }))]
  if (native.length > 0 && references.length + partial.length > 0)
    return toHolder(exchange, candidates, { native, references, parts: idsOf(partial) }, context)
  if (references.length > 0) {
    const { param } = references[0]!
    if (param !== 'conversation' && keepsFor(exchange, context)) throw notFound()
    throw new GatewayError(
      'protocol_mismatch',
      `The model \`${exchange.model}\` keeps nothing that \`${param}\` could refer to: send the conversation itself.`,
      { param }
    )
  }
  preferNative(exchange, candidates, native)
}

function idsOf(items: References['items']): string[] {
  return [...new Set(items.map(({ id }) => id))]
}

/** Requests to be kept go first to native channels; requests in the background go only there. */
function preferNative({ body: { fields } }: Exchange, candidates: Candidates, native: readonly Channel[]): void {
  const background = flagOf(fields, 'background')
  const stored = mayBeStored(fields)
  if (native.length === 0 || native.length === candidates.channels.length) return
  if (background)
    candidates.keep((channel) => native.includes(channel), {
      code: 'endpoint',
      reason: 'it keeps no responses, which one in the background needs'
    })
  else if (stored) candidates.prefer((channel) => (native.includes(channel) ? 0 : 1))
}

/** What a request refers to, and the channels that may know it. */
interface Wanted {
  readonly native: readonly Channel[]
  /** References that the request cannot do without. */
  readonly references: readonly Reference[]
  /** Ids of items that are partly written out, so that the request also works without what is kept under them. */
  readonly parts: readonly string[]
}

async function toHolder(
  exchange: Exchange,
  candidates: Candidates,
  { native, references, parts }: Wanted,
  { catalogue, services }: OperationContext
): Promise<void> {
  const owner = ownerOf(exchange)
  const find = (id: string): Promise<Route | undefined> => services.routes.find(owner, id)
  const routes = await Promise.all([...references.map(({ id }) => find(id)), ...parts.map(find)])
  if (routes.slice(0, references.length).includes(undefined)) throw notFound()
  const found = routes.filter((route) => route !== undefined)
  if (found.length < routes.length && refusesForeign(exchange, catalogue, native)) {
    if (found.length > 0) throw notFound()
    return leaveOut(native, candidates)
  }
  if (found.length === 0) return preferNative(exchange, candidates, native)
  keepHolder(candidates, found, catalogue, references[0]?.param ?? 'input')
}

/**
 * Checks the partial items that a client adds to a conversation kept by the gateway: they must not be another tenant's.
 */
async function checkParts(
  exchange: Exchange,
  candidates: Candidates,
  { catalogue, services: { routes, vault } }: OperationContext
): Promise<void> {
  const native = nativeOf(exchange.request.operation, candidates)
  const { partial } = await referencesOf(exchange.body)
  if (partial.length === 0 || !refusesForeign(exchange, catalogue, native)) return
  const owner = ownerOf(exchange)
  const known = await Promise.all(
    idsOf(partial).map(async (id) => (await vault.findWhole(owner, id)) ?? (await routes.find(owner, id)))
  )
  if (known.includes(undefined)) leaveOut(native, candidates)
}

/**
 * Leaves the channels that look nothing up, as they are sent the conversation itself.
 * @throws GatewayError `response_not_found` when there are none
 */
function leaveOut(native: readonly Channel[], candidates: Candidates): void {
  if (native.length === candidates.channels.length) throw notFound()
  candidates.keep((channel) => !native.includes(channel), {
    code: 'reference',
    reason: "it would look up items of the request that nobody knows to be this project's"
  })
}

/** The candidates that speak the client's own protocol, and so keep responses. */
function nativeOf(operation: Operation, { channels }: Candidates): readonly Channel[] {
  return channels.filter((channel) => formFor(operation, channel)!.protocol === operation.protocol)
}
