// Follows a Responses stream: says what each event means, and whether the answer is complete.
import { isError } from '../errors.ts'
import { asObject, asText } from '../object.ts'
import type { EventKind, Payload, Preface, StreamWatch } from '../protocol.ts'

const lifecycle: ReadonlySet<string> = new Set(['response.created', 'response.queued', 'response.in_progress'])
const terminal: ReadonlySet<string> = new Set(['response.completed', 'response.incomplete', 'response.cancelled'])

/** Parses every event: each has its own sequence number, so none is like another. */
export class ResponsesWatch implements StreamWatch {
  #content: boolean
  #ended = false

  /** `begun`: the stream continues an answer, so that every event is content. */
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
    // Before any content another upstream may still answer. After that, the client sees the failure as the upstream
    // reports it.
    if (type === 'response.failed') return this.#content ? this.#end() : 'error'
    if (!lifecycle.has(type) && type.startsWith('response.') && !type.endsWith('.added')) this.#content = true
    // Only events with the whole response report usage.
    event.plain = type.endsWith('.delta')
    return this.#content ? 'content' : 'opening'
  }

  /** The preface to insert before an event: none, as every upstream of this protocol sends the whole of it. */
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
