// Connections that are abused: what never ends is cut, what is held is bounded, and nothing is left behind.
// Runs alone: it measures the memory of its process.
import { once } from 'node:events'
import { connect as dial, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as dialTls } from 'node:tls'
import t from 'tap'
import type { Incoming } from '../../../../core/clients/client.ts'
import { BodyMemory } from '../../../../core/bodies/body-memory.ts'
import { readBody } from '../../../../core/exchange/requests/body-reader.ts'
import { HeaderLines } from '../../../../core/wire/response-head.ts'
import { Watchdog } from '../../../../core/watchdog/watchdog.ts'
import { makeCertificate } from '../../../kit/certificate.ts'
import { connect } from '../../../kit/client.ts'
import { eventually, heldBytes } from '../../../kit/probe.ts'
import { gather, heldServer, runServer } from '../../../kit/server.ts'

const long = process.env['SLUICE_LONG'] !== undefined
t.setTimeout(600_000)

const MiB = 1024 * 1024

/**
 * Writes a beginning and then the same piece without end, as fast as it is taken, until the connection is closed. Bytes
 * that were taken.
 */
async function flood(socket: Socket, beginning: string, piece: string): Promise<number> {
  let closed = false
  socket
    .on('error', () => {})
    .on('close', () => (closed = true))
    .resume()
  socket.write(beginning)
  const bytes = Buffer.from(piece.repeat(Math.ceil(16_384 / piece.length)))
  while (!closed && socket.bytesWritten < 256 * MiB) {
    if (!socket.write(bytes))
      await Promise.race([once(socket, 'drain').catch(() => {}), once(socket, 'close').catch(() => {})])
  }
  return socket.bytesWritten - socket.writableLength
}

t.test('what never ends is cut, and little of it is held', async (t) => {
  const { server, port } = await runServer(t, ({ client, body }) =>
    gather(body, () => client.reply(200, HeaderLines.of(), Buffer.from('ok')))
  )
  const chunked = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n'
  const endless: Record<string, [beginning: string, piece: string]> = {
    'a request line': ['GET /', 'a'],
    'a header': ['GET / HTTP/1.1\r\nHost: x\r\nX: ', 'a'],
    headers: ['GET / HTTP/1.1\r\nHost: x\r\n', 'X: a\r\n'],
    'empty lines': ['', '\r\n'],
    'a chunk size': [chunked, '0'],
    'an extension': [`${chunked}5;`, 'a'],
    extensions: [chunked, `1;${'a'.repeat(1000)}\r\nx\r\n`],
    'a trailer': [`${chunked}0\r\nX: `, 'a'],
    trailers: [`${chunked}0\r\n`, 'X: a\r\n'],
    'something behind the last request': [
      'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
      'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
    ]
  }
  for (const [what, [beginning, piece]] of Object.entries(endless)) {
    const before = heldBytes()
    const taken = await flood(dial({ port, host: '127.0.0.1' }), beginning, piece)
    await eventually(() => server.figures.connections.http1 === 0)
    // The kernel's buffers take some as well.
    t.ok(taken < 16 * MiB, `${what}: ${taken} bytes`)
    t.ok(heldBytes() - before < 2 * MiB, what)
    t.equal(server.figures.active, 0)
  }
})

t.test('who reads no answers gets no more of them, and is cut', async (t) => {
  let served = 0
  const answer = Buffer.alloc(64 * 1024)
  const { server, port } = await runServer(
    t,
    ({ client }) => void (served++, client.reply(200, HeaderLines.of(), answer)),
    { limits: { clientStall: 1000 } }
  )
  const socket = dial({ port, host: '127.0.0.1' })
    .on('error', () => {})
    .pause()
  const before = heldBytes()
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(5000))
  let answered = -1
  await eventually(() => answered === (answered = served) && served > 0)
  t.ok(served < 500, `${served} answers`)
  t.ok(heldBytes() - before < 4 * MiB)
  await eventually(() => server.figures.connections.http1 === 0, 10_000)
  t.ok(served < 500, `${served} answers in the end`)
  socket.destroy()
})

