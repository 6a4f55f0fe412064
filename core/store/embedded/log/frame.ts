// Encodes and decodes a batch as a frame of the commit log. A frame is either complete or counts as absent.
import { crc32 } from 'node:zlib'
import {
  answerColumns,
  auditColumns,
  documentColumns,
  entryColumns,
  holdColumns,
  requestColumns,
  routeColumns,
  touchColumns,
  workColumns
} from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import { documentsOf, keyColumns } from '../rows/former-keys.ts'
import { Packer, Unpacker } from '../rows/packing.ts'
import type { Value } from '../files/sqlite.ts'

/**
 * The head in front of a payload, big-endian: a mark, the length of the payload, the history (see segment.ts), the
 * number of the batch, a CRC-32 of the payload, and a CRC-32 of the head itself. So a head can be trusted even where
 * the payload is damaged.
 */
const head = { mark: 0, length: 4, history: 8, number: 16, payload: 24, head: 28, bytes: 32 } as const
/** The length of a head in bytes. */
export const headBytes = head.bytes
const mark = Buffer.from([0x9e, 0x5c, 0x1f, 0x0a])

/**
 * The first byte of a payload: which rows it has, and which columns they have. Formats before 5 had rows of keys
 * instead of documents, and no audit log; those of 6 and 7 had what a record is searched by behind its other columns.
 * From 9 on UUIDs may be written as bytes.
 */
const format = 9

/** Columns that came after the first format: the format that brought them, and what older rows have there. */
interface Later {
  readonly since: number
  readonly absent: Readonly<Record<string, Value>>
}
const laterEntries: readonly Later[] = [{ since: 4, absent: { tags: null, cost: null, cost_price: null } }]
const laterHolds: readonly Later[] = [
  { since: 3, absent: { pieces: null } },
  { since: 4, absent: { tags: null, cost_price: null } }
]
const laterTouches: readonly Later[] = [
  { since: 4, absent: { cost_price: null } },
  { since: 7, absent: { model: null, price_version: null } }
]
const laterAnswers: readonly Later[] = [{ since: 2, absent: { tenant: '', headers: '{}' } }]
const laterRoutes: readonly Later[] = [{ since: 2, absent: { tokens: null } }]

/** The size of an encoder's buffer, which grows with its batches up to the second size. A larger one gets its own. */
const roomBytes = 256 * 1024
const mostRoomBytes = 4 * 1024 * 1024

/** Far more than a batch may have: a head with a larger length is not a head. */
const maxPayload = 512 * 1024 * 1024

/** Encodes the frames of one history, each into the same buffer. */
export class FrameEncoder {
  readonly #packer = new Packer()
  #room = Buffer.allocUnsafeSlow(roomBytes)
  readonly #history: Buffer

  /** `history` in hexadecimal. */
  constructor(history: string) {
    this.#history = Buffer.from(history, 'hex')
  }

  /** Returns the bytes of a frame, which are valid until the next call. */
  encode(batch: Batch): Buffer {
    const bytes = this.#write(batch)
    mark.copy(bytes, head.mark)
    bytes.writeUInt32BE(bytes.length - head.bytes, head.length)
    this.#history.copy(bytes, head.history)
    writeNumber(bytes, batch.number, head.number)
    bytes.writeUInt32BE(crc32(bytes.subarray(head.bytes)), head.payload)
    bytes.writeUInt32BE(crc32(bytes.subarray(0, head.head)), head.head)
    return bytes
  }

  /** Returns the bytes of a batch alone, for {@link decodeBatch}. They are valid until the next call. */
  pack(batch: Batch): Buffer {
    return this.#write(batch).subarray(head.bytes)
  }

  /** Writes a batch behind the room of a head. */
  #write(batch: Batch): Buffer {
    const packer = this.#packer
    packer.rows([batch.number, batch.written, batch.balanced ? 1 : 0], 3)
    packer.rows(batch.prices, 2)
    packer.rows(batch.moves, 4)
    packer.rows(batch.limits, 3)
    packer.rows(batch.opened, holdColumns.length)
    packer.rows(batch.touched, touchColumns.length)
    packer.rows(batch.closed, 1)
    packer.rows(batch.entries, entryColumns.length)
    packer.rows(batch.records, requestColumns.length)
    packer.rows(batch.documents, documentColumns.length)
    packer.rows(batch.leased, 2)
    packer.rows(batch.answers, answerColumns.length)
    packer.rows(batch.routes, routeColumns.length)
    packer.rows(batch.works, workColumns.length)
    packer.rows(batch.audit, auditColumns.length)
    const most = head.bytes + 1 + packer.mostBytes
    const room = most <= this.#room.length ? this.#room : Buffer.allocUnsafeSlow(most)
    if (most <= mostRoomBytes) this.#room = room
    room[head.bytes] = format
    return room.subarray(0, packer.write(room, head.bytes + 1))
  }
}

