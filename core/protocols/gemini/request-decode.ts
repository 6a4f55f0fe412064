// Reads a client's generateContent request (Google, Gemini API reference, "Generating content").
import type { RequestHead } from '../canonical/codec.ts'
import type { Losses } from '../canonical/losses.ts'
import type { Members } from '../canonical/members.ts'
import { readParameters } from '../canonical/parameters.ts'
import { emptyRequest } from '../canonical/request.ts'
import { nameless } from '../canonical/strict.ts'
import type { ModelRequest, Tool, ToolChoice } from '../canonical/request.ts'
import { invalid } from '../canonical/untranslatable.ts'
import type { JsonObject } from '../object.ts'
import { configHints, hints, specials } from './capabilities.ts'
import { readContents, readSystem } from './contents-decode.ts'
import { parameters } from './parameters.ts'
import { fromGemini } from './schema-decode.ts'
import { readMembers } from './spelling.ts'

export function decodeRequest(body: JsonObject, head: RequestHead, losses: Losses): ModelRequest {
  const fields = readMembers(body)
  const request = emptyRequest(head.model, head.streaming)
  fields.value('model')
  request.tools = (fields.list('tools') ?? []).flatMap((tool) => readTool(tool, losses))
  request.toolChoice = readChoice(fields.members('toolConfig')?.members('functionCallingConfig'), losses)
  const config = fields.members('generationConfig')
  if (config) readConfig(config, request, losses)
  // In this protocol thoughts are hidden unless the client asks for them.
  request.reasoning.visible ??= false
  request.turns = [...readSystem(fields.members('systemInstruction'), losses), ...readContents(fields, losses)]

  for (const name of hints) if (fields.says(name)) losses.see('hint', name)
  for (const name of specials) if (fields.says(name)) losses.see('special', name)
  for (const name of fields.rest()) losses.see('unknown', name)
  return request
}

function readConfig(config: Members, request: ModelRequest, losses: Losses): void {
  readParameters(config, parameters, request, losses)
  request.stop = config.strings('stopSequences') ?? []
  if (request.stop.length > 0) losses.see('stop')
  const alternatives = config.count('logprobs')
  if (config.flag('responseLogprobs')) {
    request.logprobs = alternatives ?? 0
    losses.see('logprobs')
  }
  readFormat(config, request, losses)
  readThinking(config.members('thinkingConfig'), request, losses)
  if (config.strings('responseModalities')?.some((modality) => modality.toUpperCase() !== 'TEXT'))
    losses.see('special', config.at('responseModalities'))
  for (const name of configHints) if (config.says(name)) losses.see('hint', config.at(name))
}

function readFormat(config: Members, request: ModelRequest, losses: Losses): void {
  const type = config.string('responseMimeType') ?? 'text/plain'
  const own = config.json('responseSchema')
  const schema = config.json('responseJsonSchema') ?? (own && fromGemini(own))
  if (type === 'text/plain') return
  if (type !== 'application/json') return losses.see('special', config.at('responseMimeType'))
  losses.see(schema ? 'json_schema' : 'json_object')
  request.format = schema ? nameless(schema) : { type: 'json_object' }
}

function readThinking(thinking: Members | undefined, { reasoning }: ModelRequest, losses: Losses): void {
  if (!thinking) return
  const level = thinking.string('thinkingLevel')
  if (level !== undefined && level !== 'THINKING_LEVEL_UNSPECIFIED') {
    reasoning.effort = level.toLowerCase()
    losses.see('reasoning_effort')
  }
  const tokens = thinking.number('thinkingBudget')
  // A negative budget lets the model decide.
  if (tokens !== undefined && tokens >= 0) {
    reasoning.tokens = tokens
    losses.see('reasoning_budget')
  }
  if ((reasoning.visible = thinking.flag('includeThoughts')) !== undefined) losses.see('reasoning_visible')
}

/** Reads a tool. One entry may hold several functions, and also tools that the provider runs. */
function readTool(tool: Members, losses: Losses): Tool[] {
  const functions = (tool.list('functionDeclarations') ?? []).map((declared): Tool => {
    losses.see('tools')
    const own = declared.json('parameters')
    const parameters = declared.json('parametersJsonSchema') ?? (own && fromGemini(own))
    for (const hint of ['response', 'responseJsonSchema', 'behavior'])
      if (declared.value(hint) !== undefined) losses.see('hint', declared.at(hint))
    return {
      name: declared.needString('name'),
      description: declared.string('description'),
      parameters,
      strict: undefined,
      custom: false
    }
  })
  for (const name of tool.unread()) losses.see('server_tool', name)
  return functions
}

function readChoice(config: Members | undefined, losses: Losses): ToolChoice | undefined {
  const mode = config?.string('mode')
  if (!config || mode === undefined || mode === 'MODE_UNSPECIFIED') return undefined
  const allowed = config.strings('allowedFunctionNames') ?? []
  switch (mode.toUpperCase()) {
    case 'NONE':
      losses.see('tool_choice')
      return { mode: 'none' }
    case 'ANY': {
      losses.see('tool_choice')
      if (allowed.length === 1) return { mode: 'named', name: allowed[0]! }
      if (allowed.length === 0) return { mode: 'required' }
      losses.see('allowed_tools')
      return { mode: 'required', allowed }
    }
    // VALIDATED is AUTO with calls that follow their schemas.
    case 'AUTO':
    case 'VALIDATED': {
      if (allowed.length === 0) return { mode: 'auto' }
      losses.see('allowed_tools')
      return { mode: 'auto', allowed }
    }
    default:
      throw invalid(config.at('mode'), 'AUTO, ANY, NONE or VALIDATED')
  }
}
