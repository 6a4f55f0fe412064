// Follows a Converse stream: says what each event means, and whether the answer is complete.
import { Likeness } from '../text/likeness.ts'
import { asObject } from '../object.ts'
import type { EventKind, Payload, Preface, StreamWatch } from '../protocol.ts'
import { typeOf } from './event-type.ts'

/** The largest event whose likeness is kept, in bytes: each stream keeps a copy. */
const likenessBytes = 4 * 1024

/**
 * Parses the first events, and then only those that differ from the last one in more than their text. The answer is
 * complete when its stop reason has come, and its usage after that: a stream that ends before them was cut.
 */
export class ConverseWatch implements StreamWatch {
  #started = false
  #content = false
  #stopped = false
  #whole = false
  /** The last delta that was parsed. Nearly all that follow resemble it. */
  #like: Likeness | undefined

  see(event: Payload): EventKind {
    if (this.#like !== undefined && event.event === 'contentBlockDelta' && this.#like.fits(event.data)) {
      event.plain = true
      return 'content'
    }
    const body = asObject(event.shallow())
    if (!body) return 'invalid'
    const type = typeOf(event.event, body)
    if (type === 'error') return 'error'
    if (type === 'messageStart') {
      if (this.#started) return 'invalid'
      this.#started = true
      return 'opening'
    }
    if (!this.#started) return 'invalid'
    switch (type) {
      case 'metadata':
        this.#whole = this.#stopped
        return this.#whole ? 'end' : 'invalid'
      case 'messageStop':
        this.#stopped = true
        break
      case 'contentBlockDelta':
        if (event.data.length <= likenessBytes) this.#like = new Likeness(event.data)
        event.plain = true
        break
      case 'contentBlockStart':
        break
      default:
        // An event that is newer than this says nothing of the answer that is known here.
        return this.#content ? 'content' : 'opening'
    }
    this.#content = true
    return 'content'
  }

  /** The preface to insert before an event: none, as every upstream of this protocol sends the whole of it. */
  missing(): Preface {
    return []
  }

  get finished(): boolean {
    return this.#whole
  }

  get complete(): boolean {
    return this.#whole
  }
}
