// Reads the instructions and the input items of a Responses request.
import { Front } from '../canonical/conversation.ts'
import type { Losses } from '../canonical/losses.ts'
import { readData, readUrl } from '../canonical/media.ts'
import type { Members } from '../canonical/members.ts'
import { unseal } from '../canonical/proofs.ts'
import type {
  AssistantPart,
  MediaPart,
  ModelRequest,
  Proof,
  ReasoningPart,
  TextPart,
  ToolCall,
  ToolResult
} from '../canonical/request.ts'
import { invalid, Untranslatable } from '../canonical/untranslatable.ts'
import { readTools } from './tools-decode.ts'

export function readInput(fields: Members, request: ModelRequest, losses: Losses): void {
  const { turns } = request
  const instructions = fields.string('instructions')
  if (instructions) {
    losses.see('system')
    turns.push({ role: 'system', parts: [{ type: 'text', text: instructions }], developer: false })
  }
  const input = fields.value('input')
  if (input === undefined) throw new Untranslatable('missing_field', 'input is missing.', 'input')
  if (input === '' || (Array.isArray(input) && input.length === 0))
    throw invalid('input', 'text or a list of items that is not empty')
  if (typeof input === 'string') {
    turns.push({ role: 'user', parts: [{ type: 'text', text: input }] })
    return
  }
  const reader = new InputReader(request, losses)
  for (const item of fields.list('input') ?? []) reader.read(item)
}

class InputReader {
  readonly #request: ModelRequest
  readonly #losses: Losses
  readonly #calls = new Map<string, ToolCall>()
  readonly #front = new Front()
  /** The signature of the next call, which was sent as a reasoning item because calls have no place for it. */
  #ofNextCall: Proof | undefined

  constructor(request: ModelRequest, losses: Losses) {
    this.#request = request
    this.#losses = losses
  }

