// Volumes: the frames of a segment that is full, compressed, with a footer that says what they are.
import { hash } from 'node:crypto'
import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs'
import { constants, crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { framesIn } from '../log/frame-reader.ts'
import type { Frame, RawFrame } from '../log/frame-reader.ts'
import { readNumber, writeNumber } from '../log/frame.ts'
import { Packer, Unpacker } from '../rows/packing.ts'
import { withFile } from '../files/reading.ts'
import type { Batch } from '../rows/batch.ts'
import type { Durability, Value } from '../files/sqlite.ts'
import { DigestedFile, headBytes } from './digested-file.ts'
import { pathOf, PlacedFile } from './folder.ts'
import { JournalDamage } from './journal-damage.ts'
import type { Contents } from './summary.ts'

const mark = Buffer.from('sluicevl')
const format = 1
/** Behind: where the footer begins, its CRC-32, and the SHA-256 of all before that. */
const tail = { footer: 0, checksum: 8, digest: 12, bytes: 44 } as const

/** About how many bytes of frames are compressed together, so that one frame can be read without all others. */
const blockBytes = 256 * 1024

/** Whole frames that are compressed together. */
interface Block {
  /** Its place in the file, and its bytes there. */
  readonly from: number
  readonly bytes: number
  /** The first batch in it. */
  readonly first: number
}

/** What a footer says besides sums. */
export interface Footer extends Contents {
  /**
   * 0 as long as the volume has its records. Of one that was thinned: up to when requests arrived that may have no
   * record any more, in Unix milliseconds.
   */
  readonly unrecorded: number
}

/** What the frames of a volume add up to. */
export interface Summed {
  readonly contents: Contents & Partial<Footer>
  /** Rows of scope, window and amount. */
  readonly charges: readonly Value[]
}

/** The members of {@link Footer} in their order. */
const members = [
  'ordinal',
  'boot',
  'history',
  'previous',
  'after',
  'last',
  'seqBefore',
  'hashBefore',
  'seq',
  'hash',
  'auditsBefore',
  'auditHashBefore',
  'audits',
  'auditHash',
  'written',
  'oldest',
  'newest',
  'unrecorded'
] as const satisfies readonly (keyof Footer)[]

/** What a volume is made of. */
export type VolumeFrame = Pick<RawFrame, 'number' | 'bytes'>

/** Thrown when a volume is not what was written. */
export class VolumeDamage extends JournalDamage {}

/**
 * Writes a volume, a block at each step, and returns its path. `frames` are those that count of its segment; `summary`
 * says what they add up to, once all of them were read. It was read back when it gets its place.
 * @throws VolumeDamage when what was read back is not what was written
 */
export function* writeVolume(
  folder: string,
  ordinal: number,
  frames: Iterable<VolumeFrame>,
  summary: Summed,
  durability: Durability
): Generator<void, string> {
  const path = pathOf(folder, 'volume', ordinal)
  const place = new PlacedFile(path, durability)
  try {
    const file = new DigestedFile(place.fd, mark, format)
    const blocks: Block[] = []
    for (const { first, bytes } of blocksOf(frames)) {
      const compressed = zstdCompressSync(bytes, compression)
      blocks.push({ from: file.length, bytes: compressed.length, first })
      file.put(compressed)
      yield
    }
    const footer = footerOf(blocks, summary)
    const end = Buffer.alloc(tail.digest)
    writeNumber(end, file.length, tail.footer)
    end.writeUInt32BE(crc32(footer), tail.checksum)
    file.put(footer)
    file.put(end)
    file.end()
    yield* new Volume(place.part).readBack()
    place.place()
    return path
  } finally {
    // Also when nobody goes on.
    place.drop()
  }
}

const compression = { params: { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_checksumFlag]: 1 } }

/** Joins frames to blocks. */
function* blocksOf(frames: Iterable<VolumeFrame>): Generator<{ first: number; bytes: Buffer }> {
  let parts: Buffer[] = []
  let [first, length] = [0, 0]
  for (const { number, bytes } of frames) {
    if (parts.length === 0) first = number
    parts.push(Buffer.from(bytes))
    length += bytes.length
    if (length < blockBytes) continue
    yield { first, bytes: Buffer.concat(parts) }
    parts = []
    length = 0
  }
  if (parts.length > 0) yield { first, bytes: Buffer.concat(parts) }
}

function footerOf(blocks: readonly Block[], { contents, charges }: Summed): Buffer {
  const packer = new Packer()
  packer.rows(
    members.map((name) => contents[name] ?? 0),
    members.length
  )
  packer.rows(
    blocks.flatMap(({ from, bytes, first }) => [from, bytes, first]),
    3
  )
  packer.rows(charges, 3)
  const room = Buffer.allocUnsafeSlow(packer.mostBytes)
  return room.subarray(0, packer.write(room, 0))
}

/** What the footer of a volume says, and the size of its file. */
interface ReadFooter {
  readonly bytes: number
  readonly contents: Footer
  readonly blocks: readonly Block[]
  readonly charged: readonly Value[]
}

