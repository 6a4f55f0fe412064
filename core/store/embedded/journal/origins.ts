// The chains that rows of the journal were in before their store was made of a book of many nodes: each is computed
// again, so that its end stays proof of what the node has written.
import type { Row, Value } from '../files/sqlite.ts'
import { entryHash, genesisOf } from './journal.ts'

/** The rows of one epoch of a node: `first` and `last` in the journal, and the hash of the last in its own chain. */
export interface Origin {
  readonly node: string
  readonly epoch: number
  readonly first: number
  readonly last: number
  readonly hash: string
}

/** Makes one of a row of the table journal_origin. */
export function originOf({ node, epoch, first, last, hash }: Row): Origin {
  return {
    node: node as string,
    epoch: Number(epoch),
    first: Number(first),
    last: Number(last),
    hash: Buffer.from(hash as Uint8Array).toString('hex')
  }
}

/** A check of the earlier chains, for a journal that is read from its first row to its last. */
export class Origins {
  readonly #waiting: Origin[]
  readonly #broken: (row: string, message: string) => void
  #hash = ''

  /** `origins` come in any order. `broken` is told of rows that are not what their chain had. */
  constructor(origins: readonly Origin[], broken: (row: string, message: string) => void) {
    this.#waiting = origins.toSorted((one, other) => other.first - one.first)
    this.#broken = broken
  }

  /** Adds a row with its columns. */
  add(seq: number, columns: readonly Value[]): void {
    const origin = this.#waiting.at(-1)
    if (!origin || seq < origin.first) return
    const { node, epoch, first, last } = origin
    if (seq === first) this.#hash = genesisOf(node, epoch)
    this.#hash = entryHash(this.#hash, seq - first + 1, epoch, columns, 0)
    if (seq < last) return
    this.#waiting.pop()
    if (this.#hash !== origin.hash)
      this.#broken(`journal ${first}-${last}`, `was the chain of ${node} ${epoch}, which ended with another hash`)
  }

  /** Nothing comes any more. */
  end(): void {
    for (const { node, epoch, first, last } of this.#waiting)
      this.#broken(`journal ${first}-${last}`, `was the chain of ${node} ${epoch}, and is not whole`)
  }
}
