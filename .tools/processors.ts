// What the processors of the machine do: whether they stand idle, and how long they ran for processes that have ended.
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'

/** The part of one processor's time that has to be idle. Less than that is left between any two processes. */
const room = 0.25

/**
 * Tells whether a processor has room for one more process.
 * @returns a function for that; it looks at the time since it was last called
 */
export function watchIdle(): () => boolean {
  let before = sum()
  return () => {
    const now = sum()
    const [idle, all] = [now.idle - before.idle, (now.all - before.all) / now.processors]
    before = now
    return idle > all * room
  }
}

/** Milliseconds of all processors since the machine was started. */
function sum(): { idle: number; all: number; processors: number } {
  const each = cpus().map(({ times }) => times)
  const idle = each.reduce((total, times) => total + times.idle, 0)
  const all = each.reduce((total, times) => total + Object.values(times).reduce((one, more) => one + more, 0), 0)
  return { idle, all, processors: each.length }
}

/**
 * Seconds of CPU time that processes took which this one began, and those that they began, as far as each was waited
 * for by the one that began it. Undefined where there is no /proc.
 */
export function secondsOfEnded(): number | undefined {
  try {
    const [, fields] = readFileSync('/proc/self/stat', 'latin1').split(') ')
    // The user and the system time of children, in hundredths (proc_pid_stat(5)).
    const [user, system] = fields!.split(' ').slice(13, 15)
    return (Number(user) + Number(system)) / 100
  } catch {
    return undefined
  }
}
