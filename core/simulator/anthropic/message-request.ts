// Reads and checks a request for a message, as Anthropic does.
import { hash } from 'node:crypto'
import type { Call } from '../endpoint.ts'
import { takeDirective } from '../directive.ts'
import { between, integer, isBoolean, isObject, isString, oneOf, parseObject } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { Refusal } from '../refusal.ts'
import type { Conversation } from '../words/composition.ts'
import { readBlocks, readTtl } from './blocks.ts'
import type { Block } from './blocks.ts'
import { allowed, required, requiredText, wrong } from './fields.ts'
import { callsOf, readTools } from './tools.ts'
import type { Toolbox } from './tools.ts'
import { readTurns, tokensOf } from './turns.ts'
import type { Turn } from './turns.ts'
import { checkMembers } from './version.ts'

/** A request that passed the checks. */
export interface MessageRequest extends Conversation {
  stream: boolean
  /** Whether reasoning is shown without its text. */
  omitted: boolean
  /** Under which lifetime the usage reports tokens that are written to a cache. */
  cacheFor: '5m' | '1h'
}

const tokensPerPrompt = 3
const tokensPerSystem = 4
const usualReasoning = 'Let me think about what was asked before I answer it.'

/**
 * `counting`: only tokens are counted, so `max_tokens` is not required.
 * @throws Refusal
 */
export function readMessageRequest(call: Call, counting = false): MessageRequest {
  const body = parseObject(call.body)
  checkMembers(body, call.headers)
  const model = requiredText(body, '', 'model')
  const maxTokens = counting ? 0 : required(body, '', 'max_tokens', integer(0, 1_000_000), 'greater than or equal to 0')
  const turns = readTurns(body)
  if (call.models && !call.models.includes(model)) throw new Refusal(404, `model: ${model}`)
  const system = readSystem(body)
  const toolbox = readTools(body)
  const thinking = readThinking(body, toolbox, turns, maxTokens, counting)
  checkRest(body)

  const last = turns.findLast(({ role }) => role !== 'system') ?? turns.at(-1)!
  const asked = turns.findLast(({ role, blocks }) => role === 'user' && blocks.some(({ type }) => type === 'text'))
  const text = textOf(asked?.blocks ?? [], 'text')
  const { directive, prompt } = takeDirective(text, model, 'messages')
  const promptTokens =
    turns.reduce((sum, turn) => sum + tokensOf(turn), tokensPerPrompt + toolbox.tokens) +
    system.reduce((sum, { tokens }) => sum + tokens, system.length > 0 ? tokensPerSystem : 0)
  const marked = [...system, ...turns.flatMap(({ blocks }) => blocks)].flatMap(({ cached }) => cached ?? [])
  const whole = allowed(body, '', 'cache_control', isObject, 'a valid dictionary')
  return {
    model,
    prompt,
    promptTokens,
    maxTokens,
    directive: thinking.wanted ? { reasoning: usualReasoning, ...directive } : directive,
    toolResult:
      last.blocks.some(({ type }) => type === 'tool_result') && last !== asked
        ? textOf(last.blocks, 'tool_result')
        : undefined,
    stop: readStop(body),
    calls: callsOf(toolbox, last === asked ? directive : {}),
    json: readFormat(body),
    stream: allowed(body, '', 'stream', isBoolean, 'a valid boolean') ?? false,
    omitted: thinking.omitted,
    cacheFor: marked.includes('1h') || (whole && readTtl(whole, 'cache_control')) === '1h' ? '1h' : '5m',
    digest: hash(
      'sha1',
      [
        'message',
        model,
        turns.length,
        promptTokens,
        text.slice(0, 4096),
        textOf(last.blocks, 'tool_result').slice(0, 4096)
      ].join('\0')
    )
  }
}

function textOf(blocks: readonly Block[], type: string): string {
  return blocks
    .filter((block) => block.type === type)
    .map(({ text }) => text)
    .join('\n')
}

function readSystem({ system }: Fields): Block[] {
  if (system === undefined || system === null || system === '') return []
  return readBlocks(system, 'system', 'system')
}

