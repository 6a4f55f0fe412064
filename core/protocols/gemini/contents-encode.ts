// Writes the system instruction and the contents of a Gemini request.
import { isBlank, joinTexts, leadingSystem, mediaToUser } from '../canonical/conversation.ts'
import { parseObject } from '../canonical/json.ts'
import type { Losses } from '../canonical/losses.ts'
import { textOf } from '../canonical/media.ts'
import type {
  AssistantPart,
  MediaPart,
  ModelRequest,
  Proof,
  TextPart,
  ToolCall,
  ToolResult,
  Turn
} from '../canonical/request.ts'
import type { Traits } from '../canonical/traits.ts'
import { invalid } from '../canonical/untranslatable.ts'
import { noSignature, writeSignature } from './signature.ts'

type Part = Record<string, unknown>

interface Content {
  role: 'user' | 'model'
  parts: Part[]
}

/** Writes the conversation so that roles alternate. Only results stay apart from what the user says. */
export function writeConversation(
  request: ModelRequest,
  traits: Traits,
  losses: Losses
): { system: Part[]; contents: Content[] } {
  const { system: turns, rest } = leadingSystem(request)
  const contents: Content[] = []
  let last: Turn['role'] | undefined
  let calls: readonly ToolCall[] = []
  for (const turn of mediaToUser(rest, { results: true, own: false })) {
    // Later instructions have no role of their own here, so the user says them.
    const role = turn.role === 'system' ? 'user' : turn.role
    const parts =
      turn.role === 'tool'
        ? writeResults(turn.results, calls)
        : turn.role === 'assistant'
          ? writeOwn(turn.parts, traits, losses)
          : turn.parts.flatMap((part) => writePart(part, traits, losses))
    if (turn.role === 'assistant') calls = turn.parts.filter((part) => part.type === 'tool_call')
    if (parts.length === 0) continue
    if (role === last) for (const part of parts) contents.at(-1)!.parts.push(part)
    else contents.push({ role: role === 'assistant' ? 'model' : 'user', parts })
    last = role
  }
  if (contents[0]?.role !== 'user')
    throw invalid(losses.conversation, 'a conversation that the user begins, for the channel that serves this model')
  return { system: turns.flatMap(({ parts }) => parts.flatMap(writeText)), contents }
}

function writeText({ text }: { text: string }): Part[] {
  return isBlank(text) ? [] : [{ text }]
}

function writePart(part: TextPart | MediaPart, traits: Traits, losses: Losses): Part[] {
  return part.type === 'text' ? writeText(part) : [writeMedia(part, traits, losses)]
}

function writeMedia({ type, source, name }: MediaPart, traits: Traits, losses: Losses): Part {
  if (source.kind === 'data') {
    if (source.mimeType.startsWith('text/')) return { text: textOf(source, name) }
    return {
      inlineData: { mimeType: source.mimeType, data: source.data, ...(name !== undefined && { displayName: name }) }
    }
  }
  const { mimeType } = source
  const typed = mimeType !== undefined && { mimeType }
  if (source.kind === 'stored') return { fileData: { ...typed, fileUri: source.id } }
  if (!traits.fetchesUrls)
    throw losses.refusal(type === 'image' ? 'image_url' : type === 'video' ? 'video' : 'document_url')
  return { fileData: { ...typed, fileUri: source.url } }
}

/** Writes one part for each result, in the order of the calls. Each result has its call, and each call an id. */
function writeResults(results: readonly ToolResult[], calls: readonly ToolCall[]): Part[] {
  const places = new Map(calls.map(({ id }, place) => [id, place]))
  const order = ({ id }: ToolResult): number => places.get(id)!
  return [...results]
    .sort((a, b) => order(a) - order(b))
    .map(({ id, name, parts, error }) => ({
      functionResponse: { id, name, response: { [error ? 'error' : 'output']: joinTexts(parts) } }
    }))
}

function writeOwn(parts: readonly AssistantPart[], traits: Traits, losses: Losses): Part[] {
  // Newer models refuse a call without its signature. Of parallel calls only the first needs one.
  const first = parts.find((part) => part.type === 'tool_call')
  return parts.flatMap((part): Part[] => {
    switch (part.type) {
      case 'text':
        return isBlank(part.text) ? [] : [{ text: part.text, ...writeProof(part.proof, losses) }]
      case 'refusal':
        return writeText(part)
      case 'reasoning': {
        if (part.proof?.family === 'gemini')
          return [{ text: part.text, thought: true, ...writeProof(part.proof, losses) }]
        losses.drop(part.proof ? 'reasoning_proof' : 'reasoning_replay')
        return []
      }
      case 'tool_call': {
        const proof = writeProof(part.proof, losses)
        const signed =
          part === first && traits.thinking !== 'budget' ? { thoughtSignature: noSignature, ...proof } : proof
        return [{ functionCall: { id: part.id, name: part.name, args: argumentsOf(part, losses) }, ...signed }]
      }
      default:
        return [writeMedia(part, traits, losses)]
    }
  })
}

/** Writes a signature of this provider. It accepts no others. */
function writeProof(proof: Proof | undefined, losses: Losses): Part {
  if (proof?.family === 'gemini') return { thoughtSignature: writeSignature(proof) }
  if (proof) losses.drop('reasoning_proof')
  return {}
}

function argumentsOf({ id, input }: ToolCall, losses: Losses): unknown {
  const object = parseObject(input)
  if (!object)
    throw invalid(
      losses.conversation,
      `a conversation whose calls have a JSON object as their arguments, which ${JSON.stringify(id.slice(0, 64))} has not`
    )
  return object
}
