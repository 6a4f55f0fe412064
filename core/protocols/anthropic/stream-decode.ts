// Reads the events of an Anthropic upstream's stream.
import type { Citation, EmitEvent, Finish } from '../canonical/answer.ts'
import type { StreamDecoder } from '../canonical/codec.ts'
import { finishOf } from '../canonical/finish.ts'
import { exactJson, readArgumentsObject } from '../canonical/json.ts'
import { Parts } from '../canonical/parts.ts'
import type { OpenPart } from '../canonical/parts.ts'
import { badAnswer, tooLarge } from '../canonical/untranslatable.ts'
import { typeOfEvent } from '../event-type.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { Payload } from '../protocol.ts'
import { mergeAnthropicUsage, readAnthropicUsage } from '../usage/anthropic.ts'
import { readCallHead, readCitation, readProof } from './answer-decode.ts'
import { readExplanation, readFinish } from './finish.ts'

/** A block that is open. */
interface Block {
  /** Undefined for blocks that no other protocol has a place for. */
  part: OpenPart | undefined
  proofKind: 'signature' | 'redacted'
  proof: string
  /** The input of a call, when the upstream sends it with the start of the block instead of in deltas. */
  input: string
  /** Of a text: its characters so far, and its citations, which are emitted when the text is complete. */
  length: number
  readonly citations: Citation[]
}

/** The most blocks that may be open at once. No real answer reaches it. */
const mostOpen = 10_000

export class MessagesStreamDecoder implements StreamDecoder {
  readonly #parts = new Parts()
  /** The open blocks, by index. */
  readonly #blocks = new Map<number, Block>()
  #started = false
  #stopped = false
  #called = false
  #finish: Finish | undefined
  #explanation = ''
  #usage: unknown

  push(event: Payload, emit: EmitEvent): void {
    if (this.#stopped) return
    const body = asObject(event.json())
    if (!body) throw badAnswer('The upstream sent an event that is not of its protocol.')
    const type = typeOfEvent(event, body['type'])
    if (type === 'error' || (type === '' && body['error'] != null)) {
      throw badAnswer(asText(asObject(body['error'])?.['message']) || 'The upstream reported an error.')
    }
    if (type === 'message_start') return this.#start(asObject(body['message']) ?? {}, emit)
    if (!this.#started) {
      if (type === 'ping') return
      throw badAnswer('The upstream sent an event that is not of its protocol.')
    }
    switch (type) {
      case 'content_block_start':
        return this.#open(body['index'], asObject(asObject(exactJson(event))?.['content_block']) ?? {}, emit)
      case 'content_block_delta':
        return this.#delta(this.#block(body['index']), asObject(body['delta']) ?? {}, emit)
      case 'content_block_stop':
        return this.#close(body['index'], emit)
      case 'message_delta':
        return this.#end(body, asObject(body['delta']) ?? {})
      case 'message_stop':
        this.#stopped = true
    }
  }

  end(emit: EmitEvent): void {
    if (!this.finished()) throw badAnswer('The upstream ended its answer before it was complete.')
    for (const index of this.#blocks.keys()) this.#close(index, emit)
    if (this.#explanation !== '') {
      const part = this.#parts.open(0, { type: 'refusal' }, emit)
      this.#parts.delta(part, this.#explanation, emit)
      this.#parts.close(part, emit)
    }
    const usage = readAnthropicUsage(this.#usage)
    if (usage !== undefined && usage !== 'insane') emit({ type: 'usage', usage })
    emit({ type: 'finish', candidate: 0, finish: finishOf(this.#finish ?? { reason: 'stop' }, this.#called) })
    emit({ type: 'end' })
  }

  finished(): boolean {
    return this.#stopped
  }

  #start(message: JsonObject, emit: EmitEvent): void {
    if (this.#started) throw badAnswer('The upstream began its answer twice.')
    this.#started = true
    this.#usage = mergeAnthropicUsage(undefined, message['usage'])
    emit({ type: 'start', id: asText(message['id']) })
  }

  #open(index: unknown, block: JsonObject, emit: EmitEvent): void {
    const place = numberOf(index)
    if (this.#blocks.has(place)) throw badAnswer('The upstream began a block twice.')
    if (this.#blocks.size === mostOpen) throw tooLarge('The upstream sent an answer in too many parts.')
    const type = block['type']
    const made: Block = {
      part: undefined,
      proofKind: type === 'redacted_thinking' ? 'redacted' : 'signature',
      proof: '',
      input: '',
      length: asText(block['text']).length,
      citations: []
    }
    this.#blocks.set(place, made)
    if (type === 'text') {
      made.part = this.#parts.open(0, { type }, emit)
      this.#parts.delta(made.part, asText(block['text']), emit)
    } else if (type === 'thinking' || type === 'redacted_thinking') {
      made.part = this.#parts.open(0, { type: 'reasoning' }, emit)
      this.#prove(made, asText(block[type === 'thinking' ? 'signature' : 'data']))
      this.#parts.delta(made.part, asText(block['thinking']), emit)
    } else if (type === 'tool_use') {
      this.#called = true
      const input = readArgumentsObject(block['input'])
      // A block whose input follows in deltas begins with an empty object.
      if (input !== '{}') {
        made.input = input
        this.#parts.count(made.input.length)
      }
      made.part = this.#parts.open(0, readCallHead(block), emit)
    }
  }

  #delta(block: Block, delta: JsonObject, emit: EmitEvent): void {
    const { part } = block
    if (!part) return
    switch (delta['type']) {
      case 'text_delta':
        block.length += asText(delta['text']).length
        return this.#parts.delta(part, asText(delta['text']), emit)
      case 'thinking_delta':
        return this.#parts.delta(part, asText(delta['thinking']), emit)
      case 'input_json_delta':
        return this.#parts.delta(part, asText(delta['partial_json']), emit)
      // A signature is sent once; if there are two, the later one is used.
      case 'signature_delta':
        this.#prove(block, asText(delta['signature']))
        return
      case 'citations_delta':
        for (const citation of readCitation(asObject(delta['citation']) ?? {}, block.length)) {
          this.#parts.count(citation.url.length + citation.title.length)
          block.citations.push(citation)
        }
    }
  }

  #close(index: unknown, emit: EmitEvent): void {
    const { part, proofKind, proof, input, length, citations } = this.#block(index)
    this.#blocks.delete(numberOf(index))
    if (!part) return
    this.#parts.count(-proof.length - input.length)
    for (const citation of citations) {
      this.#parts.count(-citation.url.length - citation.title.length)
      this.#parts.cite(part, { ...citation, end: length }, emit)
    }
    if (part.type === 'tool_call' && part.input === '') this.#parts.delta(part, input, emit)
    this.#parts.close(part, emit, readProof(proofKind, proof))
  }

  #end(body: JsonObject, delta: JsonObject): void {
    this.#usage = mergeAnthropicUsage(this.#usage, body['usage'])
    if (delta['stop_reason'] == null) return
    this.#finish = readFinish(delta)
    this.#explanation = readExplanation(delta)
  }

  #prove(block: Block, proof: string): void {
    this.#parts.count(proof.length - block.proof.length)
    block.proof = proof
  }

  #block(index: unknown): Block {
    const block = this.#blocks.get(numberOf(index))
    if (!block) throw badAnswer('The upstream went on with a block that it had not begun.')
    return block
  }
}

function numberOf(index: unknown): number {
  return typeof index === 'number' ? index : 0
}
