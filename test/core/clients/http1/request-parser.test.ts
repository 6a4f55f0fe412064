// Requests in all pieces that a network can make of them: what is read, what is refused, and that llhttp reads nothing
// else.
import fc from 'fast-check'
import t from 'tap'
import { maxExtensionBytes, maxTrailerBytes } from '../../../../core/wire/chunks.ts'
import { maxHeadBytes } from '../../../../core/clients/request-head.ts'
import { RequestParser } from '../../../../core/clients/http1/request-parser.ts'
import { cuts, parse, parseWithNode } from './requests.ts'
import type { Parsed, Request } from './requests.ts'

const long = process.env['SLUICE_LONG'] !== undefined
t.setTimeout(long ? 1_800_000 : 600_000)

const bytesOf = (text: string): Buffer => Buffer.from(text, 'latin1')
const parsed = (text: string): Parsed => parse([bytesOf(text)])
const host = 'Host: x\r\n'
const get = `GET / HTTP/1.1\r\n${host}\r\n`
const chunkedHead = `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`
const post = (body: string, ...fields: string[]): string =>
  `POST / HTTP/1.1\r\n${host}${fields.map((field) => `${field}\r\n`).join('')}\r\n${body}`

/** Whole requests, one or several, and the bodies in them. */
const accepted: Record<string, [text: string, ...bodies: string[]]> = {
  'no body': [get, ''],
  'a length': [post('hello', 'Content-Length: 5'), 'hello'],
  'a length of nothing': [post('', 'Content-Length: 0'), ''],
  'zeros before a length': [post('hello', 'content-length: 0005'), 'hello'],
  chunks: [`${chunkedHead}5\r\nhello\r\nA;x=y\r\n and again\r\n0\r\n\r\n`, 'hello and again'],
  'a trailer': [`${chunkedHead}5\r\nhello\r\n0\r\nX-Sum: 1\r\nB: \r\n\r\n`, 'hello'],
  'no chunks': [`${chunkedHead}0\r\n\r\n`, ''],
  'spaces around a value': [post('hello', 'Content-Length: \t 5 \t', 'A:', 'B: \t '), 'hello'],
  'cookies, and what comes twice': [
    post(
      '',
      'Cookie: a=b',
      'cookie: c=d',
      'Accept: a',
      'accept: b',
      'user-agent: first',
      'User-Agent: second',
      'X: 1',
      'x: 2',
      'x: 3'
    ),
    ''
  ],
  'credentials twice': [
    post(
      '',
      'Authorization: a',
      'authorization: b',
      'AUTHORIZATION: c',
      'x-api-key: a',
      'X-Api-Key: b',
      'x-goog-api-key: k',
      'content-type: t'
    ),
    ''
  ],
  'names of properties': [
    post('', '__proto__: a', 'constructor: b', 'toString: c', 'hasOwnProperty: d', '__PROTO__: e'),
    ''
  ],
  'bytes above ASCII': [post('', 'X: \xe4\xf6\xfc\xff'), ''],
  'HTTP/1.0': ['GET / HTTP/1.0\r\n\r\n', ''],
  'an empty line before': [`\r\n${get}`, ''],
  'an empty line before each of two': [`\r\n${get}\r\n${get}`, '', ''],
  'odd methods': [`PROPFIND /a HTTP/1.1\r\n${host}\r\nM-SEARCH /b HTTP/1.1\r\n${host}\r\n`, '', ''],
  several: [
    `${post('one', 'Content-Length: 3')}${chunkedHead}3\r\ntwo\r\n0\r\n\r\n${get}\r\n${post('four', 'Content-Length: 4')}`,
    'one',
    'two',
    '',
    'four'
  ],
  'a request in a body': [post(get, `Content-Length: ${get.length}`) + get, get, '']
}

