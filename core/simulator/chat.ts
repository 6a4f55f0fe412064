// POST /v1/chat/completions: a whole completion or a stream of chunks in the canonical order.
import { jsonAnswer } from './answer.ts'
import type { Answer, Call, Endpoint, Tokens } from './answer.ts'
import { readChatRequest } from './chat-request.ts'
import type { ChatRequest } from './chat-request.ts'
import { lineEnds } from './directive.ts'
import { Dice, writeProse } from './prose.ts'
import { Refusal } from './refusal.ts'
import { sampleOf } from './sample.ts'
import { fillerText, writtenText } from './text.ts'
import type { Text } from './text.ts'
import { countTokens } from './tokens.ts'

/** https://platform.openai.com/docs/api-reference/chat/create */
export const chat: Endpoint = { method: 'POST', path: '/v1/chat/completions', answer }

/** Of the text of all choices together, when it has to be held: everything but streamed filler. */
const largestText = 16 * 1024 * 1024
/** A token and its share of the text, roughly. */
const bytesPerToken = 8

interface ToolCall {
  id: string
  kind: 'function' | 'custom'
  name: string
  input: Text
}

interface Choice {
  text: Text | undefined
  calls: readonly ToolCall[]
  finish: string | null
}

interface Completion {
  id: string
  created: number
  choices: readonly Choice[]
  reasoning: Text
  tokens: Tokens
}

function answer(call: Call): Answer {
  const request = readChatRequest(call)
  const { directive } = request
  checkSize(request)
  const completion = complete(request)
  if (request.stream) {
    return {
      contentType: 'text/event-stream; charset=utf-8',
      frames: frames(request, completion),
      length: undefined,
      directive,
      tokens: completion.tokens
    }
  }
  return jsonAnswer(whole(request, completion), directive, completion.tokens)
}

function checkSize({ directive, stream, choices }: ChatRequest): void {
  const { text = '', tokens = 0, chunks = 0, bytes = 0, reasoning = '' } = directive
  const held = text.length + reasoning.length + Math.max(tokens, chunks) * bytesPerToken + (stream ? 0 : bytes)
  if (held * choices <= largestText) return
  throw new Refusal(400, `Simulator directive: more than ${largestText} bytes of text; streamed filler (bytes) has no such limit.`, {
    param: 'messages',
    code: 'invalid_directive'
  })
}

function complete(request: ChatRequest): Completion {
  const seed = Number.parseInt(request.digest.slice(0, 8), 16)
  const reasoning = writtenText(request.directive.reasoning ?? '', { tokens: request.maxTokens })
  const choices = Array.from({ length: request.choices }, (_, i) => makeChoice(request, reasoning, new Dice(seed + i), i))
  let completionTokens = reasoning.tokens * choices.length
  for (const { text, calls } of choices) {
    completionTokens += text?.tokens ?? 0
    for (const made of calls) completionTokens += countTokens(made.name) + made.input.tokens
  }
  return {
    id: `chatcmpl-${request.digest.slice(0, 24)}`,
    // Some moment of 2026: a real clock would make equal requests differ.
    created: 1_767_225_600 + (seed % 31_536_000),
    choices,
    reasoning,
    tokens: {
      prompt: request.promptTokens,
      cached: Math.min(request.directive.cached_tokens ?? 0, request.promptTokens),
      completion: completionTokens
    }
  }
}

function makeChoice(request: ChatRequest, reasoning: Text, dice: Dice, index: number): Choice {
  const { directive } = request
  let left = request.maxTokens === undefined ? undefined : Math.max(request.maxTokens - reasoning.tokens, 0)
  const calls = request.calls.map((wanted, i): ToolCall => {
    const value = wanted.arguments ?? sampleOf(wanted.schema, dice)
    const source = wanted.kind === 'function' ? JSON.stringify(value) : writeProse(dice, request, undefined)
    const input = writtenText(source, { tokens: left })
    if (left !== undefined) left -= input.tokens
    return { id: `call_${request.digest.slice(0, 20)}${index}_${i}`, kind: wanted.kind, name: wanted.name, input }
  })
  // A tool call comes alone unless the directive wrote a text to go with it.
  const text = calls.length > 0 && directive.text === undefined ? undefined : writeText(request, dice, left)
  const cut = reasoning.cut || text?.cut === true || calls.some((made) => made.input.cut)
  const finish = cut ? 'length' : calls.length > 0 ? 'tool_calls' : 'stop'
  return { text, calls, finish: directive.finish === undefined ? finish : directive.finish }
}

