// Thrown when a file of a journal is not what was written.

/** What is wrong with one file. */
export class JournalDamage extends Error {
  readonly path: string
  /** What is wrong, as the rest of a sentence that begins with the path. */
  readonly text: string

  constructor(path: string, text: string) {
    super(`${path} ${text}`)
    this.path = path
    this.text = text
  }
}
