// POST /v1/completions: the older completions, which continue one or several texts.
import { hash } from 'node:crypto'
import { jsonAnswer, streamAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { takeFromAny } from '../directive.ts'
import { eventWriter } from '../events.ts'
import { between, integer, invalid, isBoolean, optional, parseObject } from '../fields.ts'
import { checkSize, compose, createdOf } from '../words/composition.ts'
import type { Composition, Conversation } from '../words/composition.ts'
import { countsOf } from '../words/counts.ts'
import { joined } from '../words/text.ts'
import { readStop, readStreaming } from './chat-request.ts'
import type { Streaming } from './chat-request.ts'
import { readModel } from './models.ts'
import { readTexts } from './texts.ts'
import { chatUsage } from './usage.ts'

/** https://platform.openai.com/docs/api-reference/completions/create */
export const completions: Endpoint = { method: 'POST', path: '/v1/completions', answer }

/** The API's limit when the request has none. */
const defaultMaxTokens = 16

interface CompletionRequest extends Conversation, Streaming {
  /** The prompts. One that came as tokens stands as `tokens: 1 2 3`. */
  prompts: readonly string[]
  echo: boolean
  /** For each prompt: how many continuations are shown, and how many are written. */
  choices: number
  bestOf: number
}

function answer(call: Call): Answer {
  const request = readCompletionRequest(call)
  const { directive, stream, prompts } = request
  checkSize(directive, stream, request.bestOf * prompts.length)
  const written = prompts.map((prompt, at) =>
    Array.from({ length: request.bestOf }, (_, i) => compose({ ...request, prompt }, at * request.bestOf + i))
  )
  const choices = written.flatMap((candidates) => candidates.slice(0, request.choices))
  const counts = countsOf(request, written.flat())
  const usage = chatUsage(directive, counts)
  return stream
    ? streamAnswer(frames(request, choices, usage), directive, counts)
    : jsonAnswer(whole(request, choices, usage), directive, counts)
}

function readCompletionRequest(call: Call): CompletionRequest {
  const body = parseObject(call.body)
  const model = readModel(call, body)
  const { texts, tokens } = readTexts(body['prompt'] ?? '', 'prompt')
  const { directive, prompts } = takeFromAny(texts, model, 'prompt')
  const choices = optional(body, 'n', integer(1, 128), 'an integer from 1 to 128') ?? 1
  const bestOf = optional(body, 'best_of', integer(1, 20), 'an integer from 1 to 20') ?? choices
  if (bestOf < choices)
    throw invalid('best_of', 'You requested that the server return more choices than it will generate.')
  const streaming = readStreaming(body)
  if (streaming.stream && bestOf > choices)
    throw invalid('best_of', 'A stream shows everything that is written: it must equal n.')
  optional(body, 'temperature', between(0, 2), 'a number from 0 to 2')
  optional(body, 'top_p', between(0, 1), 'a number from 0 to 1')
  optional(body, 'logprobs', integer(0, 5), 'an integer from 0 to 5')
  return {
    model,
    directive,
    prompts,
    choices,
    bestOf,
    ...streaming,
    prompt: prompts[0]!,
    toolResult: undefined,
    promptTokens: tokens,
    maxTokens:
      optional(body, 'max_tokens', integer(0, Number.MAX_SAFE_INTEGER), 'an integer of at least 0') ?? defaultMaxTokens,
    echo: optional(body, 'echo', isBoolean, 'true or false') ?? false,
    stop: readStop(body['stop']),
    calls: [],
    json: undefined,
    digest: hash('sha1', ['completion', model, tokens, ...texts.map((text) => text.slice(0, 4096))].join('\0'))
  }
}

function head(request: CompletionRequest): object {
  return {
    id: `cmpl-${request.digest.slice(0, 24)}`,
    object: 'text_completion',
    created: createdOf(request),
    model: request.model
  }
}

const echoOf = ({ echo, prompts, choices }: CompletionRequest, index: number): string =>
  echo ? prompts[Math.floor(index / choices)]! : ''

function finishOf({ directive }: CompletionRequest, { cut }: Composition): string | null {
  return directive.finish === undefined ? (cut ? 'length' : 'stop') : directive.finish
}

function whole(request: CompletionRequest, choices: readonly Composition[], usage: unknown): unknown {
  return {
    ...head(request),
    choices: choices.map((choice, index) => ({
      text: echoOf(request, index) + joined(choice.text!),
      index,
      logprobs: null,
      finish_reason: finishOf(request, choice)
    })),
    ...(usage !== null && { usage })
  }
}

/** The events of a stream. The choices take turns. */
function* frames(request: CompletionRequest, choices: readonly Composition[], usage: unknown): Generator<string> {
  const { directive, includeUsage } = request
  const event = eventWriter(directive)
  const opening = JSON.stringify(head(request)).slice(0, -1)
  const closing = includeUsage ? '],"usage":null}' : ']}'
  const chunk = (index: number, text: string, finish: string | null): string =>
    event(`${opening},"choices":[${JSON.stringify({ text, index, logprobs: null, finish_reason: finish })}${closing}`)
  const writing = new Map(choices.map((choice, i) => [i, choice.text!.pieces()[Symbol.iterator]()]))
  if (request.echo) for (const i of choices.keys()) yield chunk(i, echoOf(request, i), null)
  while (writing.size > 0) {
    for (const [i, rest] of writing) {
      const next = rest.next()
      if (next.done) writing.delete(i)
      else yield chunk(i, next.value, null)
    }
  }
  for (const [i, choice] of choices.entries()) {
    const finish = finishOf(request, choice)
    if (finish !== null) yield chunk(i, '', finish)
  }
  if (includeUsage && usage !== null) yield event(`${opening},"choices":[],"usage":${JSON.stringify(usage)}}`)
  if (directive.done !== false) yield event('[DONE]')
}
