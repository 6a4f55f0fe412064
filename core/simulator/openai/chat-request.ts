// Reads and checks a chat completion request, as OpenAI does.
import { hash } from 'node:crypto'
import type { Call } from '../endpoint.ts'
import { takeDirective } from '../directive.ts'
import { between, integer, invalid, isBoolean, isObject, isString, missing, optional, parseObject } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { Refusal } from '../refusal.ts'
import type { Conversation } from '../words/composition.ts'
import { countTokens } from '../words/tokens.ts'
import { readTools } from './chat-tools.ts'
import { readModel } from './models.ts'

/** A request that passed the checks. */
export interface ChatRequest extends Conversation, Streaming {
  choices: number
}

/** Whether the answer is a stream, and whether that reports usage. */
export interface Streaming {
  stream: boolean
  includeUsage: boolean
}

const roles = ['developer', 'system', 'user', 'assistant', 'tool', 'function']
const tokensPerMessage = 4
const tokensPerPrompt = 3
const tokensPerAttachment = 85

/** @throws Refusal */
export function readChatRequest(call: Call): ChatRequest {
  const body = parseObject(call.body)
  const model = readModel(call, body)
  const messages = readMessages(body['messages'])
  const last = messages.findLast(({ role }) => role !== 'system' && role !== 'developer') ?? messages.at(-1)!
  const asked = messages.findLast((message) => message.role === 'user')
  const { directive, prompt } = takeDirective(asked?.text ?? '', model, 'messages')

  optional(body, 'temperature', between(0, 2), 'a number from 0 to 2')
  optional(body, 'top_p', between(0, 1), 'a number from 0 to 1')
  const tools = readTools(body, last === asked ? directive : {})
  const promptTokens =
    tokensPerPrompt + tools.tokens + messages.reduce((sum, message) => sum + tokensPerMessage + message.tokens, 0)
  return {
    model,
    directive,
    prompt,
    toolResult: last.role === 'tool' ? last.text : undefined,
    promptTokens,
    ...readStreaming(body),
    choices: optional(body, 'n', integer(1, 128), 'an integer from 1 to 128') ?? 1,
    maxTokens: readMaxTokens(body),
    stop: readStop(body['stop']),
    calls: tools.calls,
    json: readFormat(body['response_format']),
    digest: hash(
      'sha1',
      [model, messages.length, promptTokens, (asked?.text ?? '').slice(0, 4096), last.text.slice(0, 4096)].join('\0')
    )
  }
}

/** @throws Refusal */
export function readStreaming(body: Fields): Streaming {
  const stream = optional(body, 'stream', isBoolean, 'true or false') ?? false
  const options = optional(body, 'stream_options', isObject, 'an object')
  if (options && !stream) {
    throw new Refusal(400, "The 'stream_options' parameter is only allowed when 'stream' is enabled.", {
      param: 'stream_options'
    })
  }
  return { stream, includeUsage: options?.['include_usage'] === true }
}

interface Message {
  role: string
  text: string
  tokens: number
}

function readMessages(given: unknown): Message[] {
  if (given === undefined) throw missing('messages')
  if (!Array.isArray(given)) throw invalid('messages', 'Expected an array of objects.')
  if (given.length === 0) {
    throw new Refusal(400, "Invalid 'messages': empty array. Expected an array with minimum length 1.", {
      param: 'messages',
      code: 'empty_array'
    })
  }
  return given.map((message: unknown, i) => {
    if (!isObject(message)) throw invalid(`messages[${i}]`, 'Expected an object.')
    const role = message['role']
    if (typeof role !== 'string' || !roles.includes(role)) {
      throw new Refusal(
        400,
        `Invalid value: ${JSON.stringify(role) ?? 'none'}. Supported values are: ${roles.join(', ')}.`,
        {
          param: `messages[${i}].role`,
          code: 'invalid_value'
        }
      )
    }
    return { role, ...readContent(message, `messages[${i}].content`) }
  })
}

function readContent(message: Fields, place: string): { text: string; tokens: number } {
  const content = message['content']
  let text = ''
  let tokens = 0
  if (typeof content === 'string') text = content
  else if (Array.isArray(content)) {
    const texts: string[] = []
    for (const part of content as unknown[]) {
      const {
        type,
        text: words,
        refusal
      } = (isObject(part) ? part : {}) as { type?: unknown; text?: unknown; refusal?: unknown }
      if (typeof type !== 'string') throw invalid(place, 'Every part needs a type.')
      if (type === 'text' || type === 'refusal') texts.push([words, refusal].find(isString) ?? '')
      else tokens += tokensPerAttachment
    }
    text = texts.join('\n')
  } else if (content !== undefined && content !== null) throw invalid(place, 'Expected a string, an array or null.')
  else if (message['role'] === 'user') throw invalid(place, 'Expected a string or an array.')
  const said = message['tool_calls']
  if (said !== undefined) tokens += countTokens(JSON.stringify(said))
  return { text, tokens: tokens + countTokens(text) }
}

function readMaxTokens(body: Fields): number | undefined {
  const check = integer(1, Number.MAX_SAFE_INTEGER)
  const older = optional(body, 'max_tokens', check, 'an integer of at least 1')
  return optional(body, 'max_completion_tokens', check, 'an integer of at least 1') ?? older
}

/** @throws Refusal */
export function readStop(given: unknown): readonly string[] {
  const list = given === undefined || given === null ? [] : Array.isArray(given) ? (given as unknown[]) : [given]
  if (list.length > 4 || !list.every((entry) => typeof entry === 'string' && entry !== '')) {
    throw invalid('stop', 'Expected a string or an array of at most 4 strings.')
  }
  return list as string[]
}

function readFormat(given: unknown): { schema: unknown } | undefined {
  if (given === undefined || given === null) return undefined
  const { type, json_schema: named } = (isObject(given) ? given : {}) as { type?: unknown; json_schema?: unknown }
  if (type === 'text') return undefined
  if (type === 'json_object') return { schema: undefined }
  if (type === 'json_schema' && isObject(named)) return { schema: named['schema'] }
  throw invalid('response_format', 'Supported types are text, json_object and json_schema.')
}