function writeText(request: ChatRequest, dice: Dice, tokens: number | undefined): Text {
  const { directive, stop } = request
  const limits = { tokens, stop, chunks: directive.chunks }
  if (directive.bytes !== undefined) return fillerText(directive.bytes, limits)
  if (directive.text !== undefined) return writtenText(directive.text, limits)
  const prose = writeProse(dice, request, directive.tokens ?? directive.chunks)
  if (!request.json) return writtenText(prose, limits)
  const value = request.json.schema === undefined ? { simulator: true, answer: prose } : sampleOf(request.json.schema, dice)
  return writtenText(JSON.stringify(value), limits)
}

function usageOf(request: ChatRequest, { tokens, reasoning, choices }: Completion): unknown {
  if (request.directive.usage !== undefined) return request.directive.usage
  return {
    prompt_tokens: tokens.prompt,
    completion_tokens: tokens.completion,
    total_tokens: tokens.prompt + tokens.completion,
    prompt_tokens_details: { cached_tokens: tokens.cached, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: reasoning.tokens * choices.length,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0
    }
  }
}

const join = (text: Text): string => [...text.pieces()].join('')

function whole(request: ChatRequest, completion: Completion): unknown {
  const usage = usageOf(request, completion)
  return {
    id: completion.id,
    object: 'chat.completion',
    created: completion.created,
    model: request.model,
    choices: completion.choices.map(({ text, calls, finish }, index) => ({
      index,
      message: {
        role: 'assistant',
        content: text ? join(text) : null,
        refusal: null,
        ...(completion.reasoning.tokens > 0 && { reasoning_content: join(completion.reasoning) }),
        ...(calls.length > 0 && { tool_calls: calls.map((made) => ({ id: made.id, type: made.kind, [made.kind]: named(made, join(made.input)) })) }),
        annotations: []
      },
      logprobs: null,
      finish_reason: finish
    })),
    ...(usage !== null && { usage })
  }
}

function named({ kind, name }: ToolCall, input: string): unknown {
  return kind === 'function' ? { name, arguments: input } : { name, input }
}

/** Each frame is one event. Choices take turns, as they do when a model writes them side by side. */
function* frames(request: ChatRequest, completion: Completion): Generator<string> {
  const { directive, includeUsage } = request
  const { id, created, choices } = completion
  const end = lineEnds[directive.line_end ?? 'lf']
  const before = `${directive.comments ? `: simulator${end}${end}` : ''}data: `
  const after = end + end
  const head = JSON.stringify({ id, object: 'chat.completion.chunk', created, model: request.model }).slice(0, -1)
  const opening = `${before}${head},"choices":[{"index":`
  const closing = `}]${includeUsage ? ',"usage":null' : ''}}${after}`
  const chunk = (index: number, delta: string, finish: string | null = null): string =>
    `${opening}${index},"delta":${delta},"logprobs":null,"finish_reason":${JSON.stringify(finish)}${closing}`

  if (directive.role !== false) {
    for (const [i, { text }] of choices.entries()) yield chunk(i, `{"role":"assistant","content":${text ? '""' : 'null'},"refusal":null}`)
  }
  const writing = new Map(choices.map((choice, i) => [i, deltas(choice, completion.reasoning)]))
  while (writing.size > 0) {
    for (const [i, rest] of writing) {
      const next = rest.next()
      if (next.done) writing.delete(i)
      else yield chunk(i, next.value)
    }
  }
  for (const [i, { finish }] of choices.entries()) if (finish !== null) yield chunk(i, '{}', finish)
  const usage = usageOf(request, completion)
  if (includeUsage && usage !== null) yield `${before}${head},"choices":[],"usage":${JSON.stringify(usage)}}${after}`
  if (directive.done !== false) yield `${before}[DONE]${after}`
}

/** The deltas of one choice as JSON texts: reasoning, text, then the calls one after the other. */
function* deltas({ text, calls }: Choice, reasoning: Text): Generator<string> {
  for (const piece of reasoning.pieces()) yield `{"reasoning_content":${JSON.stringify(piece)}}`
  if (text) for (const piece of text.pieces()) yield `{"content":${JSON.stringify(piece)}}`
  for (const [index, made] of calls.entries()) {
    yield JSON.stringify({ tool_calls: [{ index, id: made.id, type: made.kind, [made.kind]: named(made, '') }] })
    for (const piece of made.input.pieces()) {
      const rest = made.kind === 'function' ? { arguments: piece } : { input: piece }
      yield JSON.stringify({ tool_calls: [{ index, [made.kind]: rest }] })
    }
  }
}
