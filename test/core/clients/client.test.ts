// Answers as clients see them, on HTTP/1.x and HTTP/2: framing, backpressure, leaving and cutting.
// Runs alone: it measures the memory of its process.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { constants } from 'node:http2'
import type { IncomingHttpHeaders } from 'node:http2'
import { connect as dial } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { request } from 'undici'
import type { Client, Incoming } from '../../../core/clients/client.ts'
import { giveBlock, takeBlock } from '../../../core/wire/read-blocks.ts'
import { HeaderLines } from '../../../core/wire/response-head.ts'
import { connect } from '../../kit/client.ts'
import { openSession, readHttp2 } from '../../kit/http2.ts'
import { eventually, stopwatch } from '../../kit/probe.ts'
import { heldServer, runServer } from '../../kit/server.ts'
import type { RunOptions } from '../../kit/server.ts'

const gone = (client: Client): Promise<void> => new Promise((resolve) => (client.onGone = resolve))
const drained = (client: Client): Promise<void> => new Promise((resolve) => (client.onDrain = resolve))

const sizes = [1, 15, 16, 255, 256, 4095, 4096, 16_383, 16_384, 16_385, 65_535, 65_536, 1_000_000]

t.test('streamed answers arrive byte for byte, whatever the size of their pieces', async (t) => {
  const pieces = sizes.map((size) => randomBytes(size))
  const whole = Buffer.concat([...pieces, ...pieces])
  const answer = async ({ client, target }: Incoming): Promise<void> => {
    client.head(200, HeaderLines.of('content-type', 'application/octet-stream'))
    t.ok(client.headSent)
    for (const piece of [...pieces, ...pieces.slice(0, -1)]) {
      // Kept back until the buffer is empty, so that what was written in one go may not be overtaken by what comes
      // after.
      if (!client.write(piece)) await drained(client)
      if (target === '/slow') await sleep(1)
    }
    client.end(pieces.at(-1))
  }
  const { server, url } = await runServer(t, (incoming) => void answer(incoming))
  for (const path of ['/fast', '/slow']) {
    const one = await request(url + path)
    t.equal(one.headers['transfer-encoding'], 'chunked')
    t.ok(whole.equals(Buffer.from(await one.body.arrayBuffer())), `${path} on HTTP/1.1`)
    const two = await readHttp2(openSession(t, url).request({ ':path': path }))
    t.ok(whole.equals(two.body), `${path} on HTTP/2`)
  }
  const old = dial({ port: Number(new URL(url).port), host: '127.0.0.1' })
  old.write('GET /fast HTTP/1.0\r\nTE: chunked\r\n\r\n')
  const chunks: Buffer[] = []
  for await (const chunk of old) chunks.push(chunk as Buffer)
  const received = Buffer.concat(chunks)
  const end = received.indexOf('\r\n\r\n')
  t.notMatch(received.toString('latin1', 0, end), /transfer-encoding/i)
  t.ok(whole.equals(received.subarray(end + 4)), 'on HTTP/1.0, ended by the connection')
  t.equal(server.figures.active, 0)
})

t.test('head and first event leave together, and every event in one piece', async (t) => {
  const { url, next } = await heldServer(t)
  const client = await connect(t, url)
  client.send({ path: '/' })
  const answer = (await next()).client
  answer.head(200, HeaderLines.of('content-type', 'text/event-stream'))
  answer.write(Buffer.from('data: 1\n\n'))
  await client.body('data: 1')
  answer.write(Buffer.from('data: 2\n\n'))
  await client.body('data: 2')
  answer.end(Buffer.from('data: 3\n\n'))
  t.equal((await client.reply()).text, 'data: 1\n\ndata: 2\n\ndata: 3\n\n')
  const reads = client.reads.map(({ bytes }) => bytes.toString())
  t.match(reads[0], /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\n9\r\ndata: 1\n\n\r\n$/)
  t.same(reads.slice(1), ['9\r\ndata: 2\n\n\r\n', '9\r\ndata: 3\n\n\r\n0\r\n\r\n'])
})

t.test('a head without a first event is sent all the same', async (t) => {
  const { url, next } = await heldServer(t)
  const client = await connect(t, url)
  client.send({ path: '/' })
  const answer = (await next()).client
  answer.head(200, HeaderLines.of())
  t.equal((await client.head()).start[1], '200')
  const stream = openSession(t, url).request({ ':path': '/' })
  const answer2 = (await next()).client
  answer2.head(202, HeaderLines.of())
  const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders]
  t.equal(headers[':status'], 202)
  answer.end()
  answer2.end()
  t.match(await client.reply(), { text: '', complete: true })
})

