// Reads the events of an upstream's response. What deltas have said is said again when a part, an item and the response
// are done.
import type { EmitEvent, Finish, TokenLogprob } from '../canonical/answer.ts'
import type { StreamDecoder } from '../canonical/codec.ts'
import { finishOf } from '../canonical/finish.ts'
import { readTokens } from '../canonical/logprobs.ts'
import { Parts } from '../canonical/parts.ts'
import type { OpenPart } from '../canonical/parts.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import type { Usage } from '../../money/usage.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { Payload } from '../protocol.ts'
import {
  betweenThoughts,
  readCallHead,
  readCitation,
  readImage,
  readInput,
  readItem,
  readProof,
  readUsage
} from './answer-decode.ts'
import { readFinish } from './finish.ts'

/** More items than this are no answer. */
const mostItems = 4096

/** An output item that has begun. */
interface Item {
  /** Its parts by their index; of thoughts and calls there is one. */
  readonly parts: Map<number, OpenPart>
  /** Of its texts by their index: how many sources were told. */
  readonly cited: Map<number, number>
  /** Of thoughts: which of their two forms is taken, and the part of it that is being told. */
  form: 'summary' | 'content' | undefined
  section: number
  done: boolean
}

export class ResponsesStreamDecoder implements StreamDecoder {
  readonly #parts = new Parts()
  /** By its place in the output and by its id, as some upstreams are careless with one or the other. */
  readonly #items = new Map<unknown, Item>()
  #id = ''
  #started = false
  #finish: Finish | undefined
  #calls = 0
  /** Items that have begun. */
  #added = 0
  #usage: Usage | undefined

