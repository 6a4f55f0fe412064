// Reads the files of a configuration, and remembers the hash of each, so that a later change is noticed.
import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** The content of a file, or the reason why it cannot be read: `there is no such file`. */
export type Content = { bytes: Buffer; fault?: undefined } | { bytes?: undefined; fault: string }

const largest = 1024 * 1024

/** The files of one reading of a configuration. */
export class Files {
  /** The SHA-256 of the content by path, in hexadecimal; empty for a file that could not be read. */
  readonly hashes = new Map<string, string>()

  /** Reads a file of at most 1 MiB, and remembers its hash. */
  read(path: string): Content {
    const content = read(path)
    this.hashes.set(path, content.bytes ? createHash('sha256').update(content.bytes).digest('hex') : '')
    return content
  }
}

function read(path: string): Content {
  let descriptor: number | undefined
  try {
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    if (!fstatSync(descriptor).isFile()) return { fault: 'is not a file' }
    const bytes = readUpTo(descriptor, largest + 1)
    return bytes.length <= largest ? { bytes } : { fault: 'is larger than 1 MiB' }
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    return { fault: faults[code] ?? `cannot be read: ${message}` }
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

const faults: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'this user may not read the file'
}

function readUpTo(descriptor: number, most: number): Buffer {
  const buffer = Buffer.allocUnsafe(most)
  let length = 0
  for (let read = -1; read !== 0 && length < most; length += read) {
    read = readSync(descriptor, buffer, length, most - length, null)
  }
  return buffer.subarray(0, length)
}
