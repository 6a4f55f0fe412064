// Writes one answer to its client: at its pace, no faster than it is read, and broken off where it was told to.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Answer, Failure } from './answer.ts'
import type { Ending } from './ending.ts'
import type { Sleeper, Wheel } from './wheel.ts'

/** Frames written in one go when no pause lies between them; then it is the others' turn. */
const burst = 64
/** Milliseconds between the last byte and a reset, so that the bytes are read before the reset wipes them out. */
const resetDelay = 20

/** What a delivery is made of. */
export interface DeliveryParts {
  response: ServerResponse
  socket: Socket
  answer: Answer
  /** Beside those of the answer. */
  headers: Readonly<Record<string, string>>
  /** How the answer breaks off when it is told to end in an error. */
  failure: Failure
  wheel: Wheel
  /** Called once. */
  ended(ending: Ending): void
}

/** One delivery; calls `ended` once, when the response is over in whichever way. */
export class Delivery implements Sleeper {
  readonly #response: ServerResponse
  readonly #socket: Socket
  readonly #answer: Answer
  readonly #headers: Readonly<Record<string, string>>
  readonly #failure: Failure
  readonly #wheel: Wheel
  readonly #chunked: boolean
  #due = performance.now()
  #headSent = false
  #events = 0
  #bytes = 0
  #blocked = false
  #cut = false
  #resetting = false
  #over = false

  constructor({ response, socket, answer, headers, failure, wheel, ended }: DeliveryParts) {
    this.#response = response
    this.#socket = socket
    this.#answer = answer
    this.#failure = failure
    this.#wheel = wheel
    const length = answer.directive.content_length ?? answer.length
    this.#chunked = length === undefined
    this.#headers = {
      'content-type': answer.contentType,
      ...(length === undefined ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(length) }),
      ...headers,
      ...answer.directive.headers
    }
    const onDrain = (): void => {
      if (!this.#blocked) return
      this.#blocked = false
      this.#sleep(0)
    }
    socket.on('drain', onDrain)
    response.once('close', () => {
      this.#over = true
      socket.off('drain', onDrain)
      ended(this.#cut ? 'cut' : response.writableFinished ? 'completed' : 'aborted')
    })
    const wait = answer.directive.first_byte_ms ?? 0
    if (wait > 0) this.#sleep(wait)
    else this.wake()
  }

  wake(): void {
    if (this.#over) return
    if (this.#resetting) {
      this.#socket.resetAndDestroy()
      return
    }
    // Head and first frame leave in one packet, as do the frames of a burst and the end.
    this.#socket.cork()
    try {
      this.#advance()
    } catch {
      // Frames are made while they are written; one that cannot be made (JSON nested too deep) is a lost connection.
      this.#socket.destroy()
    }
    this.#socket.uncork()
  }

  #advance(): void {
    const {
      cut,
      after_events: afterEvents,
      after_bytes: afterBytes,
      first_event_ms: wait = 0,
      gap_ms: gap = 0
    } = this.#answer.directive
    if (!this.#headSent) {
      if (cut && cut !== 'error' && cut !== 'end' && afterEvents === undefined && afterBytes === undefined)
        return this.#breakOff()
      this.#response.writeHead(this.#answer.directive.status ?? 200, this.#headers)
      this.#response.flushHeaders()
      this.#headSent = true
      if (wait > 0) return this.#sleep(wait)
    }
    const lastEvent = cut ? (afterEvents ?? (afterBytes === undefined ? 0 : Infinity)) : Infinity
    for (let i = 0; i < burst; i++) {
      if (this.#events >= lastEvent) return this.#breakOff()
      const due = this.#answer.dueAt?.(this.#events) ?? 0
      if (due > 0 && due > performance.now()) return this.#wheel.arm(this, due)
      const frame = this.#answer.frames.next()
      if (frame.done) return this.#finish()
      this.#events++
      const room = cut && afterBytes !== undefined ? afterBytes - this.#bytes : Infinity
      const writable = this.#write(frame.value, room)
      if (cut && afterBytes !== undefined && this.#bytes >= afterBytes) return this.#breakOff()
      if (gap > 0 && writable) return this.#sleep(gap)
      if (!writable) {
        this.#blocked = true
        return
      }
    }
    this.#sleep(0)
  }

  /** Writes at most `room` bytes of a frame. One write to the socket; node's own chunk writer needs four. */
  #write(frame: string | Buffer, room: number): boolean {
    const size = Math.min(Buffer.byteLength(frame), room)
    // An empty chunk would be the end of the body.
    if (size === 0) return true
    this.#bytes += size
    if (size === room || typeof frame !== 'string') {
      const part = (typeof frame === 'string' ? Buffer.from(frame) : frame).subarray(0, size)
      return this.#socket.write(
        this.#chunked ? Buffer.concat([Buffer.from(`${size.toString(16)}\r\n`), part, Buffer.from('\r\n')]) : part
      )
    }
    return this.#socket.write(this.#chunked ? `${size.toString(16)}\r\n${frame}\r\n` : frame)
  }

  #sleep(ms: number): void {
    // A pace is kept by the clock and not by the delays of the wheel, unless it has fallen a whole step behind.
    const now = performance.now()
    this.#due = Math.max(this.#due, now - ms) + ms
    this.#wheel.arm(this, this.#due)
  }

  #finish(): void {
    this.#response.end()
    if (this.#answer.directive.content_length === undefined) return
    // The length was a lie: what the client still waits for must not be taken from the next answer.
    this.#cut = true
    this.#socket.destroySoon()
  }

  #breakOff(): void {
    const { cut, error } = this.#answer.directive
    this.#cut = true
    if (cut === 'error') this.#write(this.#failure(error), Infinity)
    if (cut === 'error' || cut === 'end') this.#response.end()
    else if (cut === 'fin') this.#socket.destroySoon()
    else if (cut === 'reset') {
      this.#resetting = true
      this.#sleep(this.#headSent ? resetDelay : 0)
    }
  }
}
