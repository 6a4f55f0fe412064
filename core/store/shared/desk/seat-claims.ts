// The claims as one thread has them: they are kept where the store is, and left when what was done under a
// name is found there.
import type { Claims } from '../../claims.ts'
import type { RecordWriter } from '../records/record-writer.ts'

/** The claims of one seat. */
export class SeatClaims implements Claims {
  readonly #drafts: Pick<RecordWriter, 'kept'>
  readonly #all: Claims
  /** The names that are being left. */
  readonly #leaving = new Map<string, Promise<void>>()

  constructor(drafts: Pick<RecordWriter, 'kept'>, all: Claims) {
    this.#drafts = drafts
    this.#all = all
  }

  async take(name: string, what: Buffer): Promise<Buffer | undefined> {
    await this.#leaving.get(name)
    return this.#all.take(name, what)
  }

  async look(name: string): Promise<Buffer | undefined> {
    await this.#leaving.get(name)
    return this.#all.look(name)
  }

  leave(name: string): void {
    // What is put in the turn in which a name is left belongs to it.
    const left = Promise.resolve()
      .then(() => this.#drafts.kept())
      .then(() => {
        this.#leaving.delete(name)
        this.#all.leave(name)
      })
    this.#leaving.set(name, left)
  }
}
