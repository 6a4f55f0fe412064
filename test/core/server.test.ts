// The server's port: protocols, limits, timeouts, upgrades, and stopping in good order.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import type { ClientHttp2Session, ClientSessionOptions, IncomingHttpHeaders, OutgoingHttpHeaders, SecureClientSessionOptions } from 'node:http2'
import { connect as dial, createServer as createNetServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as dialTls } from 'node:tls'
import t from 'tap'
import type { Test } from 'tap'
import { Agent, request } from 'undici'
import type { Client, Incoming } from '../../core/client.ts'
import { GatewayError } from '../../core/errors.ts'
import { refuseUpgrade } from '../../core/refusal.ts'
import { Server } from '../../core/server.ts'
import { makeCertificate } from '../kit/certificate.ts'
import { ask, connect } from '../kit/client.ts'
import { echo, runServer } from '../kit/server.ts'

interface Http2Reply {
  headers: IncomingHttpHeaders
  text: string
  json(): any
}

function session(t: Test, url: string, options: ClientSessionOptions | SecureClientSessionOptions = {}): ClientHttp2Session {
  const session = connectHttp2(url, options)
  session.on('error', () => {})
  t.teardown(() => session.destroy())
  return session
}

/** One request on a session; rejects when its stream is reset. */
async function fetch2(session: ClientHttp2Session, headers: OutgoingHttpHeaders, body?: string | Buffer): Promise<Http2Reply> {
  const stream = session.request(headers, { endStream: body === undefined })
  if (body !== undefined) stream.end(body)
  const [head] = (await once(stream, 'response')) as [IncomingHttpHeaders]
  stream.setEncoding('utf8')
  let text = ''
  for await (const piece of stream) text += piece
  return { headers: head, text, json: () => JSON.parse(text) as unknown }
}

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
  const two = await fetch2(session(t, url), { ':method': 'POST', ':path': '/a?b=c', 'x-own': 'yes' }, '{"x":2}')
  t.equal(two.headers[':status'], 200)
  t.equal(two.headers['content-length'], String(two.text.length))
  t.match(two.json(), { method: 'POST', target: '/a?b=c', httpVersion: '2.0', remoteAddress: '127.0.0.1', body: '{"x":2}' })
  t.match(two.json().headers, { 'x-own': 'yes', host: `localhost:${port}` })
  const socket = dial({ port, host: '127.0.0.1' })
  const old = listenTo(socket)
  socket.write('GET /old HTTP/1.0\r\n\r\n')
  t.match(await old.closed, /\r\nConnection: close\r\n[^]*"httpVersion":"1.0"/)
  t.match(server.figures, { connections: { http2: 1, undecided: 0 }, active: 0, refusedConnections: 0, refusedRequests: 0 })
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
  t.equal((await fetch2(session(t, url), { ':path': '/slow2' })).json().target, '/slow2')
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
    if (target !== '/1') return client.reply(200, [], Buffer.from(target))
    client.head(200, [])
    client.write(Buffer.from('begin '))
    waiting.push(() => client.end(Buffer.from('end')))
  })
  const client = await connect(t, url)
  client.send({ path: '/1' }).send({ path: '/2', body: { two: 2 } }).send({ path: '/3' })
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
  await until(() => running.length === 1)
  const gone = new Promise<void>((resolve) => (running[0]!.onGone = resolve))
  client.reset()
  await gone
  await until(() => server.figures.connections.http1 === 0)
  t.same(seen, ['/1'])
  t.equal(server.figures.active, 0)
})

t.test('more waiting requests than anybody needs end the connection', async (t) => {
  const { server, url } = await runServer(t, () => {})
  const client = await connect(t, url)
  client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(200))
  await client.closed
  await until(() => server.figures.active === 0)
})

