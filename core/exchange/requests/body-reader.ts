// Reads a request body off the connection, within bounds of size, time and memory.
import { free, freedBytes } from '../../bodies/body-memory.ts'
import type { BodyMemory } from '../../bodies/body-memory.ts'
import { inTurns } from '../../bodies/turns.ts'
import type { Work } from '../../bodies/turns.ts'
import type { BodySink, BodySource } from '../../clients/body-source.ts'
import type { Awaitable } from '../../contract/contract.ts'
import { bodyTooLarge, GatewayError } from '../../errors.ts'
import type { Watchdog, Watched } from '../../watchdog/watchdog.ts'

const slowestBytesPerMs = 1.024
/** As much of a body as is worth being read to where it belongs. */
const roomyBytes = 32 * 1024
/** Chunks smaller than what is freed are put together in pieces of this size when nobody knows how many come. */
const gatheredBytes = 16 * 1024
/** Chunks of a body up to this size are put together at once. */
const joinedAtOnceBytes = 512 * 1024

/** What a body may take. */
export interface BodyBounds {
  /** Bytes of one body. */
  size: number
  /** Milliseconds for the body, plus a second for each KiB that has arrived. */
  time: number
  memory: BodyMemory
  watchdog: Watchdog
  /** Asked now and then whether the request is over, which ends the reading. */
  whose: { readonly over: GatewayError | undefined }
}

/**
 * What becomes of a body: its bytes, which occupy as many of the {@link BodyMemory} and are the callee's to give back.
 */
export type TakeBody<T> = (bytes: Buffer) => Awaitable<T>

/**
 * Reads a whole body and gives what `take` makes of it: at once when all of it is there. With a `content-length` its
 * memory is taken before the first byte is read; without one as they come.
 * @throws GatewayError `request_too_large`, `overloaded`, `request_timeout`, or `client_closed` when it ends early; and
 * what `take` throws
 */
export function readBody<T>(
  source: BodySource,
  declared: number | undefined,
  bounds: BodyBounds,
  take: TakeBody<T>
): Awaitable<T> {
  return new BodyReader(source, declared, bounds, take).outcome
}

class BodyReader<T> implements Watched, BodySink {
  rosterPlace: number | undefined = undefined
  readonly #source: BodySource
  readonly #bounds: BodyBounds
  readonly #take: TakeBody<T>
  #startedAt = 0
  readonly #declared: number | undefined
  /** What has come of a body of unknown length. */
  readonly #chunks: Buffer[] = []
  /** Where small chunks are put together, the last of `#chunks`. */
  #gathered: Buffer | undefined
  /** Where a body of declared length is put together. */
  #bytes: Buffer | undefined
  /** The part of it that the next bytes may be put into. */
  #room: Buffer | undefined
  #length = 0
  #held = 0
  /** One of them, once it is over. */
  #taken: { value: Awaitable<T> } | undefined
  #failure: { error: unknown } | undefined
  /** Whoever waits for it. */
  #waiting: PromiseWithResolvers<T> | undefined

  constructor(source: BodySource, declared: number | undefined, bounds: BodyBounds, take: TakeBody<T>) {
    this.#source = source
    this.#declared = declared
    this.#bounds = bounds
    this.#take = take
    if (declared !== undefined && declared > bounds.size)
      this.#refuse(bodyTooLarge(this.#bounds.size, 'limits.json_body'))
    else if (declared === undefined || this.#hold(declared)) {
      bounds.watchdog.add(this)
      this.#startedAt = bounds.watchdog.time()
      source.receive(this)
    }
  }

