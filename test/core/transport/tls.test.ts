// The transport over TLS: whom it trusts, what it says in the handshake, and that answers are as whole as without.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer, getCACertificates, setDefaultCACertificates } from 'node:tls'
import type { TLSSocket } from 'node:tls'
import t from 'tap'
import type { Test } from 'tap'
import { Http1Transport } from '../../../core/transport/http1-transport.ts'
import { makeCertificate } from '../../kit/certificate.ts'
import type { Certificate } from '../../kit/certificate.ts'
import { eventually, heldBytes } from '../../kit/probe.ts'
import { ask, channelOf, Recorder } from './recorder.ts'

const MiB = 1024 * 1024
const trusted = makeCertificate(t)
setDefaultCACertificates([...getCACertificates('default'), trusted.ca])

/** A TLS server that does the same with every request, and what it has seen. */
async function upstreamOf(t: Test, certificate: Certificate, answer: (socket: TLSSocket) => void, address = '127.0.0.1') {
  const seen = { port: 0, requests: 0, bytes: 0, sockets: [] as TLSSocket[], resumed: [] as boolean[], names: [] as unknown[], protocols: [] as unknown[] }
  const server = createServer({ cert: readFileSync(certificate.cert), key: readFileSync(certificate.key), ALPNProtocols: ['h2', 'http/1.1'] }, (socket) => {
    seen.sockets.push(socket.on('error', () => {}))
    seen.resumed.push(socket.isSessionReused())
    seen.names.push(socket.servername)
    seen.protocols.push(socket.alpnProtocol)
    socket.on('data', (data: Buffer) => {
      seen.bytes += data.length
      if (!data.includes('\r\n\r\n')) return
      seen.requests++
      answer(socket)
    })
  }).on('tlsClientError', () => {})
  await once(server.listen(0, address), 'listening')
  seen.port = (server.address() as AddressInfo).port
  const transport = new Http1Transport()
  t.teardown(async () => {
    await transport.close()
    if (transport.connections !== 0) throw new Error(`${transport.connections} connections are left`)
    for (const socket of seen.sockets) socket.destroy()
    server.close()
  })
  return { transport, seen, at: (host: string) => channelOf(new URL(`https://${host}:${seen.port}/v1`)) }
}

const hello = (socket: TLSSocket): unknown => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello')

t.test('a trusted upstream is spoken to in HTTP/1.1, by its name, over a connection that is used again', async (t) => {
  const { transport, seen, at } = await upstreamOf(t, trusted, hello)
  for (const host of ['localhost', '127.0.0.1']) {
    for (let n = 0; n < 3; n++) {
      t.match(await ask(transport, at(host)).over, { status: 200, body: 'hello', error: undefined, heard: ['head', 'data', 'end'] }, host)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  t.match(seen, { requests: 6, sockets: { length: 2 }, names: ['localhost', false], protocols: ['http/1.1', 'http/1.1'] })
})

t.test('a second connection resumes the session of the first', async (t) => {
  const { transport, seen, at } = await upstreamOf(t, trusted, (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello'))
  for (let n = 0; n < 3; n++) t.equal((await ask(transport, at('localhost')).over).body, 'hello')
  t.strictSame(seen.resumed, [false, true, true])
})

t.test('an upstream that nobody vouches for, or with the name of another, is told nothing', async (t) => {
  const stranger = await upstreamOf(t, makeCertificate(t), hello)
  const other = await upstreamOf(t, trusted, hello, '127.0.0.2')
  for (const [{ transport, seen, at }, host, code] of [
    [stranger, 'localhost', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    [other, '127.0.0.2', 'ERR_TLS_CERT_ALTNAME_INVALID']
  ] as const) {
    const { error, heard } = await ask(transport, at(host)).over
    t.strictSame(heard, ['error'])
    t.match(error, { code: 'upstream_connection_failed', message: 'The upstream could not be reached or closed the connection.' })
    t.equal((error!.details.cause as NodeJS.ErrnoException).code, code)
    t.equal(seen.bytes, 0, host)
  }
})

t.test('32 MiB arrive whole, and not faster than they are taken', async (t) => {
  const piece = Buffer.from(Array.from({ length: 64 * 1024 }, (_, i) => (i * 7) % 251))
  let written = 0
  const { transport, at } = await upstreamOf(t, trusted, async (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${32 * MiB}\r\n\r\n`)
    for (; written < 32 * MiB; written += piece.length) if (!socket.write(piece)) await once(socket, 'drain')
  })
  let received = 0
  let late = 0
  let paused = false
  const recorder = ask(transport, at('localhost'), {}, new Recorder((what, { call, chunks }) => {
    if (what !== 'data') return
    const [data] = chunks.splice(0)
    for (let i = 0; i < data!.length; i += 997) if (data![i] !== piece[(received + i) % piece.length]) throw new Error(`byte ${received + i} is wrong`)
    if (paused) late += data!.length
    else if (received < MiB && received + data!.length >= MiB) {
      paused = true
      call.pause()
    }
    received += data!.length
  }))
  await eventually(() => paused)
  const memory = heldBytes()
  await new Promise((resolve) => setTimeout(resolve, 200))
  t.ok(late <= 64 * 1024, `${late} bytes after the pause`)
  t.ok(heldBytes() - memory < 2 * MiB)
  t.ok(written < 24 * MiB, `${written} written`)
  paused = false
  recorder.call.resume()
  t.match(await recorder.over, { error: undefined })
  t.equal(received, 32 * MiB)
})

t.test('a lost connection is an error, the end of a body without a length is its end', async (t) => {
  let answer: (socket: TLSSocket) => unknown = hello
  const { transport, seen, at } = await upstreamOf(t, trusted, (socket) => void answer(socket))
  for (const [text, code] of [
    ['HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello', 'upstream_stream_interrupted'],
    ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n', 'upstream_stream_interrupted'],
    ['', 'upstream_connection_failed'],
    ['HTTP/1.1 200 OK\r\n\r\nhello', undefined]
  ] as const) {
    answer = (socket) => socket.end(text)
    const { error, body } = await ask(transport, at('localhost')).over
    t.equal(error?.code, code, text)
    t.equal(body, text && 'hello')
  }
  answer = () => {}
  const call = ask(transport, at('localhost'))
  await eventually(() => seen.requests === 5)
  call.call.abort()
  await eventually(() => transport.connections === 0)
  t.strictSame(call.heard, [])
})
