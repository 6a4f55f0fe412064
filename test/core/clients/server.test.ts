// The server's port: protocols, the order of answers, upgrades, TLS, and what keeps it from listening.
import { once } from 'node:events'
import type { OutgoingHttpHeaders } from 'node:http2'
import { connect as dial, createServer as createNetServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as dialTls } from 'node:tls'
import t from 'tap'
import type { Test } from 'tap'
import { Agent, request } from 'undici'
import type { Client, Incoming } from '../../../core/clients/client.ts'
import { refuse } from '../../../core/clients/refusal.ts'
import { GatewayError } from '../../../core/errors.ts'
import { HeaderLines } from '../../../core/wire/response-head.ts'
import { Server } from '../../../core/clients/server.ts'
import { OwnAllowance } from '../../../core/allowance.ts'
import { makeCertificate } from '../../kit/certificate.ts'
import { ask, connect } from '../../kit/client.ts'
import { askHttp2, openSession, readHttp2 } from '../../kit/http2.ts'
import { eventually, stopwatch } from '../../kit/probe.ts'
import { echo, gather, runServer } from '../../kit/server.ts'

/** Collects what a socket hears until it closes. */
function listenTo(socket: Socket): { heard: string; closed: Promise<string> } {
  const ear = { heard: '', closed: new Promise<string>((resolve) => socket.once('close', () => resolve(ear.heard))) }
  socket.on('data', (bytes: Buffer) => (ear.heard += bytes.toString('latin1')))
  socket.on('error', () => {})
  return ear
}

t.test('one port serves HTTP/1.1, HTTP/1.0 and HTTP/2 in clear text', async (t) => {
  const { server, url, port } = await runServer(t, echo)
  const one = (await ask(t, url, { path: '/a?b=c', headers: { 'X-Own': 'yes' }, body: { x: 1 } })).json()
  t.match(one, { method: 'POST', target: '/a?b=c', httpVersion: '1.1', remoteAddress: '127.0.0.1', body: '{"x":1}' })
  t.equal(one.headers['x-own'], 'yes')
  const two = await askHttp2(openSession(t, url), { ':method': 'POST', ':path': '/a?b=c', 'x-own': 'yes' }, '{"x":2}')
  t.equal(two.headers[':status'], 200)
  t.equal(two.headers['content-length'], String(two.text.length))
  t.match(two.json(), {
    method: 'POST',
    target: '/a?b=c',
    httpVersion: '2.0',
    remoteAddress: '127.0.0.1',
    body: '{"x":2}'
  })
  t.match(two.json().headers, { 'x-own': 'yes', host: `localhost:${port}` })
  const socket = dial({ port, host: '127.0.0.1' })
  const old = listenTo(socket)
  socket.write('GET /old HTTP/1.0\r\n\r\n')
  t.match(await old.closed, /\r\nConnection: close\r\n[^]*"httpVersion":"1.0"/)
  t.match(server.figures, {
    connections: { http2: 1, undecided: 0 },
    active: 0,
    refusedConnections: 0,
    refusedRequests: 0
  })
})

/** Passes on what clients send, the first bytes one by one, each in a segment of its own. */
async function slowly(t: Test, port: number, bytes: number): Promise<string> {
  const proxy = createNetServer({ noDelay: true }, (client) => {
    const server = dial({ port, host: '127.0.0.1', noDelay: true })
    client.on('error', () => {})
    server.on('error', () => {}).pipe(client)
    let left = bytes
    void (async () => {
      for await (const chunk of client as AsyncIterable<Buffer>) {
        const single = Math.min(left, chunk.length)
        for (let at = 0; at < single; at++) {
          server.write(chunk.subarray(at, at + 1))
          await sleep(1)
        }
        left -= single
        server.write(chunk.subarray(single))
      }
      server.end()
    })().catch(() => server.destroy())
  })
  t.teardown(() => proxy.close())
  await once(proxy.listen(0, '127.0.0.1'), 'listening')
  return `http://localhost:${(proxy.address() as AddressInfo).port}`
}

