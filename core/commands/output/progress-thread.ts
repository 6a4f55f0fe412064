// The thread of progress.ts: prints what the command is doing, even while that blocks the main thread.
import { writeSync } from 'node:fs'
import { workerData } from 'node:worker_threads'
import { progressLine, units } from './progress-line.ts'
import type { Moment } from './progress-line.ts'
import type { ProgressState } from './progress.ts'

/** Milliseconds before the first line. What is done sooner needs none. */
const patience = 1000
/** Milliseconds between two looks, so that the rate of a step is counted from its beginning. */
const look = 100
/** Milliseconds between two lines: on a terminal; elsewhere in the first ten seconds, and after that. */
const pauses = { live: 200, often: 1000, seldom: 5000 } as const
/** Goes to the beginning of the line, and clears it. */
const clear = '\r\u001b[K'

const begun = performance.now()
const { over, amount, unit, words, live } = workerData as ProgressState
let first: Moment | undefined
let shown = 0

while (Atomics.wait(over, 0, 0, look) === 'timed-out') {
  const now = present()
  if (first?.words !== now.words) first = now
  const elapsed = performance.now() - begun
  const pause = live ? pauses.live : elapsed < 10 * pauses.often + look ? pauses.often : pauses.seldom
  if (elapsed < patience || elapsed - shown < pause) continue
  shown = elapsed
  const line = progressLine(first, now, Math.floor(elapsed / 1000))
  write(live ? `${clear}${line}` : `${line}\n`)
}
if (live && shown > 0) write(clear)

function present(): Moment {
  const [done, of] = [Atomics.load(amount, 0), Atomics.load(amount, 1)]
  return {
    words: Buffer.from(words.slice(0, words.indexOf(0))).toString('utf8'),
    unit: units[Atomics.load(unit, 0)] ?? 'rows',
    done: done < 0n ? undefined : Number(done),
    of: of < 0n ? undefined : Number(of),
    time: performance.now()
  }
}

function write(text: string): void {
  try {
    writeSync(2, text)
  } catch {
    // Standard error is closed or takes nothing now. The line is not important.
  }
}
