// What a log of batches does, however its files are laid out.

/** What was appended since the last turn, for the thread that brings it into the database. */
export interface Handed {
  /** The number of the last batch in it. */
  readonly last: number
}

/** A log of batches, which keeps them at least until they are in the database. */
export interface BatchLog {
  /** How many bytes of frames are not in the database yet. */
  readonly bytes: number
  /**
   * Writes the frame of batch `number` behind the others. Only one call may be under way. A frame whose write failed
   * must be appended again as a whole.
   */
  append(frame: Buffer, number: number, done: (error: Error | null) => void): void
  /** Hands over what was appended since the last turn; undefined when that is nothing. Each must be freed first. */
  turn(): Handed | undefined
  /**
   * Notes that what was handed over is in the database. `spent`: the paths of files of the log that nothing needs any
   * more.
   */
  free(handed: Handed, spent: readonly string[]): void
  /** Call it when no write is under way. */
  close(): void | Promise<void>
}
