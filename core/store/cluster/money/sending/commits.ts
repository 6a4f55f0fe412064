// How many batches of a node were committed, of how much, and how long that took.

import type { StoreHealth } from '../../../store.ts'

/** What a node has had committed, and what waits. */
export type Figures = Pick<
  StoreHealth,
  'commits' | 'operations' | 'lastBatch' | 'commitSeconds' | 'lastCommitSeconds' | 'queued' | 'queuedBytes'
>

/** Those of one start. Times are in seconds. */
export class Commits {
  commits = 0
  operations = 0
  lastBatch = 0
  commitSeconds = 0
  lastCommitSeconds = 0

  /** A batch of so many operations was answered, so many milliseconds after it was sent. */
  add(operations: number, took: number): void {
    this.commits++
    this.operations += operations
    this.lastBatch = operations
    this.lastCommitSeconds = took / 1000
    this.commitSeconds += this.lastCommitSeconds
  }
}
