// Requests that two readers could understand differently, sent byte for byte: refused, the connection closed, nothing
// after them served.
import { once } from 'node:events'
import { connect as dial } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { HeaderLines } from '../../../core/wire/response-head.ts'
import { gather, runServer } from '../../kit/server.ts'

const seen: string[] = []
const { server, port } = await runServer(t, ({ client, method, target, body }) => {
  seen.push(`${method} ${target}`)
  gather(body, ({ length }) => client.reply(200, HeaderLines.of(), Buffer.from(`${target} ${length}`)))
})

/** A request that must never be reached behind a refused one. */
const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n'

/** Sends bytes, waits for the server to close the connection, and gives everything it said. */
async function talk(raw: string): Promise<string> {
  const socket = dial({ port, host: '127.0.0.1' })
  let heard = ''
  socket.setEncoding('latin1').on('data', (text: string) => (heard += text))
  socket.on('error', (error) => (heard += `[${error.message}]`))
  socket.write(Buffer.from(raw, 'latin1'))
  await once(socket, 'close')
  return heard
}

const head = (line: string, ...fields: string[]): string =>
  `${line}\r\n${fields.map((field) => `${field}\r\n`).join('')}\r\n`
const post = (...fields: string[]): string => head('POST /a HTTP/1.1', 'Host: x', ...fields)
const chunked = (body: string): string => post('Transfer-Encoding: chunked') + body

