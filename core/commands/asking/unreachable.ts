// The error of commands that find no gateway to ask.

/** Thrown when no gateway answers, or it does not let the command in. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable'
}
