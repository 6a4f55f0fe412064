// The ways in which the delivery of an answer can end.

/** `cut`: a directive broke it off. `aborted`: the client left before the end. */
export type Ending = 'completed' | 'cut' | 'aborted'
