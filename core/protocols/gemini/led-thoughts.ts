// The thoughts of one candidate, until the call that they led to.
import type { KeptThought } from '../canonical/proofs.ts'
import type { ReasoningPart } from '../canonical/request.ts'

export class LedThoughts {
  #waiting: KeptThought[] = []
  #said = false

  /** Thoughts that are whole; those that nothing proves lead nowhere. */
  add({ text, proof }: ReasoningPart): void {
    if (proof) this.#waiting.push({ type: 'reasoning', text, proof, ...(!this.#said && { first: true }) })
  }

  /** The thoughts that led to what begins now; none for what is no call. */
  before(type: string): KeptThought[] {
    if (type === 'reasoning') return []
    this.#said = true
    return type === 'tool_call' ? this.#waiting.splice(0) : []
  }
}
