// Runs the simulator by itself: node core/simulator/main.ts --port 9000
import { parseArgs } from 'node:util'
import { startSimulator } from './simulator.ts'
import type { SimulatorOptions } from './simulator.ts'

const { values } = parseArgs({ options: { host: { type: 'string' }, port: { type: 'string' }, key: { type: 'string' } } })
const options: SimulatorOptions = {}
if (values.host !== undefined) options.host = values.host
if (values.port !== undefined) options.port = Number(values.port)
if (values.key !== undefined) options.key = values.key

const simulator = await startSimulator(options)
process.stdout.write(`simulator ready on ${simulator.url.origin}\n`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void simulator.close())
