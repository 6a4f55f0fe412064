// The health of the embedded store when it was just opened.
import type { StoreHealth } from '../../store.ts'

/** The health of a store that was just opened. */
export function newHealth(): StoreHealth {
  return {
    healthy: true,
    lastError: undefined,
    troubles: [],
    failures: 0,
    commits: 0,
    operations: 0,
    lastBatch: 0,
    commitSeconds: 0,
    lastCommitSeconds: 0,
    queued: 0,
    queuedBytes: 0,
    applies: 0,
    applySeconds: 0,
    unappliedBytes: 0,
    droppedRecords: 0,
    recovered: 0
  }
}
