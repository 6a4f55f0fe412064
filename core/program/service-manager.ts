// Tells the service manager, systemd, how the service is doing (sd_notify(3)).
import { spawn } from 'node:child_process'
import type { Logger } from '../telling/log.ts'

/**
 * Sends assignments such as `READY=1`, if the process was started by a service manager that wants to hear of them. Its
 * socket takes datagrams, which Node cannot send, so that the program `systemd-notify` does; the unit therefore needs
 * `NotifyAccess=all`. When it cannot be run, that is logged.
 */
export function tellServiceManager(assignments: Readonly<Record<string, string>>, log: Logger): void {
  if (process.env['NOTIFY_SOCKET'] === undefined) return
  const args = Object.entries(assignments).map(([name, value]) => `${name}=${value}`)
  const failed = (error: string): void =>
    log.warn('systemd was not told of the state of the gateway', { program: 'systemd-notify', args, error })
  const child = spawn('systemd-notify', args, { stdio: 'ignore' })
  child.on('error', (error) => failed(error.message))
  child.on('exit', (code) => code !== 0 && failed(`it ended with ${code}`))
}
