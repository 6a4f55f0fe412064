// A realtime session by the playground's API, and what was said in it.
import { signal } from '@preact/signals'
import { who } from '../../../session.ts'
import { secret } from '../draft.ts'
import { listAt, numberAt, parsed, textAt } from '../json.ts'
import { pathFor } from '../run.ts'
import { Loudspeaker } from './sound.ts'

/** Something that was said, or told by the gateway. */
export interface Line {
  readonly by: 'you' | 'model' | 'note'
  readonly text: string
  /** The response or item that pieces of it belong to. */
  readonly id: string
}

/** The most lines that are kept, and bytes that may wait to be sent. */
const mostLines = 500
const mostWaiting = 4 * 1024 * 1024

/** One session. It begins at once. */
export class RealtimeSession {
  readonly state = signal<'connecting' | 'open' | 'closed'>('connecting')
  readonly lines = signal<readonly Line[]>([])
  /** Of all responses so far. */
  readonly tokens = signal<{ input: number; output: number }>({ input: 0, output: 0 })
  readonly #socket: WebSocket
  #loudspeaker: Loudspeaker | undefined

  constructor(key: string | undefined, model: string) {
    const address = new URL(pathFor(key, `/v1/realtime?model=${encodeURIComponent(model)}`), location.href)
    address.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:'
    const csrf = who.peek()?.csrf ?? null
    // Pages cannot set headers here, so these are said as subprotocols.
    this.#socket = new WebSocket(address, [
      'realtime',
      ...(csrf === null ? [] : [`sluice-csrf.${csrf}`]),
      ...(key === undefined ? [`openai-insecure-api-key.${secret.peek()}`] : [])
    ])
    this.#socket.onopen = () => (this.state.value = 'open')
    this.#socket.onmessage = ({ data }: MessageEvent<unknown>) => {
      if (typeof data === 'string') this.#take(parsed(data))
    }
    this.#socket.onclose = ({ code, reason }) => this.#ended(code, reason)
  }

  /** Says something, and asks for an answer: in text, or as the model likes. */
  say(text: string, spoken: boolean): void {
    this.#add({ by: 'you', text, id: crypto.randomUUID?.() ?? String(Math.random()) })
    this.#send({
      type: 'conversation.item.create',
      item: { type: 'message', role: 'user', content: [{ type: 'input_text', text }] }
    })
    this.#send({ type: 'response.create', response: { output_modalities: [spoken ? 'audio' : 'text'] } })
  }

  /** Sends a piece of what the microphone heard. The model answers when it finds that the speaker has ended. */
  hear(audio: string): void {
    // What a slow connection does not take is not kept for later.
    if (this.#socket.bufferedAmount < mostWaiting) this.#send({ type: 'input_audio_buffer.append', audio })
  }

  /** Asks for an answer to what was heard, without waiting for silence. */
  answer(): void {
    this.#send({ type: 'input_audio_buffer.commit' })
    this.#send({ type: 'response.create' })
  }

  close(): void {
    this.#socket.close(1000)
    this.#loudspeaker?.close()
    this.#loudspeaker = undefined
  }

  #send(event: object): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(event))
  }

  #ended(code: number, reason: string): void {
    const refused = this.state.value === 'connecting'
    this.state.value = 'closed'
    this.#loudspeaker?.close()
    this.#loudspeaker = undefined
    const why = reason === '' ? `code ${code}` : reason
    const text = refused
      ? 'The session was refused: the key may not use this model here, a budget is used up, or you were signed out.'
      : `The session has ended (${why}).`
    this.#add({ by: 'note', text, id: '' })
  }

  #take(event: unknown): void {
    const id = textAt(event, 'item_id') || textAt(event, 'response_id')
    switch (textAt(event, 'type')) {
      case 'response.output_text.delta':
      case 'response.text.delta':
      case 'response.output_audio_transcript.delta':
      case 'response.audio_transcript.delta':
        return this.#append('model', id, textAt(event, 'delta'))
      case 'response.output_audio.delta':
      case 'response.audio.delta':
        return (this.#loudspeaker ??= new Loudspeaker()).play(textAt(event, 'delta'))
      case 'conversation.item.input_audio_transcription.completed':
        return this.#append('you', id, textAt(event, 'transcript'))
      case 'input_audio_buffer.speech_started':
        return this.#add({ by: 'note', text: 'You are heard.', id: '' })
      case 'response.done':
        return this.#done(event)
      case 'error':
        return this.#add({ by: 'note', text: `✕ ${textAt(event, 'error', 'message')}`, id: '' })
    }
  }

  #done(event: unknown): void {
    const { input, output } = this.tokens.peek()
    const usage = (name: string): number => numberAt(event, 'response', 'usage', name) ?? 0
    this.tokens.value = { input: input + usage('input_tokens'), output: output + usage('output_tokens') }
    for (const item of listAt(event, 'response', 'output'))
      if (textAt(item, 'type') === 'function_call')
        this.#add({ by: 'model', text: `${textAt(item, 'name')}(${textAt(item, 'arguments')})`, id: '' })
    if (textAt(event, 'response', 'status') === 'failed')
      this.#add({ by: 'note', text: `✕ ${textAt(event, 'response', 'status_details', 'error', 'message')}`, id: '' })
  }

  #append(by: Line['by'], id: string, text: string): void {
    const lines = this.lines.peek()
    const place = lines.findLastIndex((line) => line.id === id && line.by === by)
    if (place === -1) return this.#add({ by, text, id })
    this.lines.value = lines.with(place, { by, id, text: lines[place]!.text + text })
  }

  #add(line: Line): void {
    this.lines.value = [...this.lines.peek(), line].slice(-mostLines)
  }
}
