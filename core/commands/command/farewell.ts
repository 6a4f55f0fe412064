// Ends the process: it ends by itself when nothing is open, and by force when something stays open.
import { exits } from './command.ts'
import { thrownStack } from '../../thrown.ts'

/** How long to wait for what closes by itself, such as idle threads and connections, in milliseconds. */
const patienceMs = 3000

/**
 * Sets the exit code. The process ends by itself when nothing is open any more. After three seconds it names what is
 * still open on standard error, for example the timer of a third-party plugin, and ends by force.
 *
 * `process.exit` is not used: it waits for the threads that compile JavaScript, and one of them may wait for a garbage
 * collection by the main thread, which never comes (nodejs/node#54918).
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

/** Ends the process at once. It replaces the process with a new one that does nothing but exit with the code. */
export function leaveNow(code: number): void {
  process.emit('exit', code)
  if (process.platform === 'win32' || !process.execve) process.kill(process.pid, 'SIGKILL')
  else process.execve(process.execPath, [process.execPath, '--eval', `process.exitCode = ${code}`], {})
}

/** Handles uncaught faults by ending the process, until the gateway runs and stops in good order instead. */
export function fall(error: Error): void {
  process.stderr.write(`sluice: a fault that nothing caught: ${thrownStack(error)}\n`)
  leaveNow(exits.failed)
}
