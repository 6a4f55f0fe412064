// Keeps the bytes of an upload so that they can be sent several times: in memory as far as there is room, else in a
// file.
import { Readable } from 'node:stream'
import type { BodyMemory } from './body-memory.ts'
import { Spill } from './spill.ts'

/** Uploads up to this size stay in memory if there is room, in bytes. Of an upload of unknown size as many bytes do. */
export const uploadMemoryBytes = 16 * 1024 * 1024
/**
 * The largest and the smallest block. A block is about as large as what has come so far, so that a slow client holds
 * little.
 */
const blockBytes = 1024 * 1024
const smallBlockBytes = 64 * 1024
/** If at least this much is left to come, in bytes, it is read right into its place. */
const roomyBytes = 32 * 1024
const readBytes = 256 * 1024

/** A piece of what is sent: bytes, or a range of the upload. */
export type Piece = Buffer | { from: number; to: number }

/** A body that is too large for memory. It is read again each time it is sent. */
export interface StoredBody {
  readonly length: number
  /** Reads from a position on into the caller's memory. Resolves with the number of bytes; 0 only at the end. */
  read(into: Buffer, at: number): Promise<number>
  /** A stream from the first byte on. A caller that does not read it to the end must destroy it. */
  open(): Readable
}

/** The body of an attempt: pieces to be sent one after the other, or stored in a file. */
export type UpstreamBody = readonly Buffer[] | StoredBody

/** Takes bytes once, in order, and gives them out any number of times. It must be closed. */
export class Upload {
  length = 0
  /** Called when {@link write} may be called again after it returned false. */
  onDrain: (() => void) | undefined
  /** Called when the file cannot be written. The upload is of no use then. */
  onError: ((cause: Error) => void) | undefined
  readonly #memory: BodyMemory
  readonly #declared: number | undefined
  /** The beginning of the upload, in memory: the blocks as they were lent, and the filled part of each. */
  readonly #lent: Buffer[] = []
  readonly #kept: Buffer[] = []
  #keptBytes = 0
  #spill: Spill | undefined
  /** The block being filled, and how many of its bytes are. */
  #block: Buffer | undefined
  #filled = 0
  /** The view of the block that a read may be writing into. */
  #room: Buffer | undefined
  #closed = false

  /** `declared`: how many bytes will come, where that is known. */
  constructor(memory: BodyMemory, declared: number | undefined) {
    this.#memory = memory
    this.#declared = declared
  }

