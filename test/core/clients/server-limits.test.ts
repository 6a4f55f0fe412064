// What the server does about clients that are slow, idle or too many, and how it stops in good order.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect as dial } from 'node:net'
import { createInterface } from 'node:readline'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import type { Test } from 'tap'
import type { Client, Incoming } from '../../../core/clients/client.ts'
import { HeaderLines } from '../../../core/wire/response-head.ts'
import { makeCertificate } from '../../kit/certificate.ts'
import { ask, connect } from '../../kit/client.ts'
import { askHttp2, openSession } from '../../kit/http2.ts'
import { eventually, stopwatch } from '../../kit/probe.ts'
import { echo, runServer } from '../../kit/server.ts'

t.test('slow and silent clients are cut at the time set for the head', async (t) => {
  const limits = { clientHeader: 300, keepAlive: 300 }
  const { server, url } = await runServer(t, echo, { limits })
  const began = performance.now()
  const watch = stopwatch()
  const silent = await connect(t, url)
  const undecided = (await connect(t, url)).write('PR')
  const slow = (await connect(t, url)).write('GET / HTTP/1.1\r\nHost: x\r\nX-A')
  const prefaced = (await connect(t, url)).write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  t.equal(await silent.closed, 'fin')
  t.equal(await undecided.closed, 'fin')
  t.equal(silent.received + undecided.received, 0)
  const late = await slow.reply()
  t.equal(late.status, 408)
  t.match(late.json(), { error: { type: 'invalid_request_error', code: 'request_timeout' } })
  t.equal(late.headers['connection'], 'close')
  await prefaced.closed
  const took = performance.now() - began
  t.ok(took > 250 && watch.ms < 3000, `${took} ms`)
  await eventually(() => server.figures.connections.http2 === 0 && server.figures.connections.undecided === 0)
})

t.test('a head that is sent drop by drop behind an answer is cut as well', async (t) => {
  const { url } = await runServer(t, echo, { limits: { clientHeader: 300 } })
  const client = await connect(t, url)
  await client.send({ path: '/1' }).reply(0)
  client.write('GET /2 HTTP/1.1\r\nX')
  const timer = setInterval(() => client.write('x'), 50)
  t.equal((await client.reply(1)).status, 408)
  clearInterval(timer)
})

t.test('idle connections are closed, on HTTP/2 with GOAWAY, but not while an answer is silent', async (t) => {
  const running: Client[] = []
  const { server, url } = await runServer(t, ({ client }) => void running.push(client), { limits: { keepAlive: 100 } })
  const http1 = await connect(t, url)
  http1.send({ path: '/' })
  const http2 = openSession(t, url)
  let goaway = -1
  http2.on('goaway', (code) => (goaway = code))
  const answer = askHttp2(http2, { ':path': '/' })
  await eventually(() => running.length === 2)
  await sleep(400)
  t.equal(http1.end, undefined)
  t.notOk(http2.closed)
  for (const client of running) client.reply(200, HeaderLines.of(), Buffer.from('late'))
  t.equal((await answer).text, 'late')
  t.equal((await http1.reply()).text, 'late')
  await Promise.all([once(http2, 'close'), http1.closed])
  t.equal(goaway, 0)
  await eventually(() => server.figures.connections.http1 + server.figures.connections.http2 === 0)
})

t.test('on HTTP/2 an answer ends that its client does not read on, whatever else goes over the session', async (t) => {
  const MiB = 1024 * 1024
  const { url } = await runServer(t, ({ client }) => client.reply(200, HeaderLines.of(), Buffer.alloc(4 * MiB)), {
    limits: { clientStall: 2000 }
  })
  const session = openSession(t, url)
  const pings = setInterval(() => session.ping(() => {}), 50)
  t.teardown(() => clearInterval(pings))
  const [unread, slow] = [1, 2].map(() => session.request({ ':path': '/' }))
  const cut = new Promise((resolve) => unread!.pause().once('error', resolve))
  let [taken, rest] = [0, 0]
  slow!.on('data', ({ length }: Buffer) => {
    taken += length
    rest -= length
    if (rest <= 0) slow!.pause()
  })
  const reading = setInterval(() => {
    rest = MiB / 16
    slow!.resume()
  }, 50)
  t.teardown(() => clearInterval(reading))
  const ended = once(slow!, 'end')
  await cut
  t.equal(unread!.rstCode, 2)
  await ended
  t.equal(taken, 4 * MiB)
})

