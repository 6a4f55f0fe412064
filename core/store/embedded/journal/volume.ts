// Writes and reads sealed volumes: files beside the database with the oldest rows of the journal, compressed. The
// database keeps the hash of each file.
import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { entryColumns, laterColumns } from '../rows/batch.ts'
import { entryHash } from './journal.ts'
import { syncDirectory } from '../files/directory.ts'
import type { Row, Value } from '../files/sqlite.ts'

/** A row of the table volume. Hashes are hexadecimal, times Unix milliseconds. */
export interface Volume {
  /** The first and last journal row in it, and the size of its file. */
  first: number
  last: number
  bytes: number
  /** Its name in the folder of {@link volumeFolder}. */
  file: string
  sha256: string
  /** The hash of the row before the first, and that of the last row. */
  previous: string
  hash: string
  /** The earliest and the latest time of a row. */
  oldest: number
  newest: number
  sealed: number
}

/** The folder with the volumes of a database. */
export function volumeFolder(file: string): string {
  return `${file}.journal`
}

/** Makes a volume from a row of the table volume, which was read with bigints. */
export function volumeOf(row: Row): Volume {
  const number = (name: string): number => Number(row[name])
  const hex = (name: string): string => Buffer.from(row[name] as Uint8Array).toString('hex')
  return {
    first: number('first'),
    last: number('last'),
    bytes: number('bytes'),
    file: String(row['file']),
    sha256: hex('sha256'),
    previous: hex('previous'),
    hash: hex('hash'),
    oldest: number('oldest'),
    newest: number('newest'),
    sealed: number('sealed')
  }
}

/** Columns of 64 bits. They are text in a volume, because JSON numbers lose digits. */
const wide: ReadonlySet<string> = new Set(['amount', 'reserved', 'cost'])

/**
 * Writes one volume, some rows at a time: lines of JSON with the columns of a journal row, each group of rows as a
 * member of one gzip file. Hashes are left out, because they follow from the rows and the hash of the row before.
 */
export class VolumeWriter {
  readonly #folder: string
  readonly #part: string
  readonly #fd: number
  readonly #sha256: Hash = createHash('sha256')
  readonly #volume: Volume

  /** `previous` is the hash of the row before `first`. An unfinished file for the same rows is overwritten. */
  constructor(folder: string, first: number, previous: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#folder = folder
    this.#part = join(folder, `${first}.part`)
    this.#fd = openSync(this.#part, 'w', 0o600)
    this.#volume = {
      first,
      last: first - 1,
      bytes: 0,
      file: '',
      sha256: '',
      previous,
      hash: previous,
      oldest: Infinity,
      newest: 0,
      sealed: 0
    }
  }

  /** The last row that was added. */
  get last(): number {
    return this.#volume.last
  }

  /**
   * Adds rows as read from the database, with bigints.
   * @throws Error when a row does not match its hash, so that no damaged row is sealed
   */
  add(rows: readonly Row[]): void {
    if (rows.length === 0)
      throw new Error(`rows of the journal are missing after row ${this.last}: nothing is put away`)
    const volume = this.#volume
    let text = ''
    for (const row of rows) {
      const seq = Number(row['seq'])
      const values = entryColumns.map((name) => row[name]!)
      const hash = entryHash(volume.hash, seq, Number(row['boot_id']), values, 0)
      if (seq !== volume.last + 1 || hash !== Buffer.from(row['hash'] as Uint8Array).toString('hex')) {
        throw new Error(
          `row ${seq} of the journal is damaged, and not put away: it does not continue row ${volume.last} by its hash`
        )
      }
      const time = Number(row['ts_ms'])
      Object.assign(volume, {
        last: seq,
        hash,
        oldest: Math.min(volume.oldest, time),
        newest: Math.max(volume.newest, time)
      })
      text += `${JSON.stringify(Object.fromEntries(['seq', 'boot_id', ...entryColumns].map((name) => [name, written(name, row[name]!)])))}\n`
    }
    this.#write(gzipSync(text))
  }

  /** Completes the file; when it returns, the file is on disk under its name. `sealed` is in Unix milliseconds. */
  seal(sealed: number): Volume {
    const volume = this.#volume
    const sha256 = this.#sha256.digest('hex')
    const digits = (seq: number): string => String(seq).padStart(12, '0')
    const file = `${digits(volume.first)}-${digits(volume.last)}-${sha256.slice(0, 12)}.jsonl.gz`
    fsyncSync(this.#fd)
    closeSync(this.#fd)
    renameSync(this.#part, join(this.#folder, file))
    syncDirectory(this.#folder)
    return { ...volume, file, sha256, sealed }
  }

  /** Gives the unfinished file up. */
  abandon(): void {
    closeSync(this.#fd)
  }

  #write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at += writeSync(this.#fd, bytes, at));
    this.#sha256.update(bytes)
    this.#volume.bytes += bytes.length
  }
}

function written(name: string, value: Value): unknown {
  return typeof value !== 'bigint' ? value : wide.has(name) ? String(value) : Number(value)
}

/** What a row has in the columns that its volume was written without. */
const absent: Readonly<Row> = Object.fromEntries(laterColumns.map((name) => [name, null]))

/** Thrown when the file of a volume is missing or was changed. */
export class VolumeError extends Error {}

/**
 * Yields the rows of a volume as the journal had them, with bigints, each with its computed hash.
 * @throws VolumeError when the file is missing or was changed
 */
export function* readVolume(
  folder: string,
  { file, sha256, previous, last, hash: sealedHash }: Volume
): Generator<Row & { hash: string }> {
  const path = join(folder, file)
  let bytes: Buffer
  try {
    bytes = readFileSync(path)
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    throw new VolumeError(
      `is sealed in ${path}, which ${missing ? 'is missing' : `cannot be read (${(error as Error).message})`}: bring that file back`
    )
  }
  const found = createHash('sha256').update(bytes).digest('hex')
  if (found !== sha256)
    throw new VolumeError(
      `is sealed in ${path}, which was changed: its SHA-256 is ${found} instead of ${sha256}; bring the file back as it was`
    )
  let hash = previous
  let seq = 0
  for (const line of gunzipSync(bytes).toString().split('\n')) {
    if (line === '') continue
    const row: Row = { ...absent }
    for (const [name, value] of Object.entries(JSON.parse(line) as Row)) row[name] = read(name, value)
    seq = Number(row['seq'])
    hash = entryHash(
      hash,
      seq,
      Number(row['boot_id']),
      entryColumns.map((name) => row[name]!),
      0
    )
    yield { ...row, hash }
  }
  if (seq !== last || hash !== sealedHash)
    throw new VolumeError(
      `is sealed in ${path}, which ends with row ${seq} and the hash ${hash} instead of row ${last} and ${sealedHash}`
    )
}

function read(name: string, value: Value): Value {
  return typeof value === 'number' || (wide.has(name) && typeof value === 'string' && /^-?\d+$/.test(value))
    ? BigInt(value)
    : value
}
