// Writes a Messages request for an Anthropic upstream.
import { writeMark } from '../canonical/cache-mark.ts'
import type { Target } from '../canonical/codec.ts'
import { isBlank } from '../canonical/conversation.ts'
import type { Losses } from '../canonical/losses.ts'
import { budgetOf, effortOf, isEffort } from '../canonical/reasoning.ts'
import { offered } from '../canonical/request.ts'
import type { ModelRequest, Tool } from '../canonical/request.ts'
import type { Traits } from '../canonical/traits.ts'
import { invalid } from '../canonical/untranslatable.ts'
import { writeConversation } from './messages-encode.ts'
import type { Message } from './messages-encode.ts'
import { closeSchema, hasMaps } from '../canonical/closed-schema.ts'

/** The protocol requires a limit. This is sent when neither the client nor the configuration gives one. */
const usualMaxTokens = 8192
const leastBudget = 1024

const openMaps =
  'has objects with members of any name, which the channel that serves this model cannot be held to: name the members, ' +
  'or use a list of names and values'

type Body = Record<string, unknown>

export function encodeRequest(request: ModelRequest, { model, traits }: Target, losses: Losses): Body {
  const maxTokens = request.maxOutputTokens ?? traits.maxOutputTokens ?? usualMaxTokens
  const { system, messages } = writeConversation(request, losses)
  const body: Body = { model, max_tokens: maxTokens, ...writeMark(request) }
  if (system.length > 0) body['system'] = system
  body['messages'] = messages
  if (request.streaming) body['stream'] = true
  const thinks = writeThinking(body, request, { messages, maxTokens, traits }, losses)
  writeSampling(body, request, thinks, traits, losses)
  const stop = request.stop.filter((sequence) => !isBlank(sequence))
  if (stop.length < request.stop.length) losses.drop('stop')
  if (stop.length > 0) body['stop_sequences'] = stop
  writeTools(body, request, losses)
  if (request.format?.type === 'json_schema') {
    const { schema } = request.format
    if (hasMaps(schema)) throw losses.refusal('json_schema', openMaps)
    body['output_config'] = {
      ...(body['output_config'] as Body | undefined),
      format: { type: 'json_schema', schema: closeSchema(schema) }
    }
  }
  const user = request.user ?? request.safetyIdentifier
  if (user !== undefined) body['metadata'] = { user_id: user }
  if (request.serviceTier === 'default') body['service_tier'] = 'standard_only'
  else losses.drop('service_tier')
  return body
}

/** What decides how a model can be told to think. */
interface Surroundings {
  messages: readonly Message[]
  maxTokens: number
  traits: Traits
}

/** Writes whether and how much the model is to think. Returns true when thinking is enabled. */
function writeThinking(
  body: Body,
  request: ModelRequest,
  { messages, maxTokens, traits }: Surroundings,
  losses: Losses
): boolean {
  const { reasoning, toolChoice } = request
  if (reasoning.effort !== undefined && !isEffort(reasoning.effort))
    throw invalid(losses.placeOf('reasoning_effort'), 'none, minimal, low, medium, high, xhigh or max')
  // The vendor refuses to combine thinking with a forced call.
  const forced = toolChoice?.mode === 'required' || toolChoice?.mode === 'named'
  const display = { display: reasoning.visible === false ? 'omitted' : 'summarized' }
  if (traits.thinking === 'budget') {
    const budget = budgetOf(reasoning, maxTokens)
    if (budget === 0) body['thinking'] = { type: 'disabled' }
    if (budget === undefined || budget === 0) return false
    const fitting = Math.min(Math.max(budget, leastBudget), maxTokens - 1)
    if (forced || fitting < leastBudget || !provesItsCalls(messages)) {
      losses.drop('reasoning_effort')
      losses.drop('reasoning_budget')
      return false
    }
    // Models with a budget show their thoughts by default, and not all of them accept `display`.
    body['thinking'] = { type: 'enabled', budget_tokens: fitting, ...(reasoning.visible !== undefined && display) }
    return true
  }
  const effort = effortOf(reasoning, request.maxOutputTokens ?? traits.maxOutputTokens)
  if (effort === 'none') {
    body['thinking'] = { type: 'disabled' }
    return false
  }
  if (effort !== undefined) body['output_config'] = { effort: effort === 'minimal' ? 'low' : effort }
  if (forced || (effort === undefined && reasoning.visible !== true)) return false
  // Newer models hide their thoughts by default.
  body['thinking'] = { type: 'adaptive', ...display }
  return true
}

/**
 * Whether every turn of the model with calls, since the last user message without results, begins with thoughts. Models
 * with a budget require that.
 */
function provesItsCalls(messages: readonly Message[]): boolean {
  const holds = ({ content }: Message, type: string): boolean => content.some((block) => block['type'] === type)
  const lastUser = messages.findLastIndex((message) => message.role === 'user' && !holds(message, 'tool_result'))
  return messages.slice(lastUser + 1).every((message) => {
    const type = message.content[0]!['type']
    return !holds(message, 'tool_use') || type === 'thinking' || type === 'redacted_thinking'
  })
}

function writeSampling(
  body: Body,
  { temperature, topP, topK }: ModelRequest,
  thinks: boolean,
  { sampling = 'one' }: Traits,
  losses: Losses
): void {
  const none = thinks || sampling === 'none'
  if (none || temperature === undefined) losses.drop('temperature')
  else body['temperature'] = Math.min(temperature, 1)
  if (none || topP === undefined || (sampling === 'one' && temperature !== undefined)) losses.drop('top_p')
  else body['top_p'] = topP
  if (none || topK === undefined) losses.drop('top_k')
  else body['top_k'] = topK
}

function writeTools(body: Body, request: ModelRequest, losses: Losses): void {
  const { toolChoice, parallelToolCalls } = request
  const tools = offered(request)
  if (tools.length === 0) return
  body['tools'] = tools.map((tool) => writeTool(tool, losses))
  const oneAtATime = parallelToolCalls === false && { disable_parallel_tool_use: true }
  switch (toolChoice?.mode) {
    case 'named':
      body['tool_choice'] = { type: 'tool', name: toolChoice.name, ...oneAtATime }
      break
    case 'required':
      body['tool_choice'] = { type: 'any', ...oneAtATime }
      break
    case 'none':
      body['tool_choice'] = { type: 'none' }
      break
    default:
      if (toolChoice || oneAtATime) body['tool_choice'] = { type: 'auto', ...oneAtATime }
  }
}

/** Writes a tool. A schema with objects of free names cannot be strict, because strict schemas close every object. */
function writeTool(tool: Tool, losses: Losses): Body {
  const { name, description, parameters, strict } = tool
  const schema = { type: 'object', ...(parameters ?? { properties: {} }) }
  // A tool without a schema takes no arguments.
  const closes = strict === true && !hasMaps({ properties: {}, ...schema })
  if (strict && !closes) losses.drop('tool_strict')
  return {
    name,
    ...(description && { description }),
    input_schema: closes ? closeSchema(schema) : schema,
    ...(closes && { strict }),
    ...writeMark(tool)
  }
}
