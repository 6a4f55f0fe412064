// OpenAI's Responses.
import type { Answer, Ask, Dialect, Message } from '../conversation.ts'
import { textOf } from '../conversation.ts'
import { at, listAt, numberAt, textAt } from '../json.ts'

/** Responses. Nothing is kept by the upstream: the whole conversation is sent each time. */
export const responses: Dialect = {
  name: 'responses',
  title: 'OpenAI Responses',
  path: () => '/v1/responses',
  body({ model, stream, system, messages, tools, max, temperature, topP }: Ask) {
    return {
      model,
      input: messages.flatMap(itemsOf),
      store: false,
      ...(system !== '' && { instructions: system }),
      ...(stream && { stream }),
      ...(max !== undefined && { max_output_tokens: max }),
      ...(temperature !== undefined && { temperature }),
      ...(topP !== undefined && { top_p: topP }),
      ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: 'function', strict: false, ...tool })) })
    }
  },
  whole(answer, json) {
    for (const item of listAt(json, 'output')) takeItem(answer, item, true)
    takeEnd(answer, json)
  },
  event(answer, json) {
    switch (textAt(json, 'type')) {
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        answer.text += textAt(json, 'delta')
        break
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        answer.thoughts += textAt(json, 'delta')
        break
      case 'response.output_item.done':
        takeItem(answer, at(json, 'item'), false)
        break
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
        takeEnd(answer, at(json, 'response'))
        break
      case 'error':
        answer.error = textAt(json, 'message') || textAt(json, 'error', 'message') || 'The answer broke off.'
        break
    }
  }
}

/** `texts`: whether its texts are still to be taken, and have not come as deltas. */
function takeItem(answer: Answer, item: unknown, texts: boolean): void {
  const type = textAt(item, 'type')
  if (type === 'function_call')
    answer.calls.push({
      id: textAt(item, 'call_id'),
      name: textAt(item, 'name'),
      arguments: textAt(item, 'arguments')
    })
  if (type === 'image_generation_call') answer.pictures.push({ media: 'image/png', data: textAt(item, 'result') })
  if (!texts) return
  if (type === 'message')
    for (const part of listAt(item, 'content')) answer.text += textAt(part, 'text') || textAt(part, 'refusal')
  if (type === 'reasoning') for (const part of listAt(item, 'summary')) answer.thoughts += textAt(part, 'text')
}

function takeEnd(answer: Answer, response: unknown): void {
  answer.finish = textAt(response, 'incomplete_details', 'reason') || textAt(response, 'status') || undefined
  answer.input = numberAt(response, 'usage', 'input_tokens') ?? answer.input
  answer.output = numberAt(response, 'usage', 'output_tokens') ?? answer.output
  const error = textAt(response, 'error', 'message')
  if (error !== '') answer.error = error
}

function itemsOf(message: Message): object[] {
  const { role, parts } = message
  const own = parts.flatMap((part): object[] => {
    if (part.kind === 'call')
      return [{ type: 'function_call', call_id: part.id, name: part.name, arguments: part.arguments }]
    if (part.kind === 'result') return [{ type: 'function_call_output', call_id: part.id, output: part.text }]
    return []
  })
  if (role === 'assistant') {
    const text = textOf(message)
    return [...(text === '' ? [] : [{ role, content: [{ type: 'output_text', text }] }]), ...own]
  }
  const content = parts.flatMap((part): object[] => {
    if (part.kind === 'text') return part.text === '' ? [] : [{ type: 'input_text', text: part.text }]
    if (part.kind === 'picture') return [{ type: 'input_image', image_url: `data:${part.media};base64,${part.data}` }]
    if (part.kind === 'sound') throw new Error('Responses take no sound: take Chat Completions or Gemini for it.')
    return []
  })
  return [...own, ...(content.length === 0 ? [] : [{ role, content }])]
}
