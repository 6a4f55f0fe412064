// Reads and checks a request for a response, as OpenAI does.
import { hash } from 'node:crypto'
import type { Call } from '../../endpoint.ts'
import { takeDirective } from '../../directive.ts'
import {
  between,
  integer,
  invalid,
  isBoolean,
  isObject,
  isString,
  missing,
  oneOf,
  optional,
  parseObject
} from '../../fields.ts'
import type { Fields } from '../../fields.ts'
import { Refusal } from '../../refusal.ts'
import { countTokens } from '../../words/tokens.ts'
import { readModel } from '../models.ts'
import { checkCalls, readInput } from './input.ts'
import type { FindItem, Item } from './input.ts'
import type { ResponseRequest } from './request.ts'
import { readTools } from './tools.ts'

const members = [
  'access_programs',
  'background',
  'client_metadata',
  'context_management',
  'conversation',
  'image',
  'include',
  'input',
  'instructions',
  'max_output_tokens',
  'max_tool_calls',
  'metadata',
  'model',
  'moderation',
  'parallel_tool_calls',
  'personality',
  'previous_response_id',
  'prompt',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'reasoning',
  'safety_identifier',
  'service_tier',
  'store',
  'stream',
  'stream_options',
  'temperature',
  'text',
  'tool_choice',
  'tools',
  'top_logprobs',
  'top_p',
  'truncation',
  'user'
]
const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
const tokensPerPrompt = 3
const tokensPerMessage = 4
const usualReasoning = 'Let me think about what was asked before I answer it.'

/** @throws Refusal */
export function readResponseRequest(call: Call): ResponseRequest {
  const body = parseObject(call.body)
  const unknown = Object.keys(body).find((name) => !members.includes(name))
  if (unknown !== undefined)
    throw new Refusal(400, `Unknown parameter: '${unknown}'.`, { param: unknown, code: 'unknown_parameter' })
  const model = readModel(call, body)
  const stream = optional(body, 'stream', isBoolean, 'true or false') ?? false
  if (optional(body, 'stream_options', isObject, 'an object') && !stream) {
    throw new Refusal(400, "The 'stream_options' parameter is only allowed when 'stream' is enabled.", {
      param: 'stream_options'
    })
  }
  checkRest(body)
  const { items, context } = readContext(call, body)
  if (context.length === 0 && body['prompt'] === undefined) throw missing('input')
  checkCalls(context)
  const thinking = readReasoning(body)

  const last = items.findLast(({ role }) => role !== 'system' && role !== 'developer')
  const asked = items.findLast(({ kind, role }) => kind === 'message' && role === 'user')
  const { directive, prompt } = takeDirective(asked?.text ?? '', model, 'input')
  const tools = readTools(body, last === asked ? directive : {})
  const instructions = optional(body, 'instructions', isString, 'a string')
  const promptTokens =
    context.reduce((sum, { tokens }) => sum + tokens, tokensPerPrompt + tools.tokens) +
    (instructions === undefined ? 0 : tokensPerMessage + countTokens(instructions))
  const include = optional(body, 'include', Array.isArray, 'an array') ?? []
  return {
    model,
    prompt,
    promptTokens,
    stream,
    body,
    items,
    context,
    directive: thinking.wanted ? { reasoning: usualReasoning, ...directive } : directive,
    toolResult: last?.kind === 'result' ? last.text : undefined,
    maxTokens: optional(body, 'max_output_tokens', integer(16, Number.MAX_SAFE_INTEGER), 'an integer of at least 16'),
    stop: [],
    calls: tools.calls,
    json: readFormat(body),
    background: optional(body, 'background', isBoolean, 'true or false') ?? false,
    store: optional(body, 'store', isBoolean, 'true or false') ?? true,
    summarized: thinking.summarized,
    sealed: include.includes('reasoning.encrypted_content'),
    digest: hash(
      'sha1',
      [
        'response',
        model,
        context.length,
        promptTokens,
        (asked?.text ?? '').slice(0, 4096),
        (last?.text ?? '').slice(0, 4096)
      ].join('\0')
    )
  }
}

function readContext({ state }: Call, body: Fields): { items: Item[]; context: Item[] } {
  const find: FindItem = (id) => state.items.find(id)
  const items = readInput(body['input'], find)
  const previous = optional(body, 'previous_response_id', isString, 'a string')
  const conversation = body['conversation']
  if (conversation !== undefined && conversation !== null) {
    if (previous !== undefined)
      throw new Refusal(400, "Mutually exclusive parameters: 'previous_response_id' and 'conversation'.", {
        code: 'mutually_exclusive_parameters'
      })
    const id = isString(conversation) ? conversation : (conversation as Fields)['id']
    throw new Refusal(404, `Conversation with id ${JSON.stringify(id)} not found.`)
  }
  if (previous === undefined) return { items, context: items }
  const kept = state.responses.find(previous)
  if (!kept)
    throw new Refusal(400, `Previous response with id '${previous}' not found.`, {
      param: 'previous_response_id',
      code: 'previous_response_not_found'
    })
  const said = kept.output().flatMap((item) => readInput([item], () => item))
  return { items, context: [...kept.request.context, ...said, ...items] }
}

function readReasoning(body: Fields): { wanted: boolean; summarized: boolean } {
  const reasoning = optional(body, 'reasoning', isObject, 'an object')
  if (!reasoning) return { wanted: false, summarized: false }
  const effort = optional(reasoning, 'effort', oneOf(...efforts), `one of ${efforts.join(', ')}`)
  const summary = optional(reasoning, 'summary', oneOf('auto', 'concise', 'detailed'), 'auto, concise or detailed')
  return {
    wanted: effort !== 'none' && (effort !== undefined || summary !== undefined),
    summarized: summary !== undefined
  }
}

function checkRest(body: Fields): void {
  optional(body, 'temperature', between(0, 2), 'a number from 0 to 2')
  optional(body, 'top_p', between(0, 1), 'a number from 0 to 1')
  optional(body, 'top_logprobs', integer(0, 20), 'an integer from 0 to 20')
  optional(body, 'max_tool_calls', integer(1, Number.MAX_SAFE_INTEGER), 'an integer of at least 1')
  optional(body, 'parallel_tool_calls', isBoolean, 'true or false')
  optional(body, 'truncation', oneOf('auto', 'disabled'), 'auto or disabled')
  const metadata = optional(body, 'metadata', isObject, 'an object') ?? {}
  if (Object.keys(metadata).length > 16 || !Object.values(metadata).every(isString))
    throw invalid('metadata', 'Expected an object of at most 16 strings.')
}

function readFormat(body: Fields): { schema: unknown } | undefined {
  const text = optional(body, 'text', isObject, 'an object') ?? {}
  optional(text, 'verbosity', oneOf('low', 'medium', 'high'), 'low, medium or high')
  const format = optional(text, 'format', isObject, 'an object')
  if (!format || format['type'] === 'text') return undefined
  if (format['type'] === 'json_object') return { schema: undefined }
  if (format['type'] !== 'json_schema')
    throw invalid('text.format.type', 'Supported values are: text, json_object, json_schema.')
  if (!isString(format['name'])) throw missing('text.format.name')
  if (!isObject(format['schema'])) throw missing('text.format.schema')
  return { schema: format['schema'] }
}