  /**
   * Memory that the next bytes can be read into, before they are passed to {@link write}. Undefined when few are left.
   */
  get room(): Buffer | undefined {
    const rest = (this.#declared ?? 0) - this.length
    if (rest < roomyBytes || this.#closed) return (this.#room = undefined)
    if (this.#block && this.#block.length - this.#filled < Math.min(rest, roomyBytes)) this.#seal()
    this.#block ??= this.#another()
    return (this.#room = this.#block.subarray(this.#filled))
  }

  /** Takes bytes. They are copied, unless they were read into {@link room}. False: wait for {@link onDrain} first. */
  write(bytes: Buffer): boolean {
    let more = true
    for (let at = 0; at < bytes.length;) {
      const block = (this.#block ??= this.#another())
      const taken = Math.min(bytes.length - at, block.length - this.#filled)
      const inPlace = bytes.buffer === block.buffer && bytes.byteOffset + at === block.byteOffset + this.#filled
      if (!inPlace) bytes.copy(block, this.#filled, at, at + taken)
      at += taken
      this.length += taken
      this.#filled += taken
      if (this.#filled === block.length) more = this.#seal()
    }
    return more
  }

  /** Resolves when everything can be read. Nothing may be written after that. */
  async finish(): Promise<void> {
    if (this.#block) this.#seal()
    await this.#spill?.finish()
  }

  /** A few of its bytes, synchronously. Only after {@link finish}. */
  slice(from: number, to: number): Buffer {
    const pieces = this.#inMemory(from, Math.min(to, this.#keptBytes))
    if (to > this.#keptBytes) pieces.push(this.#spill!.slice(Math.max(0, from - this.#keptBytes), to - this.#keptBytes))
    return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
  }

  /** The body that consists of these pieces: in memory when the whole upload is. Only after {@link finish}. */
  compose(pieces: readonly Piece[]): UpstreamBody {
    if (!this.#spill)
      return pieces.flatMap((piece) => (Buffer.isBuffer(piece) ? piece : this.#inMemory(piece.from, piece.to)))
    const length = pieces.reduce((sum, piece) => sum + lengthOfPiece(piece), 0)
    const read = (into: Buffer, at: number): Promise<number> => this.#read(pieces, into, at)
    return {
      length,
      read,
      open: () => Readable.from(bytesOf(length, read), { objectMode: false, highWaterMark: readBytes })
    }
  }

  /** Gives the memory back and closes the file. Nothing may be read after that. Safe to call twice. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.onDrain = this.onError = undefined
    this.#spill?.close()
    const filling = this.#block
    for (const block of this.#lent) {
      this.#memory.give(block.length)
      this.#memory.abandon(block, block === filling ? this.#room : undefined)
    }
    this.#block = this.#room = undefined
  }

  /** The block for the next bytes: in memory if there is room, else one of the file. */
  #another(): Buffer {
    this.#filled = 0
    if (!this.#spill) {
      const declared = this.#declared
      const wanted = Math.min(
        blockBytes,
        Math.max(smallBlockBytes, this.length),
        declared === undefined ? Infinity : declared - this.length
      )
      if (Math.max(declared ?? 0, this.length + wanted) <= uploadMemoryBytes && this.#memory.takeSpare(wanted)) {
        const block = this.#memory.lend(wanted)
        this.#lent.push(block)
        return block
      }
      this.#spill = new Spill()
      const drained = (): void => this.onDrain?.()
      const failed = (cause: Error): void => this.onError?.(cause)
      this.#spill.onDrain = drained
      this.#spill.onError = failed
    }
    return this.#spill.block()
  }

  /** Ends the present block. False: wait for {@link onDrain} before more is written. */
  #seal(): boolean {
    const block = this.#block!
    this.#block = undefined
    if (this.#spill) return this.#spill.write(block, this.#filled)
    this.#kept.push(block.subarray(0, this.#filled))
    this.#keptBytes += this.#filled
    return true
  }

  /** Views of a range that is in memory. */
  #inMemory(from: number, to: number): Buffer[] {
    const views: Buffer[] = []
    let at = 0
    for (const kept of this.#kept) {
      const view = kept.subarray(Math.max(0, from - at), Math.max(0, to - at))
      if (view.length > 0) views.push(view)
      at += kept.length
    }
    return views
  }

  async #read(pieces: readonly Piece[], into: Buffer, at: number): Promise<number> {
    let skipped = at
    for (const piece of pieces) {
      const length = lengthOfPiece(piece)
      if (skipped >= length) {
        skipped -= length
        continue
      }
      if (Buffer.isBuffer(piece)) return piece.copy(into, 0, skipped)
      const from = piece.from + skipped
      if (this.#closed) throw new Error('the upload was closed')
      if (from < this.#keptBytes) return this.#inMemory(from, piece.to)[0]!.copy(into)
      const read = await this.#spill!.read(into.subarray(0, length - skipped), from - this.#keptBytes)
      if (read === 0) throw new Error(`the file of the upload ends after ${from} bytes`)
      return read
    }
    return 0
  }
}

async function* bytesOf(length: number, read: (into: Buffer, at: number) => Promise<number>): AsyncGenerator<Buffer> {
  for (let at = 0; at < length;) {
    const bytes = Buffer.allocUnsafeSlow(Math.min(readBytes, length - at))
    const taken = await read(bytes, at)
    at += taken
    yield bytes.subarray(0, taken)
  }
}

function lengthOfPiece(piece: Piece): number {
  return Buffer.isBuffer(piece) ? piece.length : piece.to - piece.from
}

/** The length of a body, in bytes. */
export function lengthOf(body: UpstreamBody): number {
  if (!isPieces(body)) return body.length
  let length = 0
  for (const piece of body) length += piece.length
  return length
}

/** Whether a body is in memory as a whole. */
export function isPieces(body: UpstreamBody): body is readonly Buffer[] {
  return Array.isArray(body)
}
