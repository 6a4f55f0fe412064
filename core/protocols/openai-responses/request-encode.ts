// Writes a Responses request for an upstream.
import type { Target } from '../canonical/codec.ts'
import { sayingJson } from '../canonical/conversation.ts'
import type { Losses } from '../canonical/losses.ts'
import { writeParameters } from '../canonical/parameters.ts'
import { effortOf } from '../canonical/reasoning.ts'
import { byName } from '../canonical/request.ts'
import type { ModelRequest, OutputFormat, Tool, ToolChoice } from '../canonical/request.ts'
import { writeInput } from './input-encode.ts'
import { parameters } from './parameters.ts'

/** The least `max_output_tokens` that the vendor accepts. */
const leastOutput = 16

type Body = Record<string, unknown>

/**
 * Writes the request so that the provider stores nothing: reasoning is returned encrypted, and the client sends it
 * back.
 */
export function encodeRequest(request: ModelRequest, { model, traits }: Target, losses: Losses): Body {
  const body: Body = { model, input: writeInput(sayingJson(request), losses), store: false }
  const add = (key: string, value: unknown): void => {
    if (value !== undefined) body[key] = value
  }
  const include = traits.thinks === false ? [] : ['reasoning.encrypted_content']
  if (request.streaming) body['stream'] = true
  if (request.maxOutputTokens !== undefined) body['max_output_tokens'] = Math.max(leastOutput, request.maxOutputTokens)
  writeParameters(body, parameters, request)
  if (request.logprobs !== undefined) {
    include.push('message.output_text.logprobs')
    body['top_logprobs'] = request.logprobs
  }
  if (include.length > 0) body['include'] = include
  add('reasoning', writeReasoning(request, request.maxOutputTokens ?? traits.maxOutputTokens))
  add('text', writeText(request))
  if (request.tools.length > 0) {
    body['tools'] = request.tools.map(writeTool)
    add('tool_choice', writeChoice(request))
    add('parallel_tool_calls', request.parallelToolCalls)
  }
  add('metadata', request.metadata)
  return body
}

function writeReasoning({ reasoning }: ModelRequest, maxOutputTokens: number | undefined): Body | undefined {
  const effort = effortOf(reasoning, maxOutputTokens)
  // In a protocol that always shows thoughts, a client that sets an effort expects to see them.
  const visible = reasoning.visible ?? (effort !== undefined && effort !== 'none')
  if (effort === undefined && !visible) return undefined
  return { ...(effort !== undefined && { effort }), ...(visible && { summary: 'auto' }) }
}

function writeText({ format, verbosity }: ModelRequest): Body | undefined {
  if (!format && verbosity === undefined) return undefined
  return { ...(format && { format: writeFormat(format) }), ...(verbosity !== undefined && { verbosity }) }
}

function writeFormat(format: OutputFormat): Body {
  if (format.type === 'json_object') return { type: 'json_object' }
  const { type, name, description, schema, strict } = format
  return {
    type,
    name,
    ...(description !== undefined && { description }),
    schema,
    ...(strict !== undefined && { strict })
  }
}

/** Writes a tool. `strict` is always set, as this protocol is strict by default and others are not. */
function writeTool({ name, description, parameters, strict, custom, grammar }: Tool): Body {
  const head = { name, ...(description !== undefined && { description }) }
  if (custom) return { type: 'custom', ...head, ...(grammar && { format: { type: 'grammar', ...grammar } }) }
  return {
    type: 'function',
    ...head,
    parameters: parameters ?? { type: 'object', properties: {} },
    strict: strict ?? false
  }
}

function writeChoice({ toolChoice, tools }: ModelRequest): unknown {
  const choice: ToolChoice | undefined = toolChoice
  if (!choice) return undefined
  const named = byName(tools)
  const typeOf = (name: string): string => (named.get(name)?.custom ? 'custom' : 'function')
  if (choice.mode === 'named') return { type: typeOf(choice.name), name: choice.name }
  if (!choice.allowed) return choice.mode
  return {
    type: 'allowed_tools',
    mode: choice.mode,
    tools: choice.allowed.map((name) => ({ type: typeOf(name), name }))
  }
}
