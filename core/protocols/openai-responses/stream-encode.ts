// Writes the events of a Responses stream for a client. Its last event repeats the whole response, so everything is
// kept until then.
import { shifted } from '../canonical/answer.ts'
import type { AnswerEvent, Finish } from '../canonical/answer.ts'
import { mostKept } from '../canonical/codec.ts'
import type { AnswerHead, StreamEncoder, WriteEvent } from '../canonical/codec.ts'
import { writeTokens } from '../canonical/logprobs.ts'
import { tooLarge } from '../canonical/untranslatable.ts'
import { noUsage } from '../../money/usage.ts'
import type { Usage } from '../../money/usage.ts'
import { writeResponse } from './answer-encode.ts'
import {
  isEmpty,
  itemId,
  signatureOf,
  statusOf,
  writeCitation,
  writeContentPart,
  writeItem,
  writeSummary
} from './items.ts'
import type { Content, Item } from './items.ts'

/**
 * The most text of an answer, in characters: at its end all of it is written four times in one turn of the event loop.
 */
const mostRepeated = 2 * 1024 * 1024

/** A part of the answer that becomes an item. */
interface Place {
  readonly content: Content
  /** The item's index, once the client has been sent its start. An empty item is never sent. */
  index: number | undefined
  id: string
  closed: boolean
  /** How many characters of joined texts come before the present one. */
  before: number
}

/** What a token with its probability adds to the amount that is kept, in characters. */
const tokenLength = 64

export class ResponsesStreamEncoder implements StreamEncoder {
  readonly #head: AnswerHead
  #sequence = 0
  #kept = 0
  #repeated = 0
  readonly #places = new Map<number, Place>()
  /** The items in their order. Those that are complete are set. */
  readonly #output: (Item | undefined)[] = []
  /** Closed parts that were not sent as complete yet, because the end of the answer may say that they were cut off. */
  #ended: Place[] = []
  #finish: Finish = { reason: 'stop' }
  #usage: Usage = noUsage

  constructor(head: AnswerHead) {
    this.#head = head
  }

