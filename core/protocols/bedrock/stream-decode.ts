// Reads the events of a Converse stream.
import type { Citation, EmitEvent, Finish } from '../canonical/answer.ts'
import type { StreamDecoder } from '../canonical/codec.ts'
import { finishOf } from '../canonical/finish.ts'
import { Parts } from '../canonical/parts.ts'
import type { OpenPart } from '../canonical/parts.ts'
import { badAnswer, tooLarge } from '../canonical/untranslatable.ts'
import { readError } from '../told/errors.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { Payload } from '../protocol.ts'
import { readBedrockUsage } from '../usage/bedrock.ts'
import { isRunThere, readCallHead, readCitation, readImage, readProof } from './answer-decode.ts'
import { typeOf } from './event-type.ts'
import { readFinish } from './finish.ts'

/** A block that is open. */
interface Block {
  /** Undefined for blocks that no other protocol has a place for. */
  part: OpenPart | undefined
  signature: string
  /** Thoughts that cannot be read, as they came in pieces of base64. */
  readonly redacted: Buffer[]
  /** Of a text: its characters so far, and its citations, which are emitted when the text is complete. */
  length: number
  readonly citations: Citation[]
  /** The characters of all of these. */
  kept: number
  /** The format of a picture. */
  format: unknown
}

/** The most blocks that may be open at once. No real answer reaches it. */
const mostOpen = 10_000

/** Text and thoughts have no event that begins them: their first delta does. */
export class ConverseStreamDecoder implements StreamDecoder {
  readonly #parts = new Parts()
  /** The open blocks, by index. */
  readonly #blocks = new Map<number, Block>()
  #started = false
  #stopped = false
  #stopReason: unknown
  #finish: Finish | undefined
  #called = false
  #usage: unknown

  push(event: Payload, emit: EmitEvent): void {
    if (this.finished()) return
    const body = asObject(event.json())
    if (!body) throw foreign()
    const type = typeOf(event.event, body)
    if (type === 'error') throw badAnswer(readError(body).message || 'The upstream reported an error.')
    if (type === 'messageStart') {
      if (this.#started) throw badAnswer('The upstream began its answer twice.')
      this.#started = true
      return emit({ type: 'start', id: '' })
    }
    if (!this.#started) throw foreign()
    switch (type) {
      case 'contentBlockStart':
        return this.#start(numberOf(body), asObject(body['start']) ?? {}, emit)
      case 'contentBlockDelta':
        return this.#delta(numberOf(body), asObject(body['delta']) ?? {}, emit)
      case 'contentBlockStop':
        return this.#close(numberOf(body), emit)
      case 'messageStop':
        this.#stopped = true
        this.#stopReason = body['stopReason']
        return
      case 'metadata':
        this.#usage = body['usage']
        // What the model gave up is charged all the same: its usage has to come before it fails.
        if (this.#stopped) this.#finish = readFinish(this.#stopReason)
    }
  }

  end(emit: EmitEvent): void {
    if (!this.finished()) throw badAnswer('The upstream ended its answer before it was complete.')
    for (const index of this.#blocks.keys()) this.#close(index, emit)
    const usage = readBedrockUsage(this.#usage)
    if (usage !== undefined && usage !== 'insane') emit({ type: 'usage', usage })
    emit({ type: 'finish', candidate: 0, finish: finishOf(this.#finish!, this.#called) })
    emit({ type: 'end' })
  }

  finished(): boolean {
    return this.#finish !== undefined
  }

  #start(index: number, start: JsonObject, emit: EmitEvent): void {
    if (this.#blocks.has(index)) throw badAnswer('The upstream began a block twice.')
    const block = this.#add(index)
    const call = asObject(start['toolUse'])
    if (call && !isRunThere(call)) {
      this.#called = true
      block.part = this.#parts.open(0, readCallHead(call), emit)
    }
    block.format = asObject(start['image'])?.['format']
  }

  #delta(index: number, delta: JsonObject, emit: EmitEvent): void {
    const begun = this.#blocks.get(index)
    const block = begun ?? this.#add(index)
    if (typeof delta['text'] === 'string') {
      block.length += delta['text'].length
      return this.#say(block, 'text', delta['text'], emit)
    }
    const call = asObject(delta['toolUse'])
    if (call) {
      if (!begun) throw badAnswer('The upstream went on with a block that it had not begun.')
      if (block.part) this.#parts.delta(block.part, asText(call['input']), emit)
      return
    }
    const thoughts = asObject(delta['reasoningContent'])
    if (thoughts) return this.#think(block, thoughts, emit)
    const citation = asObject(delta['citation'])
    if (citation) return this.#cite(block, citation)
    const source = asObject(asObject(delta['image'])?.['source'])
    for (const media of readImage(block.format, source))
      this.#parts.close(this.#parts.open(0, { type: 'media', media }, emit), emit)
  }

  /** Adds to the text of a block, which may begin with it. */
  #say(block: Block, type: 'text' | 'reasoning', text: string, emit: EmitEvent): void {
    block.part ??= this.#parts.open(0, { type }, emit)
    if (block.part.type !== type) throw badAnswer('The upstream sent a block of two kinds.')
    this.#parts.delta(block.part, text, emit)
  }

  #think(block: Block, thoughts: JsonObject, emit: EmitEvent): void {
    this.#say(block, 'reasoning', asText(thoughts['text']), emit)
    const [signature, redacted] = [asText(thoughts['signature']), asText(thoughts['redactedContent'])]
    this.#keep(block, signature.length + redacted.length)
    // A signature is sent once; if there are two, the later one is used.
    if (signature !== '') block.signature = signature
    if (redacted !== '') block.redacted.push(Buffer.from(redacted, 'base64'))
  }

  #cite(block: Block, citation: JsonObject): void {
    for (const read of readCitation(citation, block.length)) {
      this.#keep(block, read.url.length + read.title.length)
      block.citations.push(read)
    }
  }

  #keep(block: Block, length: number): void {
    block.kept += length
    this.#parts.count(length)
  }

  #close(index: number, emit: EmitEvent): void {
    const block = this.#blocks.get(index)
    // A text without any deltas has nothing but its end.
    if (!block) return
    this.#blocks.delete(index)
    const { part, signature, redacted, length, citations, kept } = block
    this.#parts.count(-kept)
    if (!part) return
    for (const citation of citations) this.#parts.cite(part, { ...citation, end: length }, emit)
    const proof =
      redacted.length > 0
        ? readProof('redacted', Buffer.concat(redacted).toString('base64'))
        : readProof('signature', signature)
    this.#parts.close(part, emit, proof)
  }

  #add(index: number): Block {
    if (this.#blocks.size === mostOpen) throw tooLarge('The upstream sent an answer in too many parts.')
    const block: Block = {
      part: undefined,
      signature: '',
      redacted: [],
      length: 0,
      citations: [],
      kept: 0,
      format: undefined
    }
    this.#blocks.set(index, block)
    return block
  }
}

function numberOf({ contentBlockIndex: index }: JsonObject): number {
  return typeof index === 'number' ? index : 0
}

function foreign(): Error {
  return badAnswer('The upstream sent an event that is not of its protocol.')
}
