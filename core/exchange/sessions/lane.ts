// One direction of a session: lets messages through one after the other, and holds their sender back while one waits.
import type { Awaitable } from '../../contract/contract.ts'
import type { Message } from '../../contract/message.ts'
import type { FrameRoom } from './frame-room.ts'

/** Who sends what goes along a lane. */
export interface LaneSource {
  pause(): void
  resume(): void
}

/** What a lane is for. */
export interface LaneParts {
  source: LaneSource
  /** Returns the message to pass on, if any. While its promise is pending, later messages wait. */
  gate(message: Message): Awaitable<Message | undefined>
  onward(message: Message): void
  /** Counts the memory of messages that were received and not yet passed on. */
  room: FrameRoom
  /** Called with an error that `gate` or `onward` throws. */
  failed(error: unknown): void
}

/**
 * Messages keep their order. The source is paused while one waits, so what queues up here is only what stages made of
 * one message.
 */
export class Lane {
  readonly #parts: LaneParts
  readonly #waiting: Message[] = []
  #busy = false
  #full = false
  #unheard = false
  #paused = false

  constructor(parts: LaneParts) {
    this.#parts = parts
  }

  /** The source is paused. */
  get paused(): boolean {
    return this.#paused
  }

  put(message: Message): void {
    if (this.#busy) return void this.#waiting.push(message)
    try {
      const passed = this.#parts.gate(message)
      if (passed instanceof Promise) this.#wait(passed)
      else if (passed) this.#parts.onward(passed)
    } catch (error) {
      this.#parts.failed(error)
    }
  }

  /** Counts bytes that were received. False: there is no memory for them. */
  come(bytes: number): boolean {
    return this.#parts.room.take(bytes)
  }

  /** Gives the memory back when no message waits. */
  rest(): void {
    if (!this.#busy && !this.#full) this.#parts.room.empty()
  }

  /** Ends the lane and gives its memory back. */
  close(): void {
    this.#parts.room.empty()
  }

  /** Whether the receiver accepts no more messages for now. */
  set full(full: boolean) {
    this.#full = full
    this.#hold()
  }

  /** Whether the source does not read the errors that answer its messages. */
  set unheard(unheard: boolean) {
    this.#unheard = unheard
    this.#hold()
  }

  #wait(passed: Promise<Message | undefined>): void {
    this.#busy = true
    this.#hold()
    passed
      .then((message) => {
        if (message) this.#parts.onward(message)
        this.#busy = false
        while (!this.#busy && this.#waiting.length > 0) this.put(this.#waiting.shift()!)
        this.#hold()
      })
      .catch((error: unknown) => this.#parts.failed(error))
  }

  #hold(): void {
    const held = this.#busy || this.#full || this.#unheard
    this.rest()
    if (held === this.#paused) return
    this.#paused = held
    if (held) this.#parts.source.pause()
    else this.#parts.source.resume()
  }
}