  push(event: Payload, emit: EmitEvent): void {
    if (this.#finish) return
    const body = asObject(event.json())
    if (!body) {
      // Some upstreams end as their other protocol does.
      if (this.#started && event.data.toString('latin1').trim() === '[DONE]') return
      throw badAnswer('The upstream sent an event that is not of its protocol.')
    }
    const type = asText(body['type']) || event.event
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
    this.#parts.closeAll(emit)
    if (this.#usage) emit({ type: 'usage', usage: this.#usage })
    emit({ type: 'finish', candidate: 0, finish: finishOf(this.#finish, this.#calls > 0) })
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
    // An upstream that streams nothing but its end says it all there, and others leave out what comes in one piece.
    const output = asObjects(response['output'])
    if (output.length > this.#added)
      output.forEach((item, index) => {
        if (!this.#items.has(item['id']) && !this.#items.has(index)) this.#whole(index, item, emit)
      })
    this.#usage = readUsage(response)
    this.#finish = finish
  }

  #progress(type: string, body: JsonObject, emit: EmitEvent): void {
    const { delta, content_index: index, output_index: place } = body
    switch (type) {
      case 'output_item.added':
        this.#add(place, asObject(body['item']) ?? {}, emit)
        return
      case 'output_item.done':
        return this.#whole(place, asObject(body['item']) ?? {}, emit)
      case 'output_text.delta':
        return this.#say('text', body, asText(delta), emit, readTokens(body['logprobs']))
      case 'refusal.delta':
        return this.#say('refusal', body, asText(delta), emit)
      case 'content_part.done':
        return this.#partDone(this.#item(body), numberOf(index), asObject(body['part']), emit)
      case 'output_text.annotation.added':
        return this.#cite(this.#item(body), numberOf(index), [asObject(body['annotation']) ?? {}], emit)
      case 'reasoning_summary_text.delta':
        return this.#think('summary', numberOf(body['summary_index']), body, asText(delta), emit)
      case 'reasoning_text.delta':
        return this.#think('content', numberOf(index), body, asText(delta), emit)
      case 'function_call_arguments.delta':
      case 'custom_tool_call_input.delta':
        return this.#input(this.#item(body), asText(delta), emit)
    }
  }

  #add(place: unknown, item: JsonObject, emit: EmitEvent): Item {
    if (this.#items.size > mostItems) throw badAnswer('The upstream sent an answer in too many parts.')
    const made: Item = { parts: new Map(), cited: new Map(), form: undefined, section: 0, done: false }
    const id = asText(item['id'])
    this.#added++
    this.#parts.keep(id.length)
    this.#items.set(numberOf(place), made)
    if (id !== '') this.#items.set(id, made)
    if (item['type'] === 'function_call' || item['type'] === 'custom_tool_call') {
      this.#calls++
      made.parts.set(0, this.#parts.open(0, readCallHead(item), emit))
    }
    return made
  }

  /** The item that an event is about: what was added last at its place, or under its id. */
  #item({ item_id: id, output_index: place }: JsonObject): Item {
    const item = this.#items.get(id) ?? this.#items.get(numberOf(place))
    if (!item) throw badAnswer('The upstream went on with an item that it had not begun.')
    return item
  }

  #say(type: 'text' | 'refusal', body: JsonObject, text: string, emit: EmitEvent, logprobs?: TokenLogprob[]): void {
    const item = this.#item(body)
    const index = numberOf(body['content_index'])
    let part = item.parts.get(index)
    if (!part) item.parts.set(index, (part = this.#parts.open(0, { type }, emit)))
    else checkType(part, type)
    this.#parts.delta(part, text, emit, logprobs)
  }

  #cite(item: Item, index: number, annotations: readonly JsonObject[], emit: EmitEvent): void {
    const part = item.parts.get(index)
    if (!part || !this.#parts.isOpen(part)) return
    item.cited.set(index, (item.cited.get(index) ?? 0) + annotations.length)
    for (const citation of annotations.flatMap(readCitation)) this.#parts.cite(part, citation, emit)
  }

  /** Some upstreams tell of sources when the text is whole, and not before. */
  #partDone(item: Item, index: number, whole: JsonObject | undefined, emit: EmitEvent): void {
    this.#cite(item, index, asObjects(whole?.['annotations']).slice(item.cited.get(index) ?? 0), emit)
    this.#parts.close(item.parts.get(index), emit)
  }

  #think(form: 'summary' | 'content', section: number, body: JsonObject, text: string, emit: EmitEvent): void {
    const item = this.#item(body)
    item.form ??= form
    if (item.form !== form || item.done) return
    let part = item.parts.get(0)
    if (!part) item.parts.set(0, (part = this.#parts.open(0, { type: 'reasoning' }, emit)))
    else {
      checkType(part, 'reasoning')
      if (section !== item.section) this.#parts.delta(part, betweenThoughts, emit)
    }
    item.section = section
    this.#parts.delta(part, text, emit)
  }

  #input(item: Item, text: string, emit: EmitEvent): void {
    const part = item.parts.get(0)
    if (part?.type !== 'tool_call' || item.done)
      throw badAnswer('The upstream sent arguments of something that is no call.')
    this.#parts.delta(part, text, emit)
  }

  /** An item as it is in the end: of what was not told before, it tells. */
  #whole(place: unknown, item: JsonObject, emit: EmitEvent): void {
    const known = this.#items.get(item['id']) ?? this.#items.get(numberOf(place))
    const made = known && !known.done ? known : this.#add(place, item, emit)
    made.done = true
    switch (item['type']) {
      case 'function_call':
      case 'custom_tool_call': {
        const part = made.parts.get(0)
        if (!part || !this.#parts.isOpen(part)) return
        if (part.input === '') this.#parts.delta(part, readInput(item), emit)
        return this.#parts.close(part, emit)
      }
      case 'reasoning': {
        const part = made.parts.get(0)
        const proof = readProof(item)
        if (part) return this.#parts.close(part, emit, proof)
        return this.#tell(item, emit)
      }
      case 'image_generation_call': {
        for (const media of readImage(item))
          this.#parts.close(this.#parts.open(0, { type: 'media', media }, emit), emit)
        return
      }
      case 'message': {
        const contents = asObjects(item['content'])
        for (const index of made.parts.keys()) this.#partDone(made, index, contents[index], emit)
        if (made.parts.size === 0) this.#tell(item, emit)
      }
    }
  }

  /** An item that came in one piece. */
  #tell(item: JsonObject, emit: EmitEvent): void {
    for (const part of readItem(item)) {
      if (part.type !== 'text' && part.type !== 'refusal' && part.type !== 'reasoning') continue
      const opened = this.#parts.open(0, { type: part.type }, emit)
      this.#parts.delta(opened, part.text, emit, part.type === 'reasoning' ? undefined : part.logprobs)
      for (const citation of ('citations' in part && part.citations) || []) this.#parts.cite(opened, citation, emit)
      this.#parts.close(opened, emit, part.type === 'refusal' ? undefined : part.proof)
    }
  }
}

/** Thoughts never become part of a text, nor a text of thoughts. */
function checkType(part: OpenPart, type: OpenPart['type']): void {
  if (part.type !== type) throw badAnswer('The upstream went on with a part as if it were another.')
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0
}
