// Follows an Anthropic stream: says what each event means, and whether the answer is complete.
import { typeOfEvent } from '../event-type.ts'
import { Likeness } from '../text/likeness.ts'
import { isError } from '../told/errors.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { EventKind, Payload, Preface, StreamWatch } from '../protocol.ts'

/** The largest event whose likeness is kept, in bytes: each stream keeps a copy. */
const likenessBytes = 4 * 1024

/** Parses the first events, and then only those that differ from the last one in more than their text. */
export class MessagesWatch implements StreamWatch {
  #started = false
  #content = false
  #stopped = false
  /** The last delta that was parsed. Nearly all that follow resemble it. */
  #like: Likeness | undefined

  see(event: Payload): EventKind {
    if (this.#like !== undefined && event.event === 'content_block_delta' && this.#like.fits(event.data)) {
      event.plain = true
      return 'content'
    }
    const body = asObject(event.shallow())
    return body ? this.#look(event, body) : 'invalid'
  }

  /** The preface to insert before an event: none, as every upstream of this protocol sends the whole of it. */
  missing(): Preface {
    return []
  }

  /** Whether the end marker has come. Without it an answer is incomplete, whatever its stop reason. */
  get finished(): boolean {
    return this.#stopped && this.#content
  }

  get complete(): boolean {
    return this.finished
  }

  #look(event: Payload, body: JsonObject): EventKind {
    const type = typeOfEvent(event, body['type'])
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
    if (type === 'content_block_delta' && event.data.length <= likenessBytes) {
      this.#like = new Likeness(event.data)
      event.plain = true
    }
    return this.#content ? 'content' : 'opening'
  }
}

/**
 * Whether an event has content. An empty block that was only begun is no content: another upstream may still answer.
 */
function isContent(type: string, body: JsonObject): boolean {
  if (type === 'content_block_delta') return true
  if (type === 'message_delta') return asObject(body['delta'])?.['stop_reason'] != null
  if (type !== 'content_block_start') return false
  const block = asObject(body['content_block'])
  const kind = asText(block?.['type'])
  return kind === 'text' || kind === 'thinking' ? asText(block?.[kind]) !== '' : kind !== ''
}
