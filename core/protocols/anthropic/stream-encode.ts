// Writes the events of an Anthropic stream for a client. In it blocks follow each other and never overlap.
import type { AnswerEvent, Citation, Finish, PartOpening } from '../canonical/answer.ts'
import { mostKept } from '../canonical/codec.ts'
import type { AnswerHead, StreamEncoder, WriteEvent } from '../canonical/codec.ts'
import { isCut } from '../canonical/finish.ts'
import { parseObject } from '../canonical/json.ts'
import { seal } from '../canonical/proofs.ts'
import type { Proof } from '../canonical/request.ts'
import { tooLarge } from '../canonical/untranslatable.ts'
import { noUsage } from '../../money/usage.ts'
import type { Usage } from '../../money/usage.ts'
import { writeAnthropicUsage } from '../usage/anthropic.ts'
import { brokenCall, writeCitation, writeHead } from './answer-encode.ts'
import { writeFinish } from './finish.ts'

/** A part of the answer that becomes a block. */
interface Block {
  readonly number: number
  readonly opening: PartOpening
  /** Whether the client has been sent its start. Blocks that would be empty are never sent. */
  begun: boolean
  /** What came while an earlier block was still open. */
  text: string
  citations: Citation[]
  /** Set when the part has ended. */
  closing: { proof: Proof | undefined } | undefined
}

export class MessagesStreamEncoder implements StreamEncoder {
  readonly #head: AnswerHead
  /** Open parts in the order in which they opened. The first is the block being sent; the others wait. */
  readonly #blocks = new Map<number, Block>()
  #index = 0
  #waiting = 0
  #refused = false
  /** Whether some call has arguments that are not JSON. */
  #broken = false
  #usage: Usage = noUsage
  #finish: Finish = { reason: 'stop' }

  constructor(head: AnswerHead) {
    this.#head = head
  }

  push(event: AnswerEvent, write: WriteEvent): void {
    switch (event.type) {
      case 'start':
        return this.#start(write)
      case 'open': {
        const { candidate, part: number, opening } = event
        if (candidate !== 0) return
        this.#refused ||= opening.type === 'refusal'
        this.#blocks.set(number, { number, opening, begun: false, text: '', citations: [], closing: undefined })
        return this.#goOn(write)
      }
      case 'delta':
        return this.#delta(event.part, event.text, write)
      case 'cite': {
        const block = this.#blocks.get(event.part)
        if (block && this.#isPresent(block)) this.#cite(block, event.citation, write)
        else block?.citations.push(event.citation)
        return
      }
      case 'close': {
        const block = this.#blocks.get(event.part)
        if (!block) return
        if (block.opening.type === 'tool_call' && !parseObject(event.text)) this.#broken = true
        block.closing = { proof: event.proof }
        return this.#goOn(write)
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

  #start(write: WriteEvent): void {
    // The tokens of the prompt are not known yet. The end of the stream reports them.
    const message = {
      ...writeHead(this.#head),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: writeAnthropicUsage(noUsage)
    }
    write(JSON.stringify({ type: 'message_start', message }), 'message_start')
  }

  #isPresent(block: Block): boolean {
    const [first] = this.#blocks.values()
    return block === first
  }

  #delta(number: number, text: string, write: WriteEvent): void {
    const block = this.#blocks.get(number)
    if (!block) return
    if (this.#isPresent(block)) return this.#say(block, text, write)
    block.text += text
    this.#waiting += text.length
    if (this.#waiting > mostKept) throw tooLarge('The upstream sent calls too large to be put in order.')
  }

  /** Sends what is known of the first block; when that is complete, goes on with the next ones. */
  #goOn(write: WriteEvent): void {
    for (const block of this.#blocks.values()) {
      const { opening, closing } = block
      this.#waiting -= block.text.length
      this.#say(block, block.text, write)
      block.text = ''
      for (const citation of block.citations.splice(0)) this.#cite(block, citation, write)
      if (!closing) return
      this.#blocks.delete(block.number)
      if (opening.type === 'reasoning' && closing.proof) this.#begin(block, write)
      if (!block.begun) continue
      if (opening.type === 'reasoning')
        this.#block('delta', { delta: { type: 'signature_delta', signature: seal('anthropic', closing.proof) } }, write)
      this.#block('stop', {}, write)
      this.#index++
    }
  }

  #say(block: Block, text: string, write: WriteEvent): void {
    if (text === '') return
    this.#begin(block, write)
    const { type } = block.opening
    const json = JSON.stringify(text)
    const delta =
      type === 'tool_call'
        ? `{"type":"input_json_delta","partial_json":${json}}`
        : type === 'reasoning'
          ? `{"type":"thinking_delta","thinking":${json}}`
          : `{"type":"text_delta","text":${json}}`
    write(`{"type":"content_block_delta","index":${this.#index},"delta":${delta}}`, 'content_block_delta')
  }

  #begin(block: Block, write: WriteEvent): void {
    if (block.begun) return
    block.begun = true
    const { opening } = block
    switch (opening.type) {
      case 'tool_call': {
        if (opening.proof) this.#signed(opening.proof, write)
        const { id, name } = opening
        return this.#block('start', { content_block: { type: 'tool_use', id, name, input: {} } }, write)
      }
      case 'reasoning':
        return this.#block('start', { content_block: { type: 'thinking', thinking: '', signature: '' } }, write)
      default:
        return this.#block('start', { content_block: { type: 'text', text: '', citations: null } }, write)
    }
  }

  /** Sends an empty block of thoughts that carries the signature of the call after it. */
  #signed(proof: Proof, write: WriteEvent): void {
    this.#block('start', { content_block: { type: 'thinking', thinking: '', signature: '' } }, write)
    this.#block('delta', { delta: { type: 'signature_delta', signature: seal('anthropic', proof) } }, write)
    this.#block('stop', {}, write)
    this.#index++
  }

  #cite(block: Block, citation: Citation, write: WriteEvent): void {
    this.#begin(block, write)
    this.#block('delta', { delta: { type: 'citations_delta', citation: writeCitation(citation) } }, write)
  }

  #end(write: WriteEvent): void {
    if (this.#broken && !isCut(this.#finish)) throw brokenCall()
    const delta = writeFinish(this.#finish, this.#refused)
    write(JSON.stringify({ type: 'message_delta', delta, usage: writeAnthropicUsage(this.#usage) }), 'message_delta')
    write('{"type":"message_stop"}', 'message_stop')
  }

  #block(what: 'start' | 'delta' | 'stop', rest: Record<string, unknown>, write: WriteEvent): void {
    const type = `content_block_${what}`
    write(JSON.stringify({ type, index: this.#index, ...rest }), type)
  }
}
