// OpenAI's Responses, for its own clients.
import type { Fields } from '../bodies/fields.ts'
import type { Candidates } from '../contract/candidates.ts'
import type { Exchange } from '../contract/contract.ts'
import { GatewayError } from '../contract/contract.ts'
import { formFor } from '../contract/operation.ts'
import type { ServedOperation } from '../contract/served.ts'
import { responding } from './conversation.ts'

/** https://platform.openai.com/docs/api-reference/responses/create */
export const responses: ServedOperation = {
  name: 'responses',
  endpoint: 'responses',
  summary: 'Makes a response in OpenAI\'s newer protocol, as a whole or as a stream of events.',
  method: 'POST',
  paths: ['/v1/responses'],
  protocol: 'openai-responses',
  body: 'json',
  model: { in: 'body', name: 'model' },
  stream: { in: 'body', name: 'stream' },
  upstream: responding,
  narrow,
  metering: { outputLimits: ['max_output_tokens'] },
  required: ['model'],
  parameters: {
    model: { type: 'string', description: 'A model of the model list.' },
    input: { description: 'A text, or a list of messages, calls of tools with their results, and other items.' },
    instructions: { type: 'string', description: 'What the model is told before everything else.' },
    previous_response_id: { type: 'string', description: 'A response that is kept where it was made: the conversation goes on from there.' },
    stream: { type: 'boolean', default: false, description: 'Answers with server-sent events, ended by `response.completed`.' },
    background: { type: 'boolean', default: false, description: 'Answers at once; the response is read by its id.' },
    store: { type: 'boolean', description: 'Whether the response is kept; what is the default, the upstream says.' },
    tools: { type: 'array', items: { type: 'object' }, description: 'Functions that the model may call, and tools of the upstream.' },
    tool_choice: { description: 'Which tool is called: `auto`, `none`, `required`, or one by name.' },
    max_output_tokens: { type: 'integer', minimum: 1, description: 'Most tokens of the answer, reasoning included.' },
    temperature: { type: 'number', minimum: 0, maximum: 2, description: 'Sampling temperature.' },
    top_p: { type: 'number', minimum: 0, maximum: 1, description: 'Nucleus sampling.' },
    reasoning: { type: 'object', description: 'How much the model thinks (`effort`) and whether that is summarized.' },
    text: { type: 'object', description: 'The form of the answer, such as `{"format": {"type": "json_object"}}`.' },
    metadata: { type: 'object', description: 'Labels of your own, repeated in the response.' }
  }
}

/** Members that refer to what an upstream keeps. */
const references = ['previous_response_id', 'conversation'] as const
const longestReference = 1024

/** Only upstreams of this protocol keep anything, so what is to be kept goes to them first, and what was kept to nobody else. */
function narrow(exchange: Exchange, candidates: Candidates): void {
  const { body: { fields }, request: { operation } } = exchange
  const native = candidates.channels.filter((channel) => formFor(operation, channel)!.protocol === operation.protocol)
  const background = flagOf(fields, 'background')
  const stored = mayBeStored(fields)
  const reference = references.find((name) => referenceOf(fields, name) !== undefined)
  if (reference !== undefined) {
    if (native.length > 0) throw new GatewayError('response_not_found', 'Response not found')
    throw new GatewayError('protocol_mismatch', `The model \`${exchange.model}\` keeps no responses: leave out \`${reference}\` and send the conversation.`, { param: reference })
  }
  if (native.length === 0 || native.length === candidates.channels.length) return
  if (background) candidates.keep((channel) => native.includes(channel))
  else if (stored) candidates.prefer((channel) => (native.includes(channel) ? 0 : 1))
}

/** The id that a member refers to; undefined when there is none. */
function referenceOf(fields: Fields, name: string): string | undefined {
  if (!fields.has(name) || isNull(fields, name)) return undefined
  const id = fields.size(name) > longestReference ? undefined : fields.string(name)
  if (id === undefined) throw new GatewayError('invalid_field', `The field \`${name}\` must be the id of one.`, { param: name })
  return id
}

/** Unless the client says no, upstreams keep a response. */
function mayBeStored(fields: Fields): boolean {
  return !fields.has('store') || isNull(fields, 'store') || flagOf(fields, 'store')
}

function flagOf(fields: Fields, name: string): boolean {
  const flag = fields.flag(name)
  if (flag === undefined) throw new GatewayError('invalid_field', `The field \`${name}\` must be true or false.`, { param: name })
  return flag
}

/** Nothing else of four bytes counts as no. */
function isNull(fields: Fields, name: string): boolean {
  return fields.size(name) === 'null'.length && fields.flag(name) === false
}
