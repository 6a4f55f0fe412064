// How the delivery of an answer ends.

/** `cut`: broken off by directive. `aborted`: the client left before the end. */
export type Ending = 'completed' | 'cut' | 'aborted'