/** Writes a whole number up to 2^53 as eight bytes, big-endian. */
export function writeNumber(bytes: Buffer, number: number, at: number): void {
  bytes.writeUInt32BE(Math.floor(number / 2 ** 32), at)
  bytes.writeUInt32BE(number % 2 ** 32, at + 4)
}

/** Reads a number that {@link writeNumber} wrote. */
export function readNumber(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at) * 2 ** 32 + bytes.readUInt32BE(at + 4)
}

/**
 * Decodes the payload of a frame. `before` is the batch read before it, whose strings are reused.
 * @throws Error when another version wrote it in another format
 */
export function decodeBatch(payload: Buffer, before: Batch | undefined): Batch {
  const version = payload[0]!
  if (version < 1 || version > format)
    throw new Error(
      `the commit log has format ${version}, which this program does not know: start the one that wrote it`
    )
  const rows = new Unpacker(payload.subarray(1))
  const [number, written, balanced] = rows.next(3) as [number, number, number]
  return {
    number,
    written,
    balanced: balanced === 1,
    // The members are read in the order in which they were written.
    prices: rows.next(2) as string[],
    moves: rows.next(4) as Batch['moves'],
    limits: rows.next(3) as Batch['limits'],
    opened: nextRows(rows, holdColumns, version, laterHolds),
    touched: nextRows(rows, touchColumns, version, laterTouches),
    closed: rows.next(1) as number[],
    entries: nextRows(rows, entryColumns, version, laterEntries, before?.entries),
    records:
      version === 6 || version === 7
        ? withoutFacts(rows.next(requestColumns.length + 1))
        : rows.next(requestColumns.length, before?.records),
    documents: version < 5 ? documentsOf(rows.next(keyColumns.length)) : rows.next(documentColumns.length),
    // Members that an earlier version did not write are empty.
    leased: rows.next(2) as number[],
    answers: nextRows(rows, answerColumns, version, laterAnswers),
    routes: nextRows(rows, routeColumns, version, laterRoutes),
    works: rows.next(workColumns.length),
    audit: rows.next(auditColumns.length)
  }
}

/** Reads the next rows, which may be of a format without some of the later columns. Strings of `before` are reused. */
function nextRows(
  rows: Unpacker,
  columns: readonly string[],
  version: number,
  later: readonly Later[],
  before?: readonly Value[]
): Value[] {
  const lacked = later.filter(({ since }) => version < since)
  if (lacked.length === 0) return rows.next(columns.length, before)
  const absent: Readonly<Record<string, Value>> = Object.assign({}, ...lacked.map(({ absent }) => absent))
  const width = columns.length - Object.keys(absent).length
  const found = rows.next(width)
  const values = found.values()
  return Array.from({ length: found.length / width }, () =>
    columns.map((name) => (Object.hasOwn(absent, name) ? absent[name]! : values.next().value!))
  ).flat()
}

/** Rows of records without what they are searched by. */
function withoutFacts(values: readonly Value[]): Value[] {
  return values.filter((_, i) => i % (requestColumns.length + 1) < requestColumns.length)
}

/** The contents of a frame's head. */
export interface FrameHead {
  number: number
  /** The length of the payload in bytes. */
  length: number
  checksum: number
}

/**
 * Reads the head of a frame of the given history; undefined when there is none at `at`. Needs {@link headBytes} bytes.
 */
export function readFrameHead(bytes: Buffer, at: number, history: Buffer): FrameHead | undefined {
  const length = bytes.readUInt32BE(at + head.length)
  if (
    length > maxPayload ||
    mark.compare(bytes, at, at + mark.length) !== 0 ||
    history.compare(bytes, at + head.history, at + head.number) !== 0
  )
    return undefined
  if (crc32(bytes.subarray(at, at + head.head)) !== bytes.readUInt32BE(at + head.head)) return undefined
  return { number: readNumber(bytes, at + head.number), length, checksum: bytes.readUInt32BE(at + head.payload) }
}

/** The history of the frame that begins at `at`, in hexadecimal; undefined when none does whose head is sound. */
export function historyOfFrame(bytes: Buffer, at: number): string | undefined {
  if (at + head.bytes > bytes.length) return undefined
  const history = bytes.subarray(at + head.history, at + head.number)
  return readFrameHead(bytes, at, history) && history.toString('hex')
}

/** Returns where the next frame may begin; -1 when nowhere. */
export function findMark(bytes: Buffer, from: number): number {
  return bytes.indexOf(mark, from)
}