  read(item: Members): void {
    const type = item.string('type') ?? (item.value('role') === undefined ? 'item_reference' : 'message')
    // Items of an answer have ids and statuses that mean something only to their provider.
    item.ignore('id', 'status')
    switch (type) {
      case 'message':
        return this.#message(item)
      case 'function_call':
      case 'custom_tool_call':
        return this.#call(item, type === 'custom_tool_call')
      case 'function_call_output':
      case 'custom_tool_call_output':
        return this.#result(item)
      case 'reasoning':
        return this.#reasoning(item)
      case 'item_reference':
        return this.#losses.see('stored_state', item.place)
      case 'additional_tools':
        for (const tool of readTools(item, this.#losses)) this.#request.tools.push(tool)
        return
      default:
        throw this.#losses.refusalAt(
          type.endsWith('_call') || type.endsWith('_call_output') ? 'server_tool' : 'special',
          item.place
        )
    }
  }

  #message(item: Members): void {
    const role = item.needString('role')
    const { turns } = this.#request
    if (role === 'assistant') {
      const parts = readContent(item, this.#losses)
      const last = turns.at(-1)
      // Thoughts and calls join the message next to them. A second message becomes a turn of its own.
      const joins =
        last?.role === 'assistant' &&
        (last.parts.some(({ type }) => type === 'tool_call') || last.parts.every(({ type }) => type === 'reasoning'))
      if (joins) for (const part of parts) last.parts.push(part)
      else turns.push({ role, parts })
    } else if (role === 'user') {
      turns.push({
        role,
        parts: readContent(item, this.#losses).filter((part) => part.type === 'text' || 'source' in part)
      })
    } else if (role === 'system' || role === 'developer') {
      this.#losses.see(this.#front.has(turns) ? 'system' : 'system_later', item.place)
      const parts = readContent(item, this.#losses).filter((part) => part.type === 'text')
      turns.push({ role: 'system', parts, developer: role === 'developer' })
    } else throw invalid(item.at('role'), 'user, assistant, system or developer')
  }

  #call(item: Members, custom: boolean): void {
    const namespace = item.string('namespace')
    const call: ToolCall = {
      type: 'tool_call',
      id: item.needString('call_id'),
      name: item.needString('name'),
      ...(namespace !== undefined && { namespace }),
      custom,
      input: (custom ? item.string('input') : item.string('arguments')) ?? '',
      ...(this.#ofNextCall && { proof: this.#ofNextCall })
    }
    this.#ofNextCall = undefined
    this.#calls.set(call.id, call)
    this.#own(call)
  }

  #reasoning(item: Members): void {
    const encrypted = item.string('encrypted_content') ?? ''
    const id = item.string('id')
    const proof = unseal('openai', encrypted, 'encrypted')
    this.#losses.see(proof ? 'reasoning_proof' : 'reasoning_replay', item.at(proof ? 'encrypted_content' : 'summary'))
    if (proof?.kind === 'call') {
      this.#ofNextCall = proof
      return
    }
    const texts = (item.list('summary') ?? []).map(thoughtOf)
    const contents = (item.list('content') ?? []).map(thoughtOf)
    const text = (texts.length > 0 ? texts : contents).join('\n\n')
    if (text === '' && !proof) return
    const own = proof?.family === 'openai' && id !== undefined ? { ...proof, id } : proof
    this.#own({ type: 'reasoning', text, ...(own && { proof: own }) } satisfies ReasoningPart)
  }

  #result(item: Members): void {
    const id = item.needString('call_id')
    const call = this.#calls.get(id)
    item.ignore('name', 'namespace')
    const output = item.value('output')
    const parts =
      typeof output === 'string'
        ? [{ type: 'text' as const, text: output }]
        : (item.list('output') ?? []).map((part) => readPart(part, this.#losses))
    if (parts.some((part) => part.type !== 'text')) this.#losses.see('tool_result_media', item.at('output'))
    const result: ToolResult = {
      id,
      name: call?.name ?? '',
      ...(call?.namespace !== undefined && { namespace: call.namespace }),
      custom: call?.custom ?? false,
      parts: parts.filter((part) => part.type === 'text' || 'source' in part),
      error: false
    }
    const { turns } = this.#request
    const last = turns.at(-1)
    if (last?.role === 'tool') last.results.push(result)
    else turns.push({ role: 'tool', results: [result] })
  }

  /** Adds a part to the model's turn, or begins one. */
  #own(part: AssistantPart): void {
    const { turns } = this.#request
    const last = turns.at(-1)
    if (last?.role === 'assistant') last.parts.push(part)
    else turns.push({ role: 'assistant', parts: [part] })
  }
}

function thoughtOf(part: Members): string {
  part.ignore('type')
  return part.string('text') ?? ''
}

type ContentPart = TextPart | MediaPart | { type: 'refusal'; text: string }

function readContent(item: Members, losses: Losses): ContentPart[] {
  const content = item.value('content')
  if (content === undefined)
    throw new Untranslatable('missing_field', `${item.at('content')} is missing.`, item.at('content'))
  return typeof content === 'string'
    ? [{ type: 'text', text: content }]
    : (item.list('content') ?? []).map((part) => readPart(part, losses))
}

function readPart(part: Members, losses: Losses): ContentPart {
  if (part.value('prompt_cache_breakpoint') !== undefined) losses.see('hint', part.at('prompt_cache_breakpoint'))
  part.ignore('logprobs')
  const type = part.string('type')
  switch (type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      return { type: 'text', text: part.needString('text') }
    case 'refusal':
      losses.see('refusal_replay', part.place)
      return { type, text: part.needString('refusal') }
    case 'input_image':
      return readImage(part, losses)
    case 'input_file':
      return readFile(part, losses)
    default:
      throw new Untranslatable(
        'unsupported_parameter',
        `${part.place} has a type that cannot be translated for the channel that serves this model.`,
        part.place
      )
  }
}

function readImage(part: Members, losses: Losses): MediaPart {
  const id = part.string('file_id')
  if (id !== undefined) return storedFile('image', id, part, losses)
  const detail = part.string('detail')
  const source = readUrl(part.needString('image_url'), part.at('image_url'))
  losses.see(source.kind === 'url' ? 'image_url' : 'image', part.at('image_url'))
  // `auto` is the default, and asks for nothing.
  if (detail === undefined || detail === 'auto') return { type: 'image', source }
  losses.see('image_detail', part.at('detail'))
  return { type: 'image', source, detail }
}

function readFile(part: Members, losses: Losses): MediaPart {
  const id = part.string('file_id')
  if (id !== undefined) return storedFile('document', id, part, losses)
  const name = part.string('filename')
  const named = name !== undefined && { name }
  const url = part.string('file_url')
  if (url !== undefined) {
    losses.see('document_url', part.at('file_url'))
    return { type: 'document', source: readUrl(url, part.at('file_url')), ...named }
  }
  const data = part.needString('file_data')
  const source = /^data:/i.test(data)
    ? readUrl(data, part.at('file_data'))
    : readData('application/pdf', data, part.at('file_data'))
  losses.see(
    source.kind === 'data' && source.mimeType.startsWith('text/') ? 'text_document' : 'document',
    part.at('file_data')
  )
  return { type: 'document', source, ...named }
}

function storedFile(type: 'image' | 'document', id: string, part: Members, losses: Losses): MediaPart {
  losses.see('stored_file', part.at('file_id'))
  return { type, source: { kind: 'stored', family: 'openai', id } }
}
