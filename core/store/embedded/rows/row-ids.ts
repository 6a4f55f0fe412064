// Ids for rows of the table reservation. Ids are reused at once, so that the table stays as small as the number of open
// holds.

/**
 * Hands out the ids. A row that takes an id in the batch in which it became free replaces the old row, which then need
 * not be deleted.
 */
export class RowIds {
  readonly #free: number[] = []
  /** The ids that were given back since the last batch. Their old rows are still in the table. */
  #given: number[] = []
  #last: number

  /** `last`: the highest id in use. */
  constructor(last: number) {
    this.#last = last
  }

  take(): number {
    return this.#given.pop() ?? this.#free.pop() ?? ++this.#last
  }

  /** An id that no row has had, for one that another thread has written. */
  fresh(): number {
    return ++this.#last
  }

  give(slot: number): void {
    this.#given.push(slot)
  }

  /** Ends a batch. Returns the ids that were given back and not taken again: their rows have to be deleted. */
  abandoned(): number[] {
    const given = this.#given
    this.#given = []
    this.#free.push(...given)
    return given
  }
}