t.test('a connection is used again after a streamed answer, an empty one and a refusal', async (t) => {
  const { server, url } = await runServer(t, ({ client, target, body }) => {
    if (target === '/early') return client.reply(401, [], Buffer.from('no'))
    body.resume().on('end', () => {
      if (target === '/whole') return client.reply(200, [], Buffer.from('whole'))
      client.head(target === '/none' ? 204 : 200, ['content-type', 'text/event-stream'])
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
  const expected: Record<string, string> = { '/stream': 'one two three', '/bare': 'one two ', '/whole': 'whole', '/none': '', '/early': 'no' }
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
    if (target === '/whole') return client.reply(200, ['content-type', 'text/plain'], Buffer.from('whole'))
    client.head(200, ['content-type', 'text/event-stream'])
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
  const http2 = session(t, url)
  for (const path of ['/whole', '/stream']) {
    const reply = await fetch2(http2, { ':path': path, ':method': 'HEAD' })
    t.equal(reply.text, '')
    t.equal(reply.headers['content-length'], path === '/whole' ? '5' : undefined)
  }
})

t.test('repeated credentials are shown as they came', async (t) => {
  const { url } = await runServer(t, echo)
  const client = await connect(t, url)
  client.write('GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nauthorization: Bearer b\r\nX-Api-Key: a\r\nx-api-key: b\r\nX-Goog-Api-Key: a\r\nContent-Type: a/b\r\nContent-Type: c/d\r\n\r\n')
  t.match((await client.reply()).json().headers, {
    'authorization': ['Bearer a', 'Bearer b'], 'x-api-key': ['a', 'b'], 'x-goog-api-key': 'a', 'content-type': ['a/b', 'c/d']
  })
  // Node's client refuses to send some fields twice as an object, but not as a list.
  const stream = session(t, url).request([':path', '/', ':method', 'GET', 'x-api-key', 'a', 'x-api-key', 'b', 'x-goog-api-key', 'a'] as never)
  let text = ''
  for await (const piece of stream.setEncoding('utf8')) text += piece
  t.match(JSON.parse(text), { headers: { 'x-api-key': ['a', 'b'], 'x-goog-api-key': 'a' } })
})

t.test('broken requests on HTTP/2 are refused', async (t) => {
  const { server, url } = await runServer(t, echo)
  const client = session(t, url)
  const cases: [OutgoingHttpHeaders, number, string][] = [
    [{ ':path': '*', ':method': 'OPTIONS' }, 400, 'invalid_request'],
    [{ ':path': '/a#b' }, 400, 'invalid_request'],
    [{ ':path': '/', ':authority': 'a', 'host': 'b' }, 400, 'invalid_request'],
    [{ ':path': '/', ':authority': 'a,b' }, 400, 'invalid_request'],
    [{ ':method': 'CONNECT', ':authority': 'x:443' }, 405, 'method_not_allowed'],
    [{ ':path': '/', ...Object.fromEntries(Array.from({ length: 98 }, (_, i) => [`x-${i}`, '1'])) }, 431, 'invalid_request']
  ]
  for (const [headers, status, code] of cases) {
    const reply = await fetch2(client, headers)
    t.equal(reply.headers[':status'], status, JSON.stringify(headers).slice(0, 100))
    t.match(reply.json(), { error: { type: 'invalid_request_error', code } })
    t.match(reply.headers['x-request-id'], /^[0-9a-f-]{36}$/)
  }
  t.equal((await fetch2(client, { ':path': '/', ':authority': 'A', 'host': 'a' })).headers[':status'], 200, 'the session lives on')
  await t.rejects(fetch2(client, { ':path': '/', 'x-long': 'a'.repeat(30_000) }), 'a head that is too large')
  await t.rejects(fetch2(client, { ':path': '/', ':authority': 'a/b' }), 'what the protocol itself forbids')
  t.equal(server.figures.refusedRequests, cases.length)
})

t.test('slow and silent clients are cut at the time set for the head', async (t) => {
  const limits = { clientHeader: 300, keepAlive: 300 }
  const { server, url, port } = await runServer(t, echo, { limits })
  const began = performance.now()
  const silent = await connect(t, url)
  const undecided = (await connect(t, url)).write('PR')
  const slow = (await connect(t, url)).write('GET / HTTP/1.1\r\nHost: x\r\nX-A')
  const preface = dial({ port, host: '127.0.0.1' })
  const prefaced = listenTo(preface)
  preface.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  t.equal(await silent.closed, 'fin')
  t.equal(await undecided.closed, 'fin')
  t.equal(silent.received + undecided.received, 0)
  const late = await slow.reply()
  t.equal(late.status, 408)
  t.match(late.json(), { error: { type: 'invalid_request_error', code: 'request_timeout' } })
  t.equal(late.headers['connection'], 'close')
  await prefaced.closed
  const took = performance.now() - began
  t.ok(took > 250 && took < 3000, `${took} ms`)
  await until(() => server.figures.connections.http2 === 0 && server.figures.connections.undecided === 0)
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
  const http2 = session(t, url)
  let goaway = -1
  http2.on('goaway', (code) => (goaway = code))
  const answer = fetch2(http2, { ':path': '/' })
  await until(() => running.length === 2)
  await sleep(400)
  t.equal(http1.end, undefined)
  t.notOk(http2.closed)
  for (const client of running) client.reply(200, [], Buffer.from('late'))
  t.equal((await answer).text, 'late')
  t.equal((await http1.reply()).text, 'late')
  await Promise.all([once(http2, 'close'), http1.closed])
  t.equal(goaway, 0)
  await until(() => server.figures.connections.http1 + server.figures.connections.http2 === 0)
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
  await until(() => server.figures.connections.undecided === 0)
  t.equal((await (await connect(t, url)).send({ path: '/' }).reply()).status, 200)
})

t.test('without file descriptors connections are refused, and the server recovers', async (t) => {
  const script = t.testdir({
    'few.ts': `
      import { runServer } from '${new URL('../kit/server.ts', import.meta.url).pathname}'
      const { server, port, logged } = await runServer({ teardown() {} } as never, ({ client }) => client.reply(200, [], Buffer.from('ok')))
      console.log(port)
      process.stdin.on('data', () => console.log(JSON.stringify({ ...server.figures, logged, cpu: process.cpuUsage().user })))
      process.stdin.on('end', () => process.exit())
    `
  })
  const child = spawn('sh', ['-c', `ulimit -n 60 && exec "${process.execPath}" ${script}/few.ts`], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => child.kill())
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const port = Number((await lines.next()).value)
  const figures = async (): Promise<any> => {
    child.stdin.write('?')
    return JSON.parse((await lines.next()).value as string)
  }
  let closed = 0
  const sockets = Array.from({ length: 100 }, () => dial({ port, host: '127.0.0.1' }).on('error', () => {}).on('close', () => closed++))
  await until(() => closed > 20)
  const held = await figures()
  t.ok(held.connections.undecided < 60)
  await sleep(200)
  const later = await figures()
  t.equal(closed + later.connections.undecided, 100, 'every connection is either held or closed')
  t.ok(later.cpu - held.cpu < 100_000, 'it does not spin')
  t.ok(later.logged.length <= 1, 'it does not flood the log')
  for (const socket of sockets) socket.destroy()
  while ((await figures()).connections.undecided > 0);
  t.equal((await ask(t, `http://127.0.0.1:${port}`, { path: '/' })).text, 'ok')
  child.stdin.end()
  await once(child, 'exit')
})

t.test('a handler that fails answers 500 and harms nobody else', async (t) => {
  const { url, logged } = await runServer(t, ({ client, target }) => {
    if (target === '/late') client.head(200, [])
    if (target !== '/well') throw new Error('a bug')
    client.reply(200, [], Buffer.from('well'))
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

  t.test('is refused before any 101 when nobody handles it', async (t) => {
    const { url } = await runServer(t, echo)
    const client = await connect(t, url)
    const reply = await client.write(handshake()).reply()
    t.equal(reply.status, 404)
    t.match(reply.json(), { error: { code: 'route_not_found' } })
    t.equal(reply.headers['connection'], 'close')
    t.equal(await client.closed, 'fin')
  })

  t.test('goes to its handler, which may refuse it', async (t) => {
    const { server, url } = await runServer(t, echo, {
      onUpgrade: (request, socket, head) => {
        if (request.url === '/none') return refuseUpgrade(socket, new GatewayError('invalid_api_key', 'This key is not known.'))
        const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
        socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n${head.toString()}`)
        socket.on('data', (bytes: Buffer) => socket.write(bytes))
      }
    })
    const refused = await (await connect(t, url)).write(handshake('/none')).reply()
    t.equal(refused.status, 401)
    t.match(refused.json(), { error: { type: 'authentication_error', code: 'invalid_api_key' } })
    const odd = await (await connect(t, url)).write(handshake().replace('Host: x', 'Host: x/y')).reply()
    t.equal(odd.status, 400)
    const client = await connect(t, url)
    const ear = listenTo(client.socket)
    client.write(`${handshake()}early `)
    await until(() => ear.heard.includes('early'))
    client.write('and later')
    await until(() => ear.heard.endsWith('and later'))
    t.match(ear.heard, /^HTTP\/1\.1 101 [^]*Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/)
    const drained = server.drain(100)
    t.same(await drained, { cut: 0 })
    await ear.closed
  })

  t.test('behind a request under way is cut: its 101 would be taken for the answer', async (t) => {
    let upgrades = 0
    const { url } = await runServer(t, () => {}, { onUpgrade: () => void upgrades++ })
    const client = await connect(t, url)
    client.send({ path: '/1' }).write(handshake())
    await client.closed
    t.equal(upgrades, 0)
    t.equal(client.received, 0)
  })

  t.test('is only a header without the rest, on HTTP/1.0 and for other protocols', async (t) => {
    const { url } = await runServer(t, echo)
    const bare = await connect(t, url)
    t.equal((await bare.write('GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n').reply(0)).status, 200)
    t.equal((await bare.send({ path: '/' }).reply(1)).status, 200)
    const old = await connect(t, url)
    t.equal((await old.write('GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n').reply()).status, 200)
    const other = await connect(t, url)
    t.equal((await other.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: smoke-signals\r\n\r\n').reply()).status, 200)
  })
})

t.test('Expect: 100-continue is answered when the body is wanted, and not otherwise', async (t) => {
  const { url } = await runServer(t, (incoming) => {
    if (incoming.target === '/refused') incoming.client.reply(401, [], Buffer.from('no'))
    else setTimeout(() => echo(incoming), 20)
  })
  const upload = (path: string): string => `POST ${path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`
  const client = await connect(t, url)
  client.write(upload('/wanted'))
  await until(() => client.received > 0)
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
  const { cert, key, ca } = makeCertificate(t)
  const { server, url, port } = await runServer(t, echo, { listen: { host: '127.0.0.1', port: 0, tls: { cert, key } } })

  t.test('serves HTTP/2 and HTTP/1.1 by ALPN on one port', async (t) => {
    const client = session(t, url, { ca })
    t.match((await fetch2(client, { ':path': '/two' })).json(), { target: '/two', httpVersion: '2.0', remoteAddress: '127.0.0.1' })
    const agent = new Agent({ connect: { ca }, allowH2: false })
    t.teardown(() => agent.destroy())
    const reply = await request(`${url}/one`, { dispatcher: agent, method: 'POST', body: 'x' })
    t.match(await reply.body.json(), { target: '/one', httpVersion: '1.1', remoteAddress: '127.0.0.1', body: 'x' })
    const plain = dialTls({ port, host: 'localhost', ca })
    const ear = listenTo(plain)
    plain.write('GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    t.match(await ear.closed, '"target":"/none"')
    await until(() => server.figures.connections.http1 === 1)
    t.match(server.figures.connections, { http1: 1, http2: 1, undecided: 0 })
  })

  t.test('survives what is no TLS, no known protocol, and no client at all', async (t) => {
    const clear = dial({ port, host: '127.0.0.1' })
    const ear = listenTo(clear)
    clear.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    t.notMatch(await ear.closed, '200')
    const odd = dialTls({ port, host: 'localhost', ca, ALPNProtocols: ['spdy/3'] })
    const [error] = (await once(odd, 'error')) as [Error]
    t.match(error.message, /alert|reset|no application protocol/i)
    const rude = dial({ port, host: '127.0.0.1' })
    await once(rude, 'connect')
    rude.write(Buffer.from([22, 3, 1, 2]))
    rude.resetAndDestroy()
    t.equal((await fetch2(session(t, url, { ca }), { ':path': '/' })).headers[':status'], 200)
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
    const began = performance.now()
    t.same(await server.drain(200), { cut: 0 })
    t.ok(performance.now() - began < 2000)
    t.match(server.figures.connections, { http1: 0, http2: 0, undecided: 0 })
  })
})

t.test('what keeps a server from listening is said with its remedy', async (t) => {
  const { port } = await runServer(t, echo)
  const limits = { clientHeader: 1000, clientStall: 1000, keepAlive: 1000, connections: 10 }
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => log }
  const listen = (listen: { host: string; port: number; tls?: { cert: string; key: string } }): Promise<unknown> =>
    new Server({ listen: { tls: undefined, ...listen }, limits, log, handle: () => {} }).listen()
  await t.rejects(listen({ host: '127.0.0.1', port }), { message: `127.0.0.1:${port} is in use by another process. Stop that process, or choose another listen.port.` })
  await t.rejects(listen({ host: '192.0.2.1', port: 0 }), { message: /^192\.0\.2\.1 is not an address of this machine/ })
  await t.rejects(listen({ host: 'no-such-host.invalid', port: 0 }), { message: /no-such-host\.invalid/ })
  const { cert, key } = makeCertificate(t)
  await t.rejects(listen({ host: '127.0.0.1', port: 0, tls: { cert: `${cert}.gone`, key } }), { message: `listen.tls.cert: ${cert}.gone cannot be read (ENOENT). Name a PEM file that this user may read.` })
  await t.rejects(listen({ host: '127.0.0.1', port: 0, tls: { cert, key: `${key}.gone` } }), { message: /^listen\.tls\.key: / })
  writeFileSync(`${key}.bad`, 'not a key')
  await t.rejects(listen({ host: '127.0.0.1', port: 0, tls: { cert, key: `${key}.bad` } }), { message: /^listen\.tls: .* are not a certificate and its key in PEM: / })
})

t.test('draining', async (t) => {
  /** A server whose answers begin at once and end when the test says so. */
  async function begun(t: Test, onDrainTimeout?: () => void) {
    const running: Client[] = []
    const run = await runServer(
      t,
      ({ client, target }: Incoming) => {
        if (target === '/quick') return client.reply(200, [], Buffer.from('quick'))
        client.head(200, [])
        client.write(Buffer.from('begun '))
        running.push(client)
      },
      { onDrainTimeout }
    )
    return { ...run, running }
  }

  t.test('closes idle connections at once and accepts no new ones', async (t) => {
    const { server, url, port } = await begun(t)
    const silent = await connect(t, url)
    const http1 = await connect(t, url)
    await http1.send({ path: '/quick' }).reply()
    const http2 = session(t, url)
    await fetch2(http2, { ':path': '/quick' })
    const began = performance.now()
    t.same(await server.drain(5000), { cut: 0 })
    t.ok(performance.now() - began < 1000)
    await Promise.all([silent.closed, http1.closed])
    t.ok(http2.closed || http2.destroyed)
    const [error] = (await once(dial({ port, host: '127.0.0.1' }), 'error')) as [NodeJS.ErrnoException]
    t.equal(error.code, 'ECONNREFUSED')
    t.equal(server.drain(1), server.drain(2), 'asked again it is the same')
  })

  t.test('lets answers finish and refuses what comes behind them', async (t) => {
    const { server, url, running } = await begun(t)
    const http1 = await connect(t, url)
    await http1.send({ path: '/' }).body('begun')
    const behind = await connect(t, url)
    await behind.send({ path: '/' }).body('begun')
    behind.send({ path: '/behind' })
    const http2 = session(t, url)
    const answer = fetch2(http2, { ':path': '/' })
    await until(() => running.length === 3)
    const goaway = once(http2, 'goaway')
    const drained = server.drain(5000)
    await goaway
    t.ok(http2.closed, 'no new stream may be opened')
    await sleep(50)
    for (const client of running) client.end(Buffer.from('done'))
    t.same(await drained, { cut: 0 })
    t.equal((await answer).text, 'begun done')
    t.match(await http1.reply(), { text: 'begun done', complete: true })
    t.match(await behind.reply(0), { text: 'begun done', complete: true })
    const refused = await behind.reply(1)
    t.equal(refused.status, 503)
    t.match(refused.json(), { error: { type: 'overloaded_error', code: 'draining' } })
    t.match(refused.headers, { 'retry-after': '1', 'connection': 'close' })
    t.equal(server.figures.active, 0)
  })

  t.test('tells the client that its answer is the last of the connection', async (t) => {
    const waiting: Client[] = []
    const { server, url } = await runServer(t, ({ client }) => void waiting.push(client))
    const client = await connect(t, url)
    client.send({ path: '/' })
    await until(() => waiting.length === 1)
    const drained = server.drain(5000)
    waiting[0]!.reply(200, [], Buffer.from('last'))
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
    const stuck2 = fetch2(session(t, url), { ':path': '/' })
    stuck2.catch(() => {})
    await until(() => running.length === 3)
    let told = 0
    for (const client of running.slice(1)) client.onGone = () => told++
    const began = performance.now()
    t.same(await server.drain(100), { cut: 3 })
    t.ok(performance.now() - began < 3000)
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
    const { server, url } = await runServer(t, ({ client }) => client.reply(200, [], big))
    const client = await connect(t, url)
    client.stopReading().send({ path: '/' })
    await until(() => server.figures.connections.http1 === 1 && server.figures.active === 0)
    await sleep(50)
    const drained = server.drain(5000)
    await sleep(50)
    client.resume()
    t.equal((await client.reply()).body.length, big.length)
    t.same(await drained, { cut: 0 })
  })
})

/** Waits for something that has no event of its own. */
async function until(done: () => boolean): Promise<void> {
  const limit = performance.now() + 5000
  while (!done()) {
    if (performance.now() > limit) throw new Error('it did not come about within five seconds')
    await sleep(5)
  }
}
