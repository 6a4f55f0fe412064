// Writes a Converse request. The model is in its path.
import { closeSchema, hasMaps } from '../canonical/closed-schema.ts'
import type { Target } from '../canonical/codec.ts'
import { isBlank } from '../canonical/conversation.ts'
import type { Losses } from '../canonical/losses.ts'
import { writeParameters } from '../canonical/parameters.ts'
import { budgetOf, effortOf, isEffort } from '../canonical/reasoning.ts'
import type { ModelRequest } from '../canonical/request.ts'
import type { Traits } from '../canonical/traits.ts'
import { invalid } from '../canonical/untranslatable.ts'
import { writeConversation } from './messages-encode.ts'
import type { Message } from './messages-encode.ts'
import { writeTools } from './tools-encode.ts'

const leastBudget = 1024
/** For budgets, where neither the client nor the configuration says how long answers may be. */
const usualMaxTokens = 8192

const openMaps =
  'has objects with members of any name, which the channel that serves this model cannot be held to: name the members, ' +
  'or use a list of names and values'

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ServiceTier.html */
const tiers: ReadonlySet<string> = new Set(['default', 'priority', 'flex', 'reserved'])
/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html, `requestMetadata` */
const label = /^[a-zA-Z0-9\s:_@$#=/+,.-]{1,256}$/
const mostLabels = 16

type Body = Record<string, unknown>

export function encodeRequest(request: ModelRequest, { traits }: Target, losses: Losses): Body {
  const { toolConfig, instruction } = writeTools(request, losses)
  const { system, messages } = writeConversation(request, losses)
  if (instruction !== undefined) system.push({ text: instruction })
  const body: Body = { messages }
  if (system.length > 0) body['system'] = system
  const inference: Body = {}
  writeParameters(inference, { maxOutputTokens: 'maxTokens' }, request)
  const thinks = writeThinking(body, inference, request, { messages, traits }, losses)
  writeSampling(inference, request, thinks, traits, losses)
  const stop = request.stop.filter((sequence) => !isBlank(sequence))
  if (stop.length < request.stop.length) losses.drop('stop')
  if (stop.length > 0) inference['stopSequences'] = stop
  if (Object.keys(inference).length > 0) body['inferenceConfig'] = inference
  if (toolConfig) body['toolConfig'] = toolConfig
  writeFormat(body, request, losses)
  if (traits.guardrail !== undefined) body['guardrailConfig'] = guardrailOf(traits.guardrail)
  if (request.serviceTier !== undefined && tiers.has(request.serviceTier))
    body['serviceTier'] = { type: request.serviceTier }
  else losses.drop('service_tier')
  writeMetadata(body, request, losses)
  return body
}

/** Writes how much the model is to think. Returns true when it may not be told how to sample. */
function writeThinking(
  body: Body,
  inference: Body,
  { reasoning, toolChoice, maxOutputTokens }: ModelRequest,
  { messages, traits }: { messages: readonly Message[]; traits: Traits },
  losses: Losses
): boolean {
  if (reasoning.effort !== undefined && !isEffort(reasoning.effort))
    throw invalid(losses.placeOf('reasoning_effort'), 'none, minimal, low, medium, high, xhigh or max')
  const maxTokens = maxOutputTokens ?? traits.maxOutputTokens
  if (traits.thinking === 'budget') {
    const budget = budgetOf(reasoning, maxTokens)
    if (budget === undefined || budget === 0) return false
    const longest = maxTokens ?? Math.max(usualMaxTokens, budget * 2)
    const fitting = Math.min(Math.max(budget, leastBudget), longest - 1)
    // The models that have a budget refuse to combine it with a forced call.
    const forced = toolChoice?.mode === 'required' || toolChoice?.mode === 'named'
    if (forced || fitting < leastBudget || !provesItsCalls(messages)) {
      losses.drop('reasoning_effort')
      losses.drop('reasoning_budget')
      return false
    }
    inference['maxTokens'] = longest
    body['additionalModelRequestFields'] = { thinking: { type: 'enabled', budget_tokens: fitting } }
    return true
  }
  const effort = effortOf(reasoning, maxTokens)
  if (effort === undefined || effort === 'none') return false
  body['outputConfig'] = { effort: effort === 'minimal' ? 'low' : effort }
  return true
}

/**
 * Whether every turn of the model with calls, since the last user message without results, begins with thoughts. Models
 * with a budget require that.
 */
function provesItsCalls(messages: readonly Message[]): boolean {
  const holds = ({ content }: Message, block: string): boolean => content.some((each) => block in each)
  const lastUser = messages.findLastIndex((message) => message.role === 'user' && !holds(message, 'toolResult'))
  return messages
    .slice(lastUser + 1)
    .every((message) => !holds(message, 'toolUse') || 'reasoningContent' in message.content[0]!)
}

function writeSampling(
  inference: Body,
  { temperature, topP }: ModelRequest,
  thinks: boolean,
  { sampling = 'one' }: Traits,
  losses: Losses
): void {
  const none = thinks || sampling === 'none'
  if (none || temperature === undefined) losses.drop('temperature')
  else inference['temperature'] = Math.min(temperature, 1)
  if (none || topP === undefined || (sampling === 'one' && temperature !== undefined)) losses.drop('top_p')
  else inference['topP'] = topP
}

/** Writes the schema of the answer, which is a text here. */
function writeFormat(body: Body, { format }: ModelRequest, losses: Losses): void {
  if (format?.type !== 'json_schema') return
  const { name, description, schema } = format
  if (hasMaps(schema)) throw losses.refusal('json_schema', openMaps)
  const jsonSchema = { schema: JSON.stringify(closeSchema(schema)), name, ...(description && { description }) }
  body['outputConfig'] = {
    ...(body['outputConfig'] as Body | undefined),
    textFormat: { type: 'json_schema', structure: { jsonSchema } }
  }
}

/** `guardrail`: its id or ARN, a colon, and its version. */
function guardrailOf(guardrail: string): Body {
  const colon = guardrail.lastIndexOf(':')
  return { guardrailIdentifier: guardrail.slice(0, colon), guardrailVersion: guardrail.slice(colon + 1) }
}

function writeMetadata(body: Body, { metadata }: ModelRequest, losses: Losses): void {
  if (!metadata) return
  const fitting = Object.entries(metadata).filter(
    ([key, value]) => label.test(key) && typeof value === 'string' && label.test(value)
  )
  const taken = fitting.slice(0, mostLabels)
  if (taken.length < Object.keys(metadata).length) losses.drop('metadata')
  if (taken.length > 0) body['requestMetadata'] = Object.fromEntries(taken)
}
