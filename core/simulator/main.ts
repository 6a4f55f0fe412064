// Runs the simulator on its own: node core/simulator/main.ts --port 9000
import { parseArgs } from 'node:util'
import { startSimulator } from './simulator.ts'

try {
  const { values } = parseArgs({
    options: { host: { type: 'string' }, port: { type: 'string', default: '0' }, key: { type: 'string' } }
  })
  const { host = '127.0.0.1', port, key } = values
  const simulator = await startSimulator({ host, port: Number(port), ...(key !== undefined && { key }) })
  process.stdout.write(`simulator ready on ${simulator.url.origin}\n`)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void simulator.close())
} catch (error) {
  process.stderr.write(`simulator: ${(error as Error).message}\n`)
  process.exitCode = 2
}
