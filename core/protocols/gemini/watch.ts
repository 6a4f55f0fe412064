// Follows a stream of an answer's chunks: what each means, and whether the answer is whole.
import { isError } from '../errors.ts'
import { asObject, asObjects } from '../object.ts'
import type { EventKind, Payload, Preface, StreamWatch } from '../protocol.ts'

/** More answers than this to one request are none. */
const mostCandidates = 128

/** Every chunk may be the last, and tells of usage: all are looked into. */
export class GeminiWatch implements StreamWatch {
  readonly #asked: number
  readonly #candidates = new Map<unknown, boolean>()
  #content = false
  #blocked = false

  /** `asked`: how many candidates were asked for. */
  constructor(asked: number) {
    this.#asked = asked
  }

  see(event: Payload): EventKind {
    const chunk = asObject(event.shallow())
    if (!chunk) return 'invalid'
    if (event.event === 'error' || chunk['error'] != null || (chunk['candidates'] === undefined && isError(chunk)))
      return 'error'
    if (asObject(chunk['promptFeedback'])?.['blockReason'] != null) this.#blocked = this.#content = true
    for (const { index = 0, content, finishReason } of asObjects(chunk['candidates'])) {
      if (this.#candidates.size === mostCandidates && !this.#candidates.has(index)) return 'invalid'
      const finished = finishReason != null && finishReason !== 'FINISH_REASON_UNSPECIFIED'
      this.#candidates.set(index, finished || this.#candidates.get(index) === true)
      this.#content ||= finished || asObjects(asObject(content)?.['parts']).some((part) => part['text'] !== '')
    }
    return this.#content ? 'content' : 'opening'
  }

  /** Nothing stands before an answer in this protocol. */
  missing(): Preface {
    return []
  }

  get finished(): boolean {
    if (this.#blocked) return true
    return this.#candidates.size > 0 && [...this.#candidates.values()].every(Boolean)
  }

  get complete(): boolean {
    return this.finished && (this.#blocked || this.#candidates.size >= this.#asked)
  }
}
