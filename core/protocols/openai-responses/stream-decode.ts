// Reads the events of a Responses upstream's stream. What deltas have said is repeated when a part, an item and the
// response end.
import type { EmitEvent, Finish } from '../canonical/answer.ts'
import type { StreamDecoder } from '../canonical/codec.ts'
import { finishOf } from '../canonical/finish.ts'
import { readArguments } from '../canonical/json.ts'
import { readTokens } from '../canonical/logprobs.ts'
import { Parts } from '../canonical/parts.ts'
import { badAnswer, tooLarge } from '../canonical/untranslatable.ts'
import { typeOfEvent } from '../event-type.ts'
import type { Usage } from '../../money/usage.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { Payload } from '../protocol.ts'
import { readUsage } from './answer-decode.ts'
import { readFinish } from './finish.ts'
import { StreamedItem } from './streamed-item.ts'

/** The most items of an answer. No real one reaches it. */
const mostItems = 4096

export class ResponsesStreamDecoder implements StreamDecoder {
  readonly #parts = new Parts()
  /** The items in the order in which they began. */
  readonly #items: StreamedItem[] = []
  /** The items by id and by place in the output, as some upstreams get one of these wrong. */
  readonly #found = new Map<unknown, StreamedItem>()
  #id = ''
  #started = false
  #finish: Finish | undefined
  #usage: Usage | undefined

  push(event: Payload, emit: EmitEvent): void {
    if (this.#finish) return
    const body = asObject(event.json())
    if (!body) {
      // Some upstreams end the stream as they end chat completions.
      if (this.#started && event.data.toString('latin1').trim() === '[DONE]') return
      throw badAnswer('The upstream sent an event that is not of its protocol.')
    }
    const type = typeOfEvent(event, body['type'])
    switch (type) {
      case 'error':
        throw badAnswer(
          asText(asObject(body['error'])?.['message']) || asText(body['message']) || 'The upstream reported an error.'
        )
      case 'response.created':
      case 'response.queued':
      case 'response.in_progress':
        return this.#start(body, emit)
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        return this.#stop(asObject(body['response']) ?? {}, emit)
      case 'keepalive':
        return
    }
    if (!this.#started) {
      if (body['error'] != null)
        throw badAnswer(asText(asObject(body['error'])?.['message']) || 'The upstream reported an error.')
      if (!type.startsWith('response.')) throw badAnswer('The upstream sent an event that is not of its protocol.')
      this.#start({}, emit)
    }
    if (type.startsWith('response.')) this.#progress(type.slice('response.'.length), body, emit)
  }

  end(emit: EmitEvent): void {
    if (!this.#finish) throw badAnswer('The upstream ended its answer before it was complete.')
    for (const item of this.#items) item.close(emit)
    if (this.#usage) emit({ type: 'usage', usage: this.#usage })
    emit({
      type: 'finish',
      candidate: 0,
      finish: finishOf(
        this.#finish,
        this.#items.some((item) => item.isCall)
      )
    })
    emit({ type: 'end' })
  }

  finished(): boolean {
    return this.#finish !== undefined
  }

  #start(body: JsonObject, emit: EmitEvent): void {
    if (this.#started) return
    this.#started = true
    this.#id = asText(asObject(body['response'])?.['id'])
    emit({ type: 'start', id: this.#id })
  }

  #stop(response: JsonObject, emit: EmitEvent): void {
    this.#start({ response }, emit)
    const finish = readFinish(response)
    // Some upstreams send only this last event, and some leave out events of items that come in one piece.
    asObjects(response['output']).forEach((item, index) => this.#ended(item, index, emit))
    this.#usage = readUsage(response)
    this.#finish = finish
  }

  #progress(type: string, body: JsonObject, emit: EmitEvent): void {
    const { output_index: place } = body
    const index = numberOf(body['content_index'])
    const section = numberOf(body['summary_index'])
    const delta = asText(body['delta'])
    const text = asText(body['text'])
    switch (type) {
      case 'output_item.added':
        this.#add(place, asObject(body['item']) ?? {}, emit)
        return
      case 'output_item.done':
        return this.#done(place, asObject(body['item']) ?? {}, emit)
      case 'output_text.delta':
        return this.#item(body).say('text', index, delta, emit, readTokens(body['logprobs']))
      case 'output_text.done':
        return this.#item(body).said('text', index, text, emit, readTokens(body['logprobs']))
      case 'refusal.delta':
        return this.#item(body).say('refusal', index, delta, emit)
      case 'refusal.done':
        return this.#item(body).said('refusal', index, asText(body['refusal']), emit)
      case 'content_part.done':
        return this.#item(body).partDone(index, asObject(body['part']) ?? {}, emit)
      case 'output_text.annotation.added':
        return this.#item(body).cite(index, [asObject(body['annotation']) ?? {}], emit)
      case 'reasoning_summary_text.delta':
        return this.#item(body).think('summary', section, delta, emit)
      case 'reasoning_summary_text.done':
        return this.#item(body).thought('summary', section, text, emit)
      case 'reasoning_summary_part.done':
        return this.#item(body).thought('summary', section, asText(asObject(body['part'])?.['text']), emit)
      case 'reasoning_text.delta':
        return this.#item(body).think('content', index, delta, emit)
      case 'reasoning_text.done':
        return this.#item(body).thought('content', index, text, emit)
      case 'function_call_arguments.delta':
      case 'custom_tool_call_input.delta':
        return this.#item(body).input(delta, emit)
      case 'function_call_arguments.done':
        return this.#item(body).inputDone(readArguments(body['arguments']), emit)
      case 'custom_tool_call_input.done':
        return this.#item(body).inputDone(asText(body['input']), emit)
    }
  }

  #add(place: unknown, item: JsonObject, emit: EmitEvent): StreamedItem {
    if (this.#items.length === mostItems) throw tooLarge('The upstream sent an answer in too many parts.')
    const made = new StreamedItem(item, this.#parts, emit)
    this.#items.push(made)
    this.#found.set(numberOf(place), made)
    if (made.id !== '') this.#found.set(made.id, made)
    return made
  }

  /** The item that an event is about: the last one added under its id, or at its place. */
  #item({ item_id: id, output_index: place }: JsonObject): StreamedItem {
    const item = this.#found.get(id) ?? this.#found.get(numberOf(place))
    if (!item) throw badAnswer('The upstream went on with an item that it had not begun.')
    return item
  }

  #done(place: unknown, item: JsonObject, emit: EmitEvent): void {
    const known = this.#found.get(item['id']) ?? this.#found.get(numberOf(place))
    const made = known && !known.done ? known : this.#add(place, item, emit)
    made.whole(item, emit)
  }

  /** Handles an item of the last event, where its id and its place may differ from before. */
  #ended(item: JsonObject, place: number, emit: EmitEvent): void {
    const named = this.#found.get(item['id'])
    const known = named?.resembles(item) ? named : this.#items.find((one) => one.resembles(item))
    const made = known ?? this.#add(place, item, emit)
    made.ended = true
    made.whole(item, emit)
  }
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0
}
