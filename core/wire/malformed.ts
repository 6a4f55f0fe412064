// The error for bytes that are not an HTTP/1.1 message, or that two readers could understand differently.

/** Thrown by the parsers. Their users know which side sent the bytes, and make the error for it. */
export class Malformed extends Error {
  /** Set when the only fault is excessive length: says of what. */
  readonly excess: 'section' | 'extensions' | undefined

  constructor(message: string, excess?: 'section' | 'extensions') {
    super(message)
    this.excess = excess
  }
}