t.test('connections above the cap are closed and counted', async (t) => {
  const { server, url } = await runServer(t, echo, { limits: { connections: 2 } })
  const first = await connect(t, url)
  const second = await connect(t, url)
  const third = await connect(t, url)
  await third.closed
  t.equal(server.figures.refusedConnections, 1)
  t.equal((await first.send({ path: '/' }).reply()).status, 200)
  second.close()
  await eventually(() => server.figures.connections.undecided === 0)
  t.equal((await (await connect(t, url)).send({ path: '/' }).reply()).status, 200)
})

t.test('without file descriptors connections are refused, and the server recovers', async (t) => {
  const script = t.testdir({
    'few.ts': `
      import { HeaderLines } from '${new URL('../../../core/wire/response-head.ts', import.meta.url).pathname}'
      import { runServer } from '${new URL('../../kit/server.ts', import.meta.url).pathname}'
      const { server, port, logged } = await runServer({ teardown() {} } as never, ({ client }) => client.reply(200, HeaderLines.of(), Buffer.from('ok')))
      console.log(port)
      process.stdin.on('data', () => console.log(JSON.stringify({ ...server.figures, logged, cpu: process.cpuUsage().user })))
      process.stdin.on('end', () => process.kill(process.pid, 'SIGKILL'))
    `
  })
  const child = spawn('sh', ['-c', `ulimit -n 60 && exec "${process.execPath}" ${script}/few.ts`], {
    stdio: ['pipe', 'pipe', 'inherit']
  })
  t.teardown(() => child.kill())
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const port = Number((await lines.next()).value)
  const figures = async (): Promise<any> => {
    child.stdin.write('?')
    return JSON.parse((await lines.next()).value as string)
  }
  let closed = 0
  const sockets = Array.from({ length: 100 }, () =>
    dial({ port, host: '127.0.0.1' })
      .on('error', () => {})
      .on('close', () => closed++)
  )
  await eventually(() => closed > 20)
  const held = await figures()
  t.ok(held.connections.undecided < 60)
  await sleep(200)
  let later = await figures()
  // Every connection is either held or closed.
  await eventually(async () => closed + (later = await figures()).connections.undecided === 100)
  t.ok(later.cpu - held.cpu < 100_000, 'it does not spin')
  t.ok(later.logged.length <= 1, 'it does not flood the log')
  for (const socket of sockets) socket.destroy()
  while ((await figures()).connections.undecided > 0);
  t.equal((await ask(t, `http://127.0.0.1:${port}`, { path: '/' })).text, 'ok')
  child.stdin.end()
  await once(child, 'exit')
})

/** Clients in a thread of their own: each connects, sends a request, and waits for what comes. */
const waitingClients = `
const { parentPort, workerData: { port, count, connected } } = require('node:worker_threads')
const over = { answered: 0, reset: 0 }
const end = (how) => ++over[how] + over[how === 'reset' ? 'answered' : 'reset'] === count && parentPort.postMessage(over)
parentPort.once('message', () => {
  for (let one = 0; one < count; one++) {
    let heard = ''
    const socket = require('node:net').connect(port, '127.0.0.1', () => {
      socket.write('GET / HTTP/1.1\\r\\nHost: here\\r\\n\\r\\n', () => {
        Atomics.add(connected, 0, 1)
        Atomics.notify(connected, 0)
      })
    })
    socket.on('data', (bytes) => (heard += bytes)).on('error', () => {})
    socket.on('close', () => end(heard.endsWith('here') ? 'answered' : 'reset'))
  }
})`

