// Reads the system prompt and the messages of an Anthropic request.
import { readMark } from '../canonical/cache-mark.ts'
import type { Losses } from '../canonical/losses.ts'
import { readData, readUrl, writeText } from '../canonical/media.ts'
import type { Members } from '../canonical/members.ts'
import { unseal } from '../canonical/proofs.ts'
import type {
  AssistantPart,
  CacheMark,
  MediaPart,
  MediaSource,
  Proof,
  ReasoningPart,
  SystemTurn,
  TextPart,
  ToolCall,
  ToolResult,
  Turn
} from '../canonical/request.ts'
import { invalid, Untranslatable } from '../canonical/untranslatable.ts'

export function readSystem(fields: Members, losses: Losses): SystemTurn[] {
  const given = fields.value('system')
  if (given === undefined) return []
  losses.see('system')
  return [{ role: 'system', parts: readTexts(fields, 'system', losses), developer: false }]
}

/** Reads text that is a string or a list of text blocks. */
function readTexts(fields: Members, key: string, losses: Losses): TextPart[] {
  const given = fields.value(key)
  if (typeof given === 'string') return [{ type: 'text', text: given }]
  return (fields.list(key) ?? []).map((block) => {
    const mark = readHints(block, losses)
    if (block.string('type') !== 'text') throw invalid(block.at('type'), 'text')
    return { type: 'text', text: block.needString('text'), ...mark }
  })
}

export function readMessages(fields: Members, losses: Losses): Turn[] {
  const messages = fields.list('messages')
  if (!messages) throw new Untranslatable('missing_field', 'messages is missing.', 'messages')
  /** The names of the calls so far, by id. */
  const names = new Map<string, string>()
  return messages.flatMap((message): Turn[] => {
    const role = message.string('role')
    if (role === 'user') return readUser(message, names, losses)
    if (role === 'assistant') return [{ role, parts: readAssistant(message, names, losses) }]
    if (role !== 'system') throw invalid(message.at('role'), 'user, assistant or system')
    losses.see('system_later', message.place)
    return [{ role, parts: readTexts(message, 'content', losses), developer: false }]
  })
}

/** Reads a user message. All tool results in it become a turn of their own, before what the user says. */
function readUser(message: Members, names: ReadonlyMap<string, string>, losses: Losses): Turn[] {
  const content = message.value('content')
  if (typeof content === 'string') return [{ role: 'user', parts: [{ type: 'text', text: content }] }]
  const results: ToolResult[] = []
  const parts: (TextPart | MediaPart)[] = []
  for (const block of message.list('content') ?? []) {
    if (block.string('type') === 'tool_result') results.push(readResult(block, names, losses))
    else for (const part of readBlock(block, losses)) parts.push(part)
  }
  const turns: Turn[] = []
  if (results.length > 0) turns.push({ role: 'tool', results })
  if (parts.length > 0 || results.length === 0) turns.push({ role: 'user', parts })
  return turns
}

function readResult(block: Members, names: ReadonlyMap<string, string>, losses: Losses): ToolResult {
  const mark = readHints(block, losses)
  const id = block.needString('tool_use_id')
  const error = block.flag('is_error') ?? false
  if (error) losses.see('tool_result_error', block.at('is_error'))
  const content = block.value('content')
  const parts =
    typeof content === 'string'
      ? [{ type: 'text' as const, text: content }]
      : (block.list('content') ?? []).flatMap((inner) => readBlock(inner, losses))
  if (parts.some(({ type }) => type !== 'text')) losses.see('tool_result_media', block.at('content'))
  return { id, name: names.get(id) ?? '', custom: false, parts, error, ...mark }
}

/** Reads a block of content. Its mark is on the last part that is made of it. */
function readBlock(block: Members, losses: Losses): (TextPart | MediaPart)[] {
  const mark = readHints(block, losses)
  const parts = readContent(block, losses)
  return parts.map((part, at) => (at === parts.length - 1 ? { ...part, ...mark } : part))
}