t.test('requests are read alike in one piece and cut anywhere, and as llhttp reads them', async (t) => {
  for (const [what, [text, ...bodies]] of Object.entries(accepted)) {
    const whole = parsed(text)
    t.equal(whole.fault, undefined, what)
    t.same(
      whole.requests.map(({ body }) => body),
      bodies,
      what
    )
    t.same(comparable(whole.requests), comparable((await parseWithNode(bytesOf(text))).requests), what)
    for (const pieces of [...cuts(bytesOf(text)), Array.from(bytesOf(text), (byte) => Buffer.from([byte]))]) {
      const { requests, fault } = parse(pieces)
      if (fault || JSON.stringify(requests) !== JSON.stringify(whole.requests))
        t.fail(`${what}, cut after ${pieces[0]!.length} of ${text.length} bytes`)
    }
    for (let length = 0; length < text.length; length++) {
      const early = parsed(text.slice(0, length))
      if (early.fault) t.fail(`${what}, the first ${length} bytes: ${early.fault.message}`)
      if (early.requests.length >= bodies.length) t.fail(`${what} is whole after ${length} bytes`)
    }
  }
})

t.test('names of properties are names of headers', (t) => {
  const { headers } = parsed(accepted['names of properties']![0]).requests[0]!
  t.same(
    Object.entries(headers).filter(([, value]) => value !== undefined),
    [
      ['host', 'x'],
      ['__proto__', 'a, e'],
      ['constructor', 'b'],
      ['tostring', 'c'],
      ['hasownproperty', 'd']
    ]
  )
  t.end()
})

t.test('names of one length and first letter are told apart, however they take turns', (t) => {
  for (const name of ['accept', 'Accept', 'accepT', 'answer', 'ACCEPT', 'accept', 'answer', 'Accept']) {
    const { headers } = parsed(`GET / HTTP/1.1\r\nHost: x\r\n${name}: y\r\n\r\n`).requests[0]!
    t.same(
      Object.entries(headers).filter(([, value]) => value !== undefined),
      [
        ['host', 'x'],
        [name.toLowerCase(), 'y']
      ],
      name
    )
  }
  t.end()
})

