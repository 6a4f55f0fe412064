// Requests whose body is not read to its end, or breaks, or comes in masses: what becomes of the answer and of the
// connection.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { constants } from 'node:http2'
import { connect as dial } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Incoming } from '../../../core/clients/client.ts'
import { HeaderLines } from '../../../core/wire/response-head.ts'
import { connect } from '../../kit/client.ts'
import { askHttp2, openSession, readHttp2 } from '../../kit/http2.ts'
import { eventually, stopwatch } from '../../kit/probe.ts'
import { gather, heldServer, runServer, taste } from '../../kit/server.ts'

t.test('requests that are answered before their body was read', async (t) => {
  const refuse = ({ client }: Incoming): void => client.reply(401, HeaderLines.of('x-a', 'b'), Buffer.from('refused'))

  t.test('a small body is read over and the connection kept', async (t) => {
    const { url, next } = await heldServer(t)
    const client = await connect(t, url)
    client.write('POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nGET /smugg')
    refuse(await next())
    const reply = await client.reply(0)
    t.match(reply, { status: 401, text: 'refused' })
    t.equal(reply.headers['connection'], 'keep-alive')
    client.write('led HTTP/1')
    // Longer than the rest of a body is waited for.
    await sleep(2500)
    client.send({ path: '/2' })
    const second = await next()
    t.equal(second.target, '/2')
    refuse(second)
    t.equal((await client.reply(1)).status, 401)
  })

  t.test('one that does not come is not waited for', async (t) => {
    const { url, next } = await heldServer(t)
    const client = await connect(t, url)
    client.write('POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nGET')
    refuse(await next())
    t.equal((await client.reply()).status, 401)
    const began = stopwatch()
    await client.closed
    t.ok(began.ms < 4000)
  })

  t.test(
    'after a large or endless one the client gets its answer while it still sends, and the connection is closed',
    async (t) => {
      const piece = `10000\r\n${'x'.repeat(65_536)}\r\n`
      await Promise.all(
        ['Content-Length: 100000000', 'Transfer-Encoding: chunked'].map(async (framing) => {
          const { url, next } = await heldServer(t)
          const client = await connect(t, url)
          client.write(`POST /1 HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\n${piece}`)
          const incoming = await next()
          const sending = setInterval(() => client.write(piece), 2)
          await sleep(20)
          refuse(incoming)
          const reply = await client.reply()
          t.match(reply, { status: 401, text: 'refused', complete: true }, framing)
          t.equal(reply.headers['connection'], 'close')
          await client.closed
          clearInterval(sending)
        })
      )
    }
  )

  t.test('one that sends without end is held back, and closed in the end', async (t) => {
    const { port, next } = await heldServer(t)
    const socket = dial({ port, host: '127.0.0.1', allowHalfOpen: true })
    t.teardown(() => socket.destroy())
    socket.write('POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000000\r\n\r\n')
    const piece = Buffer.alloc(1024 * 1024)
    let sent = 0
    const send = (): void => {
      do sent += piece.length
      while (socket.write(piece))
    }
    socket.on('drain', send)
    send()
    refuse(await next())
    const began = performance.now()
    const watch = stopwatch()
    let text = ''
    socket.on('data', (bytes) => (text += bytes.toString()))
    await once(socket, 'end')
    t.match(text, /^HTTP\/1\.1 401 [^]*refused$/)
    await new Promise((resolve) => socket.on('error', () => {}).once('close', resolve))
    const took = performance.now() - began
    t.ok(took > 2000 && watch.ms < 10_000, `${took} ms`)
    t.ok(sent < 300 * piece.length, `${sent / piece.length} MiB were taken`)
  })

  t.test('a body read in part and then left alone is treated the same', async (t) => {
    const { url, next } = await heldServer(t)
    const client = await connect(t, url)
    client.write(`POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 30000\r\n\r\n${'x'.repeat(10_000)}`)
    const incoming = await next()
    t.ok((await taste(incoming.body)).length > 0)
    incoming.client.reply(413, HeaderLines.of(), Buffer.from('too large'))
    t.equal((await client.reply(0)).status, 413)
    client.write('x'.repeat(20_000)).send({ path: '/2' })
    refuse(await next())
    t.equal((await client.reply(1)).status, 401)
  })

  t.test('on HTTP/2 the rest is declined and the session goes on', async (t) => {
    const { url, next } = await heldServer(t)
    const client = openSession(t, url)
    const big = Buffer.alloc(1_000_000, 'y')
    for (const how of ['unread', 'read in part']) {
      const stream = client.request({ ':path': '/1', ':method': 'POST' })
      stream.on('error', () => {})
      const sending = setInterval(() => stream.writable && stream.write(Buffer.alloc(64 * 1024)), 2)
      const incoming = await next()
      if (how === 'read in part') await taste(incoming.body)
      await sleep(30)
      incoming.client.reply(413, HeaderLines.of(), big)
      const { headers, body } = await readHttp2(stream)
      clearInterval(sending)
      t.equal(headers[':status'], 413)
      t.ok(big.equals(body), how)
    }
    const after = client.request({ ':path': '/2' })
    refuse(await next())
    t.equal((await readHttp2(after)).body.toString(), 'refused')
  })
})