t.test('statuses without a body have none', async (t) => {
  const { url } = await runServer(t, ({ client, target }) => {
    const status = Number(target.slice(1, 4))
    if (!target.endsWith('stream')) return client.reply(status, HeaderLines.of(), Buffer.from('never sent'))
    client.head(status, HeaderLines.of())
    client.write(Buffer.from('never sent'))
    client.end(Buffer.from('never sent'))
  })
  const http2 = openSession(t, url)
  for (const path of ['/204', '/304', '/204stream', '/304stream']) {
    const one = await request(url + path)
    t.equal(await one.body.text(), '', path)
    t.equal(one.headers['content-length'], undefined)
    t.equal((await readHttp2(http2.request({ ':path': path }))).body.length, 0, path)
  }
})

t.test("framing is the client's own, whatever headers it is given", async (t) => {
  const { url } = await runServer(t, ({ client, target }) => {
    const headers = [
      'content-length',
      '999',
      'Transfer-Encoding',
      'chunked',
      'Connection',
      'upgrade',
      'keep-alive',
      'x',
      'trailer',
      'x',
      'X-Kept',
      'yes',
      'upgrade',
      'x'
    ]
    if (target === '/reply') return client.reply(200, HeaderLines.of(...headers), Buffer.from('é'))
    client.head(200, HeaderLines.of(...headers))
    client.end(Buffer.from('é'))
  })
  const http2 = openSession(t, url)
  for (const path of ['/reply', '/stream']) {
    const one = await request(url + path)
    t.equal(await one.body.text(), 'é')
    t.match(one.headers, { 'x-kept': 'yes', connection: 'keep-alive' })
    t.equal(one.headers['content-length'], path === '/reply' ? '2' : undefined)
    const two = await readHttp2(http2.request({ ':path': path }))
    t.equal(two.body.toString(), 'é')
    t.equal(two.headers['x-kept'], 'yes')
    t.equal(two.headers['content-length'], path === '/reply' ? '2' : undefined)
    t.notOk('connection' in two.headers || 'trailer' in two.headers)
  }
})

t.test('a header that cannot be sent throws, and another answer can be given instead', async (t) => {
  const { url } = await runServer(t, ({ client, target }) => {
    const bad = ['x-bad', 'a\r\nset-cookie: b']
    if (target === '/reply') t.throws(() => client.reply(200, HeaderLines.of(...bad), Buffer.from('never')))
    else t.throws(() => client.head(200, HeaderLines.of(...bad)))
    t.notOk(client.headSent)
    client.reply(500, HeaderLines.of('x-good', '1'), Buffer.from('instead'))
  })
  for (const path of ['/reply', '/stream']) {
    const client = await connect(t, url)
    const reply = await client.send({ path }).reply()
    t.match(reply, { status: 500, text: 'instead' })
    t.same(reply.head.start, ['HTTP/1.1', '500', 'Internal Server Error'])
    t.notOk('set-cookie' in reply.headers)
  }
})

