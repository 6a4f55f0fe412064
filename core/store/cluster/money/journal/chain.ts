// The hash chain of what one node writes to the journal in one epoch.
import { entryHash, entryWidth, genesisOf } from '../../../embedded/journal/journal.ts'
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

  /** Goes on with flat entries. Returns the hash of each row, behind the one before the first. */
  append(entries: readonly Value[]): string[] {
    const hashes = [this.#hash]
    for (let at = 0; at < entries.length; at += entryWidth) {
      this.#hash = entryHash(this.#hash, ++this.#seq, this.epoch, entries, at)
      hashes.push(this.#hash)
    }
    return hashes
  }
}