t.test('a beginning that arrives byte by byte is told apart all the same', async (t) => {
  const { port } = await runServer(t, echo)
  const url = await slowly(t, port, 40)
  t.equal((await askHttp2(openSession(t, url), { ':path': '/slow2' })).json().target, '/slow2')
  for (const method of ['POST', 'PUT', 'PATCH', 'PROPFIND', 'GET']) {
    const reply = await ask(t, url, { method, path: '/slow', body: 'x' })
    t.match(reply.json(), { method, target: '/slow', body: 'x' })
  }
  const neither = await connect(t, url)
  t.equal((await neither.write('PRX / HTTP/1.1\r\nHost: x\r\n\r\n').reply()).status, 400)
})

t.test('pipelined requests are answered in their order, also when a later one is ready first', async (t) => {
  const waiting: (() => void)[] = []
  const seen: string[] = []
  const { server, url } = await runServer(t, ({ client, target }) => {
    seen.push(target)
    if (target !== '/1') return client.reply(200, HeaderLines.of(), Buffer.from(target))
    client.head(200, HeaderLines.of())
    client.write(Buffer.from('begin '))
    waiting.push(() => client.end(Buffer.from('end')))
  })
  const client = await connect(t, url)
  client
    .send({ path: '/1' })
    .send({ path: '/2', body: { two: 2 } })
    .send({ path: '/3' })
  await client.body('begin')
  t.same(seen, ['/1'], 'one at a time')
  waiting[0]!()
  t.equal((await client.reply(0)).text, 'begin end')
  t.equal((await client.reply(1)).text, '/2')
  t.equal((await client.reply(2)).text, '/3')
  t.equal(server.figures.active, 0)
})

t.test('a client that leaves with requests waiting leaves nothing behind', async (t) => {
  const seen: string[] = []
  const running: Client[] = []
  const { server, url } = await runServer(t, ({ client, target }) => {
    seen.push(target)
    running.push(client)
  })
  const client = await connect(t, url)
  client.send({ path: '/1' }).send({ path: '/2' })
  await eventually(() => running.length === 1)
  const gone = new Promise<void>((resolve) => (running[0]!.onGone = resolve))
  client.reset()
  await gone
  await eventually(() => server.figures.connections.http1 === 0)
  t.same(seen, ['/1'])
  t.equal(server.figures.active, 0)
})

t.test(
  'requests that come without end behind an answer are not read, and all are answered when it is over',
  async (t) => {
    let first: Client | undefined
    let served = 0
    const { server, url } = await runServer(t, ({ client }) => {
      served++
      if (first) client.reply(204, HeaderLines.of(), Buffer.alloc(0))
      else first = client
    })
    const client = await connect(t, url)
    const many = 2000
    const all = `GET / HTTP/1.1\r\nHost: x\r\nX-Much: ${'x'.repeat(15_000)}\r\n\r\n`.repeat(many)
    client.write(all)
    await eventually(() => first !== undefined)
    await sleep(300)
    t.equal(served, 1)
    t.ok(client.socket.writableLength > 0, "the rest is the client's to keep")
    first!.reply(204, HeaderLines.of(), Buffer.alloc(0))
    await eventually(() => served === many, 20_000)
    await client.reply(many - 1)
    t.equal(server.figures.active, 0)
  }
)

t.test('a connection is used again after a streamed answer, an empty one and a refusal', async (t) => {
  const { server, url } = await runServer(t, ({ client, target, body }) => {
    if (target === '/early') return client.reply(401, HeaderLines.of(), Buffer.from('no'))
    gather(body, () => {
      if (target === '/whole') return client.reply(200, HeaderLines.of(), Buffer.from('whole'))
      client.head(target === '/none' ? 204 : 200, HeaderLines.of('content-type', 'text/event-stream'))
      client.write(Buffer.from('one '))
      client.write(Buffer.alloc(0))
      client.write(Buffer.from('two '))
      client.end(target === '/bare' ? undefined : Buffer.from('three'))
    })
  })
  const agent = new Agent({ connections: 1, pipelining: 1 })
  t.teardown(() => agent.destroy())
  let opened = 0
  agent.on('connect', () => opened++)
  const expected: Record<string, string> = {
    '/stream': 'one two three',
    '/bare': 'one two ',
    '/whole': 'whole',
    '/none': '',
    '/early': 'no'
  }
  for (let round = 0; round < 20; round++) {
    for (const [path, text] of Object.entries(expected)) {
      const reply = await request(url + path, { dispatcher: agent, method: 'POST', body: 'some body' })
      t.equal(await reply.body.text(), text)
    }
  }
  t.equal(opened, 1)
  t.equal(server.figures.connections.http1, 1)
})

