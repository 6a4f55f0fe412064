// Anthropic's Messages.
import type { Answer, Ask, Dialect, Message } from '../conversation.ts'
import { argumentsOf, at, listAt, numberAt, parsed, textAt } from '../json.ts'

/** What an answer may have at most, where nobody says so: the protocol asks for a figure. */
const usualMax = 1024

/** Messages. */
export const messages: Dialect = {
  name: 'messages',
  title: 'Anthropic Messages',
  path: () => '/v1/messages',
  body({ model, stream, system, messages: said, tools, max = usualMax, temperature, topP }: Ask) {
    return {
      model,
      max_tokens: max,
      ...(system !== '' && { system }),
      messages: said.map(messageOf),
      ...(stream && { stream }),
      ...(temperature !== undefined && { temperature }),
      ...(topP !== undefined && { top_p: topP }),
      ...(tools.length > 0 && {
        tools: tools.map(({ parameters = { type: 'object' }, ...tool }) => ({ ...tool, input_schema: parameters }))
      })
    }
  },
  whole(answer, json) {
    const content = listAt(json, 'content')
    for (const block of content) takeBlock(answer, block)
    answer.raw = content
    answer.finish = textAt(json, 'stop_reason') || undefined
    takeUsage(answer, at(json, 'usage'))
  },
  event(answer, json) {
    const blocks = (answer.raw ??= []) as Record<string, unknown>[]
    const place = numberAt(json, 'index') ?? 0
    switch (textAt(json, 'type')) {
      case 'message_start':
        takeUsage(answer, at(json, 'message', 'usage'))
        break
      case 'content_block_start':
        blocks[place] = { ...(at(json, 'content_block') as object) }
        answer.text += textAt(blocks[place], 'text')
        break
      case 'content_block_delta':
        takeDelta(answer, (blocks[place] ??= {}), at(json, 'delta'))
        break
      case 'content_block_stop':
        endBlock(answer, blocks[place])
        break
      case 'message_delta':
        answer.finish = textAt(json, 'delta', 'stop_reason') || answer.finish
        takeUsage(answer, at(json, 'usage'))
        break
      case 'error':
        answer.error = textAt(json, 'error', 'message') || 'The answer broke off.'
        break
    }
  }
}

function takeDelta(answer: Answer, block: Record<string, unknown>, delta: unknown): void {
  const add = (member: string, piece: string): void => void (block[member] = textAt(block, member) + piece)
  const [text, thinking] = [textAt(delta, 'text'), textAt(delta, 'thinking')]
  if (text !== '') add('text', text)
  if (thinking !== '') add('thinking', thinking)
  answer.text += text
  answer.thoughts += thinking
  const signature = textAt(delta, 'signature')
  if (signature !== '') block['signature'] = signature
  const json = textAt(delta, 'partial_json')
  if (json !== '') block['input'] = `${typeof block['input'] === 'string' ? block['input'] : ''}${json}`
}

function endBlock(answer: Answer, block: Record<string, unknown> | undefined): void {
  if (block?.['type'] !== 'tool_use') return
  const { input } = block
  block['input'] = typeof input === 'string' ? (parsed(input) ?? {}) : (input ?? {})
  takeBlock(answer, block)
}

function takeBlock(answer: Answer, block: unknown): void {
  switch (textAt(block, 'type')) {
    case 'text':
      answer.text += textAt(block, 'text')
      break
    case 'thinking':
      answer.thoughts += textAt(block, 'thinking')
      break
    case 'tool_use':
      answer.calls.push({
        id: textAt(block, 'id'),
        name: textAt(block, 'name'),
        arguments: JSON.stringify(at(block, 'input') ?? {})
      })
      break
  }
}

function takeUsage(answer: Answer, usage: unknown): void {
  const parts = ['input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens']
  const input = parts.reduce((sum, name) => sum + (numberAt(usage, name) ?? 0), 0)
  if (input > 0) answer.input = input
  answer.output = numberAt(usage, 'output_tokens') ?? answer.output
}

function messageOf({ role, parts, raw }: Message): object {
  if (raw?.protocol === 'messages') return { role, content: raw.content }
  const content = parts.flatMap((part): object[] => {
    switch (part.kind) {
      case 'text':
        return part.text === '' ? [] : [{ type: 'text', text: part.text }]
      case 'picture':
        return [{ type: 'image', source: { type: 'base64', media_type: part.media, data: part.data } }]
      case 'sound':
        throw new Error('Messages take no sound: take Chat Completions or Gemini for it.')
      case 'call':
        return [{ type: 'tool_use', id: part.id, name: part.name, input: argumentsOf(part.arguments) }]
      case 'result':
        return [{ type: 'tool_result', tool_use_id: part.id, content: part.text }]
    }
  })
  return { role, content }
}