  push(event: AnswerEvent, write: WriteEvent): void {
    switch (event.type) {
      case 'start': {
        const response = writeResponse(this.#head)
        this.#write('response.created', { response }, write)
        return this.#write('response.in_progress', { response }, write)
      }
      case 'open':
        return this.#open(event, write)
      case 'delta':
        return this.#delta(this.#places.get(event.part), event, write)
      case 'cite':
        return this.#cite(this.#places.get(event.part), event, write)
      case 'close': {
        const place = this.#places.get(event.part)
        if (!place) return
        this.#places.delete(event.part)
        place.closed = true
        if (event.proof) place.content.proof = event.proof
        this.#ended.push(place)
        return
      }
      case 'usage':
        this.#usage = event.usage
        return
      case 'finish':
        if (event.candidate === 0) this.#finish = event.finish
        return
      case 'end':
        return this.#end(write)
    }
  }

  #open({ candidate, part, opening }: AnswerEvent & { type: 'open' }, write: WriteEvent): void {
    if (candidate !== 0) return
    const last = this.#ended.at(-1)
    // A text right after a text is joined to it.
    if (opening.type === 'text' && last?.content.opening.type === 'text' && this.#places.size === 0) {
      this.#ended.pop()
      Object.assign(last, { closed: false, before: last.content.text.length })
      this.#places.set(part, last)
      return
    }
    this.#closeEnded(undefined, write)
    const signature = signatureOf(opening)
    if (signature)
      this.#close(
        this.#begin({ content: signature, index: undefined, id: '', closed: true, before: 0 }, write),
        undefined,
        write
      )
    const place: Place = {
      content: { opening, text: '', citations: [], logprobs: [], proof: undefined },
      index: undefined,
      id: '',
      closed: false,
      before: 0
    }
    this.#places.set(part, place)
    if (opening.type === 'tool_call') this.#begin(place, write)
    if (opening.type === 'media')
      this.#keep(opening.media.source.kind === 'data' ? opening.media.source.data.length : 0)
  }

  /** Sends the start of an item, unless that was done before. */
  #begin(place: Place, write: WriteEvent): Place {
    if (place.index !== undefined) return place
    const { content } = place
    const index = (place.index = this.#output.push(undefined) - 1)
    const id = (place.id = itemId(content.opening, this.#head.id, index))
    const { proof: _proof, ...begun } = content
    this.#write(
      'response.output_item.added',
      { output_index: index, item: writeItem({ ...begun, proof: undefined }, id, 'in_progress') },
      write
    )
    const { type } = content.opening
    const empty: Content = { ...content, text: '', citations: [], logprobs: [] }
    if (type === 'text' || type === 'refusal')
      this.#write(
        'response.content_part.added',
        { ...this.#at(place), content_index: 0, part: writeContentPart(empty) },
        write
      )
    if (type === 'reasoning' && !(place.closed && content.text === ''))
      this.#write(
        'response.reasoning_summary_part.added',
        { ...this.#at(place), summary_index: 0, part: writeSummary('') },
        write
      )
    return place
  }

  #delta(place: Place | undefined, { text, logprobs }: AnswerEvent & { type: 'delta' }, write: WriteEvent): void {
    if (!place) return
    const { content } = place
    this.#repeat(text.length + (logprobs?.length ?? 0) * tokenLength)
    content.text += text
    for (const token of logprobs ?? []) content.logprobs.push(token)
    this.#begin(place, write)
    const at = this.#at(place)
    switch (content.opening.type) {
      case 'text':
        return this.#write(
          'response.output_text.delta',
          { ...at, content_index: 0, delta: text, logprobs: writeTokens(logprobs ?? []) },
          write
        )
      case 'refusal':
        return this.#write('response.refusal.delta', { ...at, content_index: 0, delta: text }, write)
      case 'reasoning':
        return this.#write('response.reasoning_summary_text.delta', { ...at, summary_index: 0, delta: text }, write)
      case 'tool_call':
        return this.#write(
          content.opening.custom ? 'response.custom_tool_call_input.delta' : 'response.function_call_arguments.delta',
          { ...at, delta: text },
          write
        )
      default:
    }
  }

  #cite(place: Place | undefined, { citation: given }: AnswerEvent & { type: 'cite' }, write: WriteEvent): void {
    if (!place) return
    const citation = shifted(given, place.before)
    this.#begin(place, write)
    this.#keep(citation.url.length + citation.title.length)
    const index = place.content.citations.push(citation) - 1
    this.#write(
      'response.output_text.annotation.added',
      { ...this.#at(place), content_index: 0, annotation_index: index, annotation: writeCitation(citation) },
      write
    )
  }

  /**
   * Completes the items that wait. `finish`: how the answer ended; undefined when another part follows, so that they
   * were not cut off.
   */
  #closeEnded(finish: Finish | undefined, write: WriteEvent): void {
    for (const place of this.#ended) if (!isEmpty(place.content)) this.#begin(place, write)
    for (const place of this.#ended) if (place.index !== undefined) this.#close(place, finish, write)
    this.#ended = []
  }

  #close(place: Place, finish: Finish | undefined, write: WriteEvent): void {
    const { content } = place
    const at = this.#at(place)
    const { opening, text } = content
    if (opening.type === 'text' || opening.type === 'refusal') {
      const done = opening.type === 'text' ? { text, logprobs: writeTokens(content.logprobs) } : { refusal: text }
      this.#write(
        opening.type === 'text' ? 'response.output_text.done' : 'response.refusal.done',
        { ...at, content_index: 0, ...done },
        write
      )
      this.#write('response.content_part.done', { ...at, content_index: 0, part: writeContentPart(content) }, write)
    } else if (opening.type === 'reasoning' && text !== '') {
      this.#write('response.reasoning_summary_text.done', { ...at, summary_index: 0, text }, write)
      this.#write('response.reasoning_summary_part.done', { ...at, summary_index: 0, part: writeSummary(text) }, write)
    } else if (opening.type === 'tool_call') this.#closeCall(at, opening, text, write)
    else if (opening.type === 'media') this.#write('response.image_generation_call.completed', at, write)
    const isLast = place.index === this.#output.length - 1
    const item = writeItem(content, place.id, finish ? statusOf(content, isLast, finish) : 'completed')
    this.#output[place.index!] = item
    this.#write('response.output_item.done', { output_index: place.index, item }, write)
  }

  #closeCall(at: Item, { name, custom }: { name: string; custom: boolean }, text: string, write: WriteEvent): void {
    if (custom) return this.#write('response.custom_tool_call_input.done', { ...at, input: text }, write)
    this.#write('response.function_call_arguments.done', { ...at, arguments: text, name }, write)
  }

  #end(write: WriteEvent): void {
    this.#closeEnded(this.#finish, write)
    const response = writeResponse(this.#head, {
      output: this.#output as Item[],
      finish: this.#finish,
      usage: this.#usage
    })
    this.#write(response['status'] === 'completed' ? 'response.completed' : 'response.incomplete', { response }, write)
  }

  #at({ id, index }: Place): Item {
    return { item_id: id, output_index: index }
  }

  /** Counts text that will be repeated when its part, its item and the response end. */
  #repeat(length: number): void {
    this.#repeated += length
    if (this.#repeated > mostRepeated) throw tooLarge('The upstream sent an answer too long to be translated.')
    this.#keep(length)
  }

  #keep(length: number): void {
    this.#kept += length
    if (this.#kept > mostKept) throw tooLarge('The upstream sent an answer too large to be translated.')
  }

  #write(type: string, payload: Item, write: WriteEvent): void {
    write(JSON.stringify({ type, sequence_number: this.#sequence++, ...payload }), type)
  }
}