t.test('HEAD gets the head that GET would have got, and the connection is used again', async (t) => {
  const { url } = await runServer(t, ({ client, target }) => {
    if (target === '/whole')
      return client.reply(200, HeaderLines.of('content-type', 'text/plain'), Buffer.from('whole'))
    client.head(200, HeaderLines.of('content-type', 'text/event-stream'))
    client.write(Buffer.from('one '))
    client.end(Buffer.from('two'))
  })
  const client = await connect(t, url)
  const ear = listenTo(client.socket)
  client.send({ method: 'HEAD', path: '/whole' }).send({ method: 'HEAD', path: '/stream' })
  client.send({ path: '/whole', headers: { connection: 'close' } })
  const [whole, stream, last, body] = (await ear.closed).split('\r\n\r\n')
  t.match(whole, /^HTTP\/1\.1 200 OK\r\n[^]*Content-Length: 5/)
  t.match(stream, /^HTTP\/1\.1 200 OK\r\n[^]*text\/event-stream/)
  t.match(last, /^HTTP\/1\.1 200 OK\r\n/)
  t.equal(body, 'whole')
  const http2 = openSession(t, url)
  for (const path of ['/whole', '/stream']) {
    const reply = await askHttp2(http2, { ':path': path, ':method': 'HEAD' })
    t.equal(reply.text, '')
    t.equal(reply.headers['content-length'], path === '/whole' ? '5' : undefined)
  }
})

t.test('repeated credentials are shown as they came', async (t) => {
  const { url } = await runServer(t, echo)
  const client = await connect(t, url)
  client.write(
    'GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nauthorization: Bearer b\r\nX-Api-Key: a\r\nx-api-key: b\r\nX-Goog-Api-Key: a\r\nContent-Type: a/b\r\nContent-Type: c/d\r\n\r\n'
  )
  t.match((await client.reply()).json().headers, {
    authorization: ['Bearer a', 'Bearer b'],
    'x-api-key': ['a', 'b'],
    'x-goog-api-key': 'a',
    'content-type': ['a/b', 'c/d']
  })
  // Node's client refuses to send some fields twice as an object, but not as a list.
  const stream = openSession(t, url).request([
    ':path',
    '/',
    ':method',
    'GET',
    'x-api-key',
    'a',
    'x-api-key',
    'b',
    'x-goog-api-key',
    'a'
  ] as never)
  t.match((await readHttp2(stream)).json(), { headers: { 'x-api-key': ['a', 'b'], 'x-goog-api-key': 'a' } })
})

t.test('broken requests on HTTP/2 are refused', async (t) => {
  const { server, url } = await runServer(t, echo)
  const client = openSession(t, url)
  const cases: [OutgoingHttpHeaders, number, string][] = [
    [{ ':path': '*', ':method': 'OPTIONS' }, 400, 'invalid_request'],
    [{ ':path': '/a#b' }, 400, 'invalid_request'],
    [{ ':path': '/', ':authority': 'a', host: 'b' }, 400, 'invalid_request'],
    [{ ':path': '/', ':authority': 'a,b' }, 400, 'invalid_request'],
    [{ ':method': 'CONNECT', ':authority': 'x:443' }, 405, 'method_not_allowed'],
    [
      { ':path': '/', ...Object.fromEntries(Array.from({ length: 98 }, (_, i) => [`x-${i}`, '1'])) },
      431,
      'invalid_request'
    ]
  ]
  for (const [headers, status, code] of cases) {
    const reply = await askHttp2(client, headers)
    t.equal(reply.headers[':status'], status, JSON.stringify(headers).slice(0, 100))
    t.match(reply.json(), { error: { type: 'invalid_request_error', code } })
    t.match(reply.headers['x-request-id'], /^[0-9a-f-]{36}$/)
  }
  t.equal(
    (await askHttp2(client, { ':path': '/', ':authority': 'A', host: 'a' })).headers[':status'],
    200,
    'the session lives on'
  )
  await t.rejects(askHttp2(client, { ':path': '/', 'x-long': 'a'.repeat(30_000) }), 'a head that is too large')
  await t.rejects(askHttp2(client, { ':path': '/', ':authority': 'a/b' }), 'what the protocol itself forbids')
  t.equal(server.figures.refusedRequests, cases.length)
})

