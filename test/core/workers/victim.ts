// A gateway of workers as a process to be killed: node victim.ts <number of workers> <gateway.yaml>. SIGTERM ends it in
// good order, and SIGHUP ends the thread of one of its workers, wherever that is.
import type { Worker } from 'node:worker_threads'
import { inheritedSockets } from '../../../core/clients/inherited.ts'
import { startGateway } from '../../../core/container.ts'
import { createLogger } from '../../../core/telling/log.ts'

const [workers, config] = process.argv.slice(2)

/** The threads of workers, and none of the store's. */
const threads = new Set<Worker>()
process.on('worker', (worker) => {
  if (!worker.threadName?.startsWith('worker ')) return
  threads.add(worker)
  worker.on('exit', () => threads.delete(worker))
})

const gateway = await startGateway({
  config: config!,
  workers: Number(workers),
  sockets: inheritedSockets(),
  log: createLogger()
})
process.on('SIGHUP', () => {
  const all = [...threads]
  void all[Math.floor(Math.random() * all.length)]?.terminate()
})
process.on('SIGTERM', () => void gateway.close({ drain: true }).then(() => process.exit()))
console.log(JSON.stringify({ message: 'ready', url: gateway.url, admin_url: gateway.adminUrl }))
