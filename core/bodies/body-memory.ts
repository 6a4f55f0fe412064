// The memory of request bodies: how much of it is taken, and where large ones lie.
import { Arena } from './arena.ts'
import { scannable } from './json/scan.ts'

/** Smaller bodies are left to the garbage collector, and larger ones are too rare. */
const smallest = 64 * 1024
const largest = 8 * 1024 * 1024
/** Memory of smaller chunks is left to the garbage collector, which is cheaper for it. */
export const freedBytes = 8 * 1024

/**
 * Where large bodies lie, and are looked into without being copied. What finds no room is left to the garbage
 * collector.
 */
const arena = new Arena(scannable)

/**
 * Bytes of request bodies that may be held at one time, by all exchanges together. V8 collects the whole heap when some
 * sixty MiB of buffers were made, dead or alive, so the memory of large bodies is lent out and comes back.
 */
export class BodyMemory {
  readonly limit: number
  used = 0

  constructor(limit: number) {
    this.limit = limit
  }

  /** False when the bytes do not fit; then none are taken. */
  take(bytes: number): boolean {
    if (this.used + bytes > this.limit) return false
    this.used += bytes
    return true
  }

  /** Likewise for what can do without: half of it all is left to those who cannot. */
  takeSpare(bytes: number): boolean {
    return this.used + bytes <= this.limit / 2 && this.take(bytes)
  }

  give(bytes: number): void {
    this.used -= bytes
  }

  /** A buffer of that length; what stands in it is somebody else's and has to be overwritten. */
  lend(bytes: number): Buffer {
    return (bytes >= smallest && bytes <= largest && arena.take(bytes)) || Buffer.allocUnsafe(bytes)
  }

  /** Takes back a body whose bytes were taken, lent or not. Nobody may look at it any more. */
  reclaim(body: Buffer): void {
    this.give(body.length)
    arena.free(body)
  }

  /**
   * Takes back what was lent for a body that did not come. `room`: a view of it that a read may still be on its way
   * into.
   */
  abandon(lent: Buffer, room: Buffer | undefined): void {
    if (room) arena.freeAfter(lent, room)
    else arena.free(lent)
  }
}

/**
 * Gives the memory of a chunk that was copied back now: V8 counts the memory of buffers and would collect the whole
 * heap for it. Nobody else has the chunk. Memory that it shares with other buffers is left alone.
 */
export function free({ buffer, length }: Buffer): void {
  if (length >= freedBytes && length === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