t.test('a handler that fails answers 500 and harms nobody else', async (t) => {
  const { url, logged } = await runServer(t, ({ client, target }) => {
    if (target === '/late') client.head(200, HeaderLines.of())
    if (target !== '/well') throw new Error('a bug')
    client.reply(200, HeaderLines.of(), Buffer.from('well'))
  })
  const client = await connect(t, url)
  const failed = await client.send({ path: '/bad' }).reply(0)
  t.equal(failed.status, 500)
  t.match(failed.json(), { error: { type: 'api_error', code: 'internal_error' } })
  t.notMatch(failed.text, 'a bug')
  t.equal((await client.send({ path: '/well' }).reply(1)).text, 'well')
  client.send({ path: '/late' })
  await client.closed
  t.equal(client.replies.filter(({ complete }) => complete).length, 2)
  t.same(logged, ['a request could not be handled', 'a request could not be handled'])
})

t.test('WebSocket', async (t) => {
  const handshake = (path = '/v1/realtime'): string =>
    `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`

  /** Refuses `/none`, and else says everything twice. */
  const handle = ({ target, client, socket }: Incoming): void => {
    if (target === '/none') return refuse(client, new GatewayError('invalid_api_key', 'This key is not known.'))
    const open = socket!.accept(
      HeaderLines.of('x-own', 'yes'),
      socket!.subprotocols.find((name) => name === 'realtime'),
      1024
    )
    open.take({
      received: () => {},
      frame: (data, binary) => void open.send(Buffer.concat([data, data]), binary),
      drained: () => {},
      closed: () => {}
    })
  }
  const frame = (text: string): Buffer =>
    Buffer.concat([Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0]), Buffer.from(text)])

  t.test('is a request like any other, which may be refused', async (t) => {
    const { url } = await runServer(t, handle)
    const client = await connect(t, url)
    const refused = await client.write(handshake('/none')).reply()
    t.equal(refused.status, 401)
    t.match(refused.json(), { error: { type: 'authentication_error', code: 'invalid_api_key' } })
    t.equal(refused.headers['connection'], 'close')
    t.equal(await client.closed, 'fin')
    for (const [change, by, status] of [
      ['Host: x', 'Host: x/y', 400],
      ['ZQ==', 'ZQ=', 400],
      ['Version: 13', 'Version: 8', 426]
    ] as const) {
      const odd = await (await connect(t, url)).write(handshake().replace(change, by)).reply()
      t.equal(odd.status, status, by)
    }
  })

  t.test('is closed after a refusal that its client never reads, whatever it sends', async (t) => {
    const answer = (incoming: Incoming): void => {
      incoming.client.reply(403, HeaderLines.of(), Buffer.alloc(32 * 1024 * 1024))
    }
    const { server, port } = await runServer(t, answer, { limits: { clientStall: 300 } })
    for (const sends of [false, true]) {
      const socket = dial({ port, host: '127.0.0.1' }).on('error', () => {})
      socket.pause().write(handshake())
      await eventually(() => server.figures.connections.http1 === 1)
      const drips = sends ? setInterval(() => socket.write('x'), 50) : undefined
      await eventually(() => server.figures.connections.http1 === 0)
      clearInterval(drips)
      socket.destroy()
    }
  })

  t.test('is opened, with what was sent behind the handshake', async (t) => {
    const { server, url } = await runServer(t, handle)
    const client = await connect(t, url)
    const ear = listenTo(client.socket)
    client.write(
      Buffer.concat([
        Buffer.from(handshake().replace('\r\n\r\n', '\r\nSec-WebSocket-Protocol: other, realtime\r\n\r\n')),
        frame('early ')
      ])
    )
    await eventually(() => ear.heard.includes('early early '))
    client.write(frame('later '))
    await eventually(() => ear.heard.includes('later later '))
    t.match(
      ear.heard,
      /^HTTP\/1\.1 101 [^]*Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r\nSec-WebSocket-Protocol: realtime\r\nx-own: yes\r\n\r\n/
    )
    t.equal(server.figures.active, 1)
    t.same(await server.drain(100), { cut: 1 })
    await ear.closed
    t.equal(server.figures.active, 0)
  })

  t.test('waits for the answers before it: its 101 would be taken for one of them', async (t) => {
    const handshakes: Incoming[] = []
    let first: Client | undefined
    const { url } = await runServer(t, (incoming) => {
      if (!incoming.socket) return void (first = incoming.client)
      handshakes.push(incoming)
      refuse(incoming.client, new GatewayError('invalid_api_key', 'This key is not known.'))
    })
    const client = await connect(t, url)
    client.send({ path: '/1' }).write(handshake())
    await eventually(() => first !== undefined)
    await sleep(50)
    t.equal(handshakes.length, 0)
    first!.reply(200, HeaderLines.of(), Buffer.from('first'))
    t.equal((await client.reply(0)).text, 'first')
    t.equal((await client.reply(1)).status, 401)
    t.equal(handshakes.length, 1)
  })

  t.test('is only a header without the rest, on HTTP/1.0 and for other protocols', async (t) => {
    const { url } = await runServer(t, echo)
    const bare = await connect(t, url)
    t.equal((await bare.write('GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n').reply(0)).status, 200)
    t.equal((await bare.send({ path: '/' }).reply(1)).status, 200)
    const old = await connect(t, url)
    t.equal(
      (await old.write('GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n').reply()).status,
      200
    )
    const other = await connect(t, url)
    t.equal(
      (await other.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: smoke-signals\r\n\r\n').reply())
        .status,
      200
    )
  })
})

