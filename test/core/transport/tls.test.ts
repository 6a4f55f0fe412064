// The transport over TLS: whom it trusts, what it says in the handshake, and that answers are as whole as without.
// Runs alone: it measures the memory of its process.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer, getCACertificates, setDefaultCACertificates } from 'node:tls'
import type { TlsOptions, TLSSocket } from 'node:tls'
import t from 'tap'
import type { Test } from 'tap'
import type { ChannelTls } from '../../../core/catalogue/catalogue.ts'
import { Http1Transport } from '../../../core/transport/http1/transport.ts'
import { makeCertificate } from '../../kit/certificate.ts'
import type { Certificate } from '../../kit/certificate.ts'
import { eventually, heldBytes } from '../../kit/probe.ts'
import { ask, channelOf, Recorder } from './recorder.ts'

const MiB = 1024 * 1024
const trusted = makeCertificate(t)
setDefaultCACertificates([...getCACertificates('default'), trusted.ca])

/** A TLS server that does the same with every request, and what it has seen. */
async function upstreamOf(
  t: Test,
  certificate: Certificate,
  answer: (socket: TLSSocket) => void,
  address = '127.0.0.1',
  options: TlsOptions = {}
) {
  const seen = {
    port: 0,
    requests: 0,
    bytes: 0,
    sockets: [] as TLSSocket[],
    resumed: [] as boolean[],
    names: [] as unknown[],
    protocols: [] as unknown[]
  }
  const server = createServer({ ...certificate.pem, ALPNProtocols: ['h2', 'http/1.1'], ...options }, (socket) => {
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
  return {
    transport,
    seen,
    server,
    at: (host: string, tls?: Partial<ChannelTls>) =>
      channelOf(
        new URL(`https://${host}:${seen.port}/v1`),
        tls && { tls: { ca: undefined, identity: undefined, serverName: undefined, verify: true, ...tls } }
      )
  }
}

const hello = (socket: TLSSocket): unknown => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello')

t.test('a trusted upstream is spoken to in HTTP/1.1, by its name, over a connection that is used again', async (t) => {
  const { transport, seen, at } = await upstreamOf(t, trusted, hello)
  for (const host of ['localhost', '127.0.0.1']) {
    for (let n = 0; n < 3; n++) {
      t.match(
        await ask(transport, at(host)).over,
        { status: 200, body: 'hello', error: undefined, heard: ['head', 'data', 'end'] },
        host
      )
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  t.match(seen, {
    requests: 6,
    sockets: { length: 2 },
    names: ['localhost', false],
    protocols: ['http/1.1', 'http/1.1']
  })
})

t.test('a second connection resumes the session of the first', async (t) => {
  const { transport, seen, at } = await upstreamOf(t, trusted, (socket) =>
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello')
  )
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
    t.match(error, {
      code: 'upstream_connection_failed',
      message: 'The upstream could not be reached or closed the connection.'
    })
    t.equal((error!.details.cause as NodeJS.ErrnoException).code, code)
    t.equal(seen.bytes, 0, host)
  }
})

t.test('a channel says whom it trusts, under which name, and whether at all', async (t) => {
  const stranger = makeCertificate(t, 'inside.example')
  const { transport, seen, at } = await upstreamOf(t, stranger, hello)
  const outcome = async (tls: Partial<ChannelTls>): Promise<unknown> => {
    const { body, error } = await ask(transport, at('127.0.0.1', tls)).over
    return error ? (error.details.cause as NodeJS.ErrnoException).code : body
  }
  t.equal(await outcome({}), 'DEPTH_ZERO_SELF_SIGNED_CERT')
  t.equal(await outcome({ ca: stranger.ca }), 'ERR_TLS_CERT_ALTNAME_INVALID')
  t.equal(await outcome({ ca: stranger.ca, serverName: 'other.example' }), 'ERR_TLS_CERT_ALTNAME_INVALID')
  t.equal(await outcome({ ca: trusted.ca, serverName: 'inside.example' }), 'DEPTH_ZERO_SELF_SIGNED_CERT')
  t.equal(seen.bytes, 0)
  t.equal(await outcome({ ca: stranger.ca, serverName: 'inside.example' }), 'hello')
  t.equal(seen.names.at(-1), 'inside.example')
  t.equal(await outcome({ verify: false }), 'hello')
  const { transport: another, at: known } = await upstreamOf(t, trusted, hello)
  const { error } = await ask(another, known('localhost', { ca: stranger.ca })).over
  t.match(
    error,
    { details: { cause: { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' } } },
    'its own authorities stand instead of the public ones'
  )
})

t.test('an upstream that wants to know who asks is shown the certificate of the channel', async (t) => {
  const [client, stranger] = [makeCertificate(t, 'client.example'), makeCertificate(t, 'stranger.example')]
  const { transport, seen, at } = await upstreamOf(t, trusted, hello, '127.0.0.1', {
    requestCert: true,
    ca: [client.ca]
  })
  t.equal((await ask(transport, at('localhost', { identity: client.pem })).over).body, 'hello')
  t.equal(seen.sockets.at(-1)!.getPeerCertificate().subject.CN, 'client.example')
  for (const tls of [{}, { identity: stranger.pem }]) {
    t.match(await ask(transport, at('localhost', tls)).over, {
      status: 0,
      error: { code: 'upstream_connection_failed' }
    })
  }
  t.equal(seen.requests, 1)
})

t.test(
  'what is new goes by the new certificates, and connections with the old ones end when nobody uses them',
  async (t) => {
    const [before, after] = [makeCertificate(t), makeCertificate(t)]
    let answer: (socket: TLSSocket) => unknown = hello
    const { transport, seen, server, at } = await upstreamOf(t, before, (socket) => void answer(socket))
    const [old, same, renewed] = [
      at('localhost', { ca: before.ca }),
      at('localhost', { ca: before.ca }),
      at('localhost', { ca: after.ca })
    ]
    const drop = await transport.use([old])
    t.equal((await ask(transport, old).over).body, 'hello')
    const keep = await transport.use([same])
    drop()
    await new Promise((resolve) => setTimeout(resolve, 10))
    t.equal((await ask(transport, same).over).body, 'hello')
    t.equal(seen.sockets.length, 1, 'one that has the same certificates uses the connection again')
    answer = (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello')
    const running = ask(transport, same)
    await eventually(() => running.heard.includes('data'))
    answer = hello
    server.setSecureContext(after.pem)
    const use = await transport.use([renewed])
    keep()
    t.equal((await ask(transport, renewed).over).body, 'hello')
    t.equal(transport.connections, 2)
    seen.sockets.at(-2)!.write('again')
    t.equal((await running.over).body, 'helloagain', 'an answer that had begun ends as it would have')
    await eventually(() => transport.connections === 1)
    t.match(await ask(transport, same).over, { error: { details: { cause: { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' } } } })
    use()
    await eventually(() => transport.connections === 0)
  }
)

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
  const recorder = ask(
    transport,
    at('localhost'),
    {},
    new Recorder((what, { call, chunks }) => {
      if (what !== 'data') return
      const [data] = chunks.splice(0)
      for (let i = 0; i < data!.length; i += 997)
        if (data![i] !== piece[(received + i) % piece.length]) throw new Error(`byte ${received + i} is wrong`)
      if (paused) late += data!.length
      else if (received < MiB && received + data!.length >= MiB) {
        paused = true
        call.pause()
      }
      received += data!.length
    })
  )
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
