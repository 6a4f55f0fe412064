// Checks the numbered events of a stream that a gateway has translated to Messages.
import { Script } from './payload.ts'
import type { Expected, OnEvent } from './response.ts'

/** A translated {@link Script}: every numbered text once and in order, and the end of the message. */
export class ExpectedMessages implements Expected {
  readonly #total: number
  readonly #onEvent: OnEvent
  #cut = ''
  #seen = 0
  #stopped = false

  constructor(total: number, onEvent: OnEvent) {
    this.#total = total
    this.#onEvent = onEvent
  }

  begin(): void {
    this.#cut = ''
    this.#seen = 0
    this.#stopped = false
  }

  check(bytes: Buffer, start: number, end: number): void {
    const events = (this.#cut + bytes.toString('utf8', start, end)).split('\n\n')
    this.#cut = events.pop()!
    for (const event of events) this.#look(event)
  }

  end(): void {
    if (this.#seen !== this.#total || !this.#stopped)
      throw new Error(
        `the message ended ${this.#stopped ? '' : 'without its end '}after ${this.#seen} of ${this.#total} texts`
      )
  }

  #look(event: string): void {
    const { type, delta } = JSON.parse(event.slice(event.indexOf('data: ') + 6)) as {
      type: string
      delta?: { type: string; text?: string }
    }
    if (type === 'error') throw new Error(`an error: ${event.slice(0, 200)}`)
    if (type === 'message_stop') this.#stopped = true
    if (delta?.type !== 'text_delta') return
    if (!delta.text!.startsWith(Script.number(this.#seen)))
      throw new Error(`text ${this.#seen} is wrong or missing: ${event.slice(0, 200)}`)
    this.#seen++
    const { from, to } = Script.stampInText
    this.#onEvent(Number(delta.text!.slice(from, to)))
  }
}
