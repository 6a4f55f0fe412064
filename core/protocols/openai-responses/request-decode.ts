// Reads a client's Responses request (OpenAI, API reference, "Create a model response").
import type { RequestHead } from '../canonical/codec.ts'
import type { Losses } from '../canonical/losses.ts'
import { Members } from '../canonical/members.ts'
import { readParameters } from '../canonical/parameters.ts'
import { emptyRequest } from '../canonical/request.ts'
import type { ModelRequest, OutputFormat, ToolChoice } from '../canonical/request.ts'
import { invalid } from '../canonical/untranslatable.ts'
import type { JsonObject } from '../object.ts'
import { hints, specials, stored } from './capabilities.ts'
import { readInput } from './input-decode.ts'
import { parameters } from './parameters.ts'
import { readTools } from './tools-decode.ts'

/** Values of `include` that need no report: the client gets them anyway, or {@link readLogprobs} reads them. */
const granted = ['reasoning.encrypted_content', 'message.output_text.logprobs']

export function decodeRequest(body: JsonObject, head: RequestHead, losses: Losses): ModelRequest {
  const fields = new Members(body)
  const request = emptyRequest(head.model, head.streaming)
  // Metadata are only repeated in the answer, which the gateway does itself.
  for (const known of ['model', 'stream', 'stream_options', 'metadata']) fields.value(known)
  readParameters(fields, { ...parameters, maxOutputTokens: 'max_output_tokens' }, request, losses)
  readLogprobs(fields, request, losses)
  request.tools = readTools(fields, losses)
  request.toolChoice = readChoice(fields, losses)
  request.parallelToolCalls = fields.flag('parallel_tool_calls')
  if (request.parallelToolCalls === false) losses.see('parallel_tool_calls')
  const text = fields.members('text')
  request.format = readFormat(text?.members('format'), losses)
  if (text) readParameters(text, { verbosity: 'verbosity' }, request, losses)
  readReasoning(fields.members('reasoning'), request, losses)
  readInput(fields, request, losses)

  for (const name of stored) if (fields.value(name) !== undefined) losses.see('stored_state', name)
  if (fields.flag('store')) losses.see('hint', 'store')
  // `disabled` is the default, and asks for nothing.
  if (fields.says('truncation') && fields.value('truncation') !== 'disabled') losses.see('hint', 'truncation')
  for (const name of hints) if (fields.says(name)) losses.see('hint', name)
  for (const name of specials) if (fields.says(name) && fields.value(name) !== false) losses.see('special', name)
  for (const name of fields.rest()) losses.see('unknown', name)
  return request
}

function readLogprobs(fields: Members, request: ModelRequest, losses: Losses): void {
  const included = fields.strings('include') ?? []
  const alternatives = fields.count('top_logprobs') ?? 0
  if (included.includes('message.output_text.logprobs')) {
    request.logprobs = alternatives
    losses.see('logprobs')
  }
  // Without `include` they would not be in the answer.
  else if (alternatives > 0) losses.see('hint', 'top_logprobs')
  if (included.some((name) => !granted.includes(name))) losses.see('hint', 'include')
}

function readReasoning(wish: Members | undefined, { reasoning }: ModelRequest, losses: Losses): void {
  if (!wish) return
  if ((reasoning.effort = wish.string('effort')) !== undefined) losses.see('reasoning_effort')
  if ((wish.string('summary') ?? wish.string('generate_summary')) !== undefined) {
    reasoning.visible = true
    losses.see('reasoning_visible')
  }
}

function readChoice(fields: Members, losses: Losses): ToolChoice | undefined {
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
    return { mode: 'named', name: choice.needString('name') }
  }
  if (type !== 'allowed_tools') {
    losses.see('server_tool', 'tool_choice')
    return undefined
  }
  losses.see('allowed_tools')
  const allowed = (choice.list('tools') ?? []).map((tool) => {
    tool.ignore('type')
    return tool.needString('name')
  })
  return { mode: choice.string('mode') === 'required' ? 'required' : 'auto', allowed }
}

function readFormat(format: Members | undefined, losses: Losses): OutputFormat | undefined {
  const type = format?.string('type')
  if (!format || type === 'text') return undefined
  if (type === 'json_object') {
    losses.see('json_object')
    return { type }
  }
  if (type !== 'json_schema') throw invalid(format.at('type'), 'text, json_object or json_schema')
  losses.see('json_schema')
  return {
    type,
    name: format.needString('name'),
    description: format.string('description'),
    schema: format.json('schema') ?? {},
    strict: format.flag('strict')
  }
}
