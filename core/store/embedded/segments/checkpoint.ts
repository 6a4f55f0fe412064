// Checkpoints: the state after a batch, in a file. A start reads the newest one that is sound, and folds what follows.
import { hash } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { documentColumns, holdColumns, workColumns } from '../rows/batch.ts'
import { Packer, Unpacker } from '../rows/packing.ts'
import type { Durability, Value } from '../files/sqlite.ts'
import { DigestedFile, digestBytes, headBytes } from './digested-file.ts'
import { Fold } from './fold.ts'
import type { Place } from './chain.ts'
import { listNumbered, pathOf, placeFile } from './folder.ts'

const mark = Buffer.from('sluicecp')
/** The first format had no UUIDs that are written as bytes, and is read as this one. */
const format = 2

/** The kinds of rows, in the order in which they are written, and how many values a row has. */
const widths = {
  place: 8,
  price: 2,
  document: documentColumns.length,
  balance: 4,
  hold: holdColumns.length + 2,
  part: 3,
  work: workColumns.length,
  room: 2,
  ended: 1
} as const
type RowKind = keyof typeof widths
const kinds = Object.keys(widths) as RowKind[]

/** How many values are packed together. */
const packed = 65_536

/** Thrown when a checkpoint is not what was written. */
export class CheckpointDamage extends Error {}

/** The checkpoints of one store, of which two are kept. */
export class Checkpoints {
  readonly #folder: string
  readonly #durability: Durability
  /** The batches of those that are sound, the oldest first. */
  #kept: number[]
  /** The size of the last one in bytes. */
  #bytes = 0

  /** `sound`: the batches of the checkpoints that a survey found sound; others are removed with the next one. */
  constructor(folder: string, durability: Durability, sound: readonly number[] = []) {
    this.#folder = folder
    this.#durability = durability
    this.#kept = sound.toSorted((a, b) => a - b)
  }

  /** The batch of the older one, behind which segments are needed; 0 while there are not two. */
  get oldest(): number {
    return this.#kept.length < 2 ? 0 : this.#kept[0]!
  }