function readStop(body: Fields): string[] {
  const given = allowed(body, '', 'stop_sequences', Array.isArray, 'a valid list') ?? []
  for (const [i, sequence] of given.entries()) {
    if (!isString(sequence)) throw wrong(`stop_sequences.${i}`, 'Input should be a valid string')
    if (sequence.trim() === '') throw wrong('stop_sequences', 'each stop sequence must contain non-whitespace')
  }
  return given as string[]
}

function readThinking(
  body: Fields,
  { forced }: Toolbox,
  turns: readonly Turn[],
  maxTokens: number,
  counting: boolean
): { wanted: boolean; omitted: boolean } {
  const thinking = allowed(body, '', 'thinking', isObject, 'a valid dictionary')
  if (!thinking) return { wanted: false, omitted: false }
  const type = required(
    thinking,
    'thinking',
    'type',
    oneOf('enabled', 'adaptive', 'disabled', 'between_tools'),
    "'enabled', 'adaptive', 'disabled' or 'between_tools'"
  )
  const display = allowed(thinking, 'thinking', 'display', oneOf('summarized', 'omitted'), "'summarized' or 'omitted'")
  if (type === 'enabled') {
    const budget = required(
      thinking,
      'thinking.enabled',
      'budget_tokens',
      integer(1024, 1_000_000),
      'greater than or equal to 1024'
    )
    if (!counting && budget >= maxTokens)
      throw wrong('max_tokens', '`max_tokens` must be greater than `thinking.budget_tokens`.')
    if (forced.length > 0) throw wrong('tool_choice', 'Thinking may not be enabled when tool_choice forces tool use.')
    if ((body['temperature'] ?? 1) !== 1)
      throw wrong('temperature', '`temperature` may only be set to 1 when thinking is enabled.')
    checkReplay(turns)
  }
  return { wanted: type === 'enabled' || type === 'adaptive', omitted: display === 'omitted' }
}

/** A request that answers a call must repeat the thoughts before the call. */
function checkReplay(turns: readonly Turn[]): void {
  if (!turns.at(-1)!.blocks.some(({ type }) => type === 'tool_result')) return
  const at = turns.findLastIndex(({ role }) => role === 'assistant')
  const first = turns[at]?.blocks[0]?.type
  if (first === undefined || first === 'thinking' || first === 'redacted_thinking') return
  throw wrong(
    `messages.${at}.content.0.type`,
    `Expected \`thinking\` or \`redacted_thinking\`, but found \`${first}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block.`
  )
}

function checkRest(body: Fields): void {
  allowed(body, '', 'temperature', between(0, 1), 'between 0 and 1')
  allowed(body, '', 'top_p', between(0, 1), 'between 0 and 1')
  allowed(body, '', 'top_k', integer(0, 1_000_000), 'greater than or equal to 0')
  allowed(body, '', 'service_tier', oneOf('auto', 'standard_only'), "'auto' or 'standard_only'")
  allowed(body, '', 'speed', oneOf('standard', 'fast'), "'standard' or 'fast'")
  const metadata = allowed(body, '', 'metadata', isObject, 'a valid dictionary')
  if (metadata) allowed(metadata, 'metadata', 'user_id', isString, 'a valid string')
}

function readFormat(body: Fields): { schema: unknown } | undefined {
  const config = allowed(body, '', 'output_config', isObject, 'a valid dictionary')
  if (!config) return undefined
  allowed(
    config,
    'output_config',
    'effort',
    oneOf('low', 'medium', 'high', 'xhigh', 'max'),
    "'low', 'medium', 'high', 'xhigh' or 'max'"
  )
  const format = allowed(config, 'output_config', 'format', isObject, 'a valid dictionary')
  if (!format) return undefined
  required(format, 'output_config.format', 'type', oneOf('json_schema'), "'json_schema'")
  const schema = required(format, 'output_config.format', 'schema', isObject, 'a valid dictionary')
  checkSchema(schema)
  return { schema }
}

/** Structured output requires closed objects. */
function checkSchema(schema: unknown): void {
  if (Array.isArray(schema)) schema.forEach(checkSchema)
  if (!isObject(schema)) return
  if (schema['type'] === 'object' && schema['additionalProperties'] !== false) {
    throw wrong(
      'output_config.format.schema',
      "For 'object' type, 'additionalProperties' must be explicitly set to false"
    )
  }
  Object.values(schema).forEach(checkSchema)
}
