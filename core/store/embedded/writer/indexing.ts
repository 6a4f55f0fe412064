// Brings the batches of a journal into the database, from which clients and operators read.
import type { Committer } from '../database/committer.ts'
import type { Place } from '../segments/chain.ts'
import type { Companion } from '../segments/keeper.ts'
import type { FollowedFrame } from '../segments/following.ts'

/**
 * About how many values one transaction writes at most. It is as many as a writer hands over at once, so that each sum
 * which these change is written once.
 */
const transactionValues = 600_000

/** Takes batches until one fails: the connection is of no use then. */
export class Indexing implements Companion {
  readonly #committer: Committer
  #failure: { readonly error: unknown } | undefined
  #values = 0

  constructor(committer: Committer) {
    this.#committer = committer
  }

  get last(): number {
    return this.#failure ? Infinity : this.#committer.last
  }

  take(
    { batch, head, at, unrecorded = 0 }: Pick<FollowedFrame, 'batch' | 'head' | 'at' | 'unrecorded'>,
    place?: Readonly<Place>
  ): void {
    const committer = this.#committer
    try {
      if (committer.next.history !== head.history) {
        // What is open is written with the start that opened it.
        this.#commit()
        committer.turnTo(head, batch.written)
      }
      committer.add(batch, { ordinal: head.ordinal, at, place })
      committer.lacks(unrecorded)
      this.#values += batch.entries.length + batch.opened.length
      if (this.#values >= transactionValues) this.#commit()
    } catch (error) {
      this.#failure = { error }
    }
  }

  /**
   * Commits what was taken.
   * @throws the error of the batch that failed
   */
  end(): void {
    if (this.#failure) throw this.#failure.error
    this.#commit()
  }

  #commit(): void {
    this.#committer.commit()
    this.#values = 0
  }
}
