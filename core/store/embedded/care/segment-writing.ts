// Writes batches as segments of a journal, and folds them: for a store that gets a journal, or a mended one.
import { FirstSegment } from '../segments/first-segment.ts'
import type { Start } from '../segments/chain.ts'
import { Fold } from '../segments/fold.ts'
import { emptyBatch } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'

/** How many rows a segment has about. */
const rowsInSegment = 65_536

/** What a batch is to have. */
export type Fields = Partial<Omit<Batch, 'number'>>

/** Writes segments, each of one start. Nothing is synced. */
export class SegmentWriting {
  readonly fold = new Fold()
  readonly #folder: string | undefined
  #segment: FirstSegment | undefined
  /** The history of the segment. */
  #history: string | undefined
  #ordinal: number
  #rows = 0

  /** Without a folder, batches are only folded. The first segment has the ordinal behind `ordinal`. */
  constructor(folder: string | undefined, ordinal = 0) {
    this.#folder = folder
    this.#ordinal = ordinal
  }

  /** Writes the next batch, as one of a start, and adds it to the fold. `rows`: about how many rows it has. */
  add(start: Start, fields: Fields, rows: number): void {
    const { place } = this.fold
    if (this.#history !== start.history || this.#rows > rowsInSegment) this.#begin(start)
    const written = Math.max(fields.written ?? 0, place.written)
    const batch = { ...emptyBatch(place.batch + 1, written), ...fields, written, number: place.batch + 1 }
    this.#segment?.append(batch)
    this.fold.add(batch, start)
    this.#rows += rows
  }

  end(): void {
    this.#segment?.close()
    this.#segment = undefined
    this.#history = undefined
  }

  #begin({ boot, history }: Start): void {
    this.end()
    const { batch: after, history: previous } = this.fold.place
    const head = { ordinal: ++this.#ordinal, boot, history, previous, after }
    if (this.#folder !== undefined) this.#segment = new FirstSegment(this.#folder, head, 'process')
    this.#history = history
    this.#rows = 0
    // The store has seen to it that nothing ends twice.
    this.fold.marked()
  }
}
