// One direction of a session: lets messages through one after the other, and holds their sender back while one waits.
import type { Awaitable } from '../contract/contract.ts'
import type { Message } from '../contract/message.ts'
import type { FrameRoom } from './frame-room.ts'

/** Who sends what goes along a lane. */
export interface LaneSource {
  pause(): void
  resume(): void
}

/** What a lane is for. */
export interface LaneParts {
  source: LaneSource
  /** Looks at the next message: what goes on in its place, if anything. The next one waits for a promise. */
  gate(message: Message): Awaitable<Message | undefined>
  onward(message: Message): void
  /** The memory of what has come and is not on its way yet. */
  room: FrameRoom
  /** Called with what either of them throws. */
  failed(error: unknown): void
}

/**
 * Messages keep their order. What has come when the source is held back waits here, which is one read of its socket.
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

  /** The source is held back. */
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

  /** So many bytes have come for it. False: there is no room for them. */
  come(bytes: number): boolean {
    return this.#parts.room.take(bytes)
  }

  /** Gives the room of what has come back when all of it is on its way. */
  rest(): void {
    if (!this.#busy && !this.#full) this.#parts.room.empty()
  }

  /** Nothing more goes along it. */
  close(): void {
    this.#parts.room.empty()
  }

  /** Whether the far end takes no more for now. */
  set full(full: boolean) {
    this.#full = full
    this.#hold()
  }

  /** Whether the source does not take what it is answered to what it sends. */
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
