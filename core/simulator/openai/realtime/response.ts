// One response of a realtime session: its events in order, and its usage.
import { hash } from 'node:crypto'
import type { Directive } from '../../directive.ts'
import type { Fields } from '../../fields.ts'
import type { Counts } from '../../stats.ts'
import { pcm } from '../../media/pcm.ts'
import { checkSize, compose } from '../../words/composition.ts'
import type { Composition } from '../../words/composition.ts'
import { joined } from '../../words/text.ts'
import type { WantedCall } from '../../words/tools.ts'
import { item } from './conversation.ts'
import type { Heard, Item } from './conversation.ts'

/** How long the sound of one output token lasts. */
const secondsPerToken = 1 / 20

/** An event without its id, which the session adds. */
export type Event = Readonly<{ type: string; [name: string]: unknown }>

/** What a response is made from. */
export interface Wanted {
  id: string
  model: string
  directive: Directive
  prompt: string
  /** The result of a tool, if nothing has been said since it came. */
  toolResult: string | undefined
  heard: Heard
  calls: readonly WantedCall[]
  /** The limit on output tokens; undefined when there is none. */
  maxTokens: number | undefined
  /** Whether the text is also spoken. */
  aloud: boolean
  /** The conversation that the response belongs to; null when it is outside of one. */
  conversation: string | null
  metadata: unknown
  nextId(kind: string): string
}

/** One response. {@link finish} gives its last event, even when not all the others were sent. */
export class Response {
  readonly id: string
  readonly wanted: Wanted
  /** Items that were sent completely. */
  readonly items: Item[] = []
  readonly #composition: Composition
  #text = 0
  #audio = 0

