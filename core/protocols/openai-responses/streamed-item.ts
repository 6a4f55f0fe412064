// One output item of a streamed response: compares what events repeat with what was already passed on.
import type { EmitEvent, TokenLogprob } from '../canonical/answer.ts'
import { isBlank } from '../canonical/conversation.ts'
import { parseObject } from '../canonical/json.ts'
import { readTokens } from '../canonical/logprobs.ts'
import type { OpenPart, Parts } from '../canonical/parts.ts'
import type { Proof } from '../canonical/request.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import { asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { betweenThoughts, readCallHead, readCitation, readImage, readInput, readProof } from './answer-decode.ts'
import { sortedJson, Told, trimmed } from './told.ts'

/** A content part, a section of thoughts, or the input of a call. */
interface Piece {
  part: OpenPart
  told: Told
  /** How many citations were passed on. */
  cited: number
}

/**
 * One output item. After its deltas, events repeat its parts, the item and the response as a whole; only what is new in
 * them is passed on. Owned by the decoder of the stream. Its methods throw only Untranslatable.
 */
export class StreamedItem {
  readonly id: string
  /** Whether its `output_item.done` has come. */
  done = false
  /** Whether the last event of the response had it. */
  ended = false
  readonly #parts: Parts
  #type: unknown
  /** Of a call, its `call_id`; empty for other items. */
  #callId = ''
  /** Of a call, the input that its first event had. */
  #early = ''
  /** The pieces by index. A call has one. Those of thoughts all belong to one part of the answer. */
  readonly #pieces = new Map<number, Piece>()
  /** Of thoughts: which of their two forms is passed on, and the present section. */
  #form: 'summary' | 'content' | undefined
  #section = 0
  #pictured = false

  constructor(item: JsonObject, parts: Parts, emit: EmitEvent) {
    this.#parts = parts
    this.#type = item['type']
    this.id = asText(item['id'])
    parts.count(this.id.length)
    if (isCall(item)) this.#call(item, emit)
  }

  get isCall(): boolean {
    return this.#callId !== ''
  }