/** Known ways to make two readers see different requests. llhttp refuses all of them too. */
const refused: Record<string, string> = {
  'a coding among the trailers': `${chunkedHead}5\r\nhello\r\n0\r\nA: b\r\ntransfer-encoding: chunked\r\n\r\n`,
  'a length among the trailers': `${chunkedHead}5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n`,
  'an extension with a space': `${chunkedHead}5; a=b\r\nhello\r\n0\r\n\r\n`,
  'chunked in two lines': post('0\r\n\r\n', 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'),
  'length and chunks': post('0\r\n\r\n', 'Content-Length: 5', 'Transfer-Encoding: chunked'),
  'chunks and length': post('0\r\n\r\n', 'Transfer-Encoding: chunked', 'Content-Length: 5'),
  'two lengths': post('hello', 'Content-Length: 5', 'Content-Length: 6'),
  'the same length twice': post('hello', 'Content-Length: 5', 'content-length: 5'),
  'a list of lengths': post('hello', 'Content-Length: 5,5'),
  'a plus': post('hello', 'Content-Length: +5'),
  'a minus': post('hello', 'Content-Length: -5'),
  hexadecimal: post('hello', 'Content-Length: 0x5'),
  'no length in its field': post('', 'Content-Length: '),
  'two numbers': post('hello', 'Content-Length: 5 0'),
  'a number beyond 2^64': post('hello', 'Content-Length: 18446744073709551621'),
  'a space before a colon': post('hello', 'Content-Length : 5'),
  'a tab before a colon': post('hello', 'Transfer-Encoding\t: chunked'),
  'a tab behind chunked': post('0\r\n\r\n', 'Transfer-Encoding: chunked\t'),
  'a folded line': post('', 'X: a\r\n b'),
  'a folded first line': `GET / HTTP/1.1\r\n ${host}\r\n`,
  'a bare line feed after a field': `GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n`,
  'a bare line feed after the request line': `GET / HTTP/1.1\n${host}\r\n`,
  'a bare line feed at the end': `GET / HTTP/1.1\r\n${host}\n`,
  'bare line feeds': 'GET / HTTP/1.1\nHost: x\n\n',
  'a bare carriage return': post('', 'X: a\rb'),
  'a carriage return for a line end': 'GET / HTTP/1.1\rHost: x\r\r',
  'NUL in a value': post('', 'X: \0'),
  'a vertical tab before chunked': post('0\r\n\r\n', 'Transfer-Encoding: \x0bchunked'),
  'DEL in a value': post('', 'X: \x7f'),
  'NUL in a name': post('', 'X\0: a'),
  'a name above ASCII': post('', 'X\xe4: a'),
  'no name': post('', ': a'),
  'no colon': post('', 'X'),
  'quotes in a name': post('', '"X": a'),
  'an unknown method': `FOO / HTTP/1.1\r\n${host}\r\n`,
  'small letters': `get / HTTP/1.1\r\n${host}\r\n`,
  'a tab for a space': `GET\t/ HTTP/1.1\r\n${host}\r\n`,
  'a space after the version': `GET / HTTP/1.1 \r\n${host}\r\n`,
  'another protocol': `GET / HTTPS/1.1\r\n${host}\r\n`,
  'small letters in the version': `GET / http/1.1\r\n${host}\r\n`,
  'version 1.2': `GET / HTTP/1.2\r\n${host}\r\n`,
  'version 1.10': `GET / HTTP/1.10\r\n${host}\r\n`,
  'version 11.1': `GET / HTTP/11.1\r\n${host}\r\n`,
  'a tab in the target': `GET /\ta HTTP/1.1\r\n${host}\r\n`,
  'chunked, identity': post('0\r\n\r\n', 'Transfer-Encoding: chunked, identity'),
  'chunks twice': post('0\r\n\r\n', 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked, gzip'),
  'a chunk size with 0x': `${chunkedHead}0x5\r\nhello\r\n0\r\n\r\n`,
  'no chunk size': `${chunkedHead}\r\nhello\r\n0\r\n\r\n`,
  'a chunk size with a space': `${chunkedHead}5 \r\nhello\r\n0\r\n\r\n`,
  'a space before a chunk size': `${chunkedHead} 5\r\nhello\r\n0\r\n\r\n`,
  'a chunk size with a sign': `${chunkedHead}+5\r\nhello\r\n0\r\n\r\n`,
  'a chunk size beyond 2^64': `${chunkedHead}10000000000000005\r\nhello\r\n0\r\n\r\n`,
  'a bare line feed after a size': `${chunkedHead}5\nhello\r\n0\r\n\r\n`,
  'a bare carriage return after a size': `${chunkedHead}5\rhello\r\n0\r\n\r\n`,
  'a bare line feed after a chunk': `${chunkedHead}5\r\nhello\n0\r\n\r\n`,
  'a chunk longer than its size': `${chunkedHead}5\r\nhelloo\r\n0\r\n\r\n`,
  'a bare line feed in an extension': `${chunkedHead}5;a\nhello\r\n0\r\n\r\n`,
  'a bare carriage return in an extension': `${chunkedHead}5;a\rb\r\nhello\r\n0\r\n\r\n`,
  'NUL in an extension': `${chunkedHead}5;\0\r\nhello\r\n0\r\n\r\n`,
  'a bare line feed in a trailer': `${chunkedHead}0\r\nA: b\n\r\n`,
  'a bare line feed at the end of chunks': `${chunkedHead}0\r\n\n`,
  'a trailer with a space before its colon': `${chunkedHead}0\r\nA : b\r\n\r\n`,
  'a folded trailer': `${chunkedHead}0\r\nA: b\r\n c\r\n\r\n`
}

/** What llhttp, or Node around it, lets through, and we do not. */
const stricter: Record<string, string> = {
  'no version': `GET /\r\n${host}\r\n`,
  'two spaces': `GET  / HTTP/1.1\r\n${host}\r\n`,
  'a length of more than 15 digits': post('', 'Content-Length: 0000000000000000'),
  'two empty lines before a request': `\r\n\r\n${get}`,
  'a line feed before a request': `\n${get}`,
  'HTTP/2.0': `GET / HTTP/2.0\r\n${host}\r\n`,
  'HTTP/0.9': `GET / HTTP/0.9\r\n${host}\r\n`,
  'a coding besides chunked': post('0\r\n\r\n', 'Transfer-Encoding: gzip, chunked'),
  'a comma before chunked': post('0\r\n\r\n', 'Transfer-Encoding: ,chunked'),
  'no host': 'GET / HTTP/1.1\r\n\r\n',
  'two hosts': `GET / HTTP/1.1\r\n${host}${host}\r\n`,
  'a host that is none': 'GET / HTTP/1.1\r\nHost: x/y\r\n\r\n',
  'an expectation': post('', 'Expect: 200-ok'),
  'a fragment': `GET /#a HTTP/1.1\r\n${host}\r\n`,
  'an asterisk': `OPTIONS * HTTP/1.1\r\n${host}\r\n`,
  'a target elsewhere': `GET http://y/ HTTP/1.1\r\n${host}\r\n`,
  '101 fields': post('', ...Array.from({ length: 100 }, () => 'A: b')),
  'an extension in quotes': `${chunkedHead}5;a="b"\r\nhello\r\n0\r\n\r\n`,
  'a long extension': `${chunkedHead}5;${'a'.repeat(maxExtensionBytes + 1)}\r\nhello\r\n0\r\n\r\n`,
  'a chunk size of 17 digits': `${chunkedHead}00000000000000005\r\nhello\r\n0\r\n\r\n`,
  'long trailers': `${chunkedHead}5\r\nhello\r\n0\r\nA: ${'a'.repeat(maxTrailerBytes)}\r\n\r\n`
}

t.test('what could be read in two ways is refused however it is cut, and nothing after it is read', async (t) => {
  for (const [what, text] of [...Object.entries(refused), ...Object.entries(stricter)]) {
    const whole = parsed(text + get)
    t.same(whole.requests, [], what)
    t.ok(whole.fault, `${what} is a fault, not a wait`)
    if (text.length > 2000) continue
    for (const pieces of [
      ...cuts(bytesOf(text + get)),
      Array.from(bytesOf(text + get), (byte) => Buffer.from([byte]))
    ]) {
      const { requests, fault } = parse(pieces)
      if (requests.length > 0 || fault?.status !== whole.fault!.status)
        t.fail(`${what}, cut after ${pieces[0]!.length} of ${text.length} bytes: ${fault?.message}`)
    }
  }
  for (const [what, text] of Object.entries(refused))
    t.same((await parseWithNode(bytesOf(text + get))).requests, [], `${what}: llhttp`)
  for (const [what, text] of Object.entries(stricter))
    t.ok((await parseWithNode(bytesOf(text + get))).requests.length > 0, `${what}: llhttp takes it`)
})

t.test('the longest head is read, and one byte more is refused', (t) => {
  const of = (length: number): string => post('', `X: ${'x'.repeat(length - post('', 'X: ').length)}`)
  t.equal(of(maxHeadBytes).length, maxHeadBytes)
  for (const at of [1, 100, 16_000, maxHeadBytes - 1, maxHeadBytes]) {
    const bytes = bytesOf(of(maxHeadBytes) + get)
    t.equal(parse([bytes.subarray(0, at), bytes.subarray(at)]).requests.length, 2)
  }
  t.equal(parsed(of(maxHeadBytes + 1)).fault!.status, 431)
  t.equal(parsed(of(maxHeadBytes + 100).slice(0, maxHeadBytes + 1)).fault!.status, 431, 'also before its end has come')
  t.end()
})

/** Pieces of requests, good and bad, that random ones are put together from. */
const field = fc.constantFrom(
  'Content-Length: 5',
  'content-length: 0',
  'Content-Length: 12',
  'Content-Length: 5, 5',
  'content-length:5',
  'Content-Length: 05',
  'content-length: ',
  'Transfer-Encoding: chunked',
  'transfer-encoding: CHUNKED',
  'transfer-encoding: gzip',
  'Transfer-Encoding: chunked, chunked',
  'transfer-encoding:\tchunked ',
  'Transfer-Encoding: chunked\r\n , identity',
  'Connection: close',
  'Connection: keep-alive',
  'Cookie: a=b',
  'cookie: c',
  'Accept: a',
  'accept: b',
  'x: y',
  'x:',
  ': y',
  'x y',
  'x : y',
  ' x: y',
  'x: \xe4\xff',
  'x: a\tb ',
  'Trailer: x',
  'Authorization: a',
  'authorization: b',
  'X-Api-Key: k',
  'Content-Type: a/b',
  'Host: x',
  'Expect: 100-continue',
  '__proto__: x',
  'Set-Cookie: a',
  'Proxy-Connection: x',
  'Keep-Alive: 5'
)
const requestLine = fc.constantFrom(
  'GET / HTTP/1.1',
  'POST /a?b=c HTTP/1.1',
  'POST / HTTP/1.1',
  'POST / HTTP/1.0',
  'GET http://x/a HTTP/1.1',
  'DELETE /%00 HTTP/1.1',
  'HEAD / HTTP/1.1',
  'M-SEARCH / HTTP/1.1',
  'GET / HTTP/1.2',
  'get / HTTP/1.1',
  'PUT /|{}^ HTTP/1.1'
)
const bodyText = fc.oneof(
  fc.constantFrom(
    'hello',
    '',
    'hello world!',
    '0\r\n\r\n',
    '5\r\nhello\r\n0\r\n\r\n',
    '5;x=y\r\nhello\r\n000\r\nTrail: er\r\n\r\n',
    '5 \r\nhello\r\n0\r\n\r\n',
    '5\r\nhello\r\nC\r\nhello world!\r\n0\r\n\r\n',
    '5;\r\nhello\r\n0\r\n\r\n',
    '5;a;b\r\nhello\r\n0;"\r\n\r\n',
    '5\r\nhello\r\n0\r\ncontent-length: 5\r\n\r\n'
  ),
  fc
    .array(fc.constantFrom('5', '0', '\r\n', ';a', 'hello', '\n', '\r', ' ', 'x: y', 'a'), { maxLength: 14 })
    .map((parts) => parts.join(''))
)
const request = fc
  .tuple(requestLine, fc.array(field, { maxLength: 5 }), bodyText)
  .map(([line, fields, body]) => `${line}\r\n${host}${fields.map((one) => `${one}\r\n`).join('')}\r\n${body}`)
const damage = fc.record({
  at: fc.nat(400),
  remove: fc.nat(2),
  insert: fc.constantFrom(
    '',
    '\r',
    '\n',
    '\0',
    ' ',
    '\t',
    ':',
    ';',
    '0',
    '\r\n',
    '\x7f',
    '\xff',
    ',',
    '=',
    '"',
    '\r\n\r\n',
    'GET / HTTP/1.1\r\n'
  )
})
const stream = fc
  .tuple(
    fc.array(
      fc.oneof(
        { arbitrary: request, weight: 1 },
        {
          arbitrary: fc.constantFrom(
            ...Object.values(accepted).map(([text]) => text),
            ...Object.values(refused).slice(0, 10)
          ),
          weight: 1
        }
      ),
      { minLength: 1, maxLength: 3 }
    ),
    fc.array(damage, { maxLength: 2 })
  )
  .map(([texts, changes]) => {
    let text = texts.join('')
    for (const { at, remove, insert } of changes)
      text = text.slice(0, at % (text.length + 1)) + insert + text.slice((at % (text.length + 1)) + remove)
    return text
  })

t.test(
  'whatever is accepted is read by llhttp alike, with the same next request behind it, in any pieces',
  async (t) => {
    let taken = 0
    const runs = long ? 200_000 : 2000
    await fc.assert(
      fc.asyncProperty(
        fc.oneof({ arbitrary: stream, weight: 9 }, { arbitrary: fc.string({ unit: 'binary-ascii' }), weight: 1 }),
        fc.array(fc.nat(2000), { maxLength: 6 }),
        async (text, at) => {
          const bytes = bytesOf(text)
          const ours = parse([bytes])
          taken += ours.requests.length
          const theirs = await parseWithNode(bytes)
          const read = comparable(theirs.requests).slice(0, ours.requests.length)
          const places = [...new Set(at.map((place) => place % (bytes.length + 1)))].toSorted((a, b) => a - b)
          const pieces = [0, ...places].map((from, i) => bytes.subarray(from, places[i] ?? bytes.length))
          const again = parse(pieces)
          return (
            JSON.stringify(comparable(ours.requests)) === JSON.stringify(read) &&
            JSON.stringify(again) === JSON.stringify(ours)
          )
        }
      ),
      { numRuns: runs }
    )
    t.ok(taken > runs / 4, `${taken} requests were accepted`)
  }
)

/** One of few, so that most are like the one before but for their length. */
const similar = fc
  .tuple(
    fc.constantFrom('/', '/v1'),
    fc.constantFrom('Content-Length:', 'content-length: ', 'X: Content-Length:'),
    fc.constantFrom('', '0', '5', '7', '12', '0005', '5 ', '5a', '-5', '1234567890123456'),
    fc.constantFrom(
      '',
      'Accept: a\r\n',
      'Host: y\r\n',
      'Content-Length: 5\r\n',
      'Content-Type: a\r\nContent-Type: b\r\n',
      'Transfer-Encoding: chunked\r\n'
    )
  )
  .map(
    ([target, name, length, more]) =>
      `POST ${target} HTTP/1.1\r\n${host}${length === '' ? '' : `${name}${length}\r\n`}${more}\r\n`
  )

t.test('a head is read alike whatever heads came before it on its connection', (t) => {
  let known = 0
  fc.assert(
    fc.property(
      fc.array(fc.tuple(similar, fc.nat(3)), { minLength: 1, maxLength: 6 }),
      fc.nat(200),
      (heads, missing) => {
        const parser = new RequestParser()
        const seen = new Set<string>()
        for (const [text, times] of heads) {
          for (let i = 0; i <= times; i++) {
            const bytes = bytesOf(`!${text}hello`)
            const alone = new RequestParser()
            const [end, expected] = [parser.readHead(bytes, 1), alone.readHead(bytes, 1)]
            if (end !== expected || JSON.stringify(parser.head) !== JSON.stringify(alone.head)) return false
            if (parser.fault?.message !== alone.fault?.message || parser.ended !== alone.ended) return false
            if (parser.fault) return true
            const whole = seen.has(text)
            seen.add(text)
            if (whole) known++
            // Whoever has a head may change it.
            const { headers } = parser.head!
            headers['host'] = 'changed'
            if (Array.isArray(headers['content-type'])) headers['content-type'].push('changed')
          }
        }
        // An incomplete one is waited for.
        const [last] = heads.at(-1)!
        const bytes = bytesOf(last.slice(0, Math.max(0, last.length - 1 - missing)))
        return parser.readHead(bytes, 0) === bytes.length && parser.head === undefined && !parser.fault
      }
    ),
    { numRuns: long ? 100_000 : 5000 }
  )
  t.ok(known > 1000, `${known} heads were like one before`)
  t.end()
})

/**
 * With what this server does on purpose undone: the target in origin-form. And what Node cannot help: a list, and a
 * name that it loses.
 */
function comparable(requests: readonly Request[]): Request[] {
  return requests.map(({ method, target, headers, body }) => ({
    method,
    target: target.replace(/^https?:\/\/[^/?]*\/?/i, '/'),
    headers: Object.fromEntries(
      Object.entries(headers)
        .filter(([name, value]) => name !== '__proto__' && value !== undefined)
        .toSorted()
        .map(([name, value]) => [name, name === 'set-cookie' ? [value].flat() : value])
    ) as Request['headers'],
    body
  }))
}