const refused: Record<string, string> = {
  'a length and chunks': post('Content-Length: 5', 'Transfer-Encoding: chunked') + '0\r\n\r\n',
  'chunks and a length': post('Transfer-Encoding: chunked', 'Content-Length: 5') + '0\r\n\r\n',
  'two different lengths': post('Content-Length: 5', 'Content-Length: 6') + 'hello!',
  'the same length twice': post('Content-Length: 5', 'Content-Length: 5') + 'hello',
  'a list of lengths': post('Content-Length: 5, 5') + 'hello',
  'a length with a plus sign': post('Content-Length: +5') + 'hello',
  'a negative length': post('Content-Length: -5') + 'hello',
  'a hexadecimal length': post('Content-Length: 0x5') + 'hello',
  'a length with an exponent': post('Content-Length: 1e1') + 'hello',
  'an empty length': post('Content-Length:') + 'hello',
  'a length in two parts': post('Content-Length: 5 5') + 'hello',
  'a length that overflows': post('Content-Length: 99999999999999999999999') + 'hello',
  'a space before the colon of the length': post('Content-Length : 5') + 'hello',
  'a space before the colon of the coding': post('Transfer-Encoding : chunked') + '0\r\n\r\n',
  'chunked, identity': post('Transfer-Encoding: chunked, identity') + '0\r\n\r\n',
  'identity, chunked': post('Transfer-Encoding: identity, chunked') + '0\r\n\r\n',
  'gzip, chunked': post('Transfer-Encoding: gzip, chunked') + '0\r\n\r\n',
  'only gzip': post('Transfer-Encoding: gzip') + '0\r\n\r\n',
  'only identity': post('Transfer-Encoding: identity') + '0\r\n\r\n',
  'identity and a length': post('Transfer-Encoding: identity', 'Content-Length: 5') + 'hello',
  xchunked: post('Transfer-Encoding: xchunked') + '0\r\n\r\n',
  'chunked with a parameter': post('Transfer-Encoding: chunked;q=1') + '0\r\n\r\n',
  'chunked in quotes': post('Transfer-Encoding: "chunked"') + '0\r\n\r\n',
  'chunked twice in two lines': post('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked') + '0\r\n\r\n',
  'chunked and then identity in two lines':
    post('Transfer-Encoding: chunked', 'Transfer-Encoding: identity') + '0\r\n\r\n',
  'a comma before chunked': post('Transfer-Encoding: ,chunked') + '0\r\n\r\n',
  'a comma after chunked': post('Transfer-Encoding: chunked,') + '0\r\n\r\n',
  'a vertical tab before chunked': post('Transfer-Encoding:\x0bchunked') + '0\r\n\r\n',
  'an empty coding': post('Transfer-Encoding:') + '0\r\n\r\n',
  'a folded coding': post('Transfer-Encoding:\r\n chunked') + '0\r\n\r\n',
  'chunks in HTTP/1.0': head('POST /a HTTP/1.0', 'Host: x', 'Transfer-Encoding: chunked') + '0\r\n\r\n',
  'a folded field': head('GET /a HTTP/1.1', 'Host: x', 'X-A: b', ' c'),
  'a field folded with a tab': head('GET /a HTTP/1.1', 'Host: x', 'X-A: b', '\tc'),
  'bare line feeds': 'GET /a HTTP/1.1\nHost: x\n\n',
  'one bare line feed between fields': 'GET /a HTTP/1.1\r\nHost: x\nX-A: b\r\n\r\n',
  'a bare line feed at the end': 'GET /a HTTP/1.1\r\nHost: x\r\n\n',
  'a bare carriage return in a value': 'GET /a HTTP/1.1\r\nHost: x\r\nX-A: b\rX-B: c\r\n\r\n',
  'NUL in a value': head('GET /a HTTP/1.1', 'Host: x', 'X-A: b\0c'),
  'NUL in a name': head('GET /a HTTP/1.1', 'Host: x', 'X\0A: b'),
  'a space before the first field': 'GET /a HTTP/1.1\r\n Host: x\r\n\r\n',
  'a field without a colon': head('GET /a HTTP/1.1', 'Host: x', 'Garbage'),
  'a field without a name': head('GET /a HTTP/1.1', 'Host: x', ': b'),
  'no host': 'GET /a HTTP/1.1\r\n\r\n',
  'two hosts': head('GET /a HTTP/1.1', 'Host: x', 'Host: y'),
  'the same host twice': head('GET /a HTTP/1.1', 'Host: x', 'host: x'),
  'a list of hosts': head('GET /a HTTP/1.1', 'Host: x, y'),
  'an empty host': head('GET /a HTTP/1.1', 'Host:'),
  'a host with a path': head('GET /a HTTP/1.1', 'Host: x/admin'),
  'a host with a query': head('GET /a HTTP/1.1', 'Host: x?y'),
  'a host with a user': head('GET /a HTTP/1.1', 'Host: admin@x'),
  'a host with a number sign': head('GET /a HTTP/1.1', 'Host: x#y'),
  'a target on another host': head('GET http://y/a HTTP/1.1', 'Host: x'),
  'a target on another port': head('GET http://x:81/a HTTP/1.1', 'Host: x'),
  'a target with a user': head('GET http://x@y/a HTTP/1.1', 'Host: y'),
  'a target of another scheme': head('GET ftp://x/a HTTP/1.1', 'Host: x'),
  'an asterisk': head('OPTIONS * HTTP/1.1', 'Host: x'),
  'an authority as the target': head('GET x:80 HTTP/1.1', 'Host: x'),
  'a target without a slash': head('GET a HTTP/1.1', 'Host: x'),
  'a fragment': head('GET /a#b HTTP/1.1', 'Host: x'),
  'a byte beyond ASCII in the target': head('GET /\xe9 HTTP/1.1', 'Host: x'),
  'a tab in the target': head('GET /a\tb HTTP/1.1', 'Host: x'),
  'a space after the version': head('GET /a HTTP/1.1 ', 'Host: x'),
  'a space before the method': head(' GET /a HTTP/1.1', 'Host: x'),
  'a method in small letters': head('get /a HTTP/1.1', 'Host: x'),
  'an unknown method': head('FOO /a HTTP/1.1', 'Host: x'),
  'HTTP/1.2': head('GET /a HTTP/1.2', 'Host: x'),
  'a chunk size with 0x': chunked('0x5\r\nhello\r\n0\r\n\r\n'),
  'a negative chunk size': chunked('-5\r\nhello\r\n0\r\n\r\n'),
  'a space after a chunk size': chunked('5 \r\nhello\r\n0\r\n\r\n'),
  'an empty chunk size': chunked('\r\nhello\r\n0\r\n\r\n'),
  'a chunk size that overflows': chunked('10000000000000005\r\nhello\r\n0\r\n\r\n'),
  'a bare line feed after a chunk size': chunked('5\nhello\r\n0\r\n\r\n'),
  'a bare line feed after a chunk': chunked('5\r\nhello\n0\r\n\r\n'),
  'a chunk longer than it says': chunked('5\r\nhello!\r\n0\r\n\r\n'),
  'a bare line feed in a chunk extension': chunked('5;a\nhello\r\n0\r\n\r\n'),
  'a bare carriage return in a chunk extension': chunked('5;a\rb\r\nhello\r\n0\r\n\r\n'),
  'a length among the trailers': chunked('0\r\nContent-Length: 5\r\n\r\n'),
  'a coding among the trailers': chunked('0\r\nTransfer-Encoding: chunked\r\n\r\n')
}