  /** Whether another one is due, after so many bytes of frames: it costs a quarter of them at most. */
  isDue(bytes: number): boolean {
    return bytes >= Math.max(leastBetween, 4 * this.#bytes)
  }

  /**
   * Writes one of the present state. When it returns, it is on disk under its name, and all but it and the one before
   * it are gone. When it throws, those before are as they were.
   */
  write(fold: Fold): void {
    const { batch } = fold.place
    this.#bytes = placeFile(pathOf(this.#folder, 'checkpoint', batch), this.#durability, (fd) => encode(fold, fd))
    fold.marked()
    this.#kept = [...this.#kept.filter((other) => other < batch), batch].slice(-2)
    for (const { kind, number, path } of listNumbered(this.#folder))
      if (kind === 'checkpoint' && !this.#kept.includes(number)) rmSync(path, { force: true })
  }
}

/** The least bytes of frames between two checkpoints. */
const leastBetween = 16 * 1024 * 1024

/** Writes a state to a file from its beginning. Returns the number of bytes. */
function encode(fold: Fold, fd: number): number {
  const file = new DigestedFile(fd, mark, format)
  const packer = new Packer()
  for (const [number, kind] of kinds.entries()) {
    let values: Value[] = []
    const flush = (): void => {
      packer.rows(values, widths[kind])
      const room = Buffer.allocUnsafeSlow(8 + packer.mostBytes)
      const end = packer.write(room, 8)
      room.writeUInt32BE(number, 0)
      room.writeUInt32BE(end - 8, 4)
      file.put(room.subarray(0, end))
      values = []
    }
    for (const row of rowsOf(fold, kind)) {
      values.push(...row)
      if (values.length >= packed) flush()
    }
    if (values.length > 0) flush()
  }
  file.end()
  return file.length
}

/** The rows of a kind. What is held follows from the holds, and is not written. */
function* rowsOf(fold: Fold, kind: RowKind): Generator<readonly Value[]> {
  const { place } = fold
  if (kind === 'place')
    yield [place.batch, place.written, place.boot, place.history, place.seq, place.hash, place.audits, place.auditHash]
  else if (kind === 'price') yield* fold.prices
  else if (kind === 'document') yield* fold.documents.values()
  else if (kind === 'balance') {
    for (const { scope, window, posted, limit } of fold.balances) yield [scope, window, posted, limit ?? null]
  } else if (kind === 'hold') for (const { row, boot, lease } of fold.holds) yield [...row, boot, lease]
  else if (kind === 'part') {
    for (const [id, { amount, usage }] of fold.holds.parts) yield [id, amount, JSON.stringify(usage)]
  } else if (kind === 'work') yield* fold.works.values()
  else if (kind === 'room') yield* fold.room
  else for (const name of fold.ended) yield [name]
}

/**
 * Checks that a checkpoint is what was written, and returns its bytes.
 * @throws CheckpointDamage when it is not
 * @throws Error when a newer version of the program wrote it, or the disk fails
 */
export function soundCheckpoint(path: string): Buffer {
  const bytes = readFileSync(path)
  const end = bytes.length - digestBytes
  if (end < headBytes || mark.compare(bytes, 0, mark.length) !== 0)
    throw new CheckpointDamage(`${path} does not begin as a checkpoint does`)
  const found = bytes.readUInt32BE(mark.length)
  if (hash('sha256', bytes.subarray(0, end), 'hex') !== bytes.toString('hex', end))
    throw new CheckpointDamage(`${path} is not what was written: its SHA-256 differs`)
  if (found < 1 || found > format)
    throw new Error(`${path} has format ${found}, which this program does not know: start the one that wrote it`)
  return bytes.subarray(0, end)
}

/** Reads the state of a checkpoint. Throws as {@link soundCheckpoint} does. */
export function readCheckpoint(path: string): Fold {
  const bytes = soundCheckpoint(path)
  const end = bytes.length
  let fold = new Fold()
  const ended: string[] = []
  for (let from = headBytes; from < end;) {
    const kind = kinds[bytes.readUInt32BE(from)]!
    const length = bytes.readUInt32BE(from + 4)
    const values = new Unpacker(bytes.subarray(from + 8, from + 8 + length)).next(widths[kind])
    from += 8 + length
    if (kind === 'place') fold = new Fold(placeOf(values))
    for (let i = 0; i < values.length; i += widths[kind]) put(fold, kind, values, i, ended)
  }
  fold.restore(ended)
  return fold
}

function placeOf(values: readonly Value[]): Place {
  const [batch, written, boot, history, seq, hash, audits, auditHash] = values as [
    number,
    number,
    number,
    string,
    number,
    string,
    number,
    string
  ]
  return { batch, written, boot, history, seq, hash, audits, auditHash }
}

/** Puts the row at index `i` into a state. */
function put(fold: Fold, kind: RowKind, values: readonly Value[], i: number, ended: string[]): void {
  const row = values.slice(i, i + widths[kind])
  const [first, second, third, fourth] = row
  if (kind === 'price') fold.prices.set(first as string, second as string)
  else if (kind === 'document') fold.putDocument(row)
  else if (kind === 'balance') {
    const sum = fold.balances.of(first as string, second as string)
    sum.posted = third as bigint
    sum.limit = (fourth as bigint | null) ?? undefined
  } else if (kind === 'hold')
    fold.hold({ row: row.slice(0, -2), boot: row.at(-2) as number, lease: row.at(-1) as number | null })
  else if (kind === 'part') fold.holds.charge(first as string, second as bigint, third as string)
  else if (kind === 'work') fold.putWork(row)
  else if (kind === 'room') fold.room.set(first as string, second as number)
  else if (kind === 'ended') ended.push(first as string)
}