function readContent(block: Members, losses: Losses): (TextPart | MediaPart)[] {
  const type = block.string('type')
  switch (type) {
    case 'text':
      return [{ type, text: block.needString('text') }]
    case 'image': {
      const source = readSource(block.needMembers('source'))
      losses.see(
        source.kind === 'stored' ? 'stored_file' : source.kind === 'url' ? 'image_url' : 'image',
        block.at('source')
      )
      return [{ type, source }]
    }
    case 'document':
      return readDocument(block, losses)
    case 'search_result': {
      losses.see('text_document', block.place)
      const texts = (block.list('content') ?? []).map((inner) => {
        inner.ignore('type')
        return inner.string('text') ?? ''
      })
      return [
        { type: 'text', text: [block.string('title'), block.string('source'), ...texts].filter(Boolean).join('\n') }
      ]
    }
    default:
      throw new Untranslatable(
        'unsupported_parameter',
        `${block.place} has a type that cannot be translated for the channel that serves this model.`,
        block.place
      )
  }
}

function readDocument(block: Members, losses: Losses): (TextPart | MediaPart)[] {
  const title = block.string('title')
  const named = title !== undefined && { name: title }
  const given = block.needMembers('source')
  if (block.value('context') !== undefined) losses.see('hint', block.at('context'))
  const type = given.string('type')
  if (type === 'text') {
    losses.see('text_document', block.at('source'))
    // It is always plain text.
    given.ignore('media_type')
    return [
      {
        type: 'document',
        source: { kind: 'data', mimeType: 'text/plain', data: writeText(given.needString('data')) },
        ...named
      }
    ]
  }
  if (type === 'content') {
    losses.see('text_document', block.at('source'))
    const content = given.value('content')
    const parts =
      typeof content === 'string'
        ? [{ type: 'text' as const, text: content }]
        : (given.list('content') ?? []).flatMap((inner) => readBlock(inner, losses))
    return title === undefined ? parts : [{ type: 'text', text: title }, ...parts]
  }
  const source = readSource(given)
  losses.see(
    source.kind === 'stored' ? 'stored_file' : source.kind === 'url' ? 'document_url' : 'document',
    block.at('source')
  )
  return [{ type: 'document', source, ...named }]
}

function readSource(source: Members): MediaSource {
  const type = source.string('type')
  if (type === 'base64') return readData(source.needString('media_type'), source.needString('data'), source.at('data'))
  if (type === 'url') return readUrl(source.needString('url'), source.at('url'))
  if (type === 'file') return { kind: 'stored', family: 'anthropic', id: source.needString('file_id') }
  throw invalid(source.at('type'), 'base64, url or file')
}

function readAssistant(message: Members, names: Map<string, string>, losses: Losses): AssistantPart[] {
  const content = message.value('content')
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  const parts: AssistantPart[] = []
  /** The signature of the next call, which was sent as a block of thoughts because calls have no place for it. */
  let ofNextCall: Proof | undefined
  for (const block of message.list('content') ?? []) {
    const type = block.string('type')
    if (type === 'thinking' || type === 'redacted_thinking') {
      readHints(block, losses)
      const part = readThoughts(block, type)
      if (part.proof?.kind === 'call') ofNextCall = part.proof
      else if (part.text !== '' || part.proof) parts.push(part)
      losses.see(part.proof ? 'reasoning_proof' : 'reasoning_replay', block.at(type === 'thinking' ? type : 'data'))
    } else if (type === 'tool_use') {
      const call: ToolCall = {
        type: 'tool_call',
        id: block.needString('id'),
        name: block.needString('name'),
        custom: false,
        input: JSON.stringify(block.json('input') ?? {}),
        ...readHints(block, losses)
      }
      names.set(call.id, call.name)
      parts.push(ofNextCall ? { ...call, proof: ofNextCall } : call)
      ofNextCall = undefined
    } else if (type?.includes('tool')) {
      readHints(block, losses)
      losses.see('server_tool', block.place)
    } else for (const part of readBlock(block, losses)) parts.push(part)
  }
  return parts
}

function readThoughts(block: Members, type: 'thinking' | 'redacted_thinking'): ReasoningPart {
  const value = block.string(type === 'thinking' ? 'signature' : 'data') ?? ''
  const proof = unseal('anthropic', value, type === 'thinking' ? 'signature' : 'redacted')
  return { type: 'reasoning', text: (type === 'thinking' && block.string('thinking')) || '', ...(proof && { proof }) }
}

/** Reads what any block may have, and returns its mark. */
function readHints(block: Members, losses: Losses): { cache?: CacheMark } {
  if (block.says('citations')) losses.see('hint', block.at('citations'))
  // The result already tells which tool made the call.
  block.ignore('caller')
  return readMark(block, losses)
}
