// Writes the input items of a Responses request.
import { mediaToUser } from '../canonical/conversation.ts'
import type { Losses } from '../canonical/losses.ts'
import { fileName, textOf, writeDataUrl } from '../canonical/media.ts'
import type {
  AssistantTurn,
  MediaPart,
  ReasoningPart,
  TextPart,
  ToolCall,
  ToolResult,
  Turn
} from '../canonical/request.ts'

type Item = Record<string, unknown>

export function writeInput(turns: readonly Turn[], losses: Losses): Item[] {
  return mediaToUser(turns, { results: false, own: true }).flatMap((turn): Item[] => {
    switch (turn.role) {
      case 'system':
        return [
          { type: 'message', role: turn.developer ? 'developer' : 'system', content: writeContent(turn.parts, losses) }
        ]
      case 'user':
        return [{ type: 'message', role: 'user', content: writeContent(turn.parts, losses) }]
      case 'assistant':
        return writeOwn(turn, losses)
      case 'tool':
        return turn.results.map((result) => writeResult(result, losses))
    }
  })
}

/** Writes content: a string if it is a single text. */
function writeContent(parts: readonly (TextPart | MediaPart)[], losses: Losses): unknown {
  const [first] = parts
  return parts.length === 1 && first?.type === 'text' ? first.text : parts.map((part) => writePart(part, losses))
}

function writePart(part: TextPart | MediaPart, losses: Losses): Item {
  if (part.type === 'text') return { type: 'input_text', text: part.text }
  const { type, source, name, detail } = part
  if (source.kind === 'stored') throw losses.refusal('stored_file')
  const url = source.kind === 'url' ? source.url : writeDataUrl(source)
  if (type === 'image') return { type: 'input_image', image_url: url, detail: detail ?? 'auto' }
  const filename = name !== undefined && { filename: name }
  if (source.kind === 'url') return { type: 'input_file', file_url: url, ...filename }
  if (source.mimeType.startsWith('text/')) return { type: 'input_text', text: textOf(source, name) }
  return { type: 'input_file', filename: fileName(name, source.mimeType), file_data: url }
}

/** Writes a turn of the model. Messages get no ids, as the provider would look those up. */
function writeOwn({ parts }: AssistantTurn, losses: Losses): Item[] {
  const items: Item[] = []
  let text: string | undefined
  const say = (): void => {
    if (text) items.push({ type: 'message', role: 'assistant', content: text })
    text = undefined
  }
  for (const part of parts) {
    if (part.type === 'text' || part.type === 'refusal') text = (text ?? '') + part.text
    else if (part.type === 'tool_call') {
      say()
      items.push(writeCall(part))
    } else if (part.type === 'reasoning') {
      say()
      items.push(...writeThoughts(part, losses))
    }
  }
  say()
  return items
}

function writeCall({ id, name, custom, input }: ToolCall): Item {
  if (custom) return { type: 'custom_tool_call', call_id: id, name, input }
  return { type: 'function_call', call_id: id, name, arguments: input === '' ? '{}' : input }
}

/** Writes thoughts that this provider has encrypted. It accepts no others. */
function writeThoughts({ text, proof }: ReasoningPart, losses: Losses): Item[] {
  if (proof?.family !== 'openai') {
    losses.drop(proof ? 'reasoning_proof' : 'reasoning_replay')
    return []
  }
  const { id, value } = proof
  return [
    {
      type: 'reasoning',
      ...(id !== undefined && { id }),
      summary: text === '' ? [] : [{ type: 'summary_text', text }],
      encrypted_content: value
    }
  ]
}

function writeResult({ id, custom, parts, error }: ToolResult, losses: Losses): Item {
  const told = error ? [{ type: 'text' as const, text: 'Error:' }, ...parts] : parts
  const texts = told.every((part) => part.type === 'text')
  const output = texts
    ? told.map((part) => part.text).join(error ? ' ' : '\n\n')
    : told.map((part) => writePart(part, losses))
  return { type: custom ? 'custom_tool_call_output' : 'function_call_output', call_id: id, output }
}