function readFooter(fd: number, path: string): ReadFooter {
  const { size } = fstatSync(fd)
  const head = readAt(fd, 0, headBytes)
  const end = readAt(fd, Math.max(0, size - tail.bytes), tail.bytes)
  if (size < headBytes + tail.bytes || mark.compare(head, 0, mark.length) !== 0)
    throw new VolumeDamage(path, 'does not begin as a volume does')
  const found = head.readUInt32BE(mark.length)
  if (found !== format)
    throw new Error(`${path} has format ${found}, which this program does not know: start the one that wrote it`)
  const from = readNumber(end, tail.footer)
  const length = size - tail.bytes - from
  const footer = readAt(fd, from, Math.max(0, length))
  if (length <= 0 || crc32(footer) !== end.readUInt32BE(tail.checksum))
    throw new VolumeDamage(path, 'is damaged: it has no sound footer')
  const rows = new Unpacker(footer)
  const values = rows.next(members.length)
  const contents = Object.fromEntries(members.map((name, i) => [name, values[i]])) as unknown as Footer
  const numbers = rows.next(3) as number[]
  const blocks = Array.from({ length: numbers.length / 3 }, (_, i) => ({
    from: numbers[3 * i]!,
    bytes: numbers[3 * i + 1]!,
    first: numbers[3 * i + 2]!
  }))
  return { bytes: size, contents, blocks, charged: rows.next(3) }
}

/** A volume, of which only the footer was read. */
export class Volume {
  readonly path: string
  /** The size of its file. */
  readonly bytes: number
  readonly contents: Footer
  /** What was charged in it: scope, window and amount of each sum. */
  readonly charged: readonly Value[]
  readonly #blocks: readonly Block[]
  /** The block that {@link Volume.batch} read last. */
  #recent: { readonly from: number; readonly bytes: Buffer } | undefined

  /**
   * Reads the footer.
   * @throws VolumeDamage when there is none, or it is damaged
   * @throws Error when a newer version of the program wrote it, or the file cannot be read
   */
  constructor(path: string) {
    this.path = path
    const { bytes, contents, blocks, charged } = withFile(path, (fd) => readFooter(fd, path))
    this.bytes = bytes
    this.contents = contents
    this.#blocks = blocks
    this.charged = charged
  }

  /**
   * Yields its frames behind the batch `after`, of the file that has its name now: one that was thinned meanwhile has
   * its blocks at other places.
   * @throws VolumeDamage when a block is not what was written
   */
  *frames(after: number): Generator<Frame> {
    const { history } = this.contents
    for (const block of this.#unpacked(after + 1)) yield* framesIn(block, history, after)
  }

  /**
   * Reads a batch; undefined when it does not have it. The block that it is in stays in memory until the next call.
   * @throws VolumeDamage when that is not what was written
   */
  batch(number: number): Batch | undefined {
    const block = this.#blocks.findLast(({ first }) => first <= number)
    if (!block) return undefined
    const { from, bytes } = block
    if (this.#recent?.from !== from) {
      const read = withFile(this.path, (fd) => readAt(fd, from, bytes))
      this.#recent = { from, bytes: this.#unpack(read, from) }
    }
    for (const { batch } of framesIn(this.#recent.bytes, this.contents.history, number - 1))
      return batch.number === number ? batch : undefined
    return undefined
  }

  /** Unpacks its blocks from the one with a batch on. They have checksums of their own. */
  *#unpacked(batch: number): Generator<Buffer> {
    const fd = openSync(this.path, 'r')
    try {
      const { blocks } = readFooter(fd, this.path)
      const begin = blocks.findLastIndex(({ first }) => first <= batch)
      for (const { from, bytes } of blocks.slice(Math.max(0, begin))) yield this.#unpack(readAt(fd, from, bytes), from)
    } finally {
      closeSync(fd)
    }
  }

  #unpack(bytes: Buffer, from: number): Buffer {
    try {
      return zstdDecompressSync(bytes)
    } catch (error) {
      throw new VolumeDamage(this.path, `is damaged at byte ${from}: ${(error as Error).message}`)
    }
  }

  /**
   * Reads all of it after it was written, a block at each step.
   * @throws VolumeDamage when it cannot be unpacked as what was written
   */
  *readBack(): Generator<void, void> {
    if (!this.whole) throw new VolumeDamage(this.path, 'is not what was written: its SHA-256 differs')
    const blocks = this.#unpacked(0)
    while (blocks.next().done !== true) yield
  }

  /** Says whether all of its bytes are what was written. */
  get whole(): boolean {
    const bytes = readFileSync(this.path)
    const from = bytes.length - tail.bytes + tail.digest
    return hash('sha256', bytes.subarray(0, from), 'hex') === bytes.toString('hex', from)
  }
}

/** Reads bytes of a file; fewer where it ends. */
function readAt(fd: number, from: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  let read = 0
  for (let more = 1; more > 0 && read < length; read += more)
    more = readSync(fd, bytes, read, length - read, from + read)
  return bytes.subarray(0, read)
}
