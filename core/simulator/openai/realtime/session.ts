// A realtime session: reads a client's events, and sends those of a model.
import type { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import { takeDirective } from '../../directive.ts'
import type { Directive } from '../../directive.ts'
import { invalid, isObject, isString, missing, parseObject } from '../../fields.ts'
import type { Fields } from '../../fields.ts'
import { Refusal } from '../../refusal.ts'
import type { Stats } from '../../stats.ts'
import type { Sleeper, Wheel } from '../../wheel.ts'
import { wantedCalls } from '../../words/tools.ts'
import {
  checkSettings,
  freshSettings,
  heardOf,
  merged,
  readItem,
  readSessionTools,
  secondsOf,
  spokenItem,
  textOf
} from './conversation.ts'
import type { Item } from './conversation.ts'
import { Response } from './response.ts'
import type { Event } from './response.ts'
import { thrownText } from '../../../thrown.ts'

/** How many events are sent without a pause before other work gets its turn. */
const burst = 64

/** A response whose events are being sent. */
interface Telling {
  response: Response
  events: Iterator<Event>
  told: number
}

/** What a session is opened with. */
export interface SessionParts {
  socket: WebSocket
  stream: Duplex
  model: string
  /** Unique among the sessions of a simulator. */
  name: string
  wheel: Wheel
  stats: Stats
}

/** The session of one connection. Its responses are sent one after the other. */
export class RealtimeSession implements Sleeper {
  readonly #parts: SessionParts
  readonly #items = new Map<string, Item>()
  readonly #telling: Telling[] = []
  #settings: Record<string, unknown>
  #ids = 0
  /** Sound that was heard and not committed yet. */
  #heard = { bytes: 0, spoken: false, silent: 0 }
  #sleeping = false
  #full = false
  #over = false

  constructor(parts: SessionParts) {
    const { socket, stream, model } = parts
    this.#parts = parts
    this.#settings = freshSettings(this.#nextId('sess'), model)
    socket.on('message', (data) => this.#take(data))
    socket.on('close', () => (this.#over = true))
    socket.on('error', () => (this.#over = true))
    stream.on('drain', () => {
      this.#full = false
      this.wake()
    })
    this.#send({ type: 'session.created', session: this.#settings })
    this.#send({
      type: 'conversation.created',
      conversation: { id: this.#nextId('conv'), object: 'realtime.conversation' }
    })
  }

  /** Sends further events, as far as pauses and the client's reading allow. */
  wake(): void {
    this.#sleeping = false
    for (let sent = 0; this.#telling.length > 0 && !this.#over && !this.#full && !this.#sleeping; sent++) {
      if (sent === burst) return this.#sleep(0)
      this.#tell(this.#telling[0]!)
    }
  }

  #tell(telling: Telling): void {
    const { directive } = telling.response.wanted
    if (directive.cut !== undefined && telling.told >= (directive.after_events ?? 0)) return this.#breakOff(directive)
    const next = telling.events.next()
    if (next.done) return this.#finish(telling, undefined)
    telling.told++
    this.#send(next.value)
    if (directive.gap_ms) this.#sleep(directive.gap_ms)
  }

  #sleep(ms: number): void {
    this.#sleeping = true
    this.#parts.wheel.arm(this, performance.now() + ms)
  }

  #breakOff({ cut, error }: Directive): void {
    const { socket, stream, stats } = this.#parts
    this.#over = true
    this.#telling.length = 0
    stats.cut++
    if (cut === 'stall') return
    if (cut === 'error') {
      this.#over = false
      this.#send(
        isObject(error)
          ? { type: 'error', ...error }
          : {
              type: 'error',
              error: {
                type: 'server_error',
                code: 'simulated_error',
                message: 'The simulator was told to give up here.'
              }
            }
      )
      this.#over = true
      socket.close(1011, 'simulated')
    } else if (cut === 'end') socket.close(1000, 'simulated')
    else if (cut === 'fin') stream.end()
    else if ('resetAndDestroy' in stream) (stream as unknown as { resetAndDestroy(): void }).resetAndDestroy()
  }

  #finish(telling: Telling, reason: 'turn_detected' | 'client_cancelled' | undefined): void {
    const { response } = telling
    this.#telling.splice(this.#telling.indexOf(telling), 1)
    if (response.wanted.conversation !== null) for (const one of response.items) this.#items.set(one.id, one)
    const { stats } = this.#parts
    stats.completed++
    stats.count(response.counts, undefined)
    this.#send(response.finish(reason))
  }

  #take(data: RawData): void {
    let event: string | undefined
    try {
      const fields = parseObject(data as Buffer)
      event = typeof fields['event_id'] === 'string' ? fields['event_id'] : undefined
      this.#obey(fields)
    } catch (error) {
      const { message, details } =
        error instanceof Refusal ? error : new Refusal(500, `The simulator failed: ${thrownText(error)}.`)
      const { type = 'invalid_request_error', code = null, param = null } = details
      this.#parts.stats.refused++
      this.#send({ type: 'error', error: { type, code, message, param, event_id: event ?? null } })
    }
  }

  #obey(fields: Fields): void {
    switch (fields['type']) {
      case 'session.update':
        return this.#update(fields['session'])
      case 'input_audio_buffer.append':
        return this.#hear(fields['audio'])
      case 'input_audio_buffer.commit':
        return this.#commit()
      case 'input_audio_buffer.clear':
        this.#heard = { bytes: 0, spoken: false, silent: 0 }
        return this.#send({ type: 'input_audio_buffer.cleared' })
      case 'conversation.item.create':
        return this.#add(
          readItem(fields['item'], idOf(fields['item']) ?? this.#nextId('item'), this.#format),
          fields['previous_item_id']
        )
      case 'conversation.item.retrieve':
        return this.#send({ type: 'conversation.item.retrieved', item: this.#find(fields).shown })
      case 'conversation.item.delete':
        this.#items.delete(this.#find(fields).id)
        return this.#send({ type: 'conversation.item.deleted', item_id: fields['item_id'] })
      case 'conversation.item.truncate':
        return this.#send({
          type: 'conversation.item.truncated',
          item_id: this.#find(fields).id,
          content_index: fields['content_index'],
          audio_end_ms: fields['audio_end_ms']
        })
      case 'response.create':
        return this.#respond(isObject(fields['response']) ? fields['response'] : {})
      case 'response.cancel':
        return this.#cancel(fields['response_id'])
      case undefined:
        throw missing('type')
      default:
        throw new Refusal(400, `Invalid value: ${JSON.stringify(fields['type']).slice(0, 100)}.`, {
          param: 'type',
          code: 'invalid_value'
        })
    }
  }

  #update(given: unknown): void {
    if (!isObject(given)) throw invalid('session', 'Expected an object.')
    const { model } = this.#settings
    if (given['model'] !== undefined && given['model'] !== model)
      throw new Refusal(400, 'The model of a session cannot be changed.', {
        param: 'session.model',
        code: 'cannot_update_model'
      })
    const settings = merged(this.#settings, given) as Record<string, unknown>
    checkSettings(settings, 'session')
    this.#settings = settings
    this.#send({ type: 'session.updated', session: this.#settings })
  }

  /** Takes sound. With turn detection, a pause after speech ends the turn. Samples of zero are silence. */
  #hear(audio: unknown): void {
    if (typeof audio !== 'string') throw missing('audio')
    const sound = Buffer.from(audio, 'base64')
    const heard = this.#heard
    const silent = sound.every((byte) => byte === 0)
    heard.bytes += sound.length
    const detection = this.#detection
    if (!detection) return
    const ms = secondsOf(this.#format, sound.length) * 1000
    if (!silent && !heard.spoken) {
      heard.spoken = true
      this.#send({ type: 'input_audio_buffer.speech_started', audio_start_ms: 0, item_id: this.#nextId('item') })
      if (detection['interrupt_response'] !== false && this.#telling[0]) this.#finish(this.#telling[0], 'turn_detected')
    }
    heard.silent = silent ? heard.silent + ms : 0
    const { silence_duration_ms: pause } = detection
    if (!heard.spoken || heard.silent < (typeof pause === 'number' ? pause : 500)) return
    this.#send({ type: 'input_audio_buffer.speech_stopped', audio_end_ms: 0, item_id: this.#nextId('item') })
    this.#commit()
    if (detection['create_response'] !== false) this.#respond({})
  }

  #commit(): void {
    const { bytes } = this.#heard
    if (bytes === 0)
      throw new Refusal(400, 'Error committing input audio buffer: the buffer is empty.', {
        code: 'input_audio_buffer_commit_empty'
      })
    this.#heard = { bytes: 0, spoken: false, silent: 0 }
    const said = spokenItem(this.#nextId('item'), secondsOf(this.#format, bytes))
    this.#send({ type: 'input_audio_buffer.committed', previous_item_id: this.#last, item_id: said.id })
    this.#add(said, undefined)
    const transcription = this.#input['transcription']
    if (!isObject(transcription)) return
    const seconds = Math.ceil(secondsOf(this.#format, bytes))
    const tokens = {
      type: 'tokens',
      total_tokens: said.tokens.audio + 3,
      input_tokens: said.tokens.audio,
      input_token_details: { text_tokens: 0, audio_tokens: said.tokens.audio },
      output_tokens: 3
    }
    const usage =
      isString(transcription['model']) && transcription['model'].startsWith('whisper')
        ? { type: 'duration', seconds }
        : tokens
    this.#send({
      type: 'conversation.item.input_audio_transcription.completed',
      item_id: said.id,
      content_index: 0,
      transcript: 'What was said.',
      usage
    })
  }

  #add(added: Item, previous: unknown): void {
    if (this.#items.has(added.id))
      throw new Refusal(400, `The item '${added.id}' is there already.`, { param: 'item.id', code: 'item_exists' })
    const before = typeof previous === 'string' ? previous : this.#last
    this.#items.set(added.id, added)
    this.#send({ type: 'conversation.item.added', previous_item_id: before, item: added.shown })
    this.#send({ type: 'conversation.item.done', previous_item_id: before, item: added.shown })
  }

  #respond(given: Fields): void {
    const apart = given['conversation'] === 'none'
    if (!apart && this.#telling.some(({ response }) => response.wanted.conversation !== null)) {
      throw new Refusal(400, 'Conversation already has an active response.', {
        code: 'conversation_already_has_active_response'
      })
    }
    const settings: Fields = { ...this.#settings, ...given }
    const input = Array.isArray(given['input'])
      ? given['input'].map((one) => readItem(one, this.#nextId('item'), this.#format))
      : undefined
    const items = input ?? [...this.#items.values()]
    const asked = items.findLast(({ role }) => role === 'user')
    const last = items.at(-1)
    const toolResult = last?.type === 'function_call_output' ? last.text : undefined
    const { model } = this.#parts
    const { directive, prompt } = takeDirective(
      textOf(given, 'instructions', 'response') + (toolResult === undefined ? (asked?.text ?? '') : ''),
      model,
      'item.content'
    )
    const { tools, forced } = readSessionTools(settings, 'response')
    const limit = settings['max_output_tokens']
    const modalities = settings['output_modalities']
    const response = new Response({
      toolResult,
      id: this.#nextId('resp'),
      model,
      directive,
      prompt,
      heard: heardOf(items, settings),
      calls: wantedCalls(tools, items.at(-1) === asked ? forced : [], directive),
      maxTokens: typeof limit === 'number' ? limit : undefined,
      aloud: !Array.isArray(modalities) || modalities.includes('audio'),
      conversation: apart ? null : 'conv',
      metadata: given['metadata'],
      nextId: (kind) => this.#nextId(kind)
    })
    this.#parts.stats.requests++
    this.#telling.push({ response, events: response.events(), told: 0 })
    this.#send(response.created())
    if (directive.first_event_ms) this.#sleep(directive.first_event_ms)
    else if (!this.#sleeping) this.#sleep(0)
  }

  #cancel(id: unknown): void {
    const telling = this.#telling.find(({ response }) => id === undefined || id === null || response.id === id)
    if (!telling)
      throw new Refusal(400, 'Cancellation failed: no active response found.', { code: 'response_cancel_not_active' })
    this.#finish(telling, 'client_cancelled')
  }

  #find({ item_id: id }: Fields): Item {
    if (!isString(id)) throw invalid('item_id', 'Expected a string.')
    const found = this.#items.get(id)
    if (!found)
      throw new Refusal(400, `Item with item_id not found: ${id.slice(0, 100)}`, {
        param: 'item_id',
        code: 'item_not_found'
      })
    return found
  }

  get #last(): string | null {
    return [...this.#items.keys()].at(-1) ?? null
  }

  get #input(): Fields {
    const { audio } = this.#settings
    const input = isObject(audio) ? audio['input'] : undefined
    return isObject(input) ? input : {}
  }

  get #format(): unknown {
    return this.#input['format']
  }

  get #detection(): Fields | undefined {
    const detection = this.#input['turn_detection']
    return isObject(detection) ? detection : undefined
  }

  #nextId(kind: string): string {
    return `${kind}_${this.#parts.name}${String(++this.#ids).padStart(6, '0')}`
  }

  #send({ type, ...members }: Event): void {
    const { socket, stream } = this.#parts
    if (this.#over || socket.readyState !== socket.OPEN) return
    socket.send(JSON.stringify({ type, event_id: this.#nextId('event'), ...members }))
    this.#full = stream.writableNeedDrain
  }
}

function idOf(given: unknown): string | undefined {
  const id = isObject(given) ? given['id'] : undefined
  return typeof id === 'string' && id !== '' ? id : undefined
}
