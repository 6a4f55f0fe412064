// Follows a stream of a response's events: what each means, and whether the answer is whole.
import { isError } from '../errors.ts'
import { asObject, asText } from '../object.ts'
import type { EventKind, Payload, Preface, StreamWatch } from '../protocol.ts'

const lifecycle: ReadonlySet<string> = new Set(['response.created', 'response.queued', 'response.in_progress'])
const terminal: ReadonlySet<string> = new Set(['response.completed', 'response.incomplete', 'response.cancelled'])

/** Looks into every event: each has a number of its own, so none is like another. */
export class ResponsesWatch implements StreamWatch {
  #content: boolean
  #ended = false

  /** `begun`: of an answer that is taken up again, whatever comes is part of it. */
  constructor(begun = false) {
    this.#content = begun
  }

  see(event: Payload): EventKind {
    const body = asObject(event.shallow())
    const type = asText(body?.['type']) || event.event
    if (!body) return this.#ended ? 'content' : 'invalid'
    if (type === 'error' || (type === '' && isError(body)) || (!type.startsWith('response.') && body['error'] != null))
      return 'error'
    if (terminal.has(type)) return this.#end()
    // Before anything was said, another upstream may do better; after it, the client is told as the upstream tells it.
    if (type === 'response.failed') return this.#content ? this.#end() : 'error'
    if (!lifecycle.has(type) && type.startsWith('response.') && !type.endsWith('.added')) this.#content = true
    // Usage comes with the response, at the end.
    event.plain = type.endsWith('.delta')
    return this.#content ? 'content' : 'opening'
  }

  /** An upstream that leaves something out of this protocol does not speak it. */
  missing(): Preface {
    return []
  }

  get finished(): boolean {
    return this.#ended
  }

  get complete(): boolean {
    return this.#ended
  }

  #end(): EventKind {
    this.#content = this.#ended = true
    return 'end'
  }
}
