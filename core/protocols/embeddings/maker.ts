// How an upstream is asked for vectors in its own words, and what it answers.
import type { Asked, AskedText } from './asked.ts'
import { invalid } from '../canonical/untranslatable.ts'
import type { Vectors } from './vectors.ts'

/** How one kind of upstream makes vectors. */
export interface Maker {
  /** What it is told beside the texts and the length of vectors. */
  readonly knows: { readonly purpose?: boolean; readonly title?: boolean }
  /**
   * The body of the request. An upstream that takes few texts at a time gets a list of `requests`, which are sent one
   * after the other.
   *
   * @throws Untranslatable for what it cannot do
   */
  write(asked: Asked, model: string): unknown
  /** @throws Untranslatable when it is no answer */
  read(text: string): Vectors
}

/** The most requests that one request becomes. */
const mostRequests = 100

/** Puts the texts into requests of so many each. @throws Untranslatable when these are too many */
export function inRequests(
  { texts, places }: Asked,
  each: number,
  request: (some: readonly AskedText[]) => unknown
): { requests: unknown[] } {
  if (texts.length > each * mostRequests)
    throw invalid(places.texts, `a list of 1 to ${each * mostRequests} texts, the most that this model takes at a time`)
  return {
    requests: Array.from({ length: Math.ceil(texts.length / each) }, (_, at) =>
      request(texts.slice(at * each, (at + 1) * each))
    )
  }
}
