// Reads and checks a request for contents, as Gemini does.
import { hash } from 'node:crypto'
import type { Call } from '../endpoint.ts'
import { takeDirective } from '../directive.ts'
import { between, integer, isBoolean, isString, oneOf, parseObject } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { Refusal } from '../refusal.ts'
import type { Conversation } from '../words/composition.ts'
import { readContent, readContents, tokensOf } from './contents.ts'
import type { Content } from './contents.ts'
import { allowed, listOf, membersOf, wrong } from './fields.ts'
import { modelOf } from './models.ts'
import type { Modality, Part } from './parts.ts'
import { jsonSchemaOf } from './schema.ts'
import { callsOf, readTools } from './tools.ts'

/** A request that passed the checks. */
export interface GenerateRequest extends Conversation {
  candidates: number
  /** Whether thoughts are shown. They are counted in any case. */
  thoughts: boolean
  /** Whether the answer has an image, too. */
  image: boolean
  /** The tokens of the prompt, by modality. */
  modalities: ReadonlyMap<Modality, number>
}

const tokensPerPrompt = 3
const usualReasoning = 'Let me think about what was asked before I answer it.'
const bodyMembers = [
  'contents',
  'systemInstruction',
  'tools',
  'toolConfig',
  'safetySettings',
  'generationConfig',
  'cachedContent',
  'labels',
  'serviceTier',
  'store',
  'continuationToken',
  'model'
]
const configMembers = [
  'temperature',
  'topP',
  'topK',
  'maxOutputTokens',
  'stopSequences',
  'seed',
  'candidateCount',
  'presencePenalty',
  'frequencyPenalty',
  'responseLogprobs',
  'logprobs',
  'responseMimeType',
  'responseSchema',
  'responseJsonSchema',
  'responseModalities',
  'thinkingConfig',
  'speechConfig',
  'imageConfig',
  'mediaResolution',
  'audioTranscriptionConfig',
  'enableEnhancedCivicAnswers'
]

/** @throws Refusal */
export function readGenerateRequest(call: Call): GenerateRequest {
  return readBody(parseObject(call.body), modelOf(call))
}

/**
 * Reads a request to count tokens: it has contents only, or a whole request inside.
 * @throws Refusal
 */
export function readCountRequest(call: Call): GenerateRequest {
  const { generateContentRequest: inner, ...body } = membersOf(parseObject(call.body), '', [
    'generateContentRequest',
    ...bodyMembers
  ])
  return readBody(inner ?? body, modelOf(call))
}

function readBody(given: unknown, model: string): GenerateRequest {
  const body = membersOf(given, '', bodyMembers)
  const contents = readContents(body, model)
  const system =
    body['systemInstruction'] === undefined
      ? []
      : [readContent(body['systemInstruction'], 'GenerateContentRequest.system_instruction')]
  const toolbox = readTools(body)
  const config = readConfig(body)

  const last = contents.at(-1)!
  const asked = contents.findLast(({ role, parts }) => role === 'user' && parts.some(({ kind }) => kind === 'text'))
  const text = textOf(asked, 'text')
  const { directive, prompt } = takeDirective(text, model, 'contents')
  const modalities = tokensOf([...system, ...contents])
  modalities.set('TEXT', modalities.get('TEXT')! + tokensPerPrompt + toolbox.tokens)
  const promptTokens = [...modalities.values()].reduce((sum, tokens) => sum + tokens, 0)
  const answered = textOf(last, 'response')
  return {
    ...config.limits,
    model,
    prompt,
    promptTokens,
    modalities,
    directive: config.thinks ? { reasoning: usualReasoning, ...directive } : directive,
    toolResult: last.parts.some(({ kind }) => kind === 'response') ? answered : undefined,
    calls: callsOf(toolbox, last === asked ? directive : {}),
    digest: hash(
      'sha1',
      ['content', model, contents.length, promptTokens, text.slice(0, 4096), answered.slice(0, 4096)].join('\0')
    )
  }
}

function textOf(content: Content | undefined, kind: Part['kind']): string {
  return (
    content?.parts
      .filter((part) => part.kind === kind)
      .map(({ text }) => text)
      .join('\n') ?? ''
  )
}

type Limits = Pick<GenerateRequest, 'maxTokens' | 'stop' | 'json' | 'candidates' | 'thoughts' | 'image'>

function readConfig(body: Fields): { limits: Limits; thinks: boolean } {
  const path = 'generation_config'
  const config = membersOf(body['generationConfig'] ?? {}, path, configMembers)
  allowed(config, path, 'temperature', between(0, 2), 'a number from 0 to 2')
  allowed(config, path, 'topP', between(0, 1), 'a number from 0 to 1')
  const stop = listOf(config, path, 'stopSequences')
  if (stop.length > 5 || !stop.every((sequence) => isString(sequence) && sequence !== ''))
    throw wrong('GenerateContentRequest.generation_config.stop_sequences', 'Expected at most 5 texts.')
  const modalities = listOf(config, path, 'responseModalities')
  if (!modalities.every(oneOf('TEXT', 'IMAGE')))
    throw new Refusal(400, 'The requested combination of response modalities is not supported by the model.')
  const thinking = membersOf(config['thinkingConfig'] ?? {}, `${path}.thinking_config`, [
    'includeThoughts',
    'thinkingBudget',
    'thinkingLevel'
  ])
  const thoughts = allowed(thinking, `${path}.thinking_config`, 'includeThoughts', isBoolean, 'a boolean') ?? false
  const budget = allowed(
    thinking,
    `${path}.thinking_config`,
    'thinkingBudget',
    integer(-1, 1_000_000),
    'an integer of at least -1'
  )
  const level = allowed(
    thinking,
    `${path}.thinking_config`,
    'thinkingLevel',
    oneOf('MINIMAL', 'LOW', 'MEDIUM', 'HIGH', 'minimal', 'low', 'medium', 'high'),
    'MINIMAL, LOW, MEDIUM or HIGH'
  )
  return {
    limits: {
      maxTokens: allowed(
        config,
        path,
        'maxOutputTokens',
        integer(1, Number.MAX_SAFE_INTEGER),
        'an integer of at least 1'
      ),
      stop: stop as string[],
      json: readFormat(config),
      candidates: allowed(config, path, 'candidateCount', integer(1, 8), 'an integer from 1 to 8') ?? 1,
      thoughts,
      image: modalities.includes('IMAGE')
    },
    thinks: budget !== 0 && (thoughts || budget !== undefined || level !== undefined)
  }
}

function readFormat(config: Fields): { schema: unknown } | undefined {
  const type = allowed(config, 'generation_config', 'responseMimeType', isString, 'a string') ?? 'text/plain'
  if (!['text/plain', 'application/json', 'text/x.enum'].includes(type))
    throw wrong(
      'GenerateContentRequest.generation_config.response_mime_type',
      'allowed mimetypes are `text/plain`, `application/json` and `text/x.enum`.'
    )
  const { responseSchema: own, responseJsonSchema: schema } = config
  if (own !== undefined && schema !== undefined)
    throw new Refusal(400, 'response_schema and response_json_schema may not both be set.')
  if ((own ?? schema) !== undefined && type === 'text/plain')
    throw new Refusal(400, 'A response schema is only supported with response_mime_type application/json.')
  if (type === 'text/plain') return undefined
  return { schema: own === undefined ? schema : jsonSchemaOf(own, 'generation_config.response_schema') }
}
