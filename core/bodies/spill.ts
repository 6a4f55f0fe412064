// A temporary file without a name, for bytes that find no room in memory: written in order, read from any place.
import { readSync } from 'node:fs'
import { mkdtemp, open, rm } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** How many bytes are written at a time. */
const blockBytes = 256 * 1024
/** How many blocks may wait for the disk. */
const waitingBlocks = 3

/**
 * Takes blocks of bytes and reuses their memory once they are written. The file is removed as soon as it is open, so
 * that nothing is left of it however the process ends. It must be closed.
 */
export class Spill {
  /** Called when {@link write} may be called again after it returned false. */
  onDrain: (() => void) | undefined
  /** Called when the file cannot be made or written. */
  onError: ((cause: Error) => void) | undefined
  #file: FileHandle | undefined
  #waiting: Buffer[] = []
  #spare: Buffer[] = []
  #written = 0
  #writing: Promise<void> | undefined
  #failure: Error | undefined
  #closed = false

  /** Memory for the next block: new, or of a block that has been written. */
  block(): Buffer {
    return this.#spare.pop() ?? Buffer.allocUnsafeSlow(blockBytes)
  }

  /** Writes the first `length` bytes of a {@link block}, and takes it over. False: wait for {@link onDrain} first. */
  write(block: Buffer, length: number): boolean {
    this.#waiting.push(block.subarray(0, length))
    this.#writing ??= this.#writeAll()
    return this.#waiting.length < waitingBlocks
  }

  /** Resolves when everything can be read; rejects when writing failed. */
  async finish(): Promise<void> {
    await this.#writing
    if (this.#failure) throw this.#failure
  }

  /** Reads from a position on. Resolves with the number of bytes; 0 at the end. */
  async read(into: Buffer, at: number): Promise<number> {
    return (await this.#file!.read(into, 0, into.length, at)).bytesRead
  }

  /** Reads a few bytes synchronously. */
  slice(from: number, to: number): Buffer {
    const bytes = Buffer.allocUnsafe(to - from)
    return bytes.subarray(0, readSync(this.#file!.fd, bytes, 0, bytes.length, from))
  }

  /** Closes the file, after a write that is under way. Nothing may be read after that. Safe to call twice. */
  close(): void {
    this.#closed = true
    this.onDrain = this.onError = undefined
    this.#waiting = []
    if (!this.#writing) this.#file?.close().catch(ignore)
  }

  async #writeAll(): Promise<void> {
    try {
      this.#file ??= await nameless()
      for (let block = this.#waiting[0]; block && !this.#closed; block = this.#waiting[0]) {
        await writeAt(this.#file, block, this.#written)
        this.#written += block.length
        this.#waiting.shift()
        this.#spare.push(Buffer.from(block.buffer))
        if (this.#waiting.length === waitingBlocks - 1) this.onDrain?.()
      }
    } catch (cause) {
      this.#failure = cause as Error
      this.onError?.(this.#failure)
    } finally {
      this.#writing = undefined
      if (this.#closed) this.#file?.close().catch(ignore)
    }
  }
}

async function nameless(): Promise<FileHandle> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-upload-'))
  try {
    return await open(join(folder, 'body'), 'wx+', 0o600)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function writeAt(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let at = 0; at < bytes.length;)
    at += (await file.write(bytes, at, bytes.length - at, position + at)).bytesWritten
}

function ignore(): void {}