for (const version of ['HTTP/1.1', 'HTTP/2'] as const) {
  /** One held answer with its head sent, and what the client can do to it. */
  const begun = async (t: Test, options?: RunOptions) => {
    const run = await heldServer(t, options)
    if (version === 'HTTP/1.1') {
      const raw = await connect(t, run.url)
      raw.send({ path: '/' })
      const incoming = await run.next()
      return {
        ...run,
        ...incoming,
        pause: () => void raw.stopReading(),
        resume: () => void raw.resume(),
        leave: () => void raw.reset(),
        leaveQuietly: () => void raw.close(),
        received: () => raw.received,
        /** How the answer ended for the client. */
        ended: raw.closed.then((how) => (how === 'reset' ? 'error' : how)),
        complete: async () => (await raw.reply()).body.length
      }
    }
    const client = openSession(t, run.url)
    const stream = client.request({ ':path': '/' })
    let length = 0
    let flowing = true
    stream.on('response', () => {
      stream.on('data', (chunk: Buffer) => (length += chunk.length))
      if (!flowing) stream.pause()
    })
    const ended = new Promise<string>((resolve) => {
      stream.on('error', () => resolve('error'))
      stream.on('close', () => resolve(stream.rstCode === 0 ? 'fin' : 'left'))
    })
    const incoming = await run.next()
    return {
      ...run,
      ...incoming,
      pause: () => {
        flowing = false
        stream.pause()
      },
      resume: () => void stream.resume(),
      leave: () => stream.close(constants.NGHTTP2_CANCEL),
      leaveQuietly: () => client.destroy(),
      received: () => length,
      ended,
      complete: async () => (await ended, length)
    }
  }

  t.test(`${version}: a client that does not read holds back the writer, and nothing piles up`, async (t) => {
    const { server, client, pause, resume, complete } = await begun(t)
    pause()
    client.head(200, HeaderLines.of())
    const piece = Buffer.alloc(32 * 1024, 'x')
    let written = 0
    let drains = 0
    client.onDrain = () => drains++
    const before = process.memoryUsage().rss
    // Whoever goes on writing only after a drain has, in the end, filled the kernel's buffers and one of our own.
    for (let still = 0; still < 5;) {
      const at = drains
      if (client.write(piece)) still = 0
      else {
        await sleep(20)
        if (drains === at) still = 5
      }
      written += piece.length
      t.ok(written < 64 * 1024 * 1024, 'writing stops')
      if (written >= 64 * 1024 * 1024) break
    }
    const stuck = drains
    await sleep(100)
    t.equal(drains, stuck, 'no drain while nothing is read')
    t.ok(process.memoryUsage().rss - before < 64 * 1024 * 1024)
    resume()
    await eventually(() => drains > stuck)
    client.end(Buffer.from('end'))
    t.equal(await complete(), written + 3)
    t.equal(server.figures.active, 0)
  })

  t.test(`${version}: memory that nobody else needs is given back when it is sent`, async (t) => {
    const { client, complete } = await begun(t)
    client.head(200, HeaderLines.of())
    const block = takeBlock()
    client.write(block, true)
    client.end()
    t.equal(await complete(), block.length)
    await eventually(() => {
      const next = takeBlock()
      giveBlock(next)
      return next.buffer === block.buffer
    })
  })

  t.test(`${version}: a client that leaves is noticed at once`, async (t) => {
    for (const how of ['leave', 'leaveQuietly'] as const) {
      for (const when of ['before the head', 'in mid-answer'] as const) {
        const run = await begun(t)
        const { client, server } = run
        if (when === 'in mid-answer') {
          client.head(200, HeaderLines.of())
          client.write(Buffer.from('some'))
          await eventually(() => run.received() > 0)
        }
        const told = gone(client)
        t.notOk(client.gone)
        const began = stopwatch()
        run[how]()
        await told
        const took = began.ms
        t.ok(took < 1500, `${how} ${when}: ${took} ms`)
        t.ok(client.gone)
        t.equal(server.figures.active, 0)
        client.head(200, HeaderLines.of())
        client.write(Buffer.from('more'))
        client.reply(200, HeaderLines.of(), Buffer.from('more'))
        client.end(Buffer.from('end'))
        client.cut()
        let again = 0
        client.onGone = () => again++
        t.equal(again, 1, 'whoever asks later hears of it at once')
      }
    }
  })

  t.test(`${version}: an answer that is cut does not look complete`, async (t) => {
    for (const when of ['before the head', 'after the head', 'in mid-answer'] as const) {
      const { client, server, ended, received } = await begun(t)
      let told = 0
      client.onGone = () => told++
      if (when !== 'before the head') client.head(200, HeaderLines.of())
      if (when === 'in mid-answer') {
        client.write(Buffer.from('some'))
        await eventually(() => received() > 0)
      }
      client.cut()
      t.ok(client.gone)
      t.equal(await ended, 'error', when)
      t.equal(told, 0, 'whoever cuts need not be told')
      t.equal(server.figures.active, 0)
      client.end(Buffer.from('end'))
    }
  })

  t.test(`${version}: nothing is said of a client that leaves after the end`, async (t) => {
    const { client, complete, leave } = await begun(t)
    client.onGone = () => t.fail('gone')
    client.head(200, HeaderLines.of())
    client.end(Buffer.from('end'))
    await complete()
    leave()
    await sleep(50)
    t.notOk(client.gone)
  })

  t.test(`${version}: a client that never takes the end of its answer is cut`, async (t) => {
    const { client, server, pause } = await begun(t, { limits: { clientStall: 200, keepAlive: 200 } })
    pause()
    client.reply(200, HeaderLines.of(), Buffer.alloc(32 * 1024 * 1024))
    t.equal(server.figures.active, 0)
    await eventually(() => server.figures.connections.http1 + server.figures.connections.http2 === 0)
  })
}

t.test('an answer on HTTP/1.0, which ends with the connection, is reset when it is cut', async (t) => {
  const { url, next } = await heldServer(t)
  const raw = await connect(t, url)
  raw.write('GET / HTTP/1.0\r\n\r\n')
  const { client } = await next()
  client.head(200, HeaderLines.of())
  client.write(Buffer.from('some'))
  await eventually(() => raw.received > 0)
  client.cut()
  t.equal(await raw.closed, 'reset')
})

t.test('an answer on HTTP/1.0 whose end is not taken is reset as well', async (t) => {
  const { url, next, server } = await heldServer(t, { limits: { clientStall: 200 } })
  const raw = await connect(t, url)
  raw.stopReading().write('GET / HTTP/1.0\r\n\r\n')
  const { client } = await next()
  client.head(200, HeaderLines.of())
  client.end(Buffer.alloc(32 * 1024 * 1024))
  await eventually(() => server.figures.connections.http1 === 0)
  raw.resume()
  t.equal(await raw.closed, 'reset')
})

t.test('an answer on HTTP/1.0 is reset when its client closes its side before the end', async (t) => {
  const { port, next } = await heldServer(t)
  const socket = dial({ port, host: '127.0.0.1', allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  socket.write('GET / HTTP/1.0\r\n\r\n')
  const { client } = await next()
  client.head(200, HeaderLines.of())
  client.write(Buffer.from('some'))
  await once(socket, 'data')
  const left = gone(client)
  socket.end()
  const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException]
  t.equal(error.code, 'ECONNRESET')
  await left
})
