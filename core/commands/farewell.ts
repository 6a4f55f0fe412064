// How the process ends: by itself once nothing is open, or by force where something stays open.
import { exits } from './command.ts'

/** Milliseconds for what closes by itself, such as threads and connections that are idle. */
const patienceMs = 3000

/**
 * Sets the exit code. The process ends by itself when nothing is open any more; what is still open after three seconds
 * is named on standard error and ended by force, for instance the timer of a plugin from elsewhere.
 *
 * `process.exit` is not used: it waits for the threads that compile JavaScript, and one of them may wait for a
 * collection of garbage by the main thread, which never comes (nodejs/node#54918).
 */
export function leave(code: number): void {
  process.exitCode = code
  const insist = (): void => {
    const open = [...new Set(process.getActiveResourcesInfo())].join(', ')
    process.stderr.write(`sluice: the process does not end by itself and is ended, as this is still open: ${open}\n`)
    leaveNow(code)
  }
  setTimeout(insist, patienceMs).unref()
}

/** Ends the process at once, whatever it is at: another program takes its place, and ends with the code. */
export function leaveNow(code: number): void {
  process.emit('exit', code)
  if (process.platform === 'win32' || !process.execve) process.kill(process.pid, 'SIGKILL')
  else process.execve(process.execPath, [process.execPath, '--eval', `process.exitCode = ${code}`], {})
}

/** For faults that nothing caught, until the gateway runs and stops in good order for them. */
export function fall(error: Error): void {
  process.stderr.write(`sluice: a fault that nothing caught: ${error.stack ?? String(error)}\n`)
  leaveNow(exits.failed)
}
