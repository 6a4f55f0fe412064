// One clock for all threads: their `performance.now()` begin at different times.

/** The monotonic clock of the machine in whole microseconds, read once by a call that is slow. */
const ahead = Number(process.hrtime.bigint()) / 1000 - performance.now() * 1000

/**
 * Whole microseconds of a clock that never goes back. In two threads it differs by some microseconds at most.
 */
export function sharedNow(): number {
  return Math.floor(ahead + performance.now() * 1000)
}
