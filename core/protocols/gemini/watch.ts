// Follows a Gemini stream: says what each chunk means, and whether the answer is complete.
import { isError } from '../told/errors.ts'
import { asObject, asObjects } from '../object.ts'
import type { EventKind, Payload, Preface, StreamWatch } from '../protocol.ts'

/** The most candidates of an answer. No real one reaches it. */
const mostCandidates = 128

/** Parses every chunk, as any of them may be the last and report usage. */
export class GeminiWatch implements StreamWatch {
  readonly #asked: number
  readonly #candidates = new Map<unknown, boolean>()
  #content = false
  #blocked = false

  /** `asked`: how many candidates the request asks for. */
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

  /** The preface to insert before a chunk: this protocol has none. */
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
