// Reads a client's Messages request (Anthropic, API reference, "Create a Message").
import { readMark } from '../canonical/cache-mark.ts'
import type { RequestHead } from '../canonical/codec.ts'
import type { Losses } from '../canonical/losses.ts'
import { Members } from '../canonical/members.ts'
import { readParameters } from '../canonical/parameters.ts'
import { emptyRequest } from '../canonical/request.ts'
import { readThinking } from '../canonical/thinking.ts'
import { madeStrict, nameless } from '../canonical/strict.ts'
import type { ModelRequest, Tool, ToolChoice } from '../canonical/request.ts'
import { invalid } from '../canonical/untranslatable.ts'
import type { JsonObject } from '../object.ts'
import { hints, specials } from './capabilities.ts'
import { readMessages, readSystem } from './messages-decode.ts'

export function decodeRequest(body: JsonObject, head: RequestHead, losses: Losses): ModelRequest {
  const fields = new Members(body)
  const request = emptyRequest(head.model, head.streaming)
  for (const known of ['model', 'stream']) fields.value(known)
  readParameters(
    fields,
    { maxOutputTokens: 'max_tokens', temperature: 'temperature', topP: 'top_p', topK: 'top_k' },
    request,
    losses
  )
  request.stop = fields.strings('stop_sequences') ?? []
  if (request.stop.length > 0) losses.see('stop')
  const metadata = fields.members('metadata')
  if (metadata) readParameters(metadata, { user: 'user_id' }, request, losses)
  // `auto` is the default, and asks for nothing.
  if (fields.string('service_tier') === 'standard_only') {
    request.serviceTier = 'default'
    losses.see('service_tier')
  }
  request.tools = (fields.list('tools') ?? []).map((tool) => readTool(tool, losses))
  const choice = fields.members('tool_choice')
  request.toolChoice = readChoice(choice, losses)
  if (choice?.flag('disable_parallel_tool_use')) {
    request.parallelToolCalls = false
    losses.see('parallel_tool_calls')
  }
  readThinking(fields.members('thinking'), request, losses)
  readOutput(fields.members('output_config'), request, losses)
  Object.assign(request, readMark(fields, losses))
  request.turns = [...readSystem(fields, losses), ...readMessages(fields, losses)]

  for (const name of hints) if (fields.says(name)) losses.see('hint', name)
  for (const name of specials) if (fields.says(name)) losses.see('special', name)
  for (const name of fields.rest()) losses.see('unknown', name)
  return request
}

function readTool(tool: Members, losses: Losses): Tool {
  const type = tool.string('type') ?? 'custom'
  const mark = readMark(tool, losses)
  // Tools with a dated type are run by the provider, or have a schema that only its models know.
  if (type !== 'custom') {
    losses.see('server_tool', tool.place)
    return {
      name: tool.string('name') ?? type,
      description: undefined,
      parameters: undefined,
      strict: undefined,
      custom: false
    }
  }
  losses.see('tools')
  const parameters = tool.json('input_schema')
  const head = { name: tool.needString('name'), description: tool.string('description'), custom: false, ...mark }
  const strict = tool.flag('strict')
  if (!strict) return { ...head, parameters, strict }
  // Strict schemas may have optional members here, but not in other protocols.
  const all = parameters && madeStrict(parameters)
  losses.see(all ? 'tool_strict' : 'hint', tool.at('strict'))
  return { ...head, parameters: all ?? parameters, strict: all ? true : undefined }
}

function readChoice(choice: Members | undefined, losses: Losses): ToolChoice | undefined {
  const type = choice?.string('type')
  if (!choice || type === 'auto') return choice && { mode: 'auto' }
  losses.see('tool_choice')
  if (type === 'any') return { mode: 'required' }
  if (type === 'none') return { mode: 'none' }
  if (type === 'tool') return { mode: 'named', name: choice.needString('name') }
  throw invalid(choice.at('type'), 'auto, any, tool or none')
}

function readOutput(output: Members | undefined, request: ModelRequest, losses: Losses): void {
  const effort = output?.string('effort')
  if (effort !== undefined && request.reasoning.effort === undefined) {
    request.reasoning.effort = effort
    losses.see('reasoning_effort')
    // In other protocols effort asks for thoughts, which this request has turned off.
  } else if (effort !== undefined) losses.see('hint', output!.at('effort'))
  const format = output?.members('format')
  if (!format) return
  if (format.string('type') !== 'json_schema') throw invalid(format.at('type'), 'json_schema')
  losses.see('json_schema')
  request.format = nameless(format.json('schema') ?? {})
}
