// sluice start: runs the gateway until a signal ends it.
import { parseArgs } from 'node:util'
import { startGateway } from '../container.ts'
import { createLogger } from '../log.ts'

/** Runs until SIGTERM or SIGINT. */
export async function start(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { config: { type: 'string', default: './gateway.yaml' } } })
  const gateway = await startGateway({ config: values.config, log: createLogger({ pretty: process.stderr.isTTY }) })
  process.stdout.write(`sluice is ready: ${gateway.url}${gateway.adminUrl ? ` (admin ${gateway.adminUrl})` : ''}\n`)
  const stop = (): void => void gateway.close({ drain: true }).then(() => process.exit(0))
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  process.on('SIGHUP', () => void gateway.reload('SIGHUP'))
}
