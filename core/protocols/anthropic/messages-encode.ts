// Writes the system prompt and the messages of an Anthropic request.
import { writeMark } from '../canonical/cache-mark.ts'
import { isBlank, jsonOnly, leadingSystem, mediaToUser } from '../canonical/conversation.ts'
import { parseObject } from '../canonical/json.ts'
import type { Losses } from '../canonical/losses.ts'
import { readText } from '../canonical/media.ts'
import type {
  AssistantPart,
  CacheMark,
  MediaPart,
  ModelRequest,
  ReasoningPart,
  TextPart,
  ToolCall,
  ToolResult,
  Turn
} from '../canonical/request.ts'
import { invalid } from '../canonical/untranslatable.ts'

type Block = Record<string, unknown>

/** A message of the request. */
export interface Message {
  role: 'user' | 'assistant'
  content: Block[]
}

/** Writes the conversation so that roles alternate and the user comes first, as the protocol requires. */
export function writeConversation(request: ModelRequest, losses: Losses): { system: Block[]; messages: Message[] } {
  const { system: turns, rest } = leadingSystem(request)
  const system = turns.flatMap(({ parts }) => texts(parts))
  if (request.format?.type === 'json_object') system.push({ type: 'text', text: jsonOnly })
  const messages: Message[] = []
  for (const turn of mediaToUser(rest, { results: false, own: true })) {
    const content = writeTurn(turn, losses)
    const role = turn.role === 'assistant' ? 'assistant' : 'user'
    const last = messages.at(-1)
    if (content.length === 0) continue
    if (last?.role === role) for (const block of content) last.content.push(block)
    else messages.push({ role, content })
  }
  if (messages[0]?.role !== 'user')
    throw invalid(losses.conversation, 'a conversation that the user begins, for the channel that serves this model')
  const last = messages.at(-1)!
  if (last.role === 'assistant') trimEnd(last.content)
  return { system, messages }
}

function writeTurn(turn: Turn, losses: Losses): Block[] {
  switch (turn.role) {
    case 'system':
      return texts(turn.parts)
    case 'user':
      return turn.parts.flatMap(writePart)
    case 'tool':
      return turn.results.map(writeResult)
    case 'assistant':
      return turn.parts.flatMap((part) => writeOwn(part, losses))
  }
}

/** Writes text blocks. Blank ones are left out, as the vendor refuses them. */
function texts(parts: readonly { text: string; cache?: CacheMark }[]): Block[] {
  return parts
    .filter(({ text }) => !isBlank(text))
    .map((part) => ({ type: 'text', text: part.text, ...writeMark(part) }))
}

function writePart(part: TextPart | MediaPart): Block[] {
  if (part.type === 'text') return texts([part])
  const { type, source, name } = part
  if (type === 'image') return [{ type, source: writeSource(part), ...writeMark(part) }]
  const more = { ...(name !== undefined && { title: name }), ...writeMark(part) }
  if (source.kind === 'data' && source.mimeType.startsWith('text/')) {
    return [
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: readText(source.data) }, ...more }
    ]
  }
  return [{ type: 'document', source: writeSource(part), ...more }]
}

function writeSource({ source }: MediaPart): Block {
  if (source.kind === 'data') return { type: 'base64', media_type: source.mimeType, data: source.data }
  return source.kind === 'url' ? { type: 'url', url: source.url } : { type: 'file', file_id: source.id }
}

function writeResult({ id, parts, error, ...result }: ToolResult): Block {
  const content = parts.flatMap(writePart)
  return { type: 'tool_result', tool_use_id: id, content, ...(error && { is_error: true }), ...writeMark(result) }
}

function writeOwn(part: AssistantPart, losses: Losses): Block[] {
  switch (part.type) {
    case 'text':
    case 'refusal':
      return texts([part])
    case 'reasoning':
      return writeThoughts(part, losses)
    case 'tool_call':
      return [writeCall(part, losses)]
    default:
      return []
  }
}

/** Writes thoughts that this provider has signed. It accepts no others. */
function writeThoughts({ text, proof }: ReasoningPart, losses: Losses): Block[] {
  if (proof?.family !== 'anthropic') {
    losses.drop(proof ? 'reasoning_proof' : 'reasoning_replay')
    return []
  }
  return [
    proof.kind === 'redacted'
      ? { type: 'redacted_thinking', data: proof.value }
      : { type: 'thinking', thinking: text, signature: proof.value }
  ]
}

function writeCall({ id, name, input, ...call }: ToolCall, losses: Losses): Block {
  const object = parseObject(input)
  if (!object)
    throw invalid(
      losses.conversation,
      `a conversation whose calls have a JSON object as their arguments, which ${JSON.stringify(id.slice(0, 64))} has not`
    )
  return { type: 'tool_use', id, name, input: object, ...writeMark(call) }
}

/** Trims the text that the model is to continue: the vendor refuses white space at its end. */
function trimEnd(content: Block[]): void {
  const last = content.at(-1)!
  if (last['type'] === 'text') last['text'] = (last['text'] as string).trimEnd()
}