/** Refused with another status than 400. */
const otherwise: Record<string, [status: number, raw: string]> = {
  'HTTP/2.0 in clear words': [505, head('GET /a HTTP/2.0', 'Host: x')],
  'HTTP/0.9 with a version': [505, head('GET /a HTTP/0.9', 'Host: x')],
  CONNECT: [405, head('CONNECT x:443 HTTP/1.1', 'Host: x:443')],
  'an expectation nobody knows': [417, head('GET /a HTTP/1.1', 'Host: x', 'Expect: a-miracle')],
  '101 fields': [431, head('GET /a HTTP/1.1', 'Host: x', ...Array.from({ length: 100 }, (_, i) => `X-${i}: 1`))],
  '3000 fields': [431, head('GET /a HTTP/1.1', 'Host: x', ...Array.from({ length: 3000 }, () => 'X:'))],
  'a head of 20 KiB': [431, head('GET /a HTTP/1.1', 'Host: x', `X-A: ${'a'.repeat(20_000)}`)],
  'a target of 20 KiB': [431, head(`GET /${'a'.repeat(20_000)} HTTP/1.1`, 'Host: x')],
  'chunk extensions of 20 KiB': [413, chunked(`5;${'a'.repeat(20_000)}\r\nhello\r\n0\r\n\r\n`)]
}

t.test('ambiguous or broken requests are refused, and nothing behind them is served', async (t) => {
  const cases = [
    ...Object.entries(refused).map(([name, raw]) => [name, 400, raw] as const),
    ...Object.entries(otherwise).map(([name, [status, raw]]) => [name, status, raw] as const)
  ]
  t.ok(cases.length >= 40)
  await Promise.all(
    cases.map(async ([name, status, raw]) => {
      const heard = await talk(raw + smuggled)
      const [top = '', body = '', ...more] = heard.split('\r\n\r\n')
      t.equal(top.split('\r\n')[0]?.split(' ')[1], String(status), `${name}: ${JSON.stringify(heard.slice(0, 200))}`)
      t.match(top.toLowerCase(), /\r\nconnection: close(\r\n|$)/, `${name}: says that it closes`)
      t.match(top.toLowerCase(), /\r\nx-request-id: [0-9a-f]{8}-[0-9a-f]{4}-7/, `${name}: has a request id`)
      t.match(
        top.toLowerCase(),
        new RegExp(`\r\ncontent-length: ${body.length}(\r\n|$)`),
        `${name}: has the right length`
      )
      const { error } = JSON.parse(body || '{}') as { error?: Record<string, string> }
      t.match(
        error,
        {
          type: 'invalid_request_error',
          code: status === 405 ? 'method_not_allowed' : 'invalid_request',
          message: /\w/
        },
        name
      )
      t.same(more, [], `${name}: has one answer`)
    })
  )
  t.notOk(
    seen.some((request) => request.includes('smuggled')),
    'no second request was seen'
  )
})

