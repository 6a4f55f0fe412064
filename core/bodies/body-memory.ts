// The memory of request bodies: counts how much of it is taken, and lends buffers for large bodies.
import { OwnAllowance } from '../allowance.ts'
import type { Allowance } from '../allowance.ts'
import { Arena } from './arena.ts'
import { scannable } from './json/scan.ts'

/**
 * The sizes of buffers that the arena lends, in bytes. Smaller ones are left to the garbage collector; larger ones are
 * too rare.
 */
const smallest = 64 * 1024
const largest = 8 * 1024 * 1024
/** Chunks from this size on are freed at once, in bytes. For smaller ones the garbage collector is cheaper. */
export const freedBytes = 8 * 1024

/**
 * Holds large bodies in the scanner's own memory, where they are scanned without being copied. A body that finds no
 * room is left to the garbage collector.
 */
const arena = new Arena(scannable)

/**
 * Counts the bytes of request bodies that all exchanges hold together, up to a limit. V8 collects the whole heap after
 * some 60 MiB of new buffers, so the memory of large bodies is lent and reused.
 */
export class BodyMemory {
  readonly #allowance: Allowance

  /** `allowance`: what all threads may take together, or the bytes that this one may. */
  constructor(allowance: Allowance | number) {
    this.#allowance = typeof allowance === 'number' ? new OwnAllowance(allowance) : allowance
  }

  get limit(): number {
    return this.#allowance.limit
  }

  /** The bytes that this thread has taken. */
  get used(): number {
    return this.#allowance.used
  }

  /** Takes bytes of the limit. False: they do not fit, and none were taken. */
  take(bytes: number): boolean {
    return this.#allowance.take(bytes)
  }

  /**
   * Takes bytes for a caller that can also do without. They must fit into half of the limit; the other half is for
   * callers that cannot.
   */
  takeSpare(bytes: number): boolean {
    return this.#allowance.take(bytes, this.#allowance.limit / 2)
  }

  give(bytes: number): void {
    this.#allowance.give(bytes)
  }

  /** A buffer of that length. It is not cleared, and may hold bytes of another request. */
  lend(bytes: number): Buffer {
    return (bytes >= smallest && bytes <= largest && arena.take(bytes)) || Buffer.allocUnsafe(bytes)
  }

  /**
   * Frees a body and gives its bytes back to the limit, whether its buffer was lent or not. No view of it may be used
   * any more.
   */
  reclaim(body: Buffer): void {
    this.give(body.length)
    arena.free(body)
  }

  /**
   * Frees a lent buffer whose body did not arrive. `room`: a view of it that a read may still write into; the buffer is
   * then freed when the view is garbage.
   */
  abandon(lent: Buffer, room: Buffer | undefined): void {
    if (room) arena.freeAfter(lent, room)
    else arena.free(lent)
  }
}

/**
 * Frees the memory of a chunk that was copied. V8 counts the memory of buffers, and would soon collect the whole heap
 * for it. The caller must be the only one that has the chunk. Memory that other buffers share is left alone.
 */
export function free({ buffer, length }: Buffer): void {
  if (length >= freedBytes && length === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