  /** Asked for once. */
  get outcome(): Awaitable<T> {
    if (this.#failure) throw this.#failure.error
    if (this.#taken) return this.#taken.value
    this.#waiting = Promise.withResolvers()
    return this.#waiting.promise
  }

  check(now: number): void {
    const { over } = this.#bounds.whose
    if (over) return this.#refuse(over)
    const allowed = this.#bounds.time + this.#length / slowestBytesPerMs
    if (now - this.#startedAt > allowed)
      this.#refuse(new GatewayError('request_timeout', 'The request body did not arrive in time.'))
  }

  data(chunk: Buffer): void {
    const before = this.#length
    this.#length += chunk.length
    if (this.#length > this.#bounds.size) return this.#refuse(bodyTooLarge(this.#bounds.size, 'limits.json_body'))
    // A body of unknown length takes memory as it grows, twice as much each time.
    const more = Math.min(Math.max(chunk.length, this.#length), this.#bounds.size - this.#held)
    if (this.#length > this.#held && !this.#hold(more)) return
    if (this.#declared === undefined) return this.#keep(chunk)
    const bytes = (this.#bytes ??= this.#bounds.memory.lend(this.#declared))
    // What was put where it belongs is there.
    if (chunk.buffer !== bytes.buffer || chunk.byteOffset !== bytes.byteOffset + before) chunk.copy(bytes, before)
  }

  get room(): Buffer | undefined {
    const bytes = this.#bytes
    this.#room = bytes && bytes.length - this.#length >= roomyBytes ? bytes.subarray(this.#length) : undefined
    return this.#room
  }

  /** In memory of about its length: bytes may come one by one. */
  #keep(chunk: Buffer): void {
    const { length } = chunk
    const last = this.#chunks.length - 1
    if (length >= freedBytes || last === -1) {
      this.#gathered = undefined
      this.#chunks.push(copyOf(chunk))
      return
    }
    const before = this.#gathered ? this.#chunks[last]!.length : 0
    if (this.#gathered && before + length <= gatheredBytes) {
      chunk.copy(this.#gathered, before)
      this.#chunks[last] = this.#gathered.subarray(0, before + length)
      return
    }
    this.#gathered = Buffer.allocUnsafeSlow(gatheredBytes)
    chunk.copy(this.#gathered)
    this.#chunks.push(this.#gathered.subarray(0, length))
  }

  end(): void {
    // The parsers see to it; but memory that nothing was written to must not get out whatever they do.
    if (this.#bytes && this.#length !== this.#declared) return this.lost()
    this.#bounds.watchdog.delete(this)
    this.#bounds.memory.give(this.#held - this.#length)
    const bytes = this.#bytes ?? this.#joined()
    // From here on it is the callee's, and nothing here may give it back or have it read into.
    this.#bytes = undefined
    try {
      const value = bytes instanceof Promise ? bytes.then(this.#take) : this.#take(bytes)
      this.#taken = { value }
      this.#waiting?.resolve(value)
    } catch (error) {
      this.#fail(error)
    }
  }

  #joined(): Awaitable<Buffer> {
    const [first] = this.#chunks
    if (this.#chunks.length === 1) return first!
    const joining = new Joining(this.#chunks, this.#length)
    return this.#length <= joinedAtOnceBytes ? joining.advance(Infinity)! : inTurns(joining)
  }

  lost(): void {
    this.#refuse(new GatewayError('client_closed', 'The client left before its request body was complete.'))
  }

  #hold(bytes: number): boolean {
    if (this.#bounds.memory.take(bytes)) {
      this.#held += bytes
      return true
    }
    this.#refuse(
      new GatewayError('overloaded', 'Too many request bodies are being handled. Try again shortly.', {
        retryAfterMs: 1000,
        reason: {
          by: 'room',
          what: 'the bodies of requests under way take all of the memory that they may have',
          where: 'limits.body_memory',
          remedy: 'raise it if the machine has more'
        }
      })
    )
    return false
  }

  #refuse(error: GatewayError): void {
    this.#bounds.watchdog.delete(this)
    this.#bounds.memory.give(this.#held)
    if (this.#bytes) this.#bounds.memory.abandon(this.#bytes, this.#room)
    this.#bytes = undefined
    this.#source.abandon()
    this.#fail(error)
  }

  #fail(error: unknown): void {
    this.#failure = { error }
    this.#waiting?.reject(error)
  }
}

/** Puts chunks together, and gives the memory of each back. */
class Joining implements Work<Buffer> {
  readonly #chunks: readonly Buffer[]
  readonly #bytes: Buffer
  #taken = 0
  #length = 0

  constructor(chunks: readonly Buffer[], length: number) {
    this.#chunks = chunks
    this.#bytes = Buffer.allocUnsafe(length)
  }

  advance(until: number): Buffer | undefined {
    while (this.#taken < this.#chunks.length) {
      const chunk = this.#chunks[this.#taken++]!
      this.#length += chunk.copy(this.#bytes, this.#length)
      free(chunk)
      if ((this.#taken & 15) === 0 && performance.now() >= until && this.#taken < this.#chunks.length) return undefined
    }
    return this.#bytes
  }
}

function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}
