// Reads a client's chat completion request (OpenAI, API reference, "Create chat completion").
import { readMark } from '../canonical/cache-mark.ts'
import type { RequestHead } from '../canonical/codec.ts'
import type { Losses } from '../canonical/losses.ts'
import { Members } from '../canonical/members.ts'
import { readParameters } from '../canonical/parameters.ts'
import { emptyRequest } from '../canonical/request.ts'
import { readThinking } from '../canonical/thinking.ts'
import type { ModelRequest, OutputFormat, Tool, ToolChoice } from '../canonical/request.ts'
import { invalid } from '../canonical/untranslatable.ts'
import type { JsonObject } from '../object.ts'
import { hints, specials } from './capabilities.ts'
import { readMessages } from './messages-decode.ts'
import { parameters } from './parameters.ts'

export function decodeRequest(body: JsonObject, head: RequestHead, losses: Losses): ModelRequest {
  const fields = new Members(body)
  const request = emptyRequest(head.model, head.streaming)
  for (const known of ['model', 'stream', 'stream_options']) fields.value(known)
  readSettings(fields, request, losses)
  request.tools = readTools(fields, losses)
  request.toolChoice = readToolChoice(fields, losses)
  request.parallelToolCalls = fields.flag('parallel_tool_calls')
  if (request.parallelToolCalls === false) losses.see('parallel_tool_calls')
  request.format = readFormat(fields.members('response_format'), losses)
  request.turns = readMessages(fields, losses)

  for (const name of hints) if (fields.says(name) && fields.value(name) !== false) losses.see('hint', name)
  for (const name of specials) if (fields.says(name)) losses.see('special', name)
  if (fields.strings('modalities')?.some((modality) => modality !== 'text')) losses.see('special', 'modalities')
  for (const name of fields.rest()) losses.see('unknown', name)
  return request
}

function readSettings(fields: Members, request: ModelRequest, losses: Losses): void {
  const limit = fields.count('max_completion_tokens', 1)
  const oldLimit = fields.count('max_tokens', 1)
  request.maxOutputTokens = limit ?? oldLimit
  if (limit ?? oldLimit) losses.see('max_output_tokens', limit === undefined ? 'max_tokens' : 'max_completion_tokens')
  // OpenAI has no `top_k`, but compatible vendors and clients do.
  readParameters(fields, { ...parameters, topK: 'top_k' }, request, losses)
  request.stop = readStop(fields)
  if (request.stop.length > 0) losses.see('stop')
  const alternatives = fields.count('top_logprobs')
  if (fields.flag('logprobs')) {
    request.logprobs = alternatives ?? 0
    losses.see('logprobs')
  }
  if ((request.reasoning.effort = fields.string('reasoning_effort')) !== undefined) losses.see('reasoning_effort')
  readThinking(fields.members('thinking'), request, losses)
  Object.assign(request, readMark(fields, losses))
  const metadata = fields.json('metadata')
  if (metadata && Object.keys(metadata).length > 0) {
    request.metadata = metadata
    losses.see('metadata')
  }
}

function readStop(fields: Members): string[] {
  const stop = fields.value('stop')
  return typeof stop === 'string' ? [stop] : (fields.strings('stop') ?? [])
}

function readTools(fields: Members, losses: Losses): Tool[] {
  return (fields.list('tools') ?? []).map((tool): Tool => {
    const type = tool.string('type') ?? 'function'
    if (type === 'custom') return readCustomTool(tool.needMembers('custom'), losses)
    if (type !== 'function') {
      losses.see('server_tool', tool.place)
      return { name: type, description: undefined, parameters: undefined, strict: undefined, custom: false }
    }
    losses.see('tools')
    const fn = tool.needMembers('function')
    const strict = fn.flag('strict')
    if (strict) losses.see('tool_strict')
    return {
      name: fn.needString('name'),
      description: fn.string('description'),
      parameters: fn.json('parameters'),
      strict,
      custom: false,
      ...readMark(fn, losses),
      ...readMark(tool, losses)
    }
  })
}

function readCustomTool(custom: Members, losses: Losses): Tool {
  losses.see('custom_tool')
  const format = custom.members('format')
  const grammar = format?.string('type') === 'grammar' ? format.needMembers('grammar') : undefined
  if (grammar) losses.see('custom_tool_grammar', custom.at('format'))
  return {
    name: custom.needString('name'),
    description: custom.string('description'),
    parameters: undefined,
    strict: undefined,
    custom: true,
    ...(grammar && { grammar: { syntax: grammar.needString('syntax'), definition: grammar.needString('definition') } })
  }
}

function readToolChoice(fields: Members, losses: Losses): ToolChoice | undefined {
  const given = fields.value('tool_choice')
  if (given === undefined) return undefined
  if (given === 'auto' || given === 'none' || given === 'required') {
    if (given !== 'auto') losses.see('tool_choice')
    return { mode: given }
  }
  const choice = fields.needMembers('tool_choice')
  const type = choice.string('type')
  if (type === 'function' || type === 'custom') {
    losses.see('tool_choice')
    return { mode: 'named', name: choice.needMembers(type).needString('name') }
  }
  if (type !== 'allowed_tools') throw invalid(fields.at('tool_choice'), 'none, auto, required, or the choice of a tool')
  losses.see('allowed_tools')
  const allowed = choice.needMembers('allowed_tools')
  const names = (allowed.list('tools') ?? []).map((tool) => {
    tool.ignore('type')
    return (tool.members('function') ?? tool.members('custom') ?? tool).needString('name')
  })
  return { mode: allowed.string('mode') === 'required' ? 'required' : 'auto', allowed: names }
}

function readFormat(format: Members | undefined, losses: Losses): OutputFormat | undefined {
  const type = format?.string('type')
  if (!format || type === 'text') return undefined
  if (type === 'json_object') {
    losses.see('json_object')
    return { type: 'json_object' }
  }
  if (type !== 'json_schema') throw invalid(format.at('type'), 'text, json_object or json_schema')
  losses.see('json_schema')
  const inner = format.needMembers('json_schema')
  return {
    type: 'json_schema',
    name: inner.needString('name'),
    description: inner.string('description'),
    schema: inner.json('schema') ?? {},
    strict: inner.flag('strict')
  }
}
