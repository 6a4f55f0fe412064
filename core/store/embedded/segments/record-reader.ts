// Finds request records in the frames of a journal, by the places that a database has.
import { existsSync, readSync } from 'node:fs'
import { readFrames } from '../log/frame-reader.ts'
import { withFile } from '../files/reading.ts'
import type { Database, Value } from '../files/sqlite.ts'
import { volumeFolder } from '../journal/volume.ts'
import { recordRow, requestColumns } from '../rows/batch.ts'
import { placeIn } from '../rows/record-place.ts'
import type { RecordPlace } from '../rows/record-place.ts'
import type { RecordRow } from '../rows/record-text.ts'
import { idIn } from '../rows/uuid.ts'
import { pathOf } from './folder.ts'
import { decodeHead, framesFrom } from './segment-head.ts'
import { Volume, VolumeDamage } from './volume.ts'

/** How many volumes are kept in mind, with a block of each. */
const mostVolumes = 8

/** A row of the table request, whose id may be bytes, and which may have a place instead of what a record has. */
type StoredRow = Omit<RecordRow, 'request_id'> & { readonly request_id: Value }

/** The records of one journal. */
export class RecordReader {
  readonly #folder: string
  readonly #volumes = new Map<number, Volume>()
  /** The batch that was read last, as most records are asked for with others of it. */
  #last: { readonly ordinal: number; readonly batch: number; readonly records: readonly Value[] } | undefined

  constructor(folder: string) {
    this.#folder = folder
  }

  /**
   * Returns a row of the database with its record, and the columns that the record has too.
   * @throws Error when the journal does not have it
   */
  read<Row extends StoredRow>(row: Row): Row & RecordRow {
    const place = placeIn(row.json)
    const id = idIn(row.request_id)
    if (!place) return { ...row, request_id: id }
    const record = recordRow(this.#recordsOf(place), place.index * requestColumns.length)
    if (id === record.request_id) return { ...row, ...record, time: row.time }
    throw new Error(`batch ${place.batch} of the journal in ${this.#folder} does not have the record ${id}`)
  }

  #recordsOf({ ordinal, batch, at }: RecordPlace): readonly Value[] {
    if (this.#last?.ordinal !== ordinal || this.#last.batch !== batch) {
      // A segment may be sealed, and its file used again, between the two looks at a volume.
      const records =
        this.#inVolume(ordinal, batch) ?? this.#inSegment(ordinal, batch, at) ?? this.#inVolume(ordinal, batch, true)
      if (!records) throw new Error(`the journal in ${this.#folder} does not have batch ${batch} in segment ${ordinal}`)
      this.#last = { ordinal, batch, records }
    }
    return this.#last.records
  }

  /** One that is damaged has none, as long as its segment may have them; for the `last` look it is an error. */
  #inVolume(ordinal: number, batch: number, last = false): readonly Value[] | undefined {
    try {
      return this.#readVolume(ordinal, batch)
    } catch (error) {
      if (last || !(error instanceof VolumeDamage)) throw error
      return undefined
    }
  }

  #readVolume(ordinal: number, batch: number): readonly Value[] | undefined {
    const known = this.#volumes.get(ordinal)
    if (known) {
      try {
        return known.batch(batch)?.records
      } catch (error) {
        // One that was written anew has its blocks at other places.
        if (!(error instanceof VolumeDamage)) throw error
        this.#volumes.delete(ordinal)
      }
    }
    const path = pathOf(this.#folder, 'volume', ordinal)
    if (!existsSync(path)) return undefined
    const volume = new Volume(path)
    this.#volumes.set(ordinal, volume)
    const [oldest] = this.#volumes.keys()
    if (this.#volumes.size > mostVolumes) this.#volumes.delete(oldest!)
    return volume.batch(batch)?.records
  }

  #inSegment(ordinal: number, batch: number, at: number): readonly Value[] | undefined {
    const path = pathOf(this.#folder, 'segment', ordinal)
    const bytes = Buffer.alloc(framesFrom)
    try {
      return withFile(path, (fd) => {
        const head = decodeHead(bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, 0)))
        if (head?.ordinal !== ordinal) return undefined
        for (const frame of readFrames(fd, head.history, batch - 1, at === 0 ? framesFrom : at))
          return frame.batch.number === batch ? frame.batch.records : undefined
        return undefined
      })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
  }
}

const readers = new WeakMap<Database, RecordReader>()

/** The records of the store that a connection is of. */
export function recordsBeside(database: Database): RecordReader {
  let reader = readers.get(database)
  if (!reader) readers.set(database, (reader = new RecordReader(volumeFolder(database.location() ?? ''))))
  return reader
}
