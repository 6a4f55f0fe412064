// Writes the chunks of a Gemini stream for a client. Calls are written when they are complete, as their arguments are
// an object in this protocol.
import type { AnswerEvent, Citation, Finish, PartOpening } from '../canonical/answer.ts'
import { mostKept } from '../canonical/codec.ts'
import type { AnswerHead, StreamEncoder, WriteEvent } from '../canonical/codec.ts'
import { parseObject } from '../canonical/json.ts'
import type { KeptThought } from '../canonical/proofs.ts'
import { tooLarge } from '../canonical/untranslatable.ts'
import { noUsage } from '../../money/usage.ts'
import type { Usage } from '../../money/usage.ts'
import { writeGeminiUsage } from '../usage/gemini.ts'
import {
  writeCall,
  writeGrounding,
  writeLogprobs,
  writeMedia,
  writeProof,
  writeTail,
  writeThought
} from './answer-encode.ts'
import { writeFinish } from './finish.ts'
import { LedThoughts } from './led-thoughts.ts'

/** A part that is open. */
interface Place {
  candidate: number
  opening: PartOpening
  /** Of thoughts, the text so far. */
  text: string
  /** Of a call, the thoughts that led to it. */
  led: readonly KeptThought[]
}

/** What the last chunk says about a candidate. */
interface Ending {
  finish: Finish
  refused: boolean
  citations: Citation[]
  /** Calls with arguments that are not JSON: cut off, or not expressible in this protocol. */
  broken: { id: string; name: string; input: string }[]
  /** Thoughts that no call has taken yet. */
  readonly thoughts: LedThoughts
}

export class GeminiStreamEncoder implements StreamEncoder {
  /** The end of a chunk, after its candidates. */
  readonly #closing: string
  readonly #tail: string
  readonly #places = new Map<number, Place>()
  /**
   * Calls in the order in which they opened, each with its parts once it is complete. They are written in this order.
   */
  readonly #calls = new Map<number, { candidate: number; parts: string[] } | undefined>()
  /** How many characters of complete calls wait for an earlier call. */
  #waiting = 0
  readonly #endings = new Map<number, Ending>()
  #usage: Usage = noUsage

  constructor(head: AnswerHead) {
    this.#tail = JSON.stringify(writeTail(head)).slice(1)
    this.#closing = `],${this.#tail}`
  }

  push(event: AnswerEvent, write: WriteEvent): void {
    switch (event.type) {
      case 'open': {
        const { candidate, part, opening } = event
        const ending = this.#ending(candidate)
        const led = ending.thoughts.before(opening.type)
        this.#places.set(part, { candidate, opening, text: '', led })
        ending.refused ||= opening.type === 'refusal'
        if (opening.type === 'tool_call') this.#calls.set(part, undefined)
        if (opening.type === 'media')
          for (const media of writeMedia(opening.media)) this.#part(candidate, JSON.stringify(media), write)
        return
      }
      case 'delta':
        return this.#delta(this.#places.get(event.part)!, event, write)
      case 'cite':
        this.#ending(this.#places.get(event.part)!.candidate).citations.push(event.citation)
        return
      case 'close': {
        const place = this.#places.get(event.part)!
        this.#places.delete(event.part)
        return this.#close(place, event, write)
      }
      case 'usage':
        this.#usage = event.usage
        return
      case 'finish':
        this.#ending(event.candidate).finish = event.finish
        return
      case 'end':
        return this.#end(write)
      default:
    }
  }

  #delta(place: Place, { text, logprobs }: AnswerEvent & { type: 'delta' }, write: WriteEvent): void {
    const { candidate, opening } = place
    if (opening.type === 'tool_call') return
    if (opening.type === 'reasoning') place.text += text
    const more = logprobs ? `,"logprobsResult":${JSON.stringify(writeLogprobs(logprobs))}` : ''
    const thought = opening.type === 'reasoning' ? ',"thought":true' : ''
    this.#part(candidate, `{"text":${JSON.stringify(text)}${thought}}`, write, more)
  }

  #close(
    { candidate, opening, text, led }: Place,
    { part, text: input, proof }: AnswerEvent & { type: 'close' },
    write: WriteEvent
  ): void {
    if (opening.type === 'reasoning' && proof) {
      this.#ending(candidate).thoughts.add({ type: 'reasoning', text, proof })
      this.#part(candidate, JSON.stringify({ ...writeThought(''), ...writeProof(proof) }), write)
    }
    if (opening.type !== 'tool_call') return
    const call = { ...opening, input }
    const isWhole = input !== '' && parseObject(input) !== undefined
    if (!isWhole) this.#ending(candidate).broken.push(call)
    const parts = isWhole ? writeCall(call, { reason: 'tool_calls' }, led).map((made) => JSON.stringify(made)) : []
    this.#calls.set(part, { candidate, parts })
    this.#waiting += lengthOf(parts)
    if (this.#waiting > mostKept) throw tooLarge('The upstream sent calls too large to be put in order.')
    this.#tellCalls(write)
  }

  /** Writes the complete calls, up to the first one that is not. */
  #tellCalls(write: WriteEvent): void {
    for (const [number, call] of this.#calls) {
      if (!call) return
      this.#calls.delete(number)
      this.#waiting -= lengthOf(call.parts)
      for (const part of call.parts) this.#part(call.candidate, part, write)
    }
  }

  /** Writes the last chunk: the end of every candidate, and the usage. */
  #end(write: WriteEvent): void {
    const endings = [...this.#endings]
      .sort(([a], [b]) => a - b)
      .map(([index, { finish, refused, citations, broken }]) => {
        for (const call of broken) writeCall(call, finish)
        const grounding = citations.length > 0 && { groundingMetadata: writeGrounding(citations) }
        return JSON.stringify({
          index,
          content: { role: 'model', parts: [{ text: '' }] },
          ...writeFinish(finish, refused),
          ...grounding
        })
      })
    write(
      `{"candidates":[${endings.join()}],"usageMetadata":${JSON.stringify(writeGeminiUsage(this.#usage))},${this.#tail}`,
      ''
    )
  }

  #part(candidate: number, part: string, write: WriteEvent, more = ''): void {
    write(
      `{"candidates":[{"index":${candidate},"content":{"role":"model","parts":[${part}]}${more}}${this.#closing}`,
      ''
    )
  }

  #ending(candidate: number): Ending {
    let ending = this.#endings.get(candidate)
    if (!ending)
      this.#endings.set(
        candidate,
        (ending = {
          finish: { reason: 'stop' },
          refused: false,
          citations: [],
          broken: [],
          thoughts: new LedThoughts()
        })
      )
    return ending
  }
}

function lengthOf(parts: readonly string[]): number {
  return parts.reduce((sum, { length }) => sum + length, 0)
}
