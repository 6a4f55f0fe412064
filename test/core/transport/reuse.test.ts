// A connection that waited is given to the next request only when nothing has come over it meanwhile, however late
// anybody looks.
import { once } from 'node:events'
import { connect as dial } from 'node:net'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import type { Test } from 'tap'
import type { Channel } from '../../../core/catalogue/catalogue.ts'
import { Http1Transport } from '../../../core/transport/http1/transport.ts'
import { bytes, head, Upstream } from '../../kit/upstream.ts'
import { ask, channelOf } from './recorder.ts'

/** Two numbers: of the answers that nobody asked for, those that are wanted, and those that were written. */
const strayUpstream = `
  const { createServer } = require('node:net')
  const { parentPort, workerData } = require('node:worker_threads')
  const answer = (text) => 'HTTP/1.1 200 OK\\r\\ncontent-length: ' + text.length + '\\r\\n\\r\\n' + text
  const sockets = new Set()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => {})
    socket.on('data', () => socket.write(answer('own')))
  })
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
  parentPort.on('message', () => {
    for (const socket of sockets) socket.write(answer('stray'))
    Atomics.add(workerData, 0, 1)
    Atomics.notify(workerData, 0)
  })
`

/**
 * An upstream in a thread of its own. `stray` has it write answers on all its connections, and does not return before
 * they are there.
 */
async function strays(t: Test): Promise<{ channel: Channel; stray(): void; url: URL }> {
  const written = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(strayUpstream, { eval: true, workerData: written })
  t.teardown(() => worker.terminate())
  const [port] = (await once(worker, 'message')) as [number]
  const url = new URL(`http://127.0.0.1:${port}/v1`)
  const stray = (): void => {
    const before = Atomics.load(written, 0)
    worker.postMessage('')
    Atomics.wait(written, 0, before, 5000)
    // Until the kernel has brought it from one socket to the other.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
  }
  return { channel: channelOf(url), stray, url }
}

t.test("an answer that came while the loop was late is nobody's, from wherever the next request is sent", async (t) => {
  const { channel, stray, url } = await strays(t)
  const transport = new Http1Transport()
  t.teardown(() => transport.close())
  // Bytes that are read bring requests, and so do timers, promises and whatever waits for the end of a turn.
  const places: Record<string, (act: () => void) => void> = {
    'when bytes are read': (act) => {
      const socket = dial({ port: Number(url.port), host: '127.0.0.1' }, () => socket.write('x'))
      socket.once('data', () => {
        socket.destroy()
        act()
      })
    },
    'by a timer': (act) => void setTimeout(act, 1),
    'at the end of a turn': (act) => void setImmediate(act),
    'by a promise': (act) => void turn().then(act),
    'at the end of a turn, twice': (act) => void setImmediate(() => setImmediate(act))
  }
  for (const [place, arrange] of Object.entries(places)) {
    for (let round = 0; round < 5; round++) {
      t.equal((await ask(transport, channel).over).body, 'own')
      for (let n = 0; n < 4; n++) await turn()
      const body = await new Promise((resolve) =>
        arrange(() => {
          stray()
          void ask(transport, channel).over.then(({ body }) => resolve(body))
        })
      )
      t.equal(body, 'own', place)
    }
  }
})

t.test('a request that is given up before it is sent, and one whose connection goes meanwhile', async (t) => {
  const upstream = await Upstream.start(t)
  const transport = new Http1Transport()
  t.teardown(() => transport.close())
  const hello = [head(200, { 'content-length': '5' }), bytes('hello')]
  upstream.always(...hello)
  const channel = channelOf(upstream.url)
  await ask(transport, channel).over
  for (let n = 0; n < 4; n++) await turn()
  const given = ask(transport, channel)
  given.call.pause()
  given.call.abort()
  await sleep(20)
  t.equal(upstream.requests.length, 1, 'nothing of it was sent')
  t.strictSame(given.heard, [])
  await ask(transport, channel).over
  const paused = ask(transport, channel)
  paused.call.pause()
  await upstream.request(2)
  await sleep(20)
  t.strictSame(paused.heard, [], 'held back as soon as it may be')
  paused.call.resume()
  t.match(await paused.over, { body: 'hello', error: undefined })
})

t.test('a channel may have a connection for each request', async (t) => {
  const upstream = await Upstream.start(t)
  const transport = new Http1Transport()
  t.teardown(() => transport.close())
  upstream.always(head(200, { 'content-length': '5' }), bytes('hello'))
  const once = channelOf(upstream.url, { reuse: false })
  for (let n = 1; n <= 3; n++) {
    t.match(await ask(transport, once).over, { body: 'hello', error: undefined })
    t.equal(upstream.requests.at(-1)!.headers['connection'], 'close', 'and says so')
    t.equal(upstream.connections.length, n)
    await upstream.connections.at(-1)!.closed
  }
  for (let n = 0; n < 3; n++) {
    await ask(transport, channelOf(upstream.url)).over
    for (let n = 0; n < 4; n++) await turn()
  }
  t.equal(upstream.connections.length, 4, 'another channel to the same address is not concerned')
})
