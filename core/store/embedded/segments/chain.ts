// The chain: which batches follow each other, and the hashes of what they have.
import { auditColumns } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'
import { auditHash, entryHash, entryWidth, genesis } from '../journal/journal.ts'

/** How far a state has come. Hashes and histories are hexadecimal. */
export interface Place {
  /** The last batch, counted over all starts, and its time: Unix milliseconds. */
  batch: number
  written: number
  /** The start that wrote it, and its history; 0 and empty before the first one. */
  boot: number
  history: string
  /** The last row of the journal, and its hash. */
  seq: number
  hash: string
  /** The last entry of the audit log, and its hash. */
  audits: number
  auditHash: string
}

/** Where a store begins. */
export const origin: Readonly<Place> = {
  batch: 0,
  written: 0,
  boot: 0,
  history: '',
  seq: 0,
  hash: genesis,
  audits: 0,
  auditHash: ''
}

/** The start that a batch is of. */
export interface Start {
  readonly boot: number
  readonly history: string
}

/** Goes on from a place, a batch at a time. */
export class Chain {
  readonly #place: Place

  constructor(place: Readonly<Place> = origin) {
    this.#place = { ...place }
  }

  get place(): Readonly<Place> {
    return this.#place
  }

  /**
   * Adds the next batch.
   * @throws Error when it is not the next one: nothing is changed then
   */
  add({ number, written, entries, audit }: Batch, { boot, history }: Start): void {
    const place = this.#place
    if (number !== place.batch + 1) throw new Error(`batch ${number} does not follow batch ${place.batch}`)
    place.batch = number
    place.boot = boot
    place.history = history
    if (written > place.written) place.written = written
    for (let i = 0; i < entries.length; i += entryWidth)
      place.hash = entryHash(place.hash, ++place.seq, boot, entries, i)
    for (let i = 0; i < audit.length; i += auditColumns.length)
      place.auditHash = auditHash(place.auditHash, ++place.audits, audit[i] as number, audit[i + 1] as string)
  }
}
