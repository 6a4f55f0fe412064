// Writes the chunks of a chat completion stream for a client.
import { shifted } from '../canonical/answer.ts'
import type { AnswerEvent, Finish, PartOpening } from '../canonical/answer.ts'
import type { AnswerHead, StreamEncoder, WriteEvent } from '../canonical/codec.ts'
import { writeTokens } from '../canonical/logprobs.ts'
import { noUsage } from '../../money/usage.ts'
import type { Usage } from '../../money/usage.ts'
import { writeChatUsage } from '../usage/openai-chat.ts'
import { writeCitation, writeImage, writeProof } from './answer-encode.ts'
import { writeFinish } from './finish.ts'

/** The place of a part in its choice. */
interface Place {
  candidate: number
  type: PartOpening['type']
  /** Of a call, its number in the choice, from 0. Always 0 for other parts. */
  index: number
  custom: boolean
  /** Of a text, how many characters of text come before it. */
  before: number
}

export class ChatStreamEncoder implements StreamEncoder {
  /** The beginning of a chunk, up to its choices. */
  readonly #opening: string
  /** The end of a chunk, after its choices. */
  readonly #closing: string
  readonly #usageWanted: boolean
  readonly #places = new Map<number, Place>()
  /** For each choice that has begun: how many calls, pictures and characters of text it has. */
  readonly #counts = new Map<number, { calls: number; images: number; text: number }>()
  readonly #finishes = new Map<number, Finish>()
  #usage: Usage = noUsage

  constructor({ id, created, model, usage }: AnswerHead) {
    const head = JSON.stringify({ id: `chatcmpl-${id}`, object: 'chat.completion.chunk', created, model })
    this.#opening = `${head.slice(0, -1)},"choices":[`
    // When usage is asked for, chunks without it have `null` (OpenAI, API reference, "The chat completion chunk
    // object").
    this.#closing = usage ? '],"usage":null}' : ']}'
    this.#usageWanted = usage
  }

  push(event: AnswerEvent, write: WriteEvent): void {
    switch (event.type) {
      case 'open':
        return this.#open(event.candidate, event.part, event.opening, write)
      case 'delta': {
        const place = this.#places.get(event.part)!
        if (place.type === 'text') this.#counts.get(place.candidate)!.text += event.text.length
        const logprobs = event.logprobs && { content: writeTokens(event.logprobs), refusal: null }
        return this.#choice(place.candidate, deltaOf(place, event.text), write, logprobs)
      }
      case 'cite': {
        const { candidate, before } = this.#places.get(event.part)!
        return this.#choice(
          candidate,
          `{"annotations":[${JSON.stringify(writeCitation(shifted(event.citation, before)))}]}`,
          write
        )
      }
      case 'close':
        this.#places.delete(event.part)
        return
      case 'usage':
        this.#usage = event.usage
        return
      case 'finish':
        this.#finishes.set(event.candidate, event.finish)
        return
      case 'end':
        return this.#end(write)
      default:
    }
  }

  #open(candidate: number, part: number, opening: PartOpening, write: WriteEvent): void {
    const counts = this.#begin(candidate, opening.type === 'tool_call', write)
    const { type } = opening
    if (type === 'media') {
      if (opening.media.type === 'image')
        this.#choice(candidate, `{"images":[${JSON.stringify(writeImage(opening.media, counts.images++))}]}`, write)
    }
    const custom = type === 'tool_call' && opening.custom
    const place: Place = {
      candidate,
      type,
      index: type === 'tool_call' ? counts.calls++ : 0,
      custom,
      before: counts.text
    }
    this.#places.set(part, place)
    if (type !== 'tool_call') return
    const { id, name, proof } = opening
    const inner = custom ? { custom: { name, input: '' } } : { function: { name, arguments: '' } }
    const call = { index: place.index, id, type: custom ? 'custom' : 'function', ...inner, ...writeProof(proof) }
    this.#choice(candidate, `{"tool_calls":[${JSON.stringify(call)}]}`, write)
  }

  /** Begins a choice with its role. The content beside it is null when a call comes first. */
  #begin(candidate: number, calling: boolean, write: WriteEvent): { calls: number; images: number; text: number } {
    let counts = this.#counts.get(candidate)
    if (!counts) {
      this.#counts.set(candidate, (counts = { calls: 0, images: 0, text: 0 }))
      this.#choice(candidate, `{"role":"assistant","content":${calling ? 'null' : '""'}}`, write)
    }
    return counts
  }

  #end(write: WriteEvent): void {
    for (const [candidate, finish] of this.#finishes) {
      this.#begin(candidate, false, write)
      write(
        `${this.#opening}{"index":${candidate},"delta":{},"finish_reason":${JSON.stringify(writeFinish(finish))}}${this.#closing}`,
        ''
      )
    }
    if (this.#usageWanted) write(`${this.#opening}],"usage":${JSON.stringify(writeChatUsage(this.#usage))}}`, '')
    write('[DONE]', '')
  }

  #choice(candidate: number, delta: string, write: WriteEvent, logprobs?: unknown): void {
    const probabilities = logprobs === undefined ? '' : `,"logprobs":${JSON.stringify(logprobs)}`
    write(
      `${this.#opening}{"index":${candidate},"delta":${delta},"finish_reason":null${probabilities}}${this.#closing}`,
      ''
    )
  }
}

function deltaOf({ type, index, custom }: Place, text: string): string {
  const json = JSON.stringify(text)
  switch (type) {
    case 'reasoning':
      return `{"reasoning_content":${json}}`
    case 'refusal':
      return `{"refusal":${json}}`
    case 'tool_call':
      return `{"tool_calls":[{"index":${index},${custom ? `"custom":{"input":${json}}` : `"function":{"arguments":${json}}`}}]}`
    default:
      return `{"content":${json}}`
  }
}
