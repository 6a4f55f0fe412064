// Follows a realtime session: which responses there are, what they took, and how much the next one may read.
import type { Lens } from '../../bodies/lens.ts'
import { asObject } from '../object.ts'
import type { ClientFrame, FrameWatch, UpstreamFrame } from '../frames.ts'
import type { Payload, ReportedUsage } from '../protocol.ts'
import { readRealtimeUsage } from '../usage/openai-tokens.ts'
import { readSeconds } from '../usage/seconds.ts'
import { innerLens } from './inner-lens.ts'

/** Of G.711, the tightest form of sound, a tenth of a second in base64: as much as is one token of input. */
const soundBytesPerToken = 1066
/** Of PCM with 24,000 samples a second, a twentieth of a second in base64: as much as is one token of output. */
const spokenBytesPerToken = 3200
const typicalBytesPerToken = 3
/** Of a frame with a piece of text: what is not text, and of the rest what one token of output is. */
const usualFrame = 256
const writtenBytesPerToken = 4

const other = { kind: 'other' } as const
const opening = Buffer.from('{"type":"')
const quote = 0x22
const longestType = 64
/** Of the output of a response; the second is the earlier name. */
const limits = ['max_output_tokens', 'max_response_output_tokens'] as const
/** Members by which this goes: no other may look like one of them. */
const known: ReadonlySet<string> = new Set(['type', 'session', 'response', 'event_id', 'item', 'audio'])

/** One session. Costs a look at the first bytes of a frame of the upstream, and a scan of a client's. */
export class RealtimeWatch implements FrameWatch {
  maxOutput: number | undefined
  output = 0
  /** Tokens of the conversation as the upstream counted them last. */
  #counted = 0
  /** What the client said that is not in there: before the latest response began, and since. */
  #before = { text: 0, sound: 0 }
  #since = { text: 0, sound: 0 }

  get input(): { worst: number; typical: number } {
    const text = this.#before.text + this.#since.text
    const sound = this.#before.sound + this.#since.sound
    return {
      worst: this.#counted + text + sound,
      typical: this.#counted + Math.ceil(text / typicalBytesPerToken) + sound
    }
  }

  client(frame: Payload): ClientFrame {
    const { lens, data } = frame
    if (!lens) {
      this.#since.text += data.length
      // What is no JSON does nothing at an upstream. What is, and cannot be looked into, may do anything.
      return asObject(frame.json()) ? invalid(undefined, 'it names a member twice, or is too deep') : other
    }
    const event = lens.string('event_id')
    if (lens.oddKeys.some((key) => known.has(key.toLowerCase())))
      return invalid(event, 'a member is written in capitals')
    const type = lens.string('type')
    if (type === 'input_audio_buffer.append') {
      this.#since.sound += Math.ceil(lens.size('audio') / soundBytesPerToken)
      return other
    }
    this.#since.text += data.length
    if (type === 'session.update') return this.#settings(lens, event)
    if (type !== 'response.create') return other
    const wishes = innerLens(lens, 'response')
    if (lens.type('response') === 'object' && !wishes)
      return invalid(event, 'response names a member twice, or is too deep')
    return { kind: 'response', event, maxOutput: limitOf(wishes) ?? this.maxOutput }
  }

  upstream(frame: Payload): UpstreamFrame {
    const type = typeOf(frame)
    if (type.endsWith('.delta')) {
      const { length } = frame.data
      this.output += type.includes('audio.')
        ? Math.ceil(length / spokenBytesPerToken)
        : Math.max(1, Math.ceil((length - usualFrame) / writtenBytesPerToken))
      return other
    }
    switch (type) {
      case 'response.created':
        this.output = 0
        this.#before = { text: this.#before.text + this.#since.text, sound: this.#before.sound + this.#since.sound }
        this.#since = { text: 0, sound: 0 }
        return { kind: 'began', id: idOf(frame) }
      case 'response.done': {
        const usage = readRealtimeUsage(asObject(asObject(frame.json())?.['response'])?.['usage'])
        if (usage !== undefined && usage !== 'insane') this.#count(usage)
        return { kind: 'ended', id: idOf(frame), usage }
      }
      case 'conversation.item.input_audio_transcription.completed':
        return heard(frame)
      case 'session.created':
      case 'session.updated':
        return { kind: 'session' }
      case 'error': {
        const event = asObject(asObject(frame.json())?.['error'])?.['event_id']
        return { kind: 'error', event: typeof event === 'string' ? event : undefined }
      }
      default:
        return type.endsWith('.failed') ? { kind: 'failed' } : other
    }
  }

  #settings(lens: Lens, event: string | undefined): ClientFrame {
    const session = innerLens(lens, 'session')
    if (!session)
      return lens.type('session') === 'object' ? invalid(event, 'session names a member twice, or is too deep') : other
    if (session.oddKeys.some((key) => key.toLowerCase() === 'model'))
      return invalid(event, 'session.model is written in capitals')
    if (limits.some((name) => session.has(name))) this.maxOutput = limitOf(session)
    if (!session.has('model') || session.type('model') === 'null') return other
    const model = session.string('model')
    return model === undefined
      ? invalid(event, 'session.model must be the name of a model')
      : { kind: 'model', event, model }
  }

  #count({
    input,
    cached_input,
    cache_write,
    output,
    audio_input = 0,
    audio_output = 0,
    image_input = 0
  }: Exclude<ReportedUsage, 'insane' | undefined>): void {
    this.#counted = input + cached_input + cache_write + audio_input + image_input + output + audio_output
    this.#before = { text: 0, sound: 0 }
  }
}

function invalid(event: string | undefined, reason: string): ClientFrame {
  return { kind: 'invalid', event, reason }
}

/** Upstreams write the type first. */
function typeOf(frame: Payload): string {
  const { data } = frame
  if (data.compare(opening, 0, opening.length, 0, Math.min(opening.length, data.length)) === 0) {
    const end = data.indexOf(quote, opening.length)
    if (end !== -1 && end - opening.length <= longestType) return data.toString('latin1', opening.length, end)
  }
  return frame.lens?.string('type') ?? ''
}

function idOf(frame: Payload): string {
  const id = asObject(asObject(frame.json())?.['response'])?.['id']
  return typeof id === 'string' ? id : ''
}

/**
 * The transcript of what was said to the model, which another model makes and which is charged by the token or the
 * second.
 */
function heard(frame: Payload): UpstreamFrame {
  const { item_id, content_index = 0, usage } = asObject(frame.json()) ?? {}
  const said = asObject(usage)
  if (!said) return other
  return {
    kind: 'heard',
    id: `${String(item_id)}.${String(content_index)}`,
    usage: said['type'] === 'duration' ? readSeconds(said) : readRealtimeUsage(said)
  }
}

/** `inf` is none. */
function limitOf(settings: Lens | undefined): number | undefined {
  for (const name of limits) {
    const limit = settings?.number(name)
    if (limit !== undefined && Number.isInteger(limit) && limit > 0) return limit
  }
  return undefined
}
