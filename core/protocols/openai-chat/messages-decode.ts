// Reads the messages of a chat completion request.
import { readMark } from '../canonical/cache-mark.ts'
import { Front } from '../canonical/conversation.ts'
import type { Losses } from '../canonical/losses.ts'
import { readData, readUrl } from '../canonical/media.ts'
import type { Members } from '../canonical/members.ts'
import { unseal } from '../canonical/proofs.ts'
import type {
  AssistantPart,
  AssistantTurn,
  MediaPart,
  TextPart,
  ToolCall,
  ToolResult,
  Turn,
  UserPart
} from '../canonical/request.ts'
import { invalid, Untranslatable } from '../canonical/untranslatable.ts'

/** The calls so far, by id. */
type Calls = Map<string, ToolCall>

export function readMessages(fields: Members, losses: Losses): Turn[] {
  const messages = fields.list('messages')
  if (!messages) throw new Untranslatable('missing_field', 'messages is missing.', 'messages')
  const turns: Turn[] = []
  const calls: Calls = new Map()
  const front = new Front()
  for (const message of messages) readMessage(message, turns, calls, front, losses)
  return turns
}

function readMessage(message: Members, turns: Turn[], calls: Calls, front: Front, losses: Losses): void {
  if (message.string('name') !== undefined) losses.see('message_name', message.at('name'))
  const role = message.needString('role')
  switch (role) {
    case 'system':
    case 'developer': {
      losses.see(front.has(turns) ? 'system' : 'system_later', message.place)
      turns.push({
        role: 'system',
        parts: marked(readTexts(message, losses), message, losses),
        developer: role === 'developer'
      })
      break
    }
    case 'user':
      turns.push({ role: 'user', parts: marked(readParts(message, losses), message, losses) })
      break
    case 'assistant': {
      const turn = readAssistant(message, losses)
      marked(turn.parts, message, losses)
      for (const part of turn.parts) if (part.type === 'tool_call') calls.set(part.id, part)
      turns.push(turn)
      break
    }
    case 'tool': {
      const result = readResult(message, turns, calls, losses)
      const last = turns.at(-1)
      if (last?.role === 'tool') last.results.push(result)
      else turns.push({ role: 'tool', results: [result] })
      break
    }
    default:
      throw new Untranslatable(
        'unsupported_parameter',
        `${message.at('role')} cannot be translated for the channel that serves this model.`,
        message.at('role')
      )
  }
}

/** Applies the cache mark of a message to its last part. Some clients mark the message and mean all of it. */
function marked<P extends AssistantPart | UserPart>(parts: P[], message: Members, losses: Losses): P[] {
  const last = parts.at(-1)
  const mark = readMark(message, losses)
  if (last && (last.type === 'text' || last.type === 'tool_call' || 'source' in last)) Object.assign(last, mark)
  return parts
}

/** Reads content that may only be text. */
function readTexts(message: Members, losses: Losses): TextPart[] {
  const content = message.value('content')
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  return (message.list('content') ?? []).map((part) => {
    const type = part.string('type')
    if (type !== 'text' && type !== 'refusal') throw invalid(part.at('type'), 'text')
    return { type: 'text', text: part.needString(type), ...readMark(part, losses) }
  })
}

function readParts(message: Members, losses: Losses): UserPart[] {
  const content = message.value('content')
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  return (message.list('content') ?? []).map((part) => readPart(part, losses))
}

function readPart(part: Members, losses: Losses): UserPart {
  const type = part.string('type')
  switch (type) {
    case 'text':
      return { type, text: part.needString('text'), ...readMark(part, losses) }
    case 'image_url':
      return { ...readImage(part, losses), ...readMark(part, losses) }
    case 'input_audio': {
      losses.see('audio', part.place)
      const audio = part.needMembers('input_audio')
      return {
        type: 'audio',
        source: readData(`audio/${audio.needString('format')}`, audio.needString('data'), audio.at('data'))
      }
    }
    case 'file':
      return { ...readFile(part.needMembers('file'), losses), ...readMark(part, losses) }
    default:
      throw new Untranslatable(
        'unsupported_parameter',
        `${part.place} has a type that cannot be translated for the channel that serves this model.`,
        part.place
      )
  }
}