t.test('a body that breaks while it is read ends the request with 400, and its handler hears of it', async (t) => {
  const { server, url, next } = await heldServer(t)
  const raw = await connect(t, url)
  raw.write('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n')
  const { client, body } = await next()
  let lost = 0
  body.receive({ data: () => {}, end: () => t.fail(), lost: () => lost++ })
  const told = new Promise<void>((resolve) => (client.onGone = resolve))
  raw.write('nonsense\r\n')
  await told
  await eventually(() => lost === 1)
  t.equal(server.figures.active, 0)
  client.reply(200, HeaderLines.of(), Buffer.from('never'))
  const reply = await raw.reply()
  t.equal(reply.status, 400)
  t.equal(reply.headers['connection'], 'close')
  await raw.closed
  t.equal(raw.replies.length, 1)
})

t.test('a body that breaks when its answer has begun cuts the answer, and nothing is said within it', async (t) => {
  const { server, url, next } = await heldServer(t)
  const raw = await connect(t, url)
  raw.write('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n')
  const { client, body } = await next()
  body.receive({ data: () => {}, end: () => t.fail(), lost: () => {} })
  client.head(200, HeaderLines.of())
  client.write(Buffer.from('some'))
  await raw.body('some')
  raw.write('nonsense\r\n')
  t.equal(await raw.closed, 'reset')
  t.match(raw.replies, [{ status: 200, text: 'some', complete: false }])
  t.equal(server.figures.active, 0)
})

t.test('a whole upload arrives on HTTP/2 however large', async (t) => {
  const body = randomBytes(8 * 1024 * 1024)
  const { url } = await runServer(t, ({ client, body: source }) => {
    gather(source, (bytes) => client.reply(200, HeaderLines.of(), Buffer.from(String(bytes.equals(body)))))
  })
  const stream = openSession(t, url).request({ ':path': '/', ':method': 'POST' })
  stream.end(body)
  t.equal((await readHttp2(stream)).body.toString(), 'true')
})

t.test('a session that opens and resets streams without end is closed', async (t) => {
  const { server, url } = await runServer(t, ({ client }) => void (client.onGone = () => {}))
  const client = openSession(t, url)
  let goaway = 0
  client.on('goaway', (code) => (goaway = code))
  const closed = new Promise<void>((resolve) => client.on('close', resolve))
  for (let i = 0; i < 2000 && !client.destroyed; i++) {
    const stream = client.request({ ':path': '/' })
    stream.on('error', () => {})
    stream.close(constants.NGHTTP2_CANCEL)
    if (i % 50 === 0) await sleep(1)
  }
  await closed
  t.not(goaway, 0)
  await eventually(() => server.figures.active === 0 && server.figures.connections.http2 === 0)
})

t.test('streams above the rate of a session are refused unseen, and the session goes on', async (t) => {
  let seen = 0
  const { url } = await runServer(
    t,
    ({ client }) => {
      seen++
      client.reply(200, HeaderLines.of(), Buffer.from('ok'))
    },
    { streamsPerSecond: 5 }
  )
  const client = openSession(t, url)
  const codes: number[] = []
  for (let i = 0; i < 20; i++) {
    const stream = client.request({ ':path': '/' })
    stream.on('error', () => {}).resume()
    await new Promise<void>((resolve) => stream.on('close', resolve))
    codes.push(stream.rstCode)
  }
  t.ok(codes.filter((code) => code === constants.NGHTTP2_REFUSED_STREAM).length >= 10, String(codes))
  t.equal(seen, codes.filter((code) => code === 0).length)
  await sleep(1000)
  t.equal((await askHttp2(client, { ':path': '/' })).text, 'ok')
})
