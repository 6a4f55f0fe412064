// The time by which things expire: it passes evenly, whatever somebody does to the clock of the machine.

/**
 * Unix milliseconds as of the start of the process, and the time that has passed since then. For deadlines and what is
 * kept for a while: a clock that jumps ahead for a second must not end what would have lasted for hours. Dates that
 * people gave, as a key's last day, and the windows of budgets go by `Date.now()`.
 */
export function steadyNow(): number {
  return Math.floor(performance.timeOrigin + performance.now())
}
