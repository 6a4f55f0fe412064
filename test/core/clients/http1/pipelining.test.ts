// Requests that are sent without waiting for answers cost no more than others: nobody has looked for a key when they
// are taken apart.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { HeaderLines } from '../../../../core/wire/response-head.ts'
import { runServer } from '../../../kit/server.ts'

/** Sends so many requests at one time, the next when all are answered, in a thread of its own. */
const client = `
  const { connect } = require('node:net')
  const { parentPort, workerData: { port } } = require('node:worker_threads')
  const request = 'GET / HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n'
  parentPort.on('message', ({ batch, total }) => {
    const socket = connect(port, '127.0.0.1')
    let [sent, answered] = [0, 0]
    const send = () => {
      socket.write(request.repeat(batch))
      sent += batch
    }
    socket.on('connect', send)
    socket.on('data', (bytes) => {
      for (const byte of bytes) if (byte === 0x7e) answered++
      if (answered >= total) parentPort.postMessage(socket.destroy() && answered)
      else if (answered === sent) send()
    })
  })
`

t.test('many requests in one read cost no more than one in each', async (t) => {
  const answer = Buffer.from('~')
  const { port } = await runServer(t, (incoming) => incoming.client.reply(401, HeaderLines.of(), answer))
  const worker = new Worker(client, { eval: true, workerData: { port } })
  t.teardown(() => worker.terminate())
  /** Microseconds of CPU time of this thread. */
  const cost = async (batch: number): Promise<number> => {
    const total = 2300 * 3
    const before = process.threadCpuUsage()
    worker.postMessage({ batch, total })
    const [answered] = (await once(worker, 'message')) as [number]
    t.ok(answered >= total)
    const { user, system } = process.threadCpuUsage(before)
    return (user + system) / answered
  }
  const [single, piped]: [number[], number[]] = [[], []]
  for (let round = 0; round < 5; round++) {
    single.push(await cost(1))
    piped.push(await cost(2300))
  }
  // The first rounds are the compiler's, and what else runs on the machine costs some of the others.
  const [one, many] = [Math.min(...single), Math.min(...piped)]
  t.ok(many < one, `${many.toFixed(1)} µs, alone ${one.toFixed(1)} µs`)
})
