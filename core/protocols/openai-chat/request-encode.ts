// Writes a chat completion request for an upstream.
import type { Target } from '../canonical/codec.ts'
import { sayingJson } from '../canonical/conversation.ts'
import type { Losses } from '../canonical/losses.ts'
import { writeParameters } from '../canonical/parameters.ts'
import { effortOf } from '../canonical/reasoning.ts'
import { offered } from '../canonical/request.ts'
import type { ModelRequest, OutputFormat, Tool, ToolChoice } from '../canonical/request.ts'
import { writeMessages } from './messages-encode.ts'
import { parameters } from './parameters.ts'

/** The most stop sequences that the vendor accepts. */
const mostStops = 4

export function encodeRequest(
  request: ModelRequest,
  { model, traits }: Target,
  losses: Losses
): Record<string, unknown> {
  if (request.stop.length > mostStops)
    throw losses.refusal(
      'stop',
      `has more than ${mostStops} sequences, which the channel that serves this model cannot take`
    )
  const effort = effortOf(request.reasoning, request.maxOutputTokens ?? traits.maxOutputTokens)
  // Not every compatible upstream can be told that only some tools are allowed.
  const tools = offered(request)
  const body: Record<string, unknown> = { model, messages: writeMessages(sayingJson(request), traits, losses) }
  const add = (key: string, value: unknown): void => {
    if (value !== undefined) body[key] = value
  }
  if (request.streaming) {
    body['stream'] = true
    if (traits.streamOptions !== false) body['stream_options'] = { include_usage: true }
  }
  add(traits.maxTokensMember ?? 'max_completion_tokens', request.maxOutputTokens)
  writeParameters(body, parameters, request)
  if (request.stop.length > 0) body['stop'] = request.stop
  if (request.logprobs !== undefined) {
    body['logprobs'] = true
    if (request.logprobs > 0) body['top_logprobs'] = request.logprobs
  }
  add('reasoning_effort', effort)
  if (request.format) body['response_format'] = writeFormat(request.format)
  if (tools.length > 0) {
    body['tools'] = tools.map(writeTool)
    add('tool_choice', writeChoice(request.toolChoice))
    add('parallel_tool_calls', request.parallelToolCalls)
  }
  return body
}

function writeTool({ name, description, parameters, strict }: Tool): unknown {
  return {
    type: 'function',
    function: {
      name,
      ...(description !== undefined && { description }),
      parameters: parameters ?? { type: 'object', properties: {} },
      ...(strict !== undefined && { strict })
    }
  }
}

function writeChoice(choice: ToolChoice | undefined): unknown {
  return choice?.mode === 'named' ? { type: 'function', function: { name: choice.name } } : choice?.mode
}

function writeFormat(format: OutputFormat): unknown {
  if (format.type === 'json_object') return { type: 'json_object' }
  const { name, description, schema, strict } = format
  return {
    type: 'json_schema',
    json_schema: {
      name,
      ...(description !== undefined && { description }),
      schema,
      ...(strict !== undefined && { strict })
    }
  }
}
