// How long work on a store tells of its progress.

/** How much of a step is done, and of how much where that is known. */
export interface Amount {
  done: number
  of?: number | undefined
  unit: 'rows' | 'bytes' | 'files'
}

/** Is called with what is being done, at each step and now and then within it. */
export type Tell = (words: string, amount?: Amount) => void