t.test('who does not read what is left of an answer is cut, whatever it sends meanwhile', async (t) => {
  const answer = Buffer.alloc(32 * MiB)
  let answered = false
  const answering = ({ client }: Incoming): void => {
    client.reply(200, HeaderLines.of(), answer)
    answered = true
  }
  const { server, port } = await runServer(t, answering, { limits: { clientStall: 500 } })
  for (const does of ['closes', 'keeps', 'leaves']) {
    const socket = dial({ port, host: '127.0.0.1' })
      .on('error', () => {})
      .pause()
    socket.write(`GET / HTTP/1.1\r\nHost: x\r\nConnection: ${does === 'closes' ? 'close' : 'keep-alive'}\r\n\r\n`)
    await eventually(() => server.figures.connections.http1 === 1 && answered)
    answered = false
    const drips = does === 'leaves' ? void socket.end() : setInterval(() => socket.write('G'), 50)
    t.teardown(() => clearInterval(drips))
    await eventually(() => server.figures.connections.http1 === 0, 10_000)
    clearInterval(drips)
    socket.destroy()
  }
})

t.test('who ends its side within a head gets all of the answer before, however late it reads that', async (t) => {
  const unsent = (): number => {
    // The server's sockets are found nowhere else.
    const handles = (process as unknown as { _getActiveHandles(): readonly unknown[] })._getActiveHandles()
    const own = handles.find((one) => one instanceof Socket && one.localPort === port) as Socket | undefined
    return own!.writableLength
  }
  const piece = Buffer.alloc(40_000, 0x7e)
  let written = 0
  const ended = Promise.withResolvers<void>()
  const { server, port } = await runServer(
    t,
    async ({ client }) => {
      client.head(200, HeaderLines.of())
      // Until a little of it waits for the client: behind more, requests are left unread.
      do {
        client.write(piece)
        written += piece.length
        await sleep(1)
      } while (unsent() === 0)
      client.end()
      ended.resolve()
    },
    { limits: { clientStall: 60_000 } }
  )
  const socket = dial({ port, host: '127.0.0.1' }).pause()
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await ended.promise
  socket.end('GET / HTT')
  // For longer than its head is waited for.
  await sleep(7000)
  t.equal(server.figures.connections.http1, 1)
  let read = 0
  socket.on('data', (bytes: Buffer) => (read += bytes.filter((byte) => byte === 0x7e).length)).resume()
  await once(socket, 'close')
  t.equal(read, written)
})

t.test('who reads a large answer slowly gets all of it, however long its last write takes', async (t) => {
  const answer = Buffer.alloc(48 * MiB)
  const { pem } = makeCertificate(t)
  for (const tls of [undefined, pem]) {
    const { server, port } = await runServer(t, ({ client }) => client.reply(200, HeaderLines.of(), answer), {
      listen: { host: '127.0.0.1', port: 0, tls },
      limits: { clientStall: 1500 }
    })
    const to = { port, host: '127.0.0.1' }
    const socket = tls ? dialTls({ ...to, rejectUnauthorized: false }) : dial(to)
    socket.pause().write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    let [taken, rest] = [0, 0]
    const began = performance.now()
    const ended = new Promise((resolve, reject) => socket.on('end', resolve).on('error', reject))
    socket.on('data', (bytes: Buffer) => {
      taken += bytes.length
      rest -= bytes.length
      if (rest < 0) socket.pause()
    })
    const reading = setInterval(() => {
      rest = 1.5 * MiB
      socket.resume()
    }, 100)
    t.teardown(() => clearInterval(reading))
    await ended
    clearInterval(reading)
    socket.destroy()
    t.ok(taken > answer.length)
    t.ok(performance.now() - began > 1500)
    await eventually(() => server.figures.connections.http1 === 0)
  }
})

t.test('a slow reader of many answers gets them all', async (t) => {
  const { url } = await runServer(t, ({ client, target }) =>
    client.reply(200, HeaderLines.of(), Buffer.alloc(32 * 1024, target.slice(1)))
  )
  const client = await connect(t, url)
  client.stopReading()
  for (let i = 0; i < 1000; i++) client.send({ path: `/${i}` })
  await new Promise((resolve) => setTimeout(resolve, 100))
  client.resume()
  await client.reply(999)
  t.ok(client.replies.every(({ body }, i) => body.equals(Buffer.alloc(32 * 1024, String(i)))))
})

