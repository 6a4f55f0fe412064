// Follows streams whose events name their type in `type`, and whose last event has the whole answer.
import { typeOfEvent } from '../event-type.ts'
import { asObject } from '../object.ts'
import { isError } from '../told/errors.ts'
import type { Collector, EventKind, Payload, StreamWatch } from '../protocol.ts'

/**
 * Follows such a stream. `last`: the types of events that complete an answer. `asked`: how many answers there have to
 * be.
 */
export class TypedWatch implements StreamWatch {
  readonly #last: ReadonlySet<string>
  readonly #asked: number
  #ended = 0

  constructor(last: ReadonlySet<string>, asked = 1) {
    this.#last = last
    this.#asked = asked
  }

  see(event: Payload): EventKind {
    if (event.data[0] === 0x5b && event.data.toString('latin1').trimEnd() === '[DONE]') return 'end'
    // Events with pictures are large, so a lens is used instead of parsing.
    const type = typeOfEvent(event, event.lens?.string('type'))
    if (type === 'error' || event.lens?.type('error') === 'object') return 'error'
    if (type === '') return isError(event.shallow()) ? 'error' : 'invalid'
    if (this.#last.has(type)) this.#ended++
    return 'content'
  }

  missing(): readonly string[] {
    return []
  }

  get finished(): boolean {
    return this.#ended > 0
  }

  get complete(): boolean {
    return this.#ended >= this.#asked
  }
}

/** The whole answer from the last event: the event without its type. */
export class LastEventCollector implements Collector {
  readonly #last: ReadonlySet<string>
  #whole: unknown

  constructor(last: ReadonlySet<string>) {
    this.#last = last
  }

  add(payload: unknown): void {
    const { type, ...rest } = asObject(payload) ?? {}
    if (typeof type === 'string' && this.#last.has(type)) this.#whole = rest
  }

  result(): unknown {
    return this.#whole
  }
}