  /** @throws Refusal when a directive asks for too much */
  constructor(wanted: Wanted) {
    const { directive, model, prompt, toolResult, heard, calls, maxTokens, id } = wanted
    this.id = id
    this.wanted = wanted
    checkSize(directive, true, 1)
    this.#composition = compose({
      model,
      directive,
      prompt,
      toolResult,
      promptTokens: heard.text + heard.audio + heard.image,
      maxTokens,
      stop: [],
      calls,
      json: undefined,
      digest: hash('sha1', [model, prompt, heard.text, heard.audio].join('\0'))
    })
  }

  created(): Event {
    return { type: 'response.created', response: this.#shown('in_progress', null, null) }
  }

  /** All events between the first and the last. */
  *events(): Generator<Event> {
    const { text, calls } = this.#composition
    let output = 0
    if (text) yield* this.#message(output++)
    for (const call of calls) {
      const id = this.wanted.nextId('item')
      const about = { response_id: this.id, item_id: id, output_index: output }
      const shown = {
        id,
        object: 'realtime.item',
        type: 'function_call',
        status: 'in_progress',
        name: call.name,
        call_id: `call_${call.serial}`,
        arguments: ''
      }
      yield { type: 'response.output_item.added', response_id: this.id, output_index: output, item: shown }
      yield { type: 'conversation.item.added', previous_item_id: null, item: shown }
      for (const delta of call.input.pieces()) {
        this.#text++
        yield { type: 'response.function_call_arguments.delta', ...about, call_id: shown.call_id, delta }
      }
      const whole = joined(call.input)
      yield {
        type: 'response.function_call_arguments.done',
        ...about,
        call_id: shown.call_id,
        name: call.name,
        arguments: whole
      }
      yield* this.#itemDone(output++, { ...shown, status: 'completed', arguments: whole }, whole)
    }
  }

  *#message(output: number): Generator<Event> {
    const { aloud, nextId } = this.wanted
    const text = this.#composition.text!
    const id = nextId('item')
    const about = { response_id: this.id, item_id: id, output_index: output, content_index: 0 }
    const part = aloud ? { type: 'audio', transcript: '' } : { type: 'text', text: '' }
    const shown = {
      id,
      object: 'realtime.item',
      type: 'message',
      status: 'in_progress',
      role: 'assistant',
      content: []
    }
    yield { type: 'response.output_item.added', response_id: this.id, output_index: output, item: shown }
    yield { type: 'conversation.item.added', previous_item_id: null, item: shown }
    yield { type: 'response.content_part.added', ...about, part }
    for (const delta of text.pieces()) {
      this.#text++
      if (!aloud) yield { type: 'response.output_text.delta', ...about, delta }
      else {
        yield { type: 'response.output_audio_transcript.delta', ...about, delta }
        this.#audio++
        yield {
          type: 'response.output_audio.delta',
          ...about,
          delta: Buffer.concat([...pcm.frames(secondsPerToken)]).toString('base64')
        }
      }
    }
    // Filler text is not kept in memory just for an event that repeats it.
    const whole = this.wanted.directive.bytes === undefined ? joined(text) : ''
    if (aloud) {
      yield { type: 'response.output_audio.done', ...about }
      yield { type: 'response.output_audio_transcript.done', ...about, transcript: whole }
    } else yield { type: 'response.output_text.done', ...about, text: whole }
    yield {
      type: 'response.content_part.done',
      ...about,
      part: aloud ? { type: 'audio', transcript: whole } : { type: 'text', text: whole }
    }
    const content = [aloud ? { type: 'output_audio', transcript: whole } : { type: 'output_text', text: whole }]
    yield* this.#itemDone(
      output,
      { ...shown, status: this.#composition.cut ? 'incomplete' : 'completed', content },
      whole
    )
  }

  *#itemDone(output: number, shown: Fields & { id: string; type: string }, text: string): Generator<Event> {
    this.items.push(item(shown.id, shown, text))
    yield { type: 'response.output_item.done', response_id: this.id, output_index: output, item: shown }
    yield { type: 'conversation.item.done', previous_item_id: null, item: shown }
  }

  /** The last event. `reason`: why the response was cancelled; undefined when it was not. */
  finish(reason: 'turn_detected' | 'client_cancelled' | undefined): Event {
    const { directive } = this.wanted
    const { finish, fail, usage } = directive
    const cut = this.#composition.cut ? 'max_output_tokens' : finish
    const counted = usage === undefined ? this.#usage() : usage
    if (reason)
      return { type: 'response.done', response: this.#shown('cancelled', { type: 'cancelled', reason }, counted) }
    if (fail)
      return {
        type: 'response.done',
        response: this.#shown(
          'failed',
          { type: 'failed', error: { type: 'server_error', ...fail } },
          usage === undefined ? null : counted
        )
      }
    if (cut)
      return {
        type: 'response.done',
        response: this.#shown('incomplete', { type: 'incomplete', reason: cut }, counted)
      }
    return { type: 'response.done', response: this.#shown('completed', null, counted) }
  }

  /** What the events sent so far add to the statistics. */
  get counts(): Counts {
    const { text, audio, image } = this.wanted.heard
    return { prompt: text + audio + image, cached: this.#cached, completion: this.#text + this.#audio }
  }

  get #cached(): number {
    return Math.min(this.wanted.directive.cached_tokens ?? 0, this.wanted.heard.text)
  }

  #usage(): unknown {
    const { text, audio, image } = this.wanted.heard
    const cached = this.#cached
    const [input, output] = [text + audio + image, this.#text + this.#audio]
    return {
      total_tokens: input + output,
      input_tokens: input,
      output_tokens: output,
      input_token_details: {
        text_tokens: text,
        audio_tokens: audio,
        image_tokens: image,
        cached_tokens: cached,
        cached_tokens_details: { text_tokens: cached, audio_tokens: 0, image_tokens: 0 }
      },
      output_token_details: { text_tokens: this.#text, audio_tokens: this.#audio }
    }
  }

  #shown(status: string, details: unknown, usage: unknown): unknown {
    const { conversation, maxTokens, aloud, metadata } = this.wanted
    return {
      object: 'realtime.response',
      id: this.id,
      status,
      status_details: details,
      output: this.items.map(({ shown }) => shown),
      conversation_id: conversation,
      output_modalities: [aloud ? 'audio' : 'text'],
      max_output_tokens: maxTokens ?? 'inf',
      usage,
      metadata: metadata ?? null
    }
  }
}
