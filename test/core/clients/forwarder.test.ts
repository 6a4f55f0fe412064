// What still comes on open connections when another process has taken the place of theirs: two servers, the old one and
// the next.
import { once } from 'node:events'
import type { ClientHttp2Session } from 'node:http2'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect as dial } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import type { Client } from '../../../core/clients/client.ts'
import { HeaderLines } from '../../../core/wire/response-head.ts'
import { connect } from '../../kit/client.ts'
import { askHttp2, openSession, readHttp2 } from '../../kit/http2.ts'
import { eventually } from '../../kit/probe.ts'
import { echo, heldServer } from '../../kit/server.ts'
import type { RunOptions } from '../../kit/server.ts'

type Held = Awaited<ReturnType<typeof heldServer>>

/** A path that is short enough for a socket. */
function innerPath(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  return join(folder, 'connections')
}

/**
 * An old server, and the next one. `leave` lets the old one pass on what comes from then on, and `gone` tells the next
 * one that it is gone.
 */
async function pair(
  t: Test,
  options: RunOptions = {}
): Promise<{ old: Held; next: Held & { gone(): void }; leave(): Promise<void> }> {
  const [old, next] = [await heldServer(t, options), await heldServer(t, options)]
  const path = innerPath(t)
  const { promise, resolve: gone } = Promise.withResolvers<void>()
  const leave = async (): Promise<void> => {
    await next.server.takeFrom(path, promise)
    old.server.leaveTo(path)
  }
  return { old, next: { ...next, gone }, leave }
}

const post = { ':method': 'POST', ':path': '/' }

/** A session that the old server has seen. */
async function opened(t: Test, { url }: Held): Promise<ClientHttp2Session> {
  const session = openSession(t, url)
  await once(session, 'remoteSettings')
  return session
}

/** Begins an answer of unknown length. */
function begin(client: Client, text: string): void {
  client.head(200, HeaderLines.of())
  client.write(Buffer.from(text))
}

t.test('requests on open connections of each version are answered by the next server', async (t) => {
  const { old, next, leave } = await pair(t)
  const session = await opened(t, old)
  const kept = await connect(t, old.url)
  const ask = kept.send({ path: '/', headers: {} })
  const [first, second] = [askHttp2(session, post, 'one'), ask.reply()]
  for (const incoming of [await old.next(), await old.next()]) echo(incoming)
  t.equal((await first).json().body, 'one')
  t.equal((await second).status, 200)
  await leave()
  const [third, fourth] = [askHttp2(session, post, 'two'), kept.send({ path: '/', body: 'three' }).reply(1)]
  for (const incoming of [await next.next(), await next.next()]) echo(incoming)
  t.match((await third).json(), { body: 'two', httpVersion: '2.0', remoteAddress: '127.0.0.1' })
  const last = await fourth
  t.match(last.json(), { body: 'three', httpVersion: '1.1', remoteAddress: '127.0.0.1' })
  t.equal(last.headers['connection'], 'close')
  t.equal(await kept.closed, 'fin')
})

t.test('an answer that the next server cuts looks cut', async (t) => {
  const { old, next, leave } = await pair(t)
  const session = await opened(t, old)
  const raws = await Promise.all(['1.0', '1.1'].map(async (version) => ({ version, raw: await connect(t, old.url) })))
  await eventually(() => old.server.figures.connections.undecided === 2)
  await leave()
  for (const { version, raw } of raws) {
    raw.write(`GET / HTTP/${version}\r\nHost: a\r\n\r\n`)
    const { client } = await next.next()
    begin(client, 'some')
    await eventually(() => raw.received > 0)
    client.cut()
    t.equal(await raw.closed, 'reset', version)
  }
  const stream = session.request(post)
  stream.end()
  const { client } = await next.next()
  begin(client, 'some')
  let text = ''
  stream.on('data', (piece: Buffer) => (text += piece.toString()))
  await once(stream, 'data')
  const last = 'x'.repeat(50_000)
  client.cut(Buffer.from(last))
  t.match(await once(stream, 'error'), [{ code: 'ERR_HTTP2_STREAM_ERROR' }])
  t.equal(text, `some${last}`, 'after what was said last')
})

t.test('an answer whose server goes away looks cut', async (t) => {
  const { old, next, leave } = await pair(t)
  const session = await opened(t, old)
  const raw = await connect(t, old.url)
  await eventually(() => old.server.figures.connections.undecided === 1)
  await leave()
  raw.write('GET / HTTP/1.0\r\n\r\n')
  begin((await next.next()).client, 'some')
  const stream = session.request(post)
  stream.end()
  const error = once(stream, 'error')
  await next.next()
  await next.server.close()
  t.equal(await raw.closed, 'reset')
  t.match(await error, [{ code: 'ERR_HTTP2_STREAM_ERROR' }])
})

