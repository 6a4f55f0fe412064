// A clock that all processes of a run share, by which the load generator knows when the upstream sent an event.

/** The machine's monotonic clock, in microseconds, at the zero of this process's `performance.now()`. */
const origin = Number(process.hrtime.bigint()) / 1000 - performance.now() * 1000

/** Whole microseconds since the machine was started. */
export function sharedMicroseconds(): number {
  return Math.round(origin + performance.now() * 1000)
}
