// Follows a stream of a message's events: what each means, and whether the answer is whole.
import { Likeness } from '../likeness.ts'
import { isError } from '../errors.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { EventKind, Payload, Preface, StreamWatch } from '../protocol.ts'

/** Longest event whose likeness is kept: a copy for each stream. */
const likenessBytes = 4 * 1024

/** Looks into the first events, and then into those that are not like the others. */
export class MessagesWatch implements StreamWatch {
  #started = false
  #content = false
  #stopped = false
  /** The last delta that was looked into. Nearly all that follow are like it. */
  #like: Likeness | undefined

  see(event: Payload): EventKind {
    if (this.#like !== undefined && event.event === 'content_block_delta' && this.#like.fits(event.data)) {
      event.plain = true
      return 'content'
    }
    const body = asObject(event.shallow())
    return body ? this.#look(event, body) : 'invalid'
  }

  /** An upstream that leaves something out of this protocol does not speak it. */
  missing(): Preface {
    return []
  }

  /** Without its end marker an answer is not whole, whatever reason to stop it gave. */
  get finished(): boolean {
    return this.#stopped && this.#content
  }

  get complete(): boolean {
    return this.finished
  }

  #look(event: Payload, body: JsonObject): EventKind {
    const type = asText(body['type']) || event.event
    if (type === 'error' || body['error'] != null || (type === '' && isError(body))) return 'error'
    if (type === 'message_start') {
      if (this.#started) return 'invalid'
      this.#started = true
      return 'opening'
    }
    if (type === 'ping') return this.#content ? 'content' : 'opening'
    if (!this.#started) return 'invalid'
    if (type === 'message_stop') {
      this.#stopped = true
      return 'end'
    }
    this.#content ||= isContent(type, body)
    if (type === 'content_block_delta' && this.#content && event.data.length <= likenessBytes) {
      this.#like = new Likeness(event.data)
      event.plain = true
    }
    return this.#content ? 'content' : 'opening'
  }
}

/** A block that has begun with nothing in it may still be told by another upstream. */
function isContent(type: string, body: JsonObject): boolean {
  if (type === 'content_block_delta') return true
  if (type === 'message_delta') return asObject(body['delta'])?.['stop_reason'] != null
  if (type !== 'content_block_start') return false
  const block = asObject(body['content_block'])
  const kind = asText(block?.['type'])
  return kind === 'text' || kind === 'thinking' ? asText(block?.[kind]) !== '' : kind !== ''
}