t.test('a body that the next server does not want does not stay', async (t) => {
  const { old, next, leave } = await pair(t)
  const session = await opened(t, old)
  await leave()
  const stream = session.request(post)
  stream.on('error', () => {})
  stream.write(Buffer.alloc(1024))
  const closed = once(stream, 'close')
  ;(await next.next()).client.reply(413, HeaderLines.of(), Buffer.from('too much'))
  t.equal((await readHttp2(stream)).text, 'too much')
  await closed
  t.equal(old.server.figures.active, 0)
})

t.test('a session to the next server is not idle while its client has one', async (t) => {
  const { old, next, leave } = await pair(t, { limits: { keepAlive: 300 } })
  const session = await opened(t, old)
  const open = session.request(post)
  open.end()
  const { client } = await old.next()
  await leave()
  const passed = async (text: string): Promise<void> => {
    const asked = askHttp2(session, post, text)
    echo(await next.next())
    t.equal((await asked).json().body, text)
  }
  await passed('one')
  await sleep(600)
  t.equal(next.server.figures.connections.http2, 1)
  await passed('two')
  client.reply(204, HeaderLines.of(), Buffer.alloc(0))
  await readHttp2(open)
})

t.test('draining', async (t) => {
  t.test('gives what was passed on as much time again', async (t) => {
    let asked = 0
    const { old, next, leave } = await pair(t, { onDrainTimeout: () => asked++ })
    const session = await opened(t, old)
    const raw = await connect(t, old.url)
    await eventually(() => old.server.figures.connections.undecided === 1)
    await leave()
    const [two, one] = [askHttp2(session, post, ''), raw.send({ path: '/' }).reply()]
    const answers = [await next.next(), await next.next()]
    const drained = old.server.drain(4000, true)
    for (const { client } of answers) begin(client, 'begun')
    // More than the grace of those that are told to end.
    await eventually(() => asked === 1, 30_000)
    await sleep(2000)
    for (const { client } of answers) client.end(Buffer.from(', ended'))
    t.equal((await two).text, 'begun, ended')
    t.match(await one, { text: 'begun, ended', complete: true })
    t.same(await drained, { cut: 0 })
  })

  t.test('ends what was passed on and does not end after that', async (t) => {
    const { old, next, leave } = await pair(t)
    const raw = await connect(t, old.url)
    await eventually(() => old.server.figures.connections.undecided === 1)
    await leave()
    raw.send({ path: '/' })
    const { client } = await next.next()
    const drained = old.server.drain(300, true)
    begin(client, 'begun')
    t.same(await drained, { cut: 1 })
    await raw.closed
    t.equal(raw.replies[0]?.complete, false)
  })

  t.test('keeps the way for processes before until these are gone', async (t) => {
    const { old, next, leave } = await pair(t)
    const kept = await connect(t, old.url)
    await eventually(() => old.server.figures.connections.undecided === 1)
    await leave()
    // The next one leaves too, and has no connections.
    const last = await heldServer(t)
    const path = innerPath(t)
    await last.server.takeFrom(path, new Promise(() => {}))
    next.server.leaveTo(path)
    const drained = next.server.drain(20_000, true)
    await sleep(100)
    const asked = kept.send({ path: '/' }).reply()
    echo(await last.next())
    t.equal((await asked).json().remoteAddress, '127.0.0.1')
    next.gone()
    t.same(await drained, { cut: 0 })
  })
})

t.test('a client of HTTP/2 that is slow to read its last answer gets it whole', async (t) => {
  const { server, url, next } = await heldServer(t)
  const socket = dial({ port: Number(new URL(url).port), host: '127.0.0.1' })
  const through = new Duplex({
    read: () => {},
    write: (bytes: Buffer, _encoding, done) => void socket.write(bytes, done),
    final: (done) => void socket.end(done),
    destroy: (error, done) => {
      socket.destroy()
      done(error)
    }
  })
  socket.on('data', (bytes: Buffer) => through.push(bytes))
  socket.on('end', () => through.push(null))
  socket.on('error', (error) => through.destroy(error))
  const session = openSession(t, url, {
    createConnection: () => through,
    settings: { initialWindowSize: 8 * 1024 * 1024 }
  })
  await once(session, 'remoteSettings')
  session.setLocalWindowSize(8 * 1024 * 1024)
  const asked = askHttp2(session, post, '')
  asked.catch(() => {})
  const { client } = await next()
  socket.pause()
  const big = Buffer.alloc(1024 * 1024, 'x')
  client.reply(200, HeaderLines.of(), big)
  const drained = server.drain(60_000)
  // Longer than a connection lingers that nobody reads from.
  await sleep(3000)
  session.ping(() => {})
  socket.resume()
  t.equal((await asked).body.length, big.length)
  t.same(await drained, { cut: 0 })
})
