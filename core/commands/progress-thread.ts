// The thread of progress.ts: prints every second what the command is doing, even while that blocks the main thread.
import { writeSync } from 'node:fs'
import { workerData } from 'node:worker_threads'
import type { ProgressState } from './progress.ts'

/** Milliseconds between two lines: in the first ten seconds, and after that. */
const often = 1000
const seldom = 5000
const begun = performance.now()
const { over, rows, words } = workerData as ProgressState

for (;;) {
  const pause = performance.now() - begun < 10 * often ? often : seldom
  if (Atomics.wait(over, 0, 0, pause) !== 'timed-out') break
  const seconds = Math.floor((performance.now() - begun) / 1000)
  const count = Atomics.load(rows, 0)
  const shown = Buffer.from(words.slice(0, words.indexOf(0))).toString('utf8')
  const line = `${shown}${count === 0n ? '' : `: ${count.toLocaleString('en-US')} rows`}, ${seconds} s\n`
  try {
    writeSync(2, line)
  } catch {
    // Standard error is closed or takes nothing now. The line is not important.
  }
}
