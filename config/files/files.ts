// Reads the files and folders of a configuration, and remembers the hash of each, so that a later change is noticed.
import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readdirSync, readSync } from 'node:fs'

/** The content of a file, or the reason why it cannot be read: `there is no such file`. */
export type Content = { bytes: Buffer; fault?: undefined } | { bytes?: undefined; fault: string }

const largest = 1024 * 1024

/** What a file with these bytes would be read as. */
export function contentWith(bytes: Buffer): Content {
  return bytes.length <= largest ? { bytes } : { fault: 'is larger than 1 MiB' }
}

/** What a reading has found on the disk, so that another thread can read the same: by the paths that it used. */
export interface Found {
  readonly contents: ReadonlyMap<string, Content>
  /** The names in folders; undefined for what cannot be listed. */
  readonly lists: ReadonlyMap<string, readonly string[] | undefined>
}

/** The files and folders of one reading of a configuration. */
export class Files {
  /**
   * The SHA-256 of the content by path, in hexadecimal; empty for what could not be read. The path of a folder has a
   * slash at its end, and its content is the names of its YAML files.
   */
  readonly hashes = new Map<string, string>()
  readonly #contents = new Map<string, Content>()
  readonly #lists = new Map<string, readonly string[] | undefined>()

  /** What was found until now. */
  get found(): Found {
    return { contents: this.#contents, lists: this.#lists }
  }

  /** Reads a file of at most 1 MiB, and remembers its hash. */
  read(path: string): Content {
    const content = read(path)
    this.#contents.set(path, content)
    this.hashes.set(path, content.bytes ? createHash('sha256').update(content.bytes).digest('hex') : '')
    return content
  }

  /**
   * Lists the YAML files of a folder, and remembers the hash of the list. Undefined for anything but a folder that can
   * be listed.
   */
  list(path: string): readonly string[] | undefined {
    this.#lists.set(path, undefined)
    try {
      const names = yamlNames(readdirSync(path))
      this.hashes.set(`${path}/`, hashOfNames(names))
      this.#lists.set(path, names)
      return names
    } catch (error) {
      // A folder may come where nothing is yet.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') this.hashes.set(`${path}/`, '')
      return undefined
    }
  }
}

/** What another thread has found. What that has not looked for is not there. */
export class GivenFiles extends Files {
  readonly #given: Found

  /** `hashes`: those of what was found; without them, what is read of it has none. */
  constructor(given: Found, hashes: ReadonlyMap<string, string> = new Map()) {
    super()
    this.#given = given
    for (const [path, hash] of hashes) this.hashes.set(path, hash)
  }

  override get found(): Found {
    return this.#given
  }

  override read(path: string): Content {
    const { bytes, fault = faults['ENOENT']! } = this.#given.contents.get(path) ?? {}
    // On its way to another thread a Buffer may have become what it is made of.
    return bytes ? { bytes: Buffer.from(bytes) } : { fault }
  }

  override list(path: string): readonly string[] | undefined {
    return this.#given.lists.get(path)
  }
}

/** The names of YAML files among those of a folder, in the order of their characters. Hidden files are left out. */
export function yamlNames(names: readonly string[]): string[] {
  return names.filter((name) => /^[^.][^]*\.ya?ml$/.test(name)).sort()
}

/** The SHA-256 in hexadecimal of a list of names, which have no NUL. */
export function hashOfNames(names: readonly string[]): string {
  return createHash('sha256').update(names.join('\0')).digest('hex')
}

function read(path: string): Content {
  let descriptor: number | undefined
  try {
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const stats = fstatSync(descriptor)
    if (!stats.isFile()) return { fault: 'is not a file' }
    return contentWith(readUpTo(descriptor, stats.size, largest + 1))
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

/** Reads a file from its beginning, at most so many bytes. `size` is the likely one: a file may grow meanwhile. */
function readUpTo(descriptor: number, size: number, most: number): Buffer {
  const buffer = Buffer.allocUnsafe(Math.min(size + 1, most))
  let length = 0
  for (let read = -1; read !== 0 && length < buffer.length; length += read) {
    read = readSync(descriptor, buffer, length, buffer.length - length, length)
  }
  return length < buffer.length || length === most ? buffer.subarray(0, length) : readUpTo(descriptor, most, most)
}
