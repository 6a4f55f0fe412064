// Follows a chat completion stream: says what each chunk means, and whether the answer is complete.
import { Likeness } from '../text/likeness.ts'
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { isError } from '../told/errors.ts'
import type { EventKind, Payload, Preface, StreamWatch } from '../protocol.ts'

/** The largest event whose likeness is kept, in bytes: each stream keeps a copy. */
const likenessBytes = 4 * 1024

/** The most choices of an answer: https://platform.openai.com/docs/api-reference/chat has it as the limit of `n`. */
const mostChoices = 128

/** What is known of one choice: whether its role was shown, and whether it has its finish reason. */
interface Choice {
  opened: boolean
  finished: boolean
}

/** Parses the first events, and then only those that differ from the last one in more than their text. */
export class ChatWatch implements StreamWatch {
  /** How many choices were asked for. */
  readonly #asked: number
  /** Those that have come, by their index. */
  readonly #choices = new Map<unknown, Choice>()
  #content = false
  /** The last parsed event that was content and nothing else. Nearly all that follow resemble it. */
  #like: Likeness | undefined
  /** Whether that event has no place for usage. */
  #plain = false

  constructor(asked: number) {
    this.#asked = asked
  }

  see(event: Payload): EventKind {
    if (this.#like !== undefined && event.event === '' && this.#like.fits(event.data)) {
      event.plain = this.#plain
      return 'content'
    }
    return isDone(event.data) ? 'end' : this.#look(event)
  }

  /** The chunk with the role that a choice has to begin with, when the upstream left it out: SDKs fail without it. */
  missing(event: Payload): Preface {
    const chunk = asObject(event.shallow())
    const choices = chunk?.['choices']
    if (!Array.isArray(choices)) return []
    const opened: string[] = []
    for (const choice of choices as unknown[]) {
      const { index = 0, delta } = (asObject(choice) ?? {}) as { index?: unknown; delta?: unknown }
      const known = this.#choices.get(index)
      if (!known || known.opened) continue
      known.opened = true
      if (asObject(delta)?.['role']) continue
      const opening = { index, delta: { role: 'assistant', content: '' }, finish_reason: null }
      opened.push(JSON.stringify({ ...chunk, choices: [opening], usage: undefined }))
    }
    return opened
  }

  get finished(): boolean {
    for (const { finished } of this.#choices.values()) if (!finished) return false
    return this.#content
  }

  get complete(): boolean {
    return this.#choices.size >= this.#asked && this.finished
  }

  #look(event: Payload): EventKind {
    const body = event.shallow()
    if (event.event === 'error' || isError(body)) return 'error'
    const chunk = asObject(body)
    if (!chunk) return 'invalid'
    const { choices } = chunk
    let plain = false
    for (const item of Array.isArray(choices) ? (choices as unknown[]) : []) {
      const { index = 0, delta, text, finish_reason: finish } = (asObject(item) ?? {}) as JsonObject
      if (this.#choices.size === mostChoices && !this.#choices.has(index)) return 'invalid'
      const finished = isFinish(finish, delta)
      const known = this.#choices.get(index)
      if (!known) this.#choices.set(index, { opened: false, finished })
      else known.finished ||= finished
      this.#content ||= finished || hasContent(delta) || (typeof text === 'string' && text !== '')
      plain = this.#content && finish == null && !finished
    }
    if (plain && (choices as unknown[]).length === 1 && event.data.length <= likenessBytes) {
      this.#like = new Likeness(event.data)
      this.#plain = !event.data.includes('"usage"')
    }
    return this.#content ? 'content' : 'opening'
  }
}

/**
 * Whether a choice has ended. The empty reason that some vendors send is not an end; sound ends with its `expires_at`.
 */
function isFinish(finish: unknown, delta: unknown): boolean {
  if (finish != null && finish !== '') return true
  const audio = asObject(asObject(delta)?.['audio'])
  return audio?.['expires_at'] != null
}

function hasContent(delta: unknown): boolean {
  for (const [key, value] of Object.entries(asObject(delta) ?? {})) {
    if (key !== 'role' && value != null && value !== '' && !(Array.isArray(value) && value.length === 0)) return true
  }
  return false
}

function isDone(data: Buffer): boolean {
  return data[0] === 0x5b && data.toString('latin1').trimEnd() === '[DONE]'
}
