// POST /v1/chat/completions: a whole completion, or a stream of chunks.
import { jsonAnswer, streamAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { eventWriter } from '../events.ts'
import { checkSize, compose, createdOf } from '../words/composition.ts'
import type { Composition, MadeCall } from '../words/composition.ts'
import { countsOf } from '../words/counts.ts'
import { joined } from '../words/text.ts'
import { readChatRequest } from './chat-request.ts'
import type { ChatRequest } from './chat-request.ts'
import { chatUsage } from './usage.ts'

/** https://platform.openai.com/docs/api-reference/chat/create */
export const chat: Endpoint = { method: 'POST', path: '/v1/chat/completions', answer }

function answer(call: Call): Answer {
  const request = readChatRequest(call)
  const { directive, stream } = request
  checkSize(directive, stream, request.choices)
  const choices = Array.from({ length: request.choices }, (_, i) => compose(request, i))
  const counts = countsOf(request, choices)
  const usage = chatUsage(directive, counts)
  return stream
    ? streamAnswer(frames(request, choices, usage), directive, counts)
    : jsonAnswer(whole(request, choices, usage), directive, counts)
}

const idOf = ({ digest }: ChatRequest): string => `chatcmpl-${digest.slice(0, 24)}`

function finishOf({ directive }: ChatRequest, { cut, calls }: Composition): string | null {
  if (directive.finish !== undefined) return directive.finish
  return cut ? 'length' : calls.length > 0 ? 'tool_calls' : 'stop'
}

function whole(request: ChatRequest, choices: readonly Composition[], usage: unknown): unknown {
  const refused = request.directive.refusal === true
  return {
    id: idOf(request),
    object: 'chat.completion',
    created: createdOf(request),
    model: request.model,
    choices: choices.map((choice, index) => ({
      index,
      message: {
        role: 'assistant',
        content: choice.text && !refused ? joined(choice.text) : null,
        refusal: choice.text && refused ? joined(choice.text) : null,
        ...(choice.reasoning.tokens > 0 && { reasoning_content: joined(choice.reasoning) }),
        ...(choice.calls.length > 0 && {
          tool_calls: choice.calls.map((made) => ({ ...opened(made), [made.kind]: named(made, joined(made.input)) }))
        }),
        annotations: []
      },
      logprobs: null,
      finish_reason: finishOf(request, choice)
    })),
    ...(usage !== null && { usage })
  }
}

function opened(made: MadeCall): object {
  return { id: `call_${made.serial}`, type: made.kind, [made.kind]: named(made, '') }
}

function named({ kind, name }: MadeCall, input: string): unknown {
  return kind === 'function' ? { name, arguments: input } : { name, input }
}

/** The events of a stream. The choices take turns, as if a model wrote them in parallel. */
function* frames(request: ChatRequest, choices: readonly Composition[], usage: unknown): Generator<string> {
  const { directive, includeUsage } = request
  const event = eventWriter(directive)
  const head = JSON.stringify({
    id: idOf(request),
    object: 'chat.completion.chunk',
    created: createdOf(request),
    model: request.model
  }).slice(0, -1)
  const opening = `${head},"choices":[{"index":`
  const closing = `}]${includeUsage ? ',"usage":null' : ''}}`
  const chunk = (index: number, delta: string, finish: string | null = null): string =>
    event(`${opening}${index},"delta":${delta},"logprobs":null,"finish_reason":${JSON.stringify(finish)}${closing}`)

  if (directive.role !== false) {
    for (const [i, { text }] of choices.entries())
      yield chunk(i, `{"role":"assistant","content":${text ? '""' : 'null'},"refusal":null}`)
  }
  const writing = new Map(choices.map((choice, i) => [i, deltas(choice, directive.refusal ? 'refusal' : 'content')]))
  while (writing.size > 0) {
    for (const [i, rest] of writing) {
      const next = rest.next()
      if (next.done) writing.delete(i)
      else yield chunk(i, next.value)
    }
  }
  for (const [i, choice] of choices.entries()) {
    const finish = finishOf(request, choice)
    if (finish !== null) yield chunk(i, '{}', finish)
  }
  if (includeUsage && usage !== null) yield event(`${head},"choices":[],"usage":${JSON.stringify(usage)}}`)
  if (directive.done !== false) yield event('[DONE]')
}

/** The deltas of one choice, as JSON text: reasoning, text, and then the calls one after the other. */
function* deltas({ reasoning, text, calls }: Composition, said: 'content' | 'refusal'): Generator<string> {
  for (const piece of reasoning.pieces()) yield `{"reasoning_content":${JSON.stringify(piece)}}`
  if (text) for (const piece of text.pieces()) yield `{"${said}":${JSON.stringify(piece)}}`
  for (const [index, made] of calls.entries()) {
    yield JSON.stringify({ tool_calls: [{ index, ...opened(made) }] })
    for (const piece of made.input.pieces()) {
      const rest = made.kind === 'function' ? { arguments: piece } : { input: piece }
      yield JSON.stringify({ tool_calls: [{ index, [made.kind]: rest }] })
    }
  }
}
