// Writes a generateContent request for an upstream. The model and whether to stream are in the path instead.
import type { Target } from '../canonical/codec.ts'
import type { Losses } from '../canonical/losses.ts'
import { writeParameters } from '../canonical/parameters.ts'
import { budgetOf, effortOf, isEffort } from '../canonical/reasoning.ts'
import { offered } from '../canonical/request.ts'
import type { ModelRequest, OutputFormat, Tool, ToolChoice } from '../canonical/request.ts'
import type { Traits } from '../canonical/traits.ts'
import { invalid } from '../canonical/untranslatable.ts'
import { writeConversation } from './contents-encode.ts'
import { parameters } from './parameters.ts'
import { toGemini } from './schema-encode.ts'

/** The most stop sequences that the vendor accepts. */
const mostStops = 5

type Body = Record<string, unknown>

export function encodeRequest(request: ModelRequest, { traits }: Target, losses: Losses): Body {
  if (request.stop.length > mostStops)
    throw losses.refusal(
      'stop',
      `has more than ${mostStops} sequences, which the channel that serves this model cannot take`
    )
  const { system, contents } = writeConversation(request, traits, losses)
  const tools = offered(request)
  const body: Body = { contents }
  if (system.length > 0) body['systemInstruction'] = { parts: system }
  if (tools.length > 0) {
    body['tools'] = [{ functionDeclarations: tools.map((tool) => writeTool(tool, losses)) }]
    if (request.toolChoice) body['toolConfig'] = { functionCallingConfig: writeChoice(request.toolChoice) }
  }
  const config = writeConfig(request, traits, losses)
  if (Object.keys(config).length > 0) body['generationConfig'] = config
  return body
}

function writeTool({ name, description, parameters }: Tool, losses: Losses): Body {
  const { schema, lost } = toGemini(parameters)
  for (const keyword of lost) losses.dropName(`${losses.placeOf('tools')}.${keyword}`)
  return { name, ...(description !== undefined && { description }), ...(schema && { parameters: schema }) }
}

const modes = { auto: 'AUTO', none: 'NONE', required: 'ANY' } as const

function writeChoice(choice: ToolChoice): Body {
  return choice.mode === 'named' ? { mode: 'ANY', allowedFunctionNames: [choice.name] } : { mode: modes[choice.mode] }
}

function writeConfig(request: ModelRequest, traits: Traits, losses: Losses): Body {
  const config: Body = {}
  writeParameters(config, parameters, request)
  if (request.stop.length > 0) config['stopSequences'] = request.stop
  if (request.logprobs !== undefined) {
    config['responseLogprobs'] = true
    if (request.logprobs > 0) config['logprobs'] = request.logprobs
  }
  if (request.format) Object.assign(config, writeFormat(request.format))
  const thinking = writeThinking(request, traits, losses)
  if (thinking) config['thinkingConfig'] = thinking
  return config
}

function writeFormat(format: OutputFormat): Body {
  return {
    responseMimeType: 'application/json',
    ...(format.type === 'json_schema' && { responseJsonSchema: format.schema })
  }
}

const levels = {
  none: 'MINIMAL',
  minimal: 'MINIMAL',
  low: 'LOW',
  medium: 'MEDIUM',
  high: 'HIGH',
  xhigh: 'HIGH',
  max: 'HIGH'
} as const

function writeThinking({ reasoning, maxOutputTokens }: ModelRequest, traits: Traits, losses: Losses): Body | undefined {
  if (reasoning.effort !== undefined && !isEffort(reasoning.effort))
    throw invalid(losses.placeOf('reasoning_effort'), 'none, minimal, low, medium, high, xhigh or max')
  const longest = maxOutputTokens ?? traits.maxOutputTokens
  const thinking: Body = {}
  const tokens = traits.thinking === 'budget' ? budgetOf(reasoning, longest) : undefined
  const effort = traits.thinking === 'budget' ? undefined : effortOf(reasoning, longest)
  if (tokens !== undefined) thinking['thinkingBudget'] = tokens
  if (effort !== undefined && isEffort(effort)) thinking['thinkingLevel'] = levels[effort]
  // In a protocol that always shows thoughts, a client that asks for thinking expects to see them.
  const wanted = reasoning.effort !== undefined && reasoning.effort !== 'none'
  if (reasoning.visible ?? wanted) thinking['includeThoughts'] = true
  return Object.keys(thinking).length > 0 ? thinking : undefined
}
