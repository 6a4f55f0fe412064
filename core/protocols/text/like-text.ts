// Reads the text out of events that differ from an earlier one in their text alone, without parsing them.
import { Likeness } from './likeness.ts'

/** The largest event that is remembered, in bytes, and the most strings that it may have. */
const mostBytes = 4 * 1024
const mostStrings = 24
/** Contents of a string that no event has by chance. */
const sign = 'sluice-text-1e96f0c1'

/** An event, and which of its strings is its text. */
export class LikeText {
  readonly #like: Likeness
  readonly #place: number

  private constructor(like: Likeness, place: number) {
    this.#like = like
    this.#place = place
  }

  /** `textOf`: where the text is in an event. Undefined for events that are too large, or have none there. */
  static of(event: Buffer, textOf: (json: unknown) => unknown): LikeText | undefined {
    if (event.length > mostBytes) return undefined
    const like = new Likeness(event)
    for (let string = 0; string < Math.min(like.strings, mostStrings); string++)
      if (textOf(JSON.parse(like.with(string, sign))) === sign) return new LikeText(like, string)
    return undefined
  }

  /** The text of an event that differs from the first in nothing else; undefined for any other. */
  read(event: Buffer): string | undefined {
    return this.#like.fits(event) ? this.#like.valueOf(this.#place, event) : undefined
  }
}
