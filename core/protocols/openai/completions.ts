// OpenAI's completions, the older interface: its choices have a text instead of a message.
import { countOf } from '../counting/count.ts'
import { asObject, compareNumbers } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { openaiChat } from '../openai-chat/protocol.ts'
import { isFailed } from '../told/errors.ts'
import { ChatWatch } from '../openai-chat/watch.ts'
import type { Collector, Fields, Payload, Protocol } from '../protocol.ts'
import { completionsText } from './completions-text.ts'

/** https://platform.openai.com/docs/api-reference/completions */
export const openaiCompletions: Protocol = {
  ...openaiChat,
  watch: (request) => new CompletionWatch(answersOf(request)),
  chunksOf,
  collect: () => new TextCollector(),
  isAnswer,
  answerBytes: (body) => textsOf(body).reduce((sum, text) => sum + Buffer.byteLength(text), 0),
  text: completionsText
}

/** How many answers a request asks for: `n` for each prompt. A prompt of tokens is a list of numbers. */
function answersOf(request: Fields): number {
  const prompt = request.json('prompt')
  const several = Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt.length : 1
  return several * countOf(request, 'n')
}

/** Follows a stream whose choices have no role. */
class CompletionWatch extends ChatWatch {
  override missing(): readonly string[] {
    return []
  }
}

function isAnswer(message: Payload): boolean {
  const body = asObject(message.json())
  const choices = body?.['choices']
  if (body?.['error'] != null || !Array.isArray(choices)) return false
  return choices.some((choice) => typeof asObject(choice)?.['text'] === 'string') && !choices.some(isFailed)
}

function choicesOf(body: unknown): JsonObject[] {
  const choices = asObject(body)?.['choices']
  return Array.isArray(choices) ? (choices as unknown[]).map(asObject).filter((choice) => choice !== undefined) : []
}

function textsOf(body: unknown): string[] {
  return choicesOf(body).flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
}

function chunksOf(answer: unknown): string[] {
  const { choices: _choices, usage, ...head } = asObject(answer) ?? {}
  const chunks = choicesOf(answer).map((choice) => JSON.stringify({ ...head, choices: [choice] }))
  return usage == null ? chunks : [...chunks, JSON.stringify({ ...head, choices: [], usage })]
}

class TextCollector implements Collector {
  #head: JsonObject = {}
  #usage: unknown
  readonly #choices = new Map<unknown, Record<string, unknown>>()

  add(payload: unknown): void {
    const { choices: _choices, usage, ...head } = asObject(payload) ?? {}
    this.#head = { ...head, ...this.#head }
    if (usage != null) this.#usage = usage
    for (const { index: given, text, ...rest } of choicesOf(payload)) {
      const index = given ?? 0
      const before = this.#choices.get(index)
      const kept = Object.fromEntries(Object.entries(rest).filter(([, value]) => value != null))
      this.#choices.set(index, {
        index,
        logprobs: null,
        ...before,
        ...kept,
        text: `${(before?.['text'] as string | undefined) ?? ''}${typeof text === 'string' ? text : ''}`
      })
    }
  }

  result(): unknown {
    const choices = [...this.#choices.values()].sort((a, b) => compareNumbers(a['index'], b['index']))
    return { ...this.#head, choices, ...(this.#usage !== undefined && { usage: this.#usage }) }
  }
}
