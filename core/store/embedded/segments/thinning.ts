// Thins volumes: writes one anew without what operators let go of, when the database has let go of all of it.
import type { Durability } from '../files/sqlite.ts'
import { FrameEncoder } from '../log/frame.ts'
import { answerColumns, routeColumns } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import { Volume, writeVolume } from './volume.ts'
import type { VolumeFrame } from './volume.ts'

/** What may go from a journal. */
export interface Spare {
  /** Volumes below this ordinal have no record that the database has. */
  readonly ordinal: number
  /** Requests that arrived later than this have their record, in Unix milliseconds. */
  readonly unrecorded: number
  /** Unix milliseconds: answers that were kept before that are not given again. 0: all are. */
  readonly answers: number
  /** Unix milliseconds. */
  readonly now: number
}

/** Whether a volume may be thinned: its answers are not given again either. A volume is thinned once. */
export function isSpare({ contents }: Pick<Volume, 'contents'>, { ordinal, unrecorded, answers }: Spare): boolean {
  return (
    contents.unrecorded === 0 &&
    unrecorded > 0 &&
    contents.ordinal < ordinal &&
    (answers === 0 || contents.written < answers)
  )
}

/**
 * Writes a volume anew without its records, and without the answers and routes that are over, in steps of some
 * milliseconds. Entries, and what decides about money, stay as they are, so that all hashes do. It takes the place of
 * the volume when it was read back: killed at any moment, it is the one or the other.
 * @throws VolumeDamage when the volume is damaged, or what was read back is not what was written
 */
export function* thinning(
  folder: string,
  volume: Volume,
  spare: Spare,
  durability: Durability
): Generator<void, Volume> {
  const { contents, charged: charges } = volume
  const frames = thinned(volume, spare)
  const summary = { contents: { ...contents, unrecorded: spare.unrecorded }, charges }
  return new Volume(yield* writeVolume(folder, contents.ordinal, frames, summary, durability))
}

function* thinned(volume: Volume, spare: Spare): Generator<VolumeFrame> {
  const encoder = new FrameEncoder(volume.contents.history)
  for (const { batch } of volume.frames(0)) yield { number: batch.number, bytes: encoder.encode(without(batch, spare)) }
}

const [kept, expires] = [answerColumns.indexOf('time'), routeColumns.indexOf('expires')]

function without(batch: Batch, { answers, now }: Spare): Batch {
  return {
    ...batch,
    records: [],
    answers: rowsWhere(batch.answers, answerColumns.length, (row) => Number(row[kept]) >= answers),
    // A row that removes a route has no time.
    routes: rowsWhere(batch.routes, routeColumns.length, (row) => row[expires] === null || Number(row[expires]) > now)
  }
}

function rowsWhere<T>(values: readonly T[], width: number, stays: (row: readonly T[]) => boolean): T[] {
  const rows: T[] = []
  for (let i = 0; i < values.length; i += width) {
    const row = values.slice(i, i + width)
    if (stays(row)) rows.push(...row)
  }
  return rows
}
