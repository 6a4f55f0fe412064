// Writes the messages of a chat completion request.
import { joinTexts, mediaToUser, resultText, spoken } from '../canonical/conversation.ts'
import type { Losses } from '../canonical/losses.ts'
import { fileName, textOf, writeDataUrl } from '../canonical/media.ts'
import type { AssistantTurn, MediaPart, TextPart, Turn, UserPart } from '../canonical/request.ts'
import type { Traits } from '../canonical/traits.ts'

type Message = Record<string, unknown>

export function writeMessages(turns: readonly Turn[], traits: Traits, losses: Losses): Message[] {
  return mediaToUser(turns, { results: true, own: true }).flatMap((turn): Message[] => {
    switch (turn.role) {
      case 'system':
        return [
          { role: turn.developer && traits.developerRole ? 'developer' : 'system', content: joinTexts(turn.parts) }
        ]
      case 'user':
        return [{ role: 'user', content: writeContent(turn.parts, losses) }]
      case 'assistant':
        return [writeAssistant(turn, traits, losses)]
      case 'tool':
        return turn.results.map((result) => ({ role: 'tool', tool_call_id: result.id, content: resultText(result) }))
    }
  })
}

/** Writes content: a string if it is all text, as every upstream accepts that. */
function writeContent(parts: readonly UserPart[], losses: Losses): unknown {
  const written = parts.flatMap((part) => writePart(part, losses))
  return written.every(({ type }) => type === 'text') ? joinTexts(written) : written
}

function writePart(
  part: TextPart | MediaPart,
  losses: Losses
): { type: string; text?: string; [key: string]: unknown }[] {
  if (part.type === 'text') return part.text === '' ? [] : [{ type: 'text', text: part.text }]
  const { source, name, detail } = part
  if (part.type === 'image' && source.kind !== 'stored') {
    const url = source.kind === 'url' ? source.url : writeDataUrl(source)
    return [{ type: 'image_url', image_url: { url, ...(detail !== undefined && { detail }) } }]
  }
  if (source.kind !== 'data') throw losses.refusal(source.kind === 'stored' ? 'stored_file' : 'document_url')
  if (part.type === 'audio') {
    const format = formats.get(source.mimeType)
    if (format === undefined)
      throw losses.refusal('audio', 'has a format that the channel that serves this model cannot take')
    return [{ type: 'input_audio', input_audio: { data: source.data, format } }]
  }
  if (source.mimeType.startsWith('text/')) return [{ type: 'text', text: textOf(source, name) }]
  return [{ type: 'file', file: { filename: fileName(name, source.mimeType), file_data: writeDataUrl(source) } }]
}

const formats: ReadonlyMap<string, string> = new Map([
  ['audio/wav', 'wav'],
  ['audio/x-wav', 'wav'],
  ['audio/wave', 'wav'],
  ['audio/mp3', 'mp3'],
  ['audio/mpeg', 'mp3']
])

function writeAssistant({ parts }: AssistantTurn, { replaysReasoning }: Traits, losses: Losses): Message {
  const text = spoken(parts)
  const refusal = spoken(parts, 'refusal')
  const thoughts = spoken(parts, 'reasoning')
  const calls = parts.filter((part) => part.type === 'tool_call')
  const message: Message = {
    role: 'assistant',
    content: text === '' && (calls.length > 0 || refusal !== '') ? null : text
  }
  if (refusal !== '') message['refusal'] = refusal
  if (thoughts !== '') {
    if (replaysReasoning) message['reasoning_content'] = thoughts
    else losses.drop('reasoning_replay')
  }
  if (calls.length > 0) {
    // Some upstreams parse the arguments, and an empty string is not JSON.
    message['tool_calls'] = calls.map(({ id, name, input }) => ({
      id,
      type: 'function',
      function: { name, arguments: input === '' ? '{}' : input }
    }))
  }
  return message
}