t.test('requests that are unusual but sound are served', async (t) => {
  const served: Record<string, [answer: string, raw: string]> = {
    'an empty line before the request': ['/a 0', '\r\n' + head('GET /a HTTP/1.1', 'Host: x', 'Connection: close')],
    'chunked in other letters': [
      '/a 5',
      post('Transfer-Encoding: ChUnKeD', 'Connection: close') + '5\r\nhello\r\n0\r\n\r\n'
    ],
    'chunks with an extension and a trailer': [
      '/a 5',
      post('Transfer-Encoding: chunked', 'Connection: close') + '5;a=b\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n'
    ],
    'a length with zeros': ['/a 5', post('Content-Length: 0005', 'Connection: close') + 'hello'],
    'a body on GET': ['/a 5', head('GET /a HTTP/1.1', 'Host: x', 'Content-Length: 5', 'Connection: close') + 'hello'],
    'a target that names this host': [
      '/a?b=c 0',
      head('GET http://X:80/a?b=c HTTP/1.1', 'Host: x:80', 'Connection: close')
    ],
    'a target that is only this host': ['/?b 0', head('GET http://x?b HTTP/1.1', 'Host: x', 'Connection: close')],
    'a host with a port': ['/a 0', head('GET /a HTTP/1.1', 'Host: gateway_1.example.:8080', 'Connection: close')],
    'an IPv6 host': ['/a 0', head('GET /a HTTP/1.1', 'Host: [::1]:8080', 'Connection: close')],
    'HTTP/1.0 without a host': ['/a 0', head('GET /a HTTP/1.0')],
    'HTTP/1.0 with a length': ['/a 5', head('POST /a HTTP/1.0', 'Content-Length: 5') + 'hello'],
    'encoded slashes': ['/a%2f..%2fb 0', head('GET /a%2f..%2fb HTTP/1.1', 'Host: x', 'Connection: close')],
    '100 fields': [
      '/a 0',
      head('GET /a HTTP/1.1', 'Host: x', 'Connection: close', ...Array.from({ length: 98 }, (_, i) => `X-${i}: 1`))
    ]
  }
  for (const [name, [answer, raw]] of Object.entries(served)) {
    const heard = await talk(raw)
    t.match(heard, /^HTTP\/1\.1 200 OK\r\n/, `${name}: ${heard.slice(0, 200)}`)
    t.equal(heard.split('\r\n\r\n')[1], answer, name)
  }
})

t.test('a broken request behind a sound one is refused after the answer to that', async (t) => {
  const heard = await talk(head('GET /first HTTP/1.1', 'Host: x') + refused['chunked, identity'] + smuggled)
  const statuses = heard.match(/HTTP\/1\.1 \d+/g)
  t.same(statuses, ['HTTP/1.1 200', 'HTTP/1.1 400'])
  t.ok(heard.indexOf('/first 0') < heard.indexOf('HTTP/1.1 400'))
})

t.test('what follows a request that closes the connection is not served', async (t) => {
  for (const [raw, answer] of [
    [head('GET /last HTTP/1.1', 'Host: x', 'Connection: close'), '/last 0'],
    [post('Content-Length: 5', 'Connection: close') + 'hello', '/a 5']
  ] as const) {
    const heard = await talk(raw + smuggled)
    t.same(heard.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200'])
    t.ok(heard.endsWith(answer))
  }
  t.notOk(
    seen.some((request) => request.includes('smuggled')),
    'no second request was seen'
  )
})

t.test('an upgrade to clear-text HTTP/2 is ignored, and what follows is served', async (t) => {
  const heard = await talk(
    head(
      'GET /a HTTP/1.1',
      'Host: x',
      'Connection: Upgrade, HTTP2-Settings',
      'Upgrade: h2c',
      'HTTP2-Settings: AAMAAABk'
    ) + head('GET /b HTTP/1.0')
  )
  t.same(heard.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 200'])
  t.ok(heard.endsWith('/b 0'))
})

t.test('nothing that is sent brings the server down or leaves something behind', async (t) => {
  const seeds = [
    ...Object.values(refused),
    smuggled,
    post('Content-Length: 5') + 'hello',
    chunked('5\r\nhello\r\n0\r\n\r\n'),
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'
  ]
  const change = fc.tuple(
    fc.nat(),
    fc.constantFrom('insert', 'remove', 'replace', 'cut'),
    fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 8 })
  )
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...seeds),
      fc.array(change, { maxLength: 4 }),
      fc.boolean(),
      async (seed, changes, reset) => {
        let raw = seed
        for (const [place, how, text] of changes) {
          const at = place % (raw.length + 1)
          raw =
            raw.slice(0, at) +
            (how === 'insert' || how === 'replace' ? text : '') +
            (how === 'cut' ? '' : raw.slice(how === 'insert' ? at : at + text.length))
        }
        const socket = dial({ port, host: '127.0.0.1' })
        socket.on('error', () => {}).resume()
        socket.write(Buffer.from(raw, 'latin1'))
        await new Promise((resolve) => setImmediate(resolve))
        if (reset) socket.resetAndDestroy()
        else socket.end()
        await once(socket, 'close')
      }
    ),
    { numRuns: 500 }
  )
  t.match(await talk(head('GET /alive HTTP/1.0')), '/alive 0')
  while (server.figures.connections.http1 + server.figures.connections.http2 + server.figures.connections.undecided > 0)
    await sleep(5)
  t.equal(server.figures.active, 0)
})
