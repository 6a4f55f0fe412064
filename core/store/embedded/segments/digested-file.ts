// A file with a head in front and the SHA-256 of everything before it at its end, as checkpoints and volumes are.
import { createHash } from 'node:crypto'
import { writeSync } from 'node:fs'

/** The bytes of the head (a mark of eight bytes, and the format of what follows), and of the digest. */
export const headBytes = 12
export const digestBytes = 32

/** Writes such a file from its beginning. */
export class DigestedFile {
  /** The bytes that were written. */
  length = 0
  readonly #fd: number
  readonly #digest = createHash('sha256')

  constructor(fd: number, mark: Buffer, format: number) {
    this.#fd = fd
    const head = Buffer.alloc(headBytes)
    mark.copy(head)
    head.writeUInt32BE(format, mark.length)
    this.put(head)
  }

  put(bytes: Buffer): void {
    this.#digest.update(bytes)
    this.#write(bytes)
  }

  /** Writes the digest, behind which nothing comes. */
  end(): void {
    this.#write(this.#digest.digest())
  }

  #write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at += writeSync(this.#fd, bytes, at));
    this.length += bytes.length
  }
}