function readImage(part: Members, losses: Losses): MediaPart {
  // Many clients write only the address.
  const image = typeof part.value('image_url') === 'string' ? undefined : part.needMembers('image_url')
  const source = readUrl(
    (image ?? part).needString(image ? 'url' : 'image_url'),
    image ? image.at('url') : part.at('image_url')
  )
  losses.see(source.kind === 'url' ? 'image_url' : 'image', part.place)
  const detail = image?.string('detail')
  // `auto` is the default, and asks for nothing.
  if (detail === undefined || detail === 'auto') return { type: 'image', source }
  losses.see('image_detail', image!.at('detail'))
  return { type: 'image', source, detail }
}

function readFile(file: Members, losses: Losses): MediaPart {
  const name = file.string('filename')
  const named = name !== undefined && { name }
  const id = file.string('file_id')
  if (id !== undefined) {
    losses.see('stored_file', file.at('file_id'))
    return { type: 'document', source: { kind: 'stored', family: 'openai', id }, ...named }
  }
  const source = readUrl(file.needString('file_data'), file.at('file_data'))
  if (source.kind !== 'data') throw invalid(file.at('file_data'), 'a data URL')
  losses.see(source.mimeType.startsWith('text/') ? 'text_document' : 'document', file.place)
  return { type: 'document', source, ...named }
}

function readAssistant(message: Members, losses: Losses): AssistantTurn {
  const parts: AssistantPart[] = []
  const thoughts = message.string('reasoning_content') ?? message.string('reasoning')
  if (thoughts) {
    losses.see('reasoning_replay', message.at('reasoning_content'))
    parts.push({ type: 'reasoning', text: thoughts })
  }
  const content = message.value('content')
  if (typeof content === 'string') parts.push({ type: 'text', text: content })
  else {
    for (const part of message.list('content') ?? []) {
      const type = part.string('type')
      if (type !== 'text' && type !== 'refusal') throw invalid(part.at('type'), 'text or refusal')
      parts.push({ type, text: part.needString(type), ...readMark(part, losses) })
    }
  }
  const refusal = message.string('refusal')
  if (refusal) parts.push({ type: 'refusal', text: refusal })
  if (parts.some((part) => part.type === 'refusal')) losses.see('refusal_replay', message.place)
  for (const image of message.list('images') ?? []) {
    image.ignore('type', 'index')
    losses.see('image_replay', image.place)
    parts.push(readImage(image, losses))
  }
  if (message.value('audio') !== undefined) losses.see('special', message.at('audio'))
  if (message.value('function_call') !== undefined) losses.see('special', message.at('function_call'))
  for (const call of message.list('tool_calls') ?? []) parts.push(readCall(call, losses))
  return { role: 'assistant', parts }
}

function readCall(call: Members, losses: Losses): ToolCall {
  const custom = call.string('type') === 'custom'
  // A call that a client collected from a stream still has its index.
  call.ignore('index')
  const inner = call.needMembers(custom ? 'custom' : 'function')
  const made: ToolCall = {
    type: 'tool_call',
    id: call.needString('id'),
    name: inner.needString('name'),
    custom,
    input: custom ? inner.needString('input') : readArguments(inner)
  }
  // Google's compatible interface puts it here, and clients send it back in the same place.
  const signature = call.members('extra_content')?.members('google')?.string('thought_signature')
  const proof = signature === undefined ? undefined : unseal('gemini', signature, 'call')
  if (!proof) return made
  losses.see('reasoning_proof', call.at('extra_content'))
  return { ...made, proof }
}

/** Some clients send the arguments as an object. */
function readArguments(inner: Members): string {
  const given = inner.value('arguments')
  return typeof given === 'object' ? JSON.stringify(given) : (inner.string('arguments') ?? '')
}

/** Reads a tool result. It may hold pictures, which compatible vendors accept. */
function readResult(message: Members, turns: readonly Turn[], calls: Calls, losses: Losses): ToolResult {
  const id = message.string('tool_call_id') ?? onlyOpenCall(turns)
  if (id === undefined)
    throw new Untranslatable('missing_field', `${message.at('tool_call_id')} is missing.`, message.at('tool_call_id'))
  const call = calls.get(id)
  const parts = readParts(message, losses)
  if (parts.some(({ type }) => type !== 'text')) losses.see('tool_result_media', message.at('content'))
  return {
    id,
    name: call?.name ?? '',
    custom: call?.custom ?? false,
    parts,
    error: false,
    ...readMark(message, losses)
  }
}

/** The call that a result without an id must belong to. */
function onlyOpenCall(turns: readonly Turn[]): string | undefined {
  const last = turns.at(-1)
  const calls = last?.role === 'assistant' ? last.parts.filter((part) => part.type === 'tool_call') : []
  return calls.length === 1 ? calls[0]!.id : undefined
}