t.test('Expect: 100-continue is answered when the body is wanted, and not otherwise', async (t) => {
  const { url } = await runServer(t, (incoming) => {
    if (incoming.target === '/refused') incoming.client.reply(401, HeaderLines.of(), Buffer.from('no'))
    else setTimeout(() => echo(incoming), 20)
  })
  const upload = (path: string): string =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`
  const client = await connect(t, url)
  client.write(upload('/wanted'))
  await eventually(() => client.received > 0)
  t.equal(Buffer.concat(client.reads.map(({ bytes }) => bytes)).toString(), 'HTTP/1.1 100 Continue\r\n\r\n')
  client.write('hello')
  t.match((await client.reply()).json(), { body: 'hello' })
  const refused = await connect(t, url)
  const reply = await refused.write(upload('/refused')).reply()
  t.equal(reply.status, 401)
  t.equal(reply.headers['connection'], 'close')
  t.notMatch(Buffer.concat(refused.reads.map(({ bytes }) => bytes)).toString(), '100 Continue')
  t.equal(await refused.closed, 'fin')
})

t.test('TLS', async (t) => {
  const { pem, ca } = makeCertificate(t)
  const { server, url, port } = await runServer(t, echo, { listen: { host: '127.0.0.1', port: 0, tls: pem } })

  t.test('serves HTTP/2 and HTTP/1.1 by ALPN on one port', async (t) => {
    const client = openSession(t, url, { ca })
    t.match((await askHttp2(client, { ':path': '/two' })).json(), {
      target: '/two',
      httpVersion: '2.0',
      remoteAddress: '127.0.0.1'
    })
    const agent = new Agent({ connect: { ca }, allowH2: false })
    t.teardown(() => agent.destroy())
    const reply = await request(`${url}/one`, { dispatcher: agent, method: 'POST', body: 'x' })
    t.match(await reply.body.json(), { target: '/one', httpVersion: '1.1', remoteAddress: '127.0.0.1', body: 'x' })
    const plain = dialTls({ port, host: 'localhost', ca })
    const ear = listenTo(plain)
    plain.write('GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    t.match(await ear.closed, '"target":"/none"')
    await eventually(() => server.figures.connections.http1 === 1)
    t.match(server.figures.connections, { http1: 1, http2: 1, undecided: 0 })
  })

  t.test('survives what is no TLS, no known protocol, and no client at all', async (t) => {
    const clear = dial({ port, host: '127.0.0.1' })
    const ear = listenTo(clear)
    clear.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    t.notMatch(await ear.closed, 'HTTP/1.1 200')
    const odd = dialTls({ port, host: 'localhost', ca, ALPNProtocols: ['spdy/3'] })
    const [error] = (await once(odd, 'error')) as [Error]
    t.match(error.message, /alert|reset|no application protocol/i)
    const rude = dial({ port, host: '127.0.0.1' })
    await once(rude, 'connect')
    rude.write(Buffer.from([22, 3, 1, 2]))
    rude.resetAndDestroy()
    t.equal((await askHttp2(openSession(t, url, { ca }), { ':path': '/' })).headers[':status'], 200)
  })

  t.test('shows another certificate to new connections, and lets those that are open go on', async (t) => {
    const renewed = makeCertificate(t)
    const before = openSession(t, url, { ca })
    await askHttp2(before, { ':path': '/before' })
    const socket = dialTls({ port, host: 'localhost', ca })
    await once(socket, 'secureConnect')
    server.certify(renewed.pem)
    t.match((await askHttp2(openSession(t, url, { ca: renewed.ca }), { ':path': '/renewed' })).json(), {
      target: '/renewed',
      httpVersion: '2.0'
    })
    const plain = dialTls({ port, host: 'localhost', ca: renewed.ca })
    const ear = listenTo(plain)
    plain.write('GET /plain HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    t.match(await ear.closed, '"target":"/plain"')
    const stranger = dialTls({ port, host: 'localhost', ca })
    t.match(
      await once(stranger, 'error'),
      [{ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }],
      'the old one is not shown any more'
    )
    t.match((await askHttp2(before, { ':path': '/after' })).json(), { target: '/after' })
    const old = listenTo(socket)
    socket.write('GET /old HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    t.match(await old.closed, '"target":"/old"')
    server.certify(pem)
  })

  t.test('refuses framing errors, cuts and drains as in clear text', async (t) => {
    const socket = dialTls({ port, host: 'localhost', ca })
    const ear = listenTo(socket)
    socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n')
    t.match(await ear.closed, /^HTTP\/1\.1 400 [^]*"invalid_request"/)
    const idle = dialTls({ port, host: 'localhost', ca })
    await once(idle, 'secureConnect')
    const half = dial({ port, host: '127.0.0.1' })
    await once(half, 'connect')
    half.on('error', () => {})
    const began = stopwatch()
    t.same(await server.drain(200), { cut: 0 })
    t.ok(began.ms < 2000)
    t.match(server.figures.connections, { http1: 0, http2: 0, undecided: 0 })
  })
})

t.test('what keeps a server from listening is said with its remedy', async (t) => {
  const { port } = await runServer(t, echo)
  const limits = { clientHeader: 1000, clientStall: 1000, keepAlive: 1000, connections: 10 }
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => log }
  const listen = (host: string, port: number): Promise<unknown> =>
    new Server({ listen: { host, port, tls: undefined }, limits, log, handle: () => {} }).listen()
  await t.rejects(listen('127.0.0.1', port), {
    message: `127.0.0.1:${port} is in use by another process. Stop that process, or choose another listen.port.`
  })
  await t.rejects(listen('192.0.2.1', 0), { message: /^192\.0\.2\.1 is not an address of this machine/ })
  await t.rejects(listen('no-such-host.invalid', 0), { message: /no-such-host\.invalid/ })
})

t.test('servers that are told of each other share a port, and one that is not has none', async (t) => {
  const served = [0, 0]
  const count = (at: number) => (incoming: Incoming) => {
    served[at]!++
    echo(incoming)
  }
  const first = await runServer(t, count(0), { together: new OwnAllowance(100) })
  const { port, url } = first
  const listen = { host: '127.0.0.1', port, tls: undefined }
  const second = await runServer(t, count(1), { together: new OwnAllowance(100), listen })
  t.equal(second.port, port)
  for (let i = 0; i < 64 && served.includes(0); i++) t.equal((await ask(t, url, { path: '/' })).status, 200)
  t.notOk(served.includes(0), 'the system spreads connections over both')
  await t.rejects(runServer(t, echo, { listen }), { message: /is in use by another process/ })
})