t.test('a body that nobody wants yet is not read', async (t) => {
  const { server, port, next } = await heldServer(t)
  const socket = dial({ port, host: '127.0.0.1' })
  t.teardown(() => socket.destroy())
  const before = heldBytes()
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n')
  const { client, body } = await next()
  const piece = Buffer.alloc(MiB)
  while (socket.write(piece) || socket.writableLength < 16 * MiB);
  let written = -1
  await eventually(() => written === (written = socket.bytesWritten - socket.writableLength))
  t.ok(heldBytes() - before - socket.writableLength < 2 * MiB, `${heldBytes() - before}`)
  let length = 0
  body.receive({ data: (chunk) => void (length += chunk.length), end: () => t.fail(), lost: () => {} })
  await eventually(
    () => length === socket.bytesWritten - 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n'.length
  )
  client.reply(200, HeaderLines.of(), Buffer.alloc(0))
  await eventually(() => server.figures.active === 0)
})

t.test('a body in tiny chunks takes the memory it is counted with', async (t) => {
  const memory = new BodyMemory(64 * MiB)
  const { server, port } = await runServer(t, ({ client, body }) => {
    const bounds = { size: 8 * MiB, time: 60_000, memory, watchdog: new Watchdog(), whose: { over: undefined } }
    void (async () =>
      readBody(body, undefined, bounds, (bytes) =>
        client.reply(200, HeaderLines.of(), Buffer.from(String(bytes.equals(Buffer.alloc(bytes.length, 'x')))))
      ))().catch(() => client.cut())
  })
  const raw = await connect(t, `http://127.0.0.1:${port}`)
  const before = heldBytes()
  raw.write('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n')
  raw.write('1\r\nx\r\n'.repeat(1_000_000))
  await eventually(() => memory.used >= 1_000_000, 10_000)
  await eventually(() => raw.socket.writableLength === 0, 10_000)
  t.ok(heldBytes() - before < 2.5 * memory.used, `${heldBytes() - before} for ${memory.used}`)
  // And in segments of their own.
  for (let i = 0; i < 200; i++) {
    raw.write('1\r\nx\r\n')
    await new Promise((resolve) => setImmediate(resolve))
  }
  raw.write('0\r\n\r\n')
  t.equal((await raw.reply()).text, 'true')
  t.equal(server.figures.active, 0)
})

t.test('short connections, and aborted ones, leave nothing behind', async (t) => {
  const { server, port } = await runServer(t, ({ client, target, body }) => {
    if (target === '/never') return void (client.onGone = () => {})
    gather(body, () => client.reply(200, HeaderLines.of(), Buffer.from('ok')))
  })
  const kinds: Record<string, (socket: Socket) => unknown> = {
    'an answer and FIN': (socket) =>
      socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n') && socket.once('data', () => socket.end()),
    'the last answer': (socket) => socket.write('GET / HTTP/1.0\r\n\r\n') && socket.resume(),
    'reset while it waits': (socket) =>
      socket.write('GET /never HTTP/1.1\r\nHost: x\r\n\r\n', () => setTimeout(() => socket.resetAndDestroy(), 1)),
    'reset in a head': (socket) => socket.write('GET / HTTP', () => socket.resetAndDestroy()),
    'left in a body': (socket) =>
      socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc', () => socket.destroy()),
    nonsense: (socket) => socket.write('\0') && socket.resume(),
    nothing: (socket) => socket.resetAndDestroy()
  }
  const one = async (make: (socket: Socket) => unknown): Promise<void> => {
    const socket = dial({ port, host: '127.0.0.1' }).on('error', () => {})
    socket.once('connect', () => make(socket))
    await new Promise((resolve) => socket.once('close', resolve))
  }
  const round = async (count: number): Promise<void> => {
    for (const make of Object.values(kinds)) {
      for (let i = 0; i < count; i += 50) await Promise.all(Array.from({ length: 50 }, () => one(make)))
    }
    await eventually(() => Object.values(server.figures.connections).every((open) => open === 0))
  }
  await round(50)
  const before = heldBytes()
  const timers = process.getActiveResourcesInfo().length
  await round(long ? 3000 : 300)
  t.equal(server.figures.active, 0)
  t.ok(heldBytes() - before < 2 * MiB, `${heldBytes() - before} bytes`)
  t.ok(process.getActiveResourcesInfo().length <= timers + 5, process.getActiveResourcesInfo().join())
})
