// Row ids of the table reservation: used again at once, so that the table stays as small as what is open.

/**
 * Hands out the ids. A row that takes over an id in the batch in which it became free replaces the old one: no
 * deletion.
 */
export class RowIds {
  readonly #free: number[] = []
  /** Given back since the last batch; the rows are still there. */
  #given: number[] = []
  #last: number

  /** `last`: the highest id in use. */
  constructor(last: number) {
    this.#last = last
  }

  take(): number {
    return this.#given.pop() ?? this.#free.pop() ?? ++this.#last
  }

  give(slot: number): void {
    this.#given.push(slot)
  }

  /** Ends a batch; returns the ids that nobody took over, whose rows have to go. */
  abandoned(): number[] {
    const given = this.#given
    this.#given = []
    this.#free.push(...given)
    return given
  }
}
