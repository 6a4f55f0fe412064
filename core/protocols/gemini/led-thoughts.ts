// Collects the thoughts of one candidate until the call that they led to.
import type { KeptThought } from '../canonical/proofs.ts'
import type { ReasoningPart } from '../canonical/request.ts'

export class LedThoughts {
  #waiting: KeptThought[] = []
  #said = false

  /** Adds complete thoughts. Those without a proof need not be kept. */
  add({ text, proof }: ReasoningPart): void {
    if (proof) this.#waiting.push({ type: 'reasoning', text, proof, ...(!this.#said && { first: true }) })
  }

  /** Called when a part begins: the thoughts to put on it; none unless it is a call. */
  before(type: string): KeptThought[] {
    if (type === 'reasoning') return []
    this.#said = true
    return type === 'tool_call' ? this.#waiting.splice(0) : []
  }
}
