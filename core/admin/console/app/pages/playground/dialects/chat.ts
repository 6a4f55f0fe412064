// OpenAI's Chat Completions.
import type { Answer, Ask, Dialect, Message, Part } from '../conversation.ts'
import { textOf } from '../conversation.ts'
import { at, listAt, numberAt, textAt } from '../json.ts'

/** Chat Completions. */
export const chat: Dialect = {
  name: 'chat',
  title: 'OpenAI Chat Completions',
  path: () => '/v1/chat/completions',
  body({ model, stream, system, messages, tools, max, temperature, topP }: Ask) {
    return {
      model,
      messages: [...(system === '' ? [] : [{ role: 'system', content: system }]), ...messages.flatMap(messagesOf)],
      ...(stream && { stream, stream_options: { include_usage: true } }),
      ...(max !== undefined && { max_completion_tokens: max }),
      ...(temperature !== undefined && { temperature }),
      ...(topP !== undefined && { top_p: topP }),
      ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: 'function', function: tool })) })
    }
  },
  whole(answer, json) {
    const message = at(json, 'choices', 0, 'message')
    answer.text = textAt(message, 'content') || textAt(message, 'refusal')
    answer.thoughts = textAt(message, 'reasoning_content')
    answer.calls = listAt(message, 'tool_calls').map((call) => ({
      id: textAt(call, 'id'),
      name: textAt(call, 'function', 'name'),
      arguments: textAt(call, 'function', 'arguments')
    }))
    answer.finish = textAt(json, 'choices', 0, 'finish_reason') || undefined
    takeUsage(answer, json)
  },
  event(answer, json) {
    const error = textAt(json, 'error', 'message')
    if (error !== '') answer.error = error
    const delta = at(json, 'choices', 0, 'delta')
    answer.text += textAt(delta, 'content') || textAt(delta, 'refusal')
    answer.thoughts += textAt(delta, 'reasoning_content')
    for (const piece of listAt(delta, 'tool_calls')) {
      const place = numberAt(piece, 'index') ?? 0
      const before = answer.calls[place] ?? { id: '', name: '', arguments: '' }
      answer.calls[place] = {
        id: before.id || textAt(piece, 'id'),
        name: before.name || textAt(piece, 'function', 'name'),
        arguments: before.arguments + textAt(piece, 'function', 'arguments')
      }
    }
    answer.finish = textAt(json, 'choices', 0, 'finish_reason') || answer.finish
    takeUsage(answer, json)
  }
}

function takeUsage(answer: Answer, json: unknown): void {
  answer.input = numberAt(json, 'usage', 'prompt_tokens') ?? answer.input
  answer.output = numberAt(json, 'usage', 'completion_tokens') ?? answer.output
}

/** A result of a tool is a message of its own. */
function messagesOf(message: Message): object[] {
  const { role, parts } = message
  const results = parts.flatMap((part) =>
    part.kind === 'result' ? [{ role: 'tool', tool_call_id: part.id, content: part.text }] : []
  )
  const rest = parts.filter(({ kind }) => kind !== 'result')
  if (rest.length === 0) return results
  if (role === 'user') return [...results, { role, content: contentOf(rest) }]
  const calls = rest.flatMap((part) =>
    part.kind === 'call'
      ? [{ id: part.id, type: 'function', function: { name: part.name, arguments: part.arguments } }]
      : []
  )
  return [{ role, content: textOf(message) || null, ...(calls.length > 0 && { tool_calls: calls }) }]
}

function contentOf(parts: readonly Part[]): unknown {
  const [only] = parts
  if (parts.length === 1 && only?.kind === 'text') return only.text
  return parts.flatMap((part): object[] => {
    if (part.kind === 'text') return part.text === '' ? [] : [{ type: 'text', text: part.text }]
    if (part.kind === 'picture')
      return [{ type: 'image_url', image_url: { url: `data:${part.media};base64,${part.data}` } }]
    if (part.kind === 'sound')
      return [
        { type: 'input_audio', input_audio: { data: part.data, format: /mpeg|mp3/.test(part.media) ? 'mp3' : 'wav' } }
      ]
    return []
  })
}
