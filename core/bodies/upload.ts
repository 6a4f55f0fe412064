// The bytes of an upload: in memory while they are few, else in a file that has no name, to be sent as often as it takes.
import { readSync } from 'node:fs'
import type { WriteStream } from 'node:fs'
import { mkdtemp, open, rm } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'

/** An upload up to this size stays in memory. */
export const uploadMemoryBytes = 256 * 1024
/** Bytes that may wait for the disk, and bytes read at a time. */
const writeBytes = 1024 * 1024
const readBytes = 256 * 1024

/** A part of what is sent: bytes, or a range of the upload. */
export type Piece = Buffer | { from: number; to: number }

/** A body too large to be held: read anew each time it is sent. */
export interface StoredBody {
  readonly length: number
  /** Reads from a position on into memory of the caller's; how many bytes, 0 at the end and never else. */
  read(into: Buffer, at: number): Promise<number>
  /** Each call begins at the first byte. Whoever reads it destroys it when it is not read to its end. */
  open(): Readable
}

/** A body on its way to an upstream, in pieces that are sent one after the other, or stored. */
export type UpstreamBody = readonly Buffer[] | StoredBody

/**
 * Takes bytes once, in order, and gives them as often as they are asked for. The file is removed as soon as it is open, so that
 * nothing is left of it however the process ends. It must be closed.
 */
export class Upload {
  length = 0
  /** Called when {@link write} may go on after it returned false. */
  onDrain: (() => void) | undefined
  /** Called when the file cannot be written: nothing more can be made of this upload. */
  onError: ((cause: Error) => void) | undefined
  /** All of it while it is small, and what came while the file was opened. */
  #chunks: Buffer[] = []
  #opening: Promise<void> | undefined
  #file: FileHandle | undefined
  #writer: WriteStream | undefined
  #closed = false

  /** The bytes are the upload's from now on. False: what waits is enough for now. */
  write(bytes: Buffer): boolean {
    this.length += bytes.length
    if (this.#writer) return this.#writer.write(bytes)
    this.#chunks.push(bytes)
    if (this.length <= uploadMemoryBytes) return true
    this.#opening ??= this.#open().catch((cause: Error) => this.onError?.(cause))
    return false
  }

  /** Resolves when all of it can be read. No bytes come after. */
  async finish(): Promise<void> {
    await this.#opening
    const writer = this.#writer
    if (!writer) return
    await new Promise<void>((resolve, reject) => {
      writer.once('error', reject)
      writer.end(resolve)
    })
  }

  /** A few of its bytes, at once. After {@link finish}. */
  slice(from: number, to: number): Buffer {
    if (!this.#file) return this.#whole().subarray(from, to)
    const bytes = Buffer.allocUnsafe(to - from)
    return bytes.subarray(0, readSync(this.#file.fd, bytes, 0, bytes.length, from))
  }

  /** What is sent, made of bytes and ranges: in pieces when all of it is in memory. After {@link finish}. */
  compose(pieces: readonly Piece[]): UpstreamBody {
    const file = this.#file
    if (!file) {
      const whole = this.#whole()
      return pieces.map((piece) => (Buffer.isBuffer(piece) ? piece : whole.subarray(piece.from, piece.to)))
    }
    const length = pieces.reduce((sum, piece) => sum + (Buffer.isBuffer(piece) ? piece.length : piece.to - piece.from), 0)
    return { length, read: (into, at) => readAt(file, pieces, into, at), open: () => Readable.from(bytesOf(file, pieces), { objectMode: false, highWaterMark: readBytes }) }
  }

  /** Nobody reads it any more; what is under way ends first. Safe to call twice. */
  close(): void {
    this.#closed = true
    this.onDrain = this.onError = undefined
    this.#chunks = []
    this.#writer?.destroy()
    this.#file?.close().catch(ignore)
  }

  #whole(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)]
    return this.#chunks[0]!
  }

  async #open(): Promise<void> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-upload-'))
    let file: FileHandle
    try {
      file = await open(join(folder, 'body'), 'wx+', 0o600)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
    if (this.#closed) return file.close()
    this.#file = file
    this.#writer = file.createWriteStream({ autoClose: false, highWaterMark: writeBytes })
    this.#writer.on('drain', () => this.onDrain?.())
    this.#writer.on('error', (cause) => this.onError?.(cause))
    let room = true
    for (const bytes of this.#chunks.splice(0)) room = this.#writer.write(bytes)
    if (room) this.onDrain?.()
  }
}

/** Of the pieces one after the other. @throws Error when the file has less than was written to it */
async function readAt(file: FileHandle, pieces: readonly Piece[], into: Buffer, at: number): Promise<number> {
  let skipped = at
  for (const piece of pieces) {
    const length = Buffer.isBuffer(piece) ? piece.length : piece.to - piece.from
    if (skipped >= length) {
      skipped -= length
      continue
    }
    if (Buffer.isBuffer(piece)) return piece.copy(into, 0, skipped)
    const { bytesRead } = await file.read(into, 0, Math.min(into.length, length - skipped), piece.from + skipped)
    if (bytesRead === 0) throw new Error(`the file of the upload ends after ${piece.from + skipped} bytes`)
    return bytesRead
  }
  return 0
}

async function* bytesOf(file: FileHandle, pieces: readonly Piece[]): AsyncGenerator<Buffer> {
  for (const piece of pieces) {
    if (Buffer.isBuffer(piece)) yield piece
    else if (piece.to > piece.from) {
      yield* file.createReadStream({ autoClose: false, start: piece.from, end: piece.to - 1, highWaterMark: readBytes }) as AsyncIterable<Buffer>
    }
  }
}

/** Bytes of a body. */
export function lengthOf(body: UpstreamBody): number {
  if (!isPieces(body)) return body.length
  let length = 0
  for (const piece of body) length += piece.length
  return length
}

/** Whether all of a body is in memory. */
export function isPieces(body: UpstreamBody): body is readonly Buffer[] {
  return Array.isArray(body)
}

function ignore(): void {}
