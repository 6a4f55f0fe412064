// One direction of a session: takes what one side sends, lets messages through one after the other, and holds their
// sender back while one waits.
import type { BodyMemory } from '../../bodies/body-memory.ts'
import type { Awaitable } from '../../contract/contract.ts'
import { Message } from '../../contract/message.ts'
import { GatewayError } from '../../errors.ts'
import type { Closing, FrameTaker } from '../../wire/frame-socket.ts'
import { FrameRoom } from './frame-room.ts'

/** The side that sends what goes along a lane. */
export type Side = 'client' | 'upstream'

/** The session that a lane is part of. A silent session is little else than memory, so that lanes have no closures. */
export interface LaneHost {
  /** Nothing that still comes counts. */
  readonly over: boolean
  /** The connection of a side. */
  socketOf(side: Side): { pause(): void; resume(): void }
  /** A whole message has come from a side. */
  came(from: Side, message: Message): void
  /** Returns the message to pass on, if any. While its promise is pending, later messages wait. */
  gate(from: Side, message: Message): Awaitable<Message | undefined>
  onward(from: Side, message: Message): void
  /** All that was sent to a side has gone out. */
  drained(side: Side): void
  closed(side: Side, closing: Closing): void
  /** Called with an error that one of the others throws. */
  fail(error: unknown): void
}

/**
 * Messages keep their order. The source is paused while one waits, so what queues up here is only what stages made of
 * one message.
 */
export class Lane implements FrameTaker {
  readonly #from: Side
  readonly #host: LaneHost
  /** Counts the memory of messages that were received and not yet passed on. */
  readonly #room: FrameRoom
  readonly #waiting: Message[] = []
  #busy = false
  #full = false
  #unheard = false
  #paused = false

  constructor(from: Side, host: LaneHost, memory: BodyMemory) {
    this.#from = from
    this.#host = host
    this.#room = new FrameRoom(memory)
  }

  /** The source is paused. */
  get paused(): boolean {
    return this.#paused
  }

  received(bytes: number): void {
    if (this.#host.over || this.#room.take(bytes)) return
    this.#host.fail(new GatewayError('overloaded', 'Too much is on its way in sessions. Try again shortly.'))
  }

  frame(data: Buffer, binary: boolean): void {
    const host = this.#host
    if (host.over) return
    try {
      host.came(this.#from, Message.frame(data, this.#from, binary))
      this.#rest()
    } catch (error) {
      host.fail(error)
    }
  }

  drained(): void {
    if (!this.#host.over) this.#host.drained(this.#from)
  }

  closed(closing: Closing): void {
    this.#host.closed(this.#from, closing)
  }

  put(message: Message): void {
    if (this.#busy) return void this.#waiting.push(message)
    try {
      const passed = this.#host.gate(this.#from, message)
      if (passed instanceof Promise) this.#wait(passed)
      else if (passed) this.#host.onward(this.#from, passed)
    } catch (error) {
      this.#host.fail(error)
    }
  }

  /** Ends the lane and gives its memory back. */
  close(): void {
    this.#room.empty()
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
        if (message) this.#host.onward(this.#from, message)
        this.#busy = false
        while (!this.#busy && this.#waiting.length > 0) this.put(this.#waiting.shift()!)
        this.#hold()
      })
      .catch((error: unknown) => this.#host.fail(error))
  }

  #hold(): void {
    const held = this.#busy || this.#full || this.#unheard
    this.#rest()
    if (held === this.#paused) return
    this.#paused = held
    const socket = this.#host.socketOf(this.#from)
    if (held) socket.pause()
    else socket.resume()
  }

  /** Gives the memory back when no message waits. */
  #rest(): void {
    if (!this.#busy && !this.#full) this.#room.empty()
  }
}