t.test('draining', async (t) => {
  /** A server whose answers begin at once and end when the test says so. */
  async function begun(t: Test, onDrainTimeout?: () => void) {
    const running: Client[] = []
    const run = await runServer(
      t,
      ({ client, target }: Incoming) => {
        if (target === '/quick') return client.reply(200, HeaderLines.of(), Buffer.from('quick'))
        client.head(200, HeaderLines.of())
        client.write(Buffer.from('begun '))
        running.push(client)
      },
      { onDrainTimeout }
    )
    return { ...run, running }
  }

  t.test('closes idle connections at once and accepts no new ones', async (t) => {
    const { server, url, port } = await begun(t)
    const http1 = await connect(t, url)
    await http1.send({ path: '/quick' }).reply()
    const http2 = openSession(t, url)
    await askHttp2(http2, { ':path': '/quick' })
    const began = stopwatch()
    t.same(await server.drain(5000), { cut: 0 })
    t.ok(began.ms < 1000)
    await http1.closed
    t.ok(http2.closed || http2.destroyed)
    const [error] = (await once(dial({ port, host: '127.0.0.1' }), 'error')) as [NodeJS.ErrnoException]
    t.equal(error.code, 'ECONNREFUSED')
    t.equal(server.drain(1), server.drain(2), 'asked again it is the same')
  })

  t.test('answers those who still wait to be accepted, before its port is closed', async (t) => {
    const { server, port } = await runServer(t, ({ client }) =>
      client.reply(200, HeaderLines.of(), Buffer.from('here'))
    )
    const count = 50
    const connected = new Int32Array(new SharedArrayBuffer(4))
    const clients = new Worker(waitingClients, { eval: true, workerData: { port, count, connected } })
    t.teardown(() => clients.terminate())
    await once(clients, 'online')
    const over = once(clients, 'message')
    clients.postMessage('go')
    // This loop stands still meanwhile, so that nobody but the kernel has taken them.
    for (let now = 0; now < count; now = Atomics.load(connected, 0)) Atomics.wait(connected, 0, now)
    t.same(await server.drain(60_000), { cut: 0 })
    t.same(await over, [{ answered: count, reset: 0 }])
  })

  t.test('answers the first request of a connection that was just made', async (t) => {
    const { pem } = makeCertificate(t)
    for (const tls of [undefined, pem]) {
      const ca = tls?.cert
      const { server, url } = await runServer(
        t,
        ({ client }) => client.reply(200, HeaderLines.of(), Buffer.from('here')),
        { listen: { host: '127.0.0.1', port: 0, tls }, firstRequest: 60_000 }
      )
      const [one, slow] = [await connect(t, url, ca), await connect(t, url, ca)]
      slow.write('GET / HT')
      const drained = server.drain(60_000)
      // It takes two turns of the loop to close the port, and a third to leave those that are idle.
      for (let turns = 0; turns < 4; turns++) await turn()
      one.send({ path: '/' })
      slow.write('TP/1.1\r\nHost: here\r\n\r\n')
      for (const client of [one, slow])
        t.match(await client.reply(), { status: 200, headers: { connection: 'close' }, text: 'here' })
      t.same(await drained, { cut: 0 })
    }
  })

  t.test('closes connections without a request', async (t) => {
    const { pem } = makeCertificate(t)
    for (const tls of [undefined, pem]) {
      const ca = tls?.cert
      const { server, url } = await runServer(t, echo, { listen: { host: '127.0.0.1', port: 0, tls } })
      const [silent, slow] = [await connect(t, url, ca), await connect(t, url, ca)]
      slow.write('GET / HT')
      t.same(await server.drain(60_000), { cut: 0 })
      await Promise.all([silent.closed, slow.closed])
      t.same(silent.replies, [])
    }
  })

  t.test('lets answers finish, and what comes behind them is the last of its connection', async (t) => {
    const { server, url, running } = await begun(t)
    const http1 = await connect(t, url)
    await http1.send({ path: '/' }).body('begun')
    const behind = await connect(t, url)
    await behind.send({ path: '/' }).body('begun')
    behind.send({ path: '/behind' })
    const http2 = openSession(t, url)
    const answer = askHttp2(http2, { ':path': '/' })
    await eventually(() => running.length === 3)
    const goaway = once(http2, 'goaway')
    const drained = server.drain(5000)
    await goaway
    t.ok(http2.closed, 'no new stream may be opened')
    await sleep(50)
    for (const client of running) client.end(Buffer.from('done'))
    t.equal((await answer).text, 'begun done')
    t.match(await http1.reply(), { text: 'begun done', complete: true })
    t.match(await behind.reply(0), { text: 'begun done', complete: true })
    await eventually(() => running.length === 4)
    running[3]!.end(Buffer.from('done'))
    t.match(await behind.reply(1), { text: 'begun done', complete: true, headers: { connection: 'close' } })
    t.same(await drained, { cut: 0 })
    t.equal(server.figures.active, 0)
  })

  t.test('does not wait for a request whose beginning came behind an answer', async (t) => {
    const { server, url, running } = await begun(t)
    const client = await connect(t, url)
    await client.send({ path: '/' }).body('begun')
    client.write('GET /behind HTTP/1.1\r\nHo')
    await sleep(20)
    const drained = server.drain(5000)
    running[0]!.end(Buffer.from('done'))
    const began = stopwatch()
    t.same(await drained, { cut: 0 })
    t.ok(began.ms < 1000)
    t.match(await client.reply(), { text: 'begun done', complete: true })
  })

  t.test('answers what still comes on an idle connection, and closes it then', async (t) => {
    const { server, url, running } = await begun(t)
    const busy = await connect(t, url)
    await busy.send({ path: '/' }).body('begun')
    const [idle, silent] = [await connect(t, url), await connect(t, url)]
    await idle.send({ path: '/quick' }).reply()
    const drained = server.drain(5000)
    idle.send({ path: '/quick' })
    silent.send({ path: '/quick' })
    t.match(await idle.reply(1), { status: 200, headers: { connection: 'close' } })
    t.match(await silent.reply(), { status: 200, headers: { connection: 'close' } })
    t.strictSame(await Promise.all([idle.closed, silent.closed]), ['fin', 'fin'])
    running[0]!.end(Buffer.from('done'))
    t.match(await busy.reply(), { text: 'begun done', complete: true })
    t.same(await drained, { cut: 0 })
  })

  t.test('ends a session under TLS while answers are written on it', async (t) => {
    const { pem } = makeCertificate(t)
    const half = Buffer.alloc(128 * 1024, 'x')
    const running: Client[] = []
    const { server, url } = await runServer(
      t,
      ({ client }) => {
        client.head(200, HeaderLines.of())
        client.write(half)
        running.push(client)
      },
      { listen: { host: '127.0.0.1', port: 0, tls: pem } }
    )
    const session = openSession(t, url, { rejectUnauthorized: false })
    const answers = Array.from({ length: 20 }, () => askHttp2(session, { ':path': '/' }))
    await eventually(() => running.length === 20)
    const drained = server.drain(5000)
    for (const client of running) client.end(half)
    for (const answer of answers) t.equal((await answer).body.length, 2 * half.length)
    t.same(await drained, { cut: 0 })
  })

  t.test('does not reset an idle connection on which a request crosses its end', async (t) => {
    const { server, url } = await begun(t)
    const client = await connect(t, url)
    await client.send({ path: '/quick' }).reply()
    const drained = server.drain(5000)
    // It is closed by the server in this turn, and the client cannot know.
    client.send({ path: '/quick', body: { long: 'x'.repeat(100_000) } })
    t.equal(await client.closed, 'fin')
    t.same(await drained, { cut: 0 })
  })

  t.test('tells the client that its answer is the last of the connection', async (t) => {
    const waiting: Client[] = []
    const { server, url } = await runServer(t, ({ client }) => void waiting.push(client))
    const client = await connect(t, url)
    client.send({ path: '/' })
    await eventually(() => waiting.length === 1)
    const drained = server.drain(5000)
    waiting[0]!.reply(200, HeaderLines.of(), Buffer.from('last'))
    const reply = await client.reply()
    t.match(reply, { status: 200, text: 'last' })
    t.equal(reply.headers['connection'], 'close')
    t.equal(await client.closed, 'fin')
    t.same(await drained, { cut: 0 })
  })

  t.test('asks for an end when time is up, and closes what does not end', async (t) => {
    const clients: Client[] = []
    let asked = 0
    const { server, url, running } = await begun(t, () => {
      asked++
      clients.push(...running)
      running[0]!.end(Buffer.from('error event'))
    })
    const ends = await connect(t, url)
    await ends.send({ path: '/' }).body('begun')
    const stuck = await connect(t, url)
    await stuck.send({ path: '/' }).body('begun')
    const stuck2 = askHttp2(openSession(t, url), { ':path': '/' })
    stuck2.catch(() => {})
    await eventually(() => running.length === 3)
    let told = 0
    for (const client of running.slice(1)) client.onGone = () => told++
    const began = stopwatch()
    t.same(await server.drain(100), { cut: 3 })
    t.ok(began.ms < 3000)
    t.equal(asked, 1)
    t.match(await ends.reply(), { text: 'begun error event', complete: true })
    await stuck.closed
    t.equal(stuck.replies[0]?.complete, false)
    await t.rejects(stuck2)
    t.equal(told, 2)
    t.match(server.figures, { active: 0, connections: { http1: 0, http2: 0, undecided: 0 } })
  })

  t.test('does not cut an answer that is written but not yet read', async (t) => {
    const big = Buffer.alloc(8 * 1024 * 1024, 'x')
    const { server, url } = await runServer(t, ({ client }) => client.reply(200, HeaderLines.of(), big))
    const client = await connect(t, url)
    client.stopReading().send({ path: '/' })
    await eventually(() => server.figures.connections.http1 === 1 && server.figures.active === 0)
    await sleep(50)
    const drained = server.drain(5000)
    await sleep(50)
    client.resume()
    t.equal((await client.reply()).body.length, big.length)
    t.same(await drained, { cut: 0 })
  })
})
