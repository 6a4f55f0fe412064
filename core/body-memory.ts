// The memory of request bodies: how much of it is taken, and buffers that are used again.

/** Smaller buffers are left to the garbage collector, and larger ones are too rare. */
const smallest = 64 * 1024
const largest = 8 * 1024 * 1024
/** Memory of smaller chunks is left to the garbage collector, which is cheaper for it. */
export const freedBytes = 8 * 1024
/** What may wait for use, in all; never more than bodies may take. */
const keptBytes = 64 * 1024 * 1024

/**
 * Bytes of request bodies that may be held at one time, by all exchanges together. V8 collects the whole heap when some
 * sixty MiB of buffers were made, dead or alive, so the buffers of large bodies are lent out and come back.
 */
export class BodyMemory {
  readonly limit: number
  used = 0
  /** Bytes in buffers that wait for the next body. */
  kept = 0
  /** What is out at present. Only that may come back: the memory of other buffers is shared. */
  readonly #lent = new WeakSet<ArrayBuffer>()
  /** By their size. */
  readonly #waiting = new Map<number, ArrayBuffer[]>()

  constructor(limit: number) {
    this.limit = limit
  }

  /** False when the bytes do not fit; then none are taken. */
  take(bytes: number): boolean {
    if (this.used + bytes > this.limit) return false
    this.used += bytes
    return true
  }

  give(bytes: number): void {
    this.used -= bytes
  }

  /** A buffer of that length; what stands in it is somebody else's and has to be overwritten. */
  lend(bytes: number): Buffer {
    const size = sizeOf(bytes)
    if (size === undefined) return Buffer.allocUnsafe(bytes)
    const waiting = this.#waiting.get(size)?.pop()
    if (waiting) this.kept -= size
    const memory = waiting ?? new ArrayBuffer(size)
    this.#lent.add(memory)
    return Buffer.from(memory, 0, bytes)
  }

  /** Takes back a body whose bytes were taken, lent or not. Nobody may look at it any more. */
  reclaim({ buffer, length }: Buffer): void {
    this.give(length)
    const size = buffer.byteLength
    if (size < smallest || !(buffer instanceof ArrayBuffer) || !this.#lent.delete(buffer) || this.kept + size > Math.min(keptBytes, this.limit)) return
    let waiting = this.#waiting.get(size)
    if (!waiting) this.#waiting.set(size, (waiting = []))
    waiting.push(buffer)
    this.kept += size
  }
}

/** A size with few others beside it that holds so many bytes and at most a quarter more; undefined for what is not used again. */
function sizeOf(bytes: number): number | undefined {
  if (bytes < smallest || bytes > largest) return undefined
  const step = 2 ** (Math.floor(Math.log2(bytes)) - 2)
  return Math.ceil(bytes / step) * step
}

/**
 * Gives the memory of a chunk that was copied back now: V8 counts the memory of buffers and would collect the whole heap for it.
 * Nobody else has the chunk. Memory that it shares with other buffers is left alone.
 */
export function free({ buffer, length }: Buffer): void {
  if (length >= freedBytes && length === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
