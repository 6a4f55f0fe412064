// Opens and closes the parts of one answer for decoders: numbers them, collects the inputs of calls, and bounds what is
// kept.
import type { Citation, EmitEvent, PartOpening, TokenLogprob } from './answer.ts'
import { mostKept } from './codec.ts'
import type { Proof } from './request.ts'
import { badAnswer, tooLarge } from './untranslatable.ts'

/** The most parts of an answer. No real one reaches it. */
const mostParts = 10_000

/** A part that is open. */
export interface OpenPart {
  readonly number: number
  readonly candidate: number
  readonly type: PartOpening['type']
  /** Of a call, the input so far. */
  input: string
}

/** What a citation adds to the amount that is kept, besides its address and title, in characters. */
const citationLength = 32

/** The parts of one stream. */
export class Parts {
  #count = 0
  #kept = 0
  readonly #open = new Set<OpenPart>()

  open(candidate: number, opening: PartOpening, emit: EmitEvent): OpenPart {
    if (this.#count === mostParts) throw tooLarge('The upstream sent an answer in too many parts.')
    if (opening.type === 'tool_call')
      this.count(opening.id.length + opening.name.length + (opening.proof?.value.length ?? 0))
    const part: OpenPart = { number: this.#count++, candidate, type: opening.type, input: '' }
    this.#open.add(part)
    emit({ type: 'open', candidate, part: part.number, opening })
    return part
  }

  /** @throws Untranslatable when the part is closed */
  delta(part: OpenPart, text: string, emit: EmitEvent, logprobs?: TokenLogprob[]): void {
    if (text === '' && !logprobs) return
    if (!this.#open.has(part)) throw badAnswer('The upstream went on with a part that was complete.')
    if (part.type === 'tool_call') part.input += text
    // Thoughts count too, as they may be kept for the calls that follow.
    if (part.type === 'tool_call' || part.type === 'reasoning') this.count(text.length)
    emit(logprobs ? { type: 'delta', part: part.number, text, logprobs } : { type: 'delta', part: part.number, text })
  }

  cite(part: OpenPart, citation: Citation, emit: EmitEvent): void {
    this.count(citation.url.length + citation.title.length + citationLength)
    emit({ type: 'cite', part: part.number, citation })
  }

  /** Does nothing when the part is closed already. */
  close(part: OpenPart | undefined, emit: EmitEvent, proof?: Proof): void {
    if (!part || !this.#open.delete(part)) return
    const { number, input: text } = part
    // A decoder may still refer to the part, so its input is released here.
    part.input = ''
    this.count((proof?.value.length ?? 0) - text.length)
    emit(proof ? { type: 'close', part: number, text, proof } : { type: 'close', part: number, text })
  }

  isOpen(part: OpenPart): boolean {
    return this.#open.has(part)
  }

  /** Closes all open parts, the oldest first. */
  closeAll(emit: EmitEvent): void {
    for (const part of this.#open) this.close(part, emit)
  }

  /**
   * Adds characters to the amount that is kept; a negative number subtracts.
   * @throws Untranslatable when it is too much
   */
  count(length: number): void {
    this.#kept += length
    if (this.#kept > mostKept) throw tooLarge('The upstream sent more in calls and thoughts than can be translated.')
  }
}
