// Writes one answer to its client: with its pauses, no faster than the client reads, and broken off where a directive
// says so.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Answer, Failure } from './answer.ts'
import type { Ending } from './ending.ts'
import type { Sleeper, Wheel } from './wheel.ts'

/** How many frames are written without a pause before other work gets its turn. */
const burst = 64
/** How many milliseconds a reset waits after the last byte, so that the client can read the bytes before. */
const resetDelay = 20

/** What a delivery needs. */
export interface DeliveryParts {
  response: ServerResponse
  socket: Socket
  answer: Answer
  /** Headers besides those of the answer. */
  headers: Readonly<Record<string, string>>
  /** Writes the last frame when the answer ends in an error. */
  failure: Failure
  wheel: Wheel
  /** Called once, however the delivery ends. */
  ended(ending: Ending): void
}

/** One delivery. It calls `ended` once, however the response ends. */
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
    // The head and the first frame are sent in one packet, as are the frames of a burst and the end.
    this.#socket.cork()
    try {
      this.#advance()
    } catch {
      // Frames are made while they are written. One that cannot be made (JSON nested too deep) ends the connection.
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

  /**
   * Writes at most `room` bytes of a frame, in one write to the socket. Node's own chunked encoding would need four.
   */
  #write(frame: string | Buffer, room: number): boolean {
    const size = Math.min(Buffer.byteLength(frame), room)
    // An empty chunk would end the body.
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
    // Pauses are measured from the time when the last frame was due, so that delays of timers do not add up. After a
    // delay longer than a whole pause they start anew.
    const now = performance.now()
    this.#due = Math.max(this.#due, now - ms) + ms
    this.#wheel.arm(this, this.#due)
  }

  #finish(): void {
    this.#response.end()
    if (this.#answer.directive.content_length === undefined) return
    // The length was wrong, so the client must not take the next answer for the rest of this one.
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
