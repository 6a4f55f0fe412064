// Writes the system prompt and the messages of a Converse request.
import { isBlank, jsonOnly, leadingSystem, mediaToUser } from '../canonical/conversation.ts'
import { parseObject } from '../canonical/json.ts'
import type { Losses } from '../canonical/losses.ts'
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
import { MediaWriter } from './media-encode.ts'

type Block = Record<string, unknown>

/** A message of the request. */
export interface Message {
  role: 'user' | 'assistant'
  content: Block[]
}

/** What a message says that has a document and no text, which is refused without one. */
const nothingSaid = '.'

/** Something that may be marked for the cache. */
interface Marked {
  cache?: CacheMark
}

/** A cache point for a mark: it stands behind what is to be cached. */
export function cachePoint({ cache }: Marked): Block[] {
  if (!cache) return []
  const { ttl } = cache
  return [{ cachePoint: { type: 'default', ...((ttl === '5m' || ttl === '1h') && { ttl }) } }]
}

/** Writes the conversation so that roles alternate and the user comes first, as the protocol requires. */
export function writeConversation(request: ModelRequest, losses: Losses): { system: Block[]; messages: Message[] } {
  const { system: turns, rest } = leadingSystem(request)
  const system = turns.flatMap(({ parts }) => texts(parts))
  if (request.format?.type === 'json_object') system.push({ text: jsonOnly })
  const messages: Message[] = []
  const writer = new TurnWriter(losses)
  for (const turn of mediaToUser(rest, { results: false, own: true })) {
    const content = writer.write(turn)
    const role = turn.role === 'assistant' ? 'assistant' : 'user'
    const last = messages.at(-1)
    if (content.length === 0) continue
    if (last?.role === role) for (const block of content) last.content.push(block)
    else messages.push({ role, content })
  }
  if (messages[0]?.role !== 'user')
    throw invalid(losses.conversation, 'a conversation that the user begins, for the channel that serves this model')
  for (const { content } of messages)
    if (content.some((block) => 'document' in block) && !content.some((block) => 'text' in block))
      content.push({ text: nothingSaid })
  const last = messages.at(-1)!
  if (last.role === 'assistant') trimEnd(last.content)
  last.content.push(...cachePoint(request))
  return { system, messages }
}

/** Writes text blocks. Blank ones are left out, as they are refused. */
function texts(parts: readonly ({ text: string } & Marked)[]): Block[] {
  return parts.filter(({ text }) => !isBlank(text)).flatMap((part) => [{ text: part.text }, ...cachePoint(part)])
}

/** Writes the turns of one conversation. */
class TurnWriter {
  readonly #losses: Losses
  readonly #media: MediaWriter

  constructor(losses: Losses) {
    this.#losses = losses
    this.#media = new MediaWriter(losses)
  }

  write(turn: Turn): Block[] {
    switch (turn.role) {
      case 'system':
        return texts(turn.parts)
      case 'user':
        return turn.parts.flatMap((part) => [...this.#part(part), ...(part.type === 'text' ? [] : cachePoint(part))])
      case 'tool':
        return turn.results.flatMap((result) => this.#result(result))
      case 'assistant':
        return turn.parts.flatMap((part) => this.#own(part))
    }
  }

  #part(part: TextPart | MediaPart): Block[] {
    return part.type === 'text' ? texts([part]) : this.#media.write(part)
  }

  #result({ id, parts, error, ...result }: ToolResult): Block[] {
    // Cache points stand between blocks, and not within a result.
    const content = parts.flatMap(({ cache: _cache, ...part }) => this.#part(part))
    const toolResult = { toolUseId: id, content, ...(error && { status: 'error' }) }
    const marked = result.cache ? result : (parts.find(({ cache }) => cache) ?? {})
    return [{ toolResult }, ...cachePoint(marked)]
  }

  #own(part: AssistantPart): Block[] {
    switch (part.type) {
      case 'text':
      case 'refusal':
        return texts([part])
      case 'reasoning':
        return this.#thoughts(part)
      case 'tool_call':
        return [{ toolUse: this.#call(part) }, ...cachePoint(part)]
      default:
        return []
    }
  }

  /** Writes thoughts that this provider has signed, unchanged. It accepts no others. */
  #thoughts({ text, proof }: ReasoningPart): Block[] {
    if (proof?.family !== 'bedrock') {
      this.#losses.drop(proof ? 'reasoning_proof' : 'reasoning_replay')
      return []
    }
    const reasoningContent =
      proof.kind === 'redacted' ? { redactedContent: proof.value } : { reasoningText: { text, signature: proof.value } }
    return [{ reasoningContent }]
  }

  #call({ id, name, input }: ToolCall): Block {
    const object = parseObject(input)
    if (!object)
      throw invalid(
        this.#losses.conversation,
        `a conversation whose calls have a JSON object as their arguments, which ${JSON.stringify(id.slice(0, 64))} has not`
      )
    return { toolUseId: id, name, input: object }
  }
}

/** Trims the text that the model is to continue: white space at its end is refused. */
function trimEnd(content: Block[]): void {
  const last = content.findLast((block) => !('cachePoint' in block))!
  if (typeof last['text'] === 'string') last['text'] = last['text'].trimEnd()
}
