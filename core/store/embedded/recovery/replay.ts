// Reads what a survey found in the commit log, and applies it to a database, at a start and in the copy that a backup
// makes.
import { closeSync, openSync } from 'node:fs'
import type { Batch } from '../rows/batch.ts'
import type { Committer } from '../database/committer.ts'
import { readFrames } from '../log/frame-reader.ts'
import type { Frame } from '../log/frame-reader.ts'
import { withFile } from '../files/reading.ts'
import type { LogSurvey } from './survey.ts'

/** About how many values one transaction writes at most, however long the log is. */
const transactionValues = 250_000

/** Applies the batches that follow the last one applied, up to the first gap. Returns the bytes of their frames. */
export function applyFrames(committer: Committer, frames: Iterable<Frame>): number {
  let length = 0
  let values = 0
  for (const { batch, bytes } of frames) {
    if (batch.number !== committer.last + 1) break
    committer.add(batch)
    length += bytes.length
    values += batch.entries.length + batch.opened.length
    if (values < transactionValues) continue
    committer.commit()
    values = 0
  }
  committer.commit()
  return length
}

/**
 * Applies the batches that an earlier process acknowledged but did not apply, as the survey found them.
 * @throws Error when a segment changed since the survey
 */
export function replay(committer: Committer, { runs }: LogSurvey): void {
  const { history } = committer.head
  for (;;) {
    const { batch } = committer.head
    const run = runs.find(({ first, last }) => first <= batch + 1 && batch + 1 <= last)
    if (!run) return
    withFile(run.path, (fd) => applyFrames(committer, readFrames(fd, history, batch, run.from)))
    if (committer.head.batch !== run.last)
      throw new Error(
        `${run.path} changed while it was read: it ended with batch ${run.last}, and now with ${committer.head.batch}`
      )
  }
}

/** The batches of one history after the batch `after`, as a survey found them. */
interface Part {
  history: string
  after: number
  log: LogSurvey
}

/** Yields the batches that the log has, each once, in order. */
export function* batchesOf({ history, after, log }: Part): Generator<Batch> {
  let last = after
  for (const run of [...log.runs].sort((a, b) => a.first - b.first)) {
    const fd = openSync(run.path, 'r')
    try {
      for (const { batch } of run.last > last ? readFrames(fd, history, last, run.from) : []) {
        if (batch.number > run.last) break
        last = batch.number
        yield batch
      }
    } finally {
      closeSync(fd)
    }
  }
}