  /** Whether an item of the last event may be this one, when the ids do not match. */
  resembles(item: JsonObject): boolean {
    if (this.ended || item['type'] !== this.#type) return false
    return !this.isCall || item['call_id'] === this.#callId
  }

  /** Takes a delta of a content part. */
  say(type: 'text' | 'refusal', index: number, text: string, emit: EmitEvent, logprobs?: TokenLogprob[]): void {
    if (text === '' && !logprobs) return
    this.#add(this.#piece(type, index, emit), text, emit, logprobs)
  }

  /** Takes the whole text of a content part. */
  said(type: 'text' | 'refusal', index: number, whole: string, emit: EmitEvent, logprobs?: TokenLogprob[]): void {
    const piece = this.#pieces.get(index)
    const rest = piece ? piece.told.rest(whole) : whole
    if (rest === '') return
    if (piece && !this.#parts.isOpen(piece.part)) {
      if (isBlank(rest)) return
      const told = new Told(trimmed)
      told.text = whole.slice(0, -rest.length)
      Object.assign(piece, { part: this.#parts.open(0, { type }, emit), told })
      this.#keep(piece, told.text.length)
    }
    this.say(type, index, rest, emit, piece ? undefined : logprobs)
  }

  /** Takes citations of a text. */
  cite(index: number, annotations: readonly JsonObject[], emit: EmitEvent): void {
    const piece = this.#pieces.get(index)
    if (!piece || !this.#parts.isOpen(piece.part)) return
    piece.cited += annotations.length
    for (const citation of annotations.flatMap(readCitation)) this.#parts.cite(piece.part, citation, emit)
  }

  /** Takes a whole content part. Some upstreams send citations only here. */
  partDone(index: number, part: JsonObject, emit: EmitEvent): void {
    if (part['type'] === 'refusal') this.said('refusal', index, asText(part['refusal']), emit)
    else if (part['type'] === 'output_text')
      this.said('text', index, asText(part['text']), emit, readTokens(part['logprobs']))
    this.cite(index, asObjects(part['annotations']).slice(this.#pieces.get(index)?.cited), emit)
    this.#close(this.#pieces.get(index), emit)
  }

  /** Takes a delta of thoughts. Of their two forms only the one that comes first is passed on. */
  think(form: 'summary' | 'content', section: number, text: string, emit: EmitEvent): void {
    this.#form ??= form
    if (this.#form !== form || this.done || text === '') return
    const [first] = this.#pieces.values()
    if (first && section !== this.#section) this.#parts.delta(first.part, betweenThoughts, emit)
    this.#section = section
    if (first && !this.#pieces.has(section))
      this.#pieces.set(section, { part: first.part, told: new Told(trimmed), cited: 0 })
    this.#add(this.#piece('reasoning', section, emit), text, emit)
  }

  /** Takes a whole section of thoughts. */
  thought(form: 'summary' | 'content', section: number, whole: string, emit: EmitEvent): void {
    if (form !== (this.#form ?? form)) return
    this.think(form, section, this.#pieces.get(section)?.told.rest(whole) ?? whole, emit)
  }

  /** Takes a delta of a call's input. */
  input(text: string, emit: EmitEvent): void {
    if (!this.isCall) throw badAnswer('The upstream sent arguments of something that is no call.')
    this.#add(this.#pieces.get(0)!, text, emit)
  }

  /** Takes the whole input of a call. */
  inputDone(whole: string, emit: EmitEvent): void {
    const piece = this.#pieces.get(0)
    const rest = piece ? piece.told.rest(whole) : whole
    if (!piece || this.#parts.isOpen(piece.part) || !isBlank(rest)) this.input(rest, emit)
  }

  /** Takes the whole item. */
  whole(item: JsonObject, emit: EmitEvent): void {
    this.#type = item['type']
    if (isCall(item)) {
      if (!this.isCall) this.#call(item, emit)
      const input = readInput(item)
      this.inputDone(input, emit)
      // A call whose input is missing or incomplete here may be repeated with more later.
      const { told } = this.#pieces.get(0)!
      if (item['type'] === 'custom_tool_call' ? input !== '' : parseObject(input || told.text || '[]')) this.close(emit)
    } else if (this.#type === 'reasoning') this.#thoughts(item, emit)
    else if (this.#type === 'message') {
      asObjects(item['content']).forEach((part, index) => this.partDone(index, part, emit))
      this.close(emit)
    } else if (this.#type === 'image_generation_call' && !this.#pictured) {
      for (const media of readImage(item)) {
        this.#pictured = true
        this.#parts.close(this.#parts.open(0, { type: 'media', media }, emit), emit)
      }
    }
    this.done = true
  }

  /** Ends the item. */
  close(emit: EmitEvent): void {
    const [first] = this.#pieces.values()
    if (first && this.isCall && this.#parts.isOpen(first.part) && !first.told.text.startsWith(this.#early))
      this.input(first.told.rest(this.#early), emit)
    this.#parts.count(-this.#early.length)
    this.#early = ''
    for (const piece of this.#pieces.values()) this.#close(piece, emit)
  }

  #close(piece: Piece | undefined, emit: EmitEvent, proof?: Proof): void {
    if (!piece) return
    this.#parts.close(piece.part, emit, proof)
    this.#keep(piece, -piece.told.text.length)
    piece.told.forget()
  }

  #call(item: JsonObject, emit: EmitEvent): void {
    const head = readCallHead(item)
    this.#callId = head.id
    this.#early = readInput(item)
    this.#parts.count(this.#early.length)
    this.#pieces.set(0, { part: this.#parts.open(0, head, emit), told: new Told(sortedJson), cited: 0 })
  }

  #thoughts(item: JsonObject, emit: EmitEvent): void {
    const form = this.#form ?? (asObjects(item['summary']).length > 0 ? 'summary' : 'content')
    asObjects(item[form]).forEach((section, index) => {
      if (!this.done) this.thought(form, index, asText(section['text']), emit)
    })
    const proof = this.done ? undefined : readProof(item)
    if (proof && this.#pieces.size === 0) this.#piece('reasoning', 0, emit)
    for (const piece of this.#pieces.values()) this.#close(piece, emit, proof)
  }

  /** The piece at an index. A text never becomes thoughts, nor thoughts a text. */
  #piece(type: 'text' | 'refusal' | 'reasoning', index: number, emit: EmitEvent): Piece {
    const known = this.#pieces.get(index)
    if (known && known.part.type !== type) throw badAnswer('The upstream went on with a part as if it were another.')
    if (known) return known
    const made: Piece = { part: this.#parts.open(0, { type }, emit), told: new Told(trimmed), cited: 0 }
    this.#pieces.set(index, made)
    return made
  }

  #add(piece: Piece, text: string, emit: EmitEvent, logprobs?: TokenLogprob[]): void {
    this.#parts.delta(piece.part, text, emit, logprobs)
    this.#keep(piece, text.length)
    piece.told.text += text
  }

  /** Counts texts as kept. Thoughts and the inputs of calls are counted by {@link Parts}. */
  #keep({ part }: Piece, length: number): void {
    if (part.type === 'text' || part.type === 'refusal') this.#parts.count(length)
  }
}

function isCall({ type }: JsonObject): boolean {
  return type === 'function_call' || type === 'custom_tool_call'
}
