// Reads the system instruction and the contents of a Gemini request.
import type { Losses } from '../canonical/losses.ts'
import { kindOf, readData } from '../canonical/media.ts'
import type { Members } from '../canonical/members.ts'
import type {
  AssistantPart,
  MediaPart,
  MediaSource,
  SystemTurn,
  TextPart,
  ToolCall,
  ToolResult,
  Turn
} from '../canonical/request.ts'
import { invalid, Untranslatable } from '../canonical/untranslatable.ts'
import { readSignature, readThoughts } from './signature.ts'

export function readSystem(instruction: Members | undefined, losses: Losses): SystemTurn[] {
  // Client libraries set the role `user` here, which means nothing.
  instruction?.ignore('role')
  const parts = (instruction?.list('parts') ?? []).map((part): TextPart => ({
    type: 'text',
    text: part.needString('text')
  }))
  if (parts.length === 0) return []
  losses.see('system')
  return [{ role: 'system', parts, developer: false }]
}

export function readContents(fields: Members, losses: Losses): Turn[] {
  const contents = fields.list('contents')
  if (!contents) throw new Untranslatable('missing_field', 'contents is missing.', 'contents')
  const turns: Turn[] = []
  const open = new OpenCalls()
  contents.forEach((content, index) => {
    const role = content.string('role') ?? 'user'
    if (role === 'model') readModel(content, index, turns, open, losses)
    else if (role === 'user' || role === 'function') readUser(content, turns, open, losses)
    else throw invalid(content.at('role'), 'user or model')
  })
  return turns
}

/** Reads a content of the model. Client libraries send an answer back as its chunks, each as a content of its own. */
function readModel(content: Members, index: number, turns: Turn[], open: OpenCalls, losses: Losses): void {
  const last = turns.at(-1)
  const parts: AssistantPart[] = last?.role === 'assistant' ? last.parts : []
  if (last?.role !== 'assistant') {
    turns.push({ role: 'assistant', parts })
    open.clear()
  }
  ;(content.list('parts') ?? []).forEach((part, place) => {
    const read = readOwn(part, `call_${index}_${place}`, losses)
    if (read?.type === 'tool_call') {
      addThoughts(parts, part, losses)
      open.add(read)
    }
    const before = parts.at(-1)
    if (read?.type === 'text' && before?.type === 'text' && !before.proof) {
      before.text += read.text
      if (read.proof) before.proof = read.proof
    } else if (read?.type === 'reasoning' && before?.type === 'reasoning' && !before.proof) {
      before.text += read.text
      if (read.proof) before.proof = read.proof
    } else if (read && !(read.type === 'text' && read.text === '')) parts.push(read)
  })
}

/** Puts thoughts that were sealed into a call's signature back before the call, unless the client sent them as well. */
function addThoughts(parts: AssistantPart[], call: Members, losses: Losses): void {
  for (const { first, ...thought } of readThoughts(call.string('thoughtSignature') ?? '')) {
    losses.see('reasoning_proof', call.at('thoughtSignature'))
    const own = parts.filter((part) => part.type === 'reasoning')
    if (own.some(({ proof }) => proof?.value === thought.proof?.value)) continue
    const unproven = own.find((part) => !part.proof && part.text === thought.text)
    if (unproven && thought.proof) unproven.proof = thought.proof
    else if (first) parts.unshift(thought)
    else parts.push(thought)
  }
}

/** `id`: for a call without one. */
function readOwn(part: Members, id: string, losses: Losses): AssistantPart | undefined {
  const call = part.members('functionCall')
  const signature = part.string('thoughtSignature')
  const proof = signature === undefined ? undefined : readSignature(signature, call ? 'call' : 'signature')
  if (proof) losses.see('reasoning_proof', part.at('thoughtSignature'))
  const proven = proof && { proof }
  if (call) {
    const made: ToolCall = {
      type: 'tool_call',
      id: call.string('id') || id,
      name: call.needString('name'),
      custom: false,
      input: JSON.stringify(call.json('args') ?? {})
    }
    return { ...made, ...proven }
  }
  const text = part.string('text')
  if (text !== undefined && part.flag('thought')) {
    losses.see('reasoning_replay', part.at('thought'))
    return { type: 'reasoning', text, ...proven }
  }
  if (text !== undefined) return { type: 'text', text, ...proven }
  const media = readMedia(part, losses)
  if (media) losses.see('image_replay', part.place)
  return media
}

