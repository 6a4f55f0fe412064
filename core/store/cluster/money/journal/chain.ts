// The hash chain of what one node writes to the journal in one epoch.
import { entryHash, entryWidth, genesisOf } from '../../../embedded/journal/journal.ts'
import { entryColumns } from '../../../embedded/rows/batch.ts'
import type { Value } from '../../../embedded/files/sqlite.ts'

/** The chain of one epoch, as far as batches were made of it. */
export class Chain {
  readonly epoch: number
  #seq: number
  #hash: string

  private constructor(epoch: number, seq: number, hash: string) {
    this.epoch = epoch
    this.#seq = seq
    this.#hash = hash
  }

  /** That of an epoch that begins. */
  static of(node: string, epoch: number): Chain {
    return new Chain(epoch, 0, genesisOf(node, epoch))
  }

  /** The same as far as it is, for a batch that may be refused. */
  fork(): Chain {
    return new Chain(this.epoch, this.#seq, this.#hash)
  }

  get seq(): number {
    return this.#seq
  }

  get hash(): string {
    return this.#hash
  }

  /** Makes rows of the journal from flat entries. */
  append(entries: readonly Value[]): Record<string, unknown>[] {
    const rows: Record<string, unknown>[] = []
    for (let at = 0; at < entries.length; at += entryWidth) {
      const previous = this.#hash
      this.#hash = entryHash(previous, ++this.#seq, this.epoch, entries, at)
      const row: Record<string, unknown> = { seq: this.#seq, prev_hash: previous, hash: this.#hash }
      for (let i = 0; i < entryWidth; i++) row[entryColumns[i]!] = sent(entries[at + i]!)
      rows.push(row)
    }
    return rows
  }
}

/** Money as text, as numbers of JSON are not exact. */
export function sent(value: Value): unknown {
  return typeof value === 'bigint' ? String(value) : value
}
