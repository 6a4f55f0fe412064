// The settings and items of a realtime session, and their tokens.
import { invalid, isObject, isString } from '../../fields.ts'
import type { Fields } from '../../fields.ts'
import { Refusal } from '../../refusal.ts'
import { sampleRate } from '../../media/sound.ts'
import { countTokens } from '../../words/tokens.ts'
import type { Tool } from '../../words/tools.ts'

const tokensPerItem = 4
const tokensPerPicture = 85
/** The tokens of each second of sound that the model hears. */
const tokensPerSecond = 10
/** The bytes of a second of sound, by format. */
const bytesPerSecond: ReadonlyMap<unknown, number> = new Map([
  ['audio/pcm', sampleRate * 2],
  ['audio/pcmu', 8000],
  ['audio/pcma', 8000]
])

/** The tokens of a prompt, by medium. */
export interface Heard {
  text: number
  audio: number
  image: number
}

/** One item of the conversation: a message, a call or a result. */
export interface Item {
  readonly id: string
  readonly type: string
  readonly role: string | undefined
  readonly shown: Fields
  readonly text: string
  readonly tokens: Heard
}

/** The settings of a session before its client changes any. */
export function freshSettings(id: string, model: string): Record<string, unknown> {
  return {
    type: 'realtime',
    object: 'realtime.session',
    id,
    model,
    output_modalities: ['audio'],
    instructions: '',
    tools: [],
    tool_choice: 'auto',
    max_output_tokens: 'inf',
    audio: {
      input: {
        format: { type: 'audio/pcm', rate: sampleRate },
        transcription: null,
        noise_reduction: null,
        turn_detection: {
          type: 'server_vad',
          threshold: 0.5,
          prefix_padding_ms: 300,
          silence_duration_ms: 500,
          create_response: true,
          interrupt_response: true
        }
      },
      output: { format: { type: 'audio/pcm', rate: sampleRate }, voice: 'alloy', speed: 1 }
    },
    include: null
  }
}

/** The settings with a client's changes: objects are merged, anything else is replaced. */
export function merged(settings: unknown, given: unknown): unknown {
  if (!isObject(settings) || !isObject(given)) return given
  const made: Record<string, unknown> = { ...settings }
  for (const [name, value] of Object.entries(given)) made[name] = merged(made[name], value)
  return made
}

/** Reads what every response of a session will need. @throws Refusal */
export function checkSettings(settings: Fields, place: string): void {
  textOf(settings, 'instructions', place)
  readSessionTools(settings, place)
}

/**
 * The text of a member, empty when it is absent or null. `place`: what has it.
 * @throws Refusal when it is something else
 */
export function textOf(given: Fields, name: string, place: string): string {
  const value = given[name] ?? ''
  if (!isString(value)) throw invalid(`${place}.${name}`, 'Expected a string.')
  return value
}

/** How many seconds these bytes of sound last. */
export function secondsOf(format: unknown, bytes: number): number {
  return bytes / (bytesPerSecond.get(isObject(format) ? format['type'] : undefined) ?? sampleRate * 2)
}

/** The tokens of this many seconds of heard sound. */
function audioTokens(seconds: number): number {
  return Math.ceil(seconds * tokensPerSecond)
}

/**
 * Reads an item from a client.
 * @throws Refusal
 */
export function readItem(given: unknown, id: string, format: unknown): Item {
  if (!isObject(given)) throw invalid('item', 'Expected an object.')
  const { type, role, content, call_id: call } = given
  if (type === 'function_call_output') {
    if (typeof call !== 'string')
      throw new Refusal(400, "Missing required parameter: 'item.call_id'.", {
        param: 'item.call_id',
        code: 'missing_required_parameter'
      })
    return item(id, { ...given, type }, textOf(given, 'output', 'item'))
  }
  if (type === 'function_call') return item(id, { ...given, type }, textOf(given, 'arguments', 'item'))
  if (type !== 'message')
    throw invalid('item.type', 'Supported values are: message, function_call, function_call_output.')
  if (role !== 'user' && role !== 'assistant' && role !== 'system')
    throw invalid('item.role', 'Supported values are: user, assistant, system.')
  if (!Array.isArray(content) || !content.every(isObject))
    throw invalid('item.content', 'Expected an array of objects.')
  const texts: string[] = []
  const tokens: Heard = { text: 0, audio: 0, image: 0 }
  for (const part of content) {
    if (part['type'] === 'input_text' || part['type'] === 'output_text' || part['type'] === 'text')
      texts.push(textOf(part, 'text', 'item.content'))
    else if (part['type'] === 'input_audio')
      tokens.audio += audioTokens(secondsOf(format, Buffer.byteLength(textOf(part, 'audio', 'item.content'), 'base64')))
    else if (part['type'] === 'input_image') tokens.image += tokensPerPicture
    else throw invalid('item.content', 'Supported types are: input_text, input_audio, input_image, output_text.')
  }
  return item(id, { ...given, type, status: 'completed' }, texts.join('\n'), tokens)
}

/** The item for what a client has said aloud. */
export function spokenItem(id: string, seconds: number): Item {
  const shown = {
    type: 'message',
    role: 'user',
    status: 'completed',
    content: [{ type: 'input_audio', transcript: null }]
  }
  return item(id, shown, '', { text: 0, audio: audioTokens(seconds), image: 0 })
}

/** Makes an item with these members. */
export function item(
  id: string,
  shown: Fields & { readonly type: string },
  text: string,
  tokens: Heard = { text: 0, audio: 0, image: 0 }
): Item {
  return {
    id,
    type: shown.type,
    role: shown['role'] as string | undefined,
    text,
    shown: { ...shown, id, object: 'realtime.item' },
    tokens: { ...tokens, text: tokens.text + tokensPerItem + countTokens(text) }
  }
}

/** The tokens of items, and of the settings that the model reads. */
export function heardOf(items: Iterable<Item>, settings: Fields): Heard {
  const { tools } = settings
  const sum: Heard = { text: countTokens(textOf(settings, 'instructions', 'response')), audio: 0, image: 0 }
  if (Array.isArray(tools) && tools.length > 0) sum.text += countTokens(JSON.stringify(tools))
  for (const { tokens } of items) {
    sum.text += tokens.text
    sum.audio += tokens.audio
    sum.image += tokens.image
  }
  return sum
}

/**
 * The tools of a session or a response, and the names of those that `tool_choice` forces. `place`: what has them.
 * @throws Refusal
 */
export function readSessionTools(
  { tools, tool_choice: choice }: Fields,
  place: string
): { tools: Tool[]; forced: string[] } {
  const list = Array.isArray(tools) ? tools : []
  const read = list.filter(isObject).map((tool, i): Tool => ({
    kind: 'function',
    name: textOf(tool, 'name', `${place}.tools[${i}]`),
    schema: tool['parameters'] ?? { type: 'object' }
  }))
  if (choice === 'required') return { tools: read, forced: read.slice(0, 1).map(({ name }) => name) }
  return { tools: read, forced: isObject(choice) && typeof choice['name'] === 'string' ? [choice['name']] : [] }
}
