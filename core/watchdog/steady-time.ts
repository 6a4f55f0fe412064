// A clock for expiry that runs evenly, even when the clock of the machine is changed.

/** How far it was set ahead, in milliseconds. */
let ahead = 0

/**
 * Unix milliseconds: the time when the process started, plus the time passed since then. For deadlines and for things
 * kept for a while: when the machine's clock jumps ahead for a second, nothing that should last for hours may end.
 * Dates that people set, such as the last day of a key, and the windows of budgets use `Date.now()`.
 */
export function steadyNow(): number {
  return Math.floor(performance.timeOrigin + performance.now() + ahead)
}

/** Sets it. Gateways that share a store have one clock for what they keep there, which is the database's. */
export function setSteady(now: number): void {
  ahead = now - performance.timeOrigin - performance.now()
}
