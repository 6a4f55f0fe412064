// Follows a Responses stream: says what each event means, and whether the answer is complete.
import type { Lens } from '../../bodies/lens.ts'
import { typeOfEvent } from '../event-type.ts'
import { isError } from '../told/errors.ts'
import type { EventKind, Payload, Preface, StreamWatch } from '../protocol.ts'

const lifecycle: ReadonlySet<string> = new Set(['response.created', 'response.queued', 'response.in_progress'])
const terminal: ReadonlySet<string> = new Set(['response.completed', 'response.incomplete', 'response.cancelled'])

/** Looks into every event: each has its own sequence number, so none is like another. */
export class ResponsesWatch implements StreamWatch {
  #content: boolean
  #ended = false

  /** `begun`: the stream continues an answer, so that every event is content. */
  constructor(begun = false) {
    this.#content = begun
  }

  see(event: Payload): EventKind {
    const { lens } = event
    if (!lens) return this.#ended ? 'content' : 'invalid'
    const type = typeOfEvent(event, lens.string('type'))
    if (type === 'error' || (!type.startsWith('response.') && isFailure(event, lens, type))) return 'error'
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

/** Whether an event that is none of the protocol's tells of a failure. */
function isFailure(event: Payload, lens: Lens, type: string): boolean {
  return (lens.has('error') && lens.type('error') !== 'null') || (type === '' && isError(event.shallow()))
}
