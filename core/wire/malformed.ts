// What is wrong with bytes that are no HTTP/1.1 message, or one that two readers could understand differently.

/** Thrown by whoever reads framing; who it came from decides what is said of it, and to whom. */
export class Malformed extends Error {
  /** What there is too much of, when that is all that is wrong. */
  readonly excess: 'section' | 'extensions' | undefined

  constructor(message: string, excess?: 'section' | 'extensions') {
    super(message)
    this.excess = excess
  }
}
