// Converts a chat completion between its two forms: whole, and a stream of chunks.
import { asObject, asObjects, asText } from '../object.ts'
import type { Collector } from '../protocol.ts'
import { placeOfCall } from './call-place.ts'

type Fields = Record<string, unknown>

/**
 * The payloads of the chunks that this completion would have been streamed as, with usage and without the end marker.
 */
export function chunksOf(completion: unknown): string[] {
  const { choices, usage, object: _object, ...head } = asObject(completion) as Fields
  const chunk = (rest: Fields): string => JSON.stringify({ ...head, object: 'chat.completion.chunk', ...rest })
  const chunks: string[] = []
  for (const choice of asObjects(choices)) {
    const { index = 0, message, finish_reason = null, logprobs = null } = choice
    const { role: _role, tool_calls: calls, ...rest } = (asObject(message) ?? {}) as Fields
    const delta: Fields = { ...rest }
    if (Array.isArray(calls)) delta['tool_calls'] = asObjects(calls).map((call, place) => ({ index: place, ...call }))
    chunks.push(chunk({ choices: [{ index, delta: { role: 'assistant', content: '' }, finish_reason: null }] }))
    chunks.push(chunk({ choices: [{ index, delta, finish_reason: null, logprobs }] }))
    chunks.push(chunk({ choices: [{ index, delta: {}, finish_reason }] }))
  }
  if (usage != null) chunks.push(chunk({ choices: [], usage }))
  return chunks
}

interface Choice {
  message: Fields
  calls: Map<number, Fields>
  finish: unknown
  logprobs: unknown
}

/** Collects chunks into the completion that the call would have returned without streaming. */
export class CompletionCollector implements Collector {
  #head: Fields = {}
  #usage: unknown
  readonly #choices = new Map<number, Choice>()

  add(payload: unknown): void {
    const chunk = asObject(payload)
    if (!chunk) return
    const { choices, usage, ...head } = chunk as Fields
    this.#head = { ...head, ...this.#head }
    if (usage != null) this.#usage = usage
    if (!Array.isArray(choices)) return
    for (const item of choices as unknown[]) {
      const { index, delta, finish_reason: finish, logprobs } = (asObject(item) ?? {}) as Fields
      const choice = this.#choice(typeof index === 'number' ? index : 0)
      if (finish != null) choice.finish = finish
      if (logprobs != null) choice.logprobs = merged(choice.logprobs, logprobs)
      for (const [key, value] of Object.entries(asObject(delta) ?? {})) {
        if (key === 'tool_calls' && Array.isArray(value)) addCalls(choice.calls, asObjects(value))
        else if (key !== 'role' && value != null) choice.message[key] = merged(choice.message[key], value)
      }
    }
  }

  result(): unknown {
    const choices = [...this.#choices]
      .sort(([a], [b]) => a - b)
      .map(([index, { message, calls, finish, logprobs }]) => ({
        index,
        message: {
          role: 'assistant',
          content: null,
          refusal: null,
          ...message,
          ...(calls.size > 0 && { tool_calls: [...calls.values()] })
        },
        finish_reason: finish ?? null,
        logprobs: logprobs ?? null
      }))
    return {
      ...this.#head,
      object: 'chat.completion',
      choices,
      ...(this.#usage !== undefined && { usage: this.#usage })
    }
  }

  #choice(index: number): Choice {
    let choice = this.#choices.get(index)
    if (!choice)
      this.#choices.set(index, (choice = { message: {}, calls: new Map(), finish: undefined, logprobs: undefined }))
    return choice
  }
}

function addCalls(calls: Map<number, Fields>, deltas: readonly Fields[]): void {
  for (const delta of deltas) {
    const last = calls.get(calls.size - 1)
    const begun = last && { id: asText(last['id']), name: asText(innerOf(last)['name']) }
    const place = placeOfCall(delta, innerOf(delta)['name'], calls.size, begun)
    const { index: _index, ...rest } = delta
    calls.set(place, mergeCall(calls.get(place) ?? {}, rest))
  }
}

function innerOf(call: Fields): Fields {
  return asObject(call['custom']) ?? asObject(call['function']) ?? {}
}

/** Merges a delta into a call. Arguments come in pieces; names and ids come once, or are repeated. */
function mergeCall(call: Fields, delta: Fields): Fields {
  const made = { ...call }
  for (const [key, value] of Object.entries(delta)) {
    const inner = asObject(value)
    if (inner) made[key] = mergeCall((asObject(made[key]) as Fields | undefined) ?? {}, inner)
    else if (key === 'arguments' || key === 'input') made[key] = merged(made[key], value)
    else if (value != null && value !== '') made[key] = value
  }
  return made
}

/** Merges a value: texts and lists are appended, objects are merged by member, anything else is replaced. */
function merged(before: unknown, more: unknown): unknown {
  if (typeof before === 'string' && typeof more === 'string') return before + more
  if (Array.isArray(before) && Array.isArray(more)) return [...(before as unknown[]), ...(more as unknown[])]
  const [old, next] = [asObject(before), asObject(more)]
  if (!old || !next) return more
  const made: Fields = { ...old }
  for (const [key, value] of Object.entries(next)) made[key] = merged(made[key], value)
  return made
}
