// Opens and closes the parts of one answer for decoders: numbers them, keeps the inputs of calls, and bounds what is
// kept.
import type { Citation, EmitEvent, PartOpening, TokenLogprob } from './answer.ts'
import { mostKept } from './codec.ts'
import type { Proof } from './request.ts'
import { badAnswer } from './untranslatable.ts'

/** More parts than this are no answer. */
const mostParts = 10_000

/** A part that is open. */
export interface OpenPart {
  readonly number: number
  readonly candidate: number
  readonly type: PartOpening['type']
  /** Of a call, what has come. */
  input: string
}

/** What a citation counts as beside its words, in characters. */
const citationLength = 32

/** The parts of one stream. */
export class Parts {
  #count = 0
  #kept = 0
  readonly #open = new Set<OpenPart>()

  open(candidate: number, opening: PartOpening, emit: EmitEvent): OpenPart {
    if (this.#count === mostParts) throw badAnswer('The upstream sent an answer in too many parts.')
    if (opening.type === 'tool_call')
      this.keep(opening.id.length + opening.name.length + (opening.proof?.value.length ?? 0))
    const part: OpenPart = { number: this.#count++, candidate, type: opening.type, input: '' }
    this.#open.add(part)
    emit({ type: 'open', candidate, part: part.number, opening })
    return part
  }

  /** @throws Untranslatable when the part is closed already */
  delta(part: OpenPart, text: string, emit: EmitEvent, logprobs?: TokenLogprob[]): void {
    if (text === '' && !logprobs) return
    if (!this.#open.has(part)) throw badAnswer('The upstream went on with a part that was complete.')
    if (part.type === 'tool_call') part.input += text
    // Thoughts may have to be kept for the calls that come of them.
    if (part.type === 'tool_call' || part.type === 'reasoning') this.keep(text.length)
    emit(logprobs ? { type: 'delta', part: part.number, text, logprobs } : { type: 'delta', part: part.number, text })
  }

  cite(part: OpenPart, citation: Citation, emit: EmitEvent): void {
    this.keep(citation.url.length + citation.title.length + citationLength)
    emit({ type: 'cite', part: part.number, citation })
  }

  /** Closing a part that is closed already does nothing. */
  close(part: OpenPart | undefined, emit: EmitEvent, proof?: Proof): void {
    if (!part || !this.#open.delete(part)) return
    const { number, input: text } = part
    // Decoders may remember the part, and nobody needs to remember what was in it.
    part.input = ''
    this.keep((proof?.value.length ?? 0) - text.length)
    emit(proof ? { type: 'close', part: number, text, proof } : { type: 'close', part: number, text })
  }

  isOpen(part: OpenPart): boolean {
    return this.#open.has(part)
  }

  /** All that are open, oldest first. */
  closeAll(emit: EmitEvent): void {
    for (const part of this.#open) this.close(part, emit)
  }

  /**
   * Something else has to be remembered of the answer, so many characters of it, or has not any longer. @throws
   * Untranslatable
   */
  keep(length: number): void {
    this.#kept += length
    if (this.#kept > mostKept) throw badAnswer('The upstream sent more in calls and thoughts than can be translated.')
  }
}
