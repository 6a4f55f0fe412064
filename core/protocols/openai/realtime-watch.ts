// Follows a realtime session: which responses there are, what they used, and how much the next one may read.
import type { Lens } from '../../bodies/lens.ts'
import { KnownNames } from '../../bodies/lookalike.ts'
import { asObject } from '../object.ts'
import type { ClientFrame, FrameWatch, UpstreamFrame } from '../frames.ts'
import type { Payload, ReportedUsage } from '../protocol.ts'
import { readRealtimeUsage } from '../usage/openai-tokens.ts'
import { readSeconds } from '../usage/seconds.ts'

/** Base64 bytes of sound for each input token: a tenth of a second of G.711, the smallest format. */
const soundBytesPerToken = 1066
/** Base64 bytes of sound for each output token: a twentieth of a second of PCM at 24,000 samples per second. */
const spokenBytesPerToken = 3200
const typicalBytesPerToken = 3
/** For estimates of text output: bytes of a frame besides its text, and bytes of text for each token. */
const usualFrame = 256
const writtenBytesPerToken = 4

/** The longest name, type or id, and the largest usage that is parsed, in bytes. */
const longestName = 512
const largestUsage = 64 * 1024

const other = { kind: 'other' } as const
/** Settings that limit the output of a response. The second is an earlier name. */
const limits = ['max_output_tokens', 'max_response_output_tokens']
/** The names that decide what a frame means: types of a client's frames, their members, and members of settings. */
const types = new KnownNames(['session.update', 'response.create', 'input_audio_buffer.append'])
const members = new KnownNames(['type', 'session', 'response', 'event_id', 'item', 'audio'])
const settings = new KnownNames(['model', ...limits])
/** Members that are objects, and the names in them that no other name may resemble. */
const inner: readonly (readonly [string, KnownNames])[] = [
  ['session', settings],
  ['response', settings]
]
export const looksInto = [...inner.map(([key]) => key), 'error', 'item']

/** Follows one session. It scans every frame once. */
export class RealtimeWatch implements FrameWatch {
  output = 0
  /** The session's limit on the output tokens of a response. */
  #limit = Infinity
  /** How many changes of settings the upstream has not confirmed yet. */
  #unconfirmed = 0
  /** The tokens of the conversation at the upstream's last count. */
  #counted = 0
  /**
   * What the client sent and that count lacks: before the latest response began, and since then. In bytes and tokens.
   */
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

  get maxOutput(): number | undefined {
    return finite(this.#limit)
  }

  client(frame: Payload): ClientFrame {
    const { lens, data } = frame
    const event = lens && short(lens, 'event_id')
    const reason = lens ? twofold(frame, lens) : 'it is no JSON object, names a member twice, or is too deep'
    if (!lens || reason !== undefined) return { kind: 'invalid', event, reason: reason! }
    const type = short(lens, 'type')
    if (type === 'input_audio_buffer.append') {
      this.#since.sound += Math.ceil(lens.size('audio') / soundBytesPerToken)
      return other
    }
    this.#since.text += data.length
    const session = frame.inside('session')
    if (type === 'session.update') this.#update(session)
    const wishes = frame.inside('response')
    const model = nameIn(session) ?? nameIn(wishes)
    if (type !== 'response.create') return model === undefined ? other : { kind: 'model', event, model }
    return { kind: 'response', event, model, maxOutput: finite(limitIn(wishes) ?? this.#limit) }
  }

  upstream(frame: Payload): UpstreamFrame {
    const { lens } = frame
    if (!lens || looksInto.some((key) => frame.inside(key) === null)) return { kind: 'invalid' }
    const type = short(lens, 'type') ?? ''
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
        const usage = readRealtimeUsage(usageIn(frame.inside('response')))
        if (usage !== undefined && usage !== 'insane') this.#count(usage)
        return { kind: 'ended', id: idOf(frame), usage }
      }
      case 'conversation.item.input_audio_transcription.completed':
        return heard(lens)
      case 'error':
        return { kind: 'error', event: short(frame.inside('error'), 'event_id') }
    }
    const session = frame.inside('session')
    if (!session) return type.endsWith('.failed') ? { kind: 'failed' } : other
    if (type === 'session.updated' && this.#unconfirmed > 0) this.#unconfirmed--
    // While other changes are unconfirmed, a higher limit among them stays in force.
    if (this.#unconfirmed === 0) this.#limit = limitIn(session) ?? this.#limit
    return { kind: 'session' }
  }

  /**
   * Takes a client's new settings. A higher limit counts at once; a lower one only once the upstream confirms it, as it
   * may refuse.
   */
  #update(session: Lens | null | undefined): void {
    this.#unconfirmed++
    this.#limit = Math.max(this.#limit, limitIn(session) ?? 0)
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

/** Why a client's frame could be understood in several ways; undefined when it could not. */
function twofold(frame: Payload, lens: Lens): string | undefined {
  const taken = members.lookalike(lens)
  if (taken) return `${JSON.stringify(taken.name.slice(0, 64))} would be taken for ${taken.taken} by some`
  const type = short(lens, 'type')
  if (type === undefined) return 'its type is no short text'
  if (types.takenFor(type) !== undefined) return `its type is written otherwise than those that there are`
  for (const [key, names] of inner) {
    const within = frame.inside(key)
    if (within === null) return `${key} names a member twice`
    const alike = within && names.lookalike(within)
    if (alike) return `${key} has a member that would be taken for ${alike.taken} by some`
    if (within?.has('model') && within.type('model') !== 'null' && nameIn(within) === undefined)
      return `${key}.model must be the name of a model`
  }
  const [session, response] = [nameIn(frame.inside('session')), nameIn(frame.inside('response'))]
  return session !== undefined && response !== undefined && session !== response ? 'it names two models' : undefined
}

/** A text that is not longer than a name may be. */
function short(lens: Lens | null | undefined, key: string): string | undefined {
  return lens && lens.size(key) <= longestName ? lens.string(key) : undefined
}

function nameIn(within: Lens | null | undefined): string | undefined {
  return short(within, 'model')
}

function idOf(frame: Payload): string {
  return short(frame.inside('response'), 'id') ?? ''
}

function usageIn(within: Lens | null | undefined): unknown {
  return within && within.size('usage') <= largestUsage ? within.json('usage') : undefined
}

/** A transcript of the user's speech, which another model makes, and which is charged by tokens or by seconds. */
function heard(lens: Lens): UpstreamFrame {
  const usage = asObject(usageIn(lens))
  if (!usage) return other
  const id = `${short(lens, 'item_id') ?? ''}.${lens.number('content_index') ?? 0}`
  return { kind: 'heard', id, usage: usage['type'] === 'duration' ? readSeconds(usage) : readRealtimeUsage(usage) }
}

/**
 * The limit on output tokens: infinite for `inf`, undefined when none is given. If both names are given, the larger
 * limit counts, as upstreams know only one of them.
 */
function limitIn(within: Lens | null | undefined): number | undefined {
  const said = limits.filter((name) => within?.has(name)).map((name) => within!.number(name) ?? Infinity)
  return said.length === 0 ? undefined : Math.max(...said.map((limit) => (limit > 0 ? limit : Infinity)))
}

function finite(limit: number): number | undefined {
  return limit === Infinity ? undefined : limit
}