function readUser(content: Members, turns: Turn[], open: OpenCalls, losses: Losses): void {
  const results: ToolResult[] = []
  const parts: (TextPart | MediaPart)[] = []
  for (const part of content.list('parts') ?? []) {
    const response = part.members('functionResponse')
    const text = part.string('text')
    if (part.value('videoMetadata') !== undefined) losses.see('hint', part.at('videoMetadata'))
    if (response) results.push(readResult(response, open, losses))
    else if (text !== undefined) parts.push({ type: 'text', text })
    else {
      const media = readMedia(part, losses)
      if (media) parts.push(media)
    }
  }
  const last = turns.at(-1)
  if (last?.role === 'tool') for (const result of results) last.results.push(result)
  else if (results.length > 0) turns.push({ role: 'tool', results })
  if (parts.length > 0 || results.length === 0) turns.push({ role: 'user', parts })
}

/** The calls of the model's last turn that have no result yet. Conversations may have very many. */
class OpenCalls {
  readonly #byId = new Map<string, ToolCall>()
  readonly #byName = new Map<string, Set<ToolCall>>()

  clear(): void {
    this.#byId.clear()
    this.#byName.clear()
  }

  add(call: ToolCall): void {
    this.#byId.set(call.id, call)
    const named = this.#byName.get(call.name)
    if (named) named.add(call)
    else this.#byName.set(call.name, new Set([call]))
  }

  /** Takes the call with this id; without an id, the first with this name. */
  take(id: string | undefined, name: string): ToolCall | undefined {
    const call = id ? this.#byId.get(id) : this.#byName.get(name)?.values().next().value
    if (!call) return undefined
    this.#byId.delete(call.id)
    this.#byName.get(call.name)?.delete(call)
    return call
  }
}

/** Reads a result. It belongs to the call with its id; without an id, to the first open call with its name. */
function readResult(response: Members, open: OpenCalls, losses: Losses): ToolResult {
  const name = response.needString('name')
  const given = response.string('id')
  const call = open.take(given, name)
  const parts: (TextPart | MediaPart)[] = []
  const { text, error } = readResponse(response.json('response') ?? {})
  if (error) losses.see('tool_result_error', response.at('response'))
  if (text !== '') parts.push({ type: 'text', text })
  for (const part of response.list('parts') ?? []) {
    const media = readMedia(part, losses)
    if (media) parts.push(media)
    losses.see('tool_result_media', part.place)
  }
  return { id: given || (call?.id ?? name), name, custom: false, parts, error }
}

function readResponse(response: Record<string, unknown>): { text: string; error: boolean } {
  const [[key, value] = [], ...others] = Object.entries(response)
  const alone = others.length === 0 && (key === 'output' || key === 'error')
  if (key === undefined) return { text: '', error: false }
  return {
    text: alone && typeof value === 'string' ? value : JSON.stringify(alone ? value : response),
    error: alone && key === 'error'
  }
}

/** Undefined for parts that only this provider's models know. They are refused later. */
function readMedia(part: Members, losses: Losses): MediaPart | undefined {
  const data = part.members('inlineData')
  if (data) {
    const source = readData(data.needString('mimeType'), data.needString('data'), data.at('data'))
    const { mimeType } = source
    const type = kindOf(mimeType)
    losses.see(mimeType.startsWith('text/') ? 'text_document' : type, part.place)
    const name = data.string('displayName')
    return { type, source, ...(name !== undefined && { name }) }
  }
  const file = part.members('fileData')
  if (!file) {
    losses.see('server_tool', part.place)
    return undefined
  }
  const [uri, mimeType] = [file.needString('fileUri'), file.string('mimeType')]
  const type = mimeType === undefined ? 'document' : kindOf(mimeType)
  const typed = mimeType !== undefined && { mimeType }
  // Files in Google's own store have no address that another provider could read.
  if (!/^https?:/i.test(uri) || /^https:\/\/generativelanguage\.googleapis\.com\//i.test(uri)) {
    losses.see('stored_file', file.place)
    return { type, source: { kind: 'stored', family: 'gemini', id: uri, ...typed } }
  }
  losses.see(type === 'image' ? 'image_url' : type === 'video' ? 'video' : 'document_url', file.place)
  const source: MediaSource = { kind: 'url', url: uri, ...typed }
  return { type, source }
}
