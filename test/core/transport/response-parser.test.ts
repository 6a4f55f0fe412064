// Answers in all pieces that a network can make of them: what is read, what is refused, and that llhttp reads nothing
// else.
import fc from 'fast-check'
import t from 'tap'
import { maxExtensionBytes, maxExtensionsBytes, maxTrailerBytes } from '../../../core/wire/chunks.ts'
import { maxHeadBytes, maxInterim } from '../../../core/transport/http1/response-parser.ts'
import { cutAt, cuts, parse, parseWithNode } from './answers.ts'

const bytesOf = (text: string): Buffer => Buffer.from(text, 'latin1')
const ok = 'HTTP/1.1 200 OK\r\n'
const chunkedHead = `${ok}transfer-encoding: chunked\r\n\r\n`

/** Whole answers, and what is in them. */
const accepted: Record<string, [text: string, status: number, body: string, headers?: Record<string, string[]>]> = {
  'a length': [
    `${ok}Content-Length: 5\r\nX-A: b\r\n\r\nhello`,
    200,
    'hello',
    { 'content-length': ['5'], 'x-a': ['b'] }
  ],
  'a length of nothing': [`${ok}Content-Length: 0\r\n\r\n`, 200, ''],
  chunks: [`${chunkedHead}5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n`, 200, 'hello world'],
  'chunks in capitals, with leading zeros': [
    `${ok}Transfer-Encoding: Chunked\r\n\r\n00A\r\n0123456789\r\na\r\n0123456789\r\n000\r\n\r\n`,
    200,
    '01234567890123456789'
  ],
  'chunk extensions and trailers': [
    `${chunkedHead}5;name=value;other\r\nhello\r\n0;last=1\r\nX-Check: sum\r\nX-More: 1\r\n\r\n`,
    200,
    'hello'
  ],
  'a body of line ends': [`${chunkedHead}6\r\n\r\n\r\n\r\n\r\n2\r\n0\r\r\n0\r\n\r\n`, 200, '\r\n\r\n\r\n0\r'],
  'a body up to the end': [`${ok}x: y\r\n\r\nall there\r\n is\n`, 200, 'all there\r\n is\n'],
  'HTTP/1.0': ['HTTP/1.0 200 OK\r\n\r\nold', 200, 'old'],
  'no reason phrase': ['HTTP/1.1 200 \r\ncontent-length: 1\r\n\r\nx', 200, 'x'],
  'no reason phrase and no space': ['HTTP/1.1 200\r\ncontent-length: 1\r\n\r\nx', 200, 'x'],
  'a reason phrase in latin1': ['HTTP/1.1 404 Non trouv\xe9\tici\r\ncontent-length: 0\r\n\r\n', 404, ''],
  'no content': ['HTTP/1.1 204 No Content\r\nx: y\r\n\r\n', 204, ''],
  'not modified, with the length of what it was': ['HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n', 304, ''],
  'interim answers': [
    `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 102 P\r\n\r\n${ok}content-length: 2\r\n\r\nhi`,
    200,
    'hi',
    { 'content-length': ['2'] }
  ],
  'repeated fields': [
    `${ok}set-cookie: a\r\nSet-Cookie: b\r\nSET-COOKIE: c\r\ncontent-length: 0\r\n\r\n`,
    200,
    '',
    { 'set-cookie': ['a', 'b', 'c'], 'content-length': ['0'] }
  ],
  'blanks around values': [
    `${ok}a:b\r\nc: \t d e \t\r\nf:\r\ng:   \r\ncontent-length:1\r\n\r\nx`,
    200,
    'x',
    { a: ['b'], c: ['d e'], f: [''], g: [''], 'content-length': ['1'] }
  ],
  'names that objects have': [
    `${ok}constructor: a\r\n__proto__: b\r\ntoString: c\r\ncontent-length: 0\r\n\r\n`,
    200,
    '',
    Object.fromEntries([
      ['constructor', ['a']],
      ['__proto__', ['b']],
      ['tostring', ['c']],
      ['content-length', ['0']]
    ])
  ],
  'every character that a name or value may have': [
    `${ok}!#$%&'*+-.^_\`|~09azAZ: !"(),/:;<=>?@[\\]{}\x80\xff\tx\r\ncontent-length: 0\r\n\r\n`,
    200,
    ''
  ]
}

/** Refused, whatever else a reader could make of them. */
const refused: Record<string, string> = {
  'no HTTP': 'SSH-2.0-OpenSSH_9.2\r\n',
  'HTTP/2': 'HTTP/2.0 200 OK\r\n\r\n',
  'HTTP/1.2': 'HTTP/1.2 200 OK\r\n\r\n',
  'a version of two digits': 'HTTP/1.10 200 OK\r\n\r\n',
  'another protocol word': 'http/1.1 200 OK\r\n\r\n',
  'an empty line before': `\r\n${ok}content-length: 0\r\n\r\n`,
  'two spaces': 'HTTP/1.1  200 OK\r\n\r\n',
  'a status of two digits': 'HTTP/1.1 20 OK\r\n\r\n',
  'a status of four digits': 'HTTP/1.1 2000 OK\r\n\r\n',
  'a status below 100': 'HTTP/1.1 099 OK\r\n\r\n',
  'a status in another notation': 'HTTP/1.1 1e2 OK\r\n\r\n',
  'a bare line feed after the status': 'HTTP/1.1 200 OK\ncontent-length: 0\r\n\r\n',
  'bare line feeds': 'HTTP/1.1 200 OK\ncontent-length: 0\n\n',
  'a bare line feed after a field': `${ok}a: b\ncontent-length: 0\r\n\r\n`,
  'a bare line feed as the empty line': `${ok}content-length: 0\r\n\n`,
  'a bare carriage return': `${ok}a: b\rc: d\r\ncontent-length: 0\r\n\r\n`,
  'a folded line': `${ok}a: b\r\n c\r\ncontent-length: 0\r\n\r\n`,
  'a folded line with a tab': `${ok}a: b\r\n\tc: d\r\ncontent-length: 0\r\n\r\n`,
  'a space before the colon': `${ok}content-length : 0\r\n\r\n`,
  'no name': `${ok}: b\r\n\r\n`,
  'no colon': `${ok}nothing\r\ncontent-length: 0\r\n\r\n`,
  'a name in quotes': `${ok}"a": b\r\n\r\n`,
  'a name outside of ASCII': `${ok}\xe4: b\r\n\r\n`,
  'a NUL in a value': `${ok}a: b\0c\r\n\r\n`,
  'a delete in a value': `${ok}a: b\x7f\r\n\r\n`,
  'an escape in the reason': 'HTTP/1.1 200 O\x1bK\r\n\r\n',
  'length and chunks': `${ok}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  'chunks and length': `${ok}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n`,
  'two lengths': `${ok}content-length: 5\r\ncontent-length: 6\r\n\r\nhello!`,
  'the same length twice': `${ok}content-length: 5\r\ncontent-length: 5\r\n\r\nhello`,
  'a list of lengths': `${ok}content-length: 5, 5\r\n\r\nhello`,
  'a negative length': `${ok}content-length: -1\r\n\r\n`,
  'a length with a sign': `${ok}content-length: +5\r\n\r\nhello`,
  'a length in hexadecimal': `${ok}content-length: 0x5\r\n\r\nhello`,
  'a length with words': `${ok}content-length: 5 bytes\r\n\r\nhello`,
  'an empty length': `${ok}content-length:\r\n\r\n`,
  'a length beyond counting': `${ok}content-length: 99999999999999999999\r\n\r\n`,
  'gzip as a transfer coding': `${ok}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
  'identity as a transfer coding': `${ok}transfer-encoding: identity\r\n\r\n`,
  'chunked twice': `${ok}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  'chunked with a parameter': `${ok}transfer-encoding: chunked;q=1\r\n\r\n0\r\n\r\n`,
  'a tab behind the transfer coding': `${ok}transfer-encoding: chunked\t\r\n\r\n0\r\n\r\n`,
  'an empty transfer coding': `${ok}transfer-encoding:\r\n\r\n`,
  'chunks in HTTP/1.0': 'HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
  'a switch of protocols': 'HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
  'too many interim answers': 'HTTP/1.1 102 P\r\n\r\n'.repeat(maxInterim + 1),
  'a chunk without a size': `${chunkedHead}\r\nhello\r\n`,
  'a chunk size in words': `${chunkedHead}five\r\nhello\r\n`,
  'a negative chunk size': `${chunkedHead}-5\r\nhello\r\n`,
  'a chunk size with 0x': `${chunkedHead}0x5\r\nhello\r\n`,
  'a space before a chunk size': `${chunkedHead} 5\r\nhello\r\n`,
  'a space after a chunk size': `${chunkedHead}5 \r\nhello\r\n`,
  'a chunk size beyond counting': `${chunkedHead}ffffffffffffff\r\n`,
  'a chunk size that overflows to 5': `${chunkedHead}10000000000000005\r\nhello\r\n`,
  'a chunk size of many zeros': `${chunkedHead}${'0'.repeat(20)}5\r\nhello\r\n`,
  'a bare line feed after a chunk size': `${chunkedHead}5\nhello\r\n`,
  'a bare carriage return after a chunk size': `${chunkedHead}5\rhello\r\n`,
  'a bare line feed after a chunk': `${chunkedHead}5\r\nhello\n0\r\n\r\n`,
  'a chunk that is too long': `${chunkedHead}5\r\nhello!\r\n0\r\n\r\n`,
  'an empty extension': `${chunkedHead}5;\r\nhello\r\n`,
  'an extension with two values': `${chunkedHead}5;a=b=c\r\nhello\r\n`,
  'a space in an extension': `${chunkedHead}5; a\r\nhello\r\n`,
  'a bare line feed in an extension': `${chunkedHead}5;a\nb\r\nhello\r\n`,
  'a NUL in an extension': `${chunkedHead}5;a\0\r\nhello\r\n`,
  'a quoted extension': `${chunkedHead}5;a="b"\r\nhello\r\n`,
  'a long extension': `${chunkedHead}5;${'x'.repeat(maxExtensionBytes + 1)}`,
  'many extensions': `${chunkedHead}${`1;${'x'.repeat(1000)}\r\nx\r\n`.repeat(maxExtensionsBytes / 1000 + 1)}`,
  'a bare line feed at the end': `${chunkedHead}0\r\n\n`,
  'something after the last chunk': `${chunkedHead}0\r\nx\r\n\r\n`,
  'a folded trailer': `${chunkedHead}0\r\na: b\r\n c\r\n\r\n`,
  'a trailer with a length': `${chunkedHead}0\r\nContent-Length: 5\r\n\r\n`,
  'a long trailer section': `${chunkedHead}0\r\na: ${'x'.repeat(maxTrailerBytes)}\r\n\r\n`,
  'a long head': `${ok}a: ${'x'.repeat(maxHeadBytes)}\r\n\r\n`,
  'a long line without an end': `${ok}a: ${'x'.repeat(maxHeadBytes)}`,
  'a long reason': `HTTP/1.1 200 ${'x'.repeat(maxHeadBytes)}`
}

t.test('whole answers are read the same however they are cut', (t) => {
  for (const [what, [text, status, body, headers]] of Object.entries(accepted)) {
    const whole = parse([bytesOf(text)])
    t.match(whole, { answer: { status, body }, fault: undefined, excess: 0 }, what)
    if (headers) t.strictSame(Object.entries(whole.answer!.headers), Object.entries(headers), what)
    for (const pieces of cuts(bytesOf(text))) {
      const cut = parse(pieces)
      if (JSON.stringify(cut) !== JSON.stringify(whole))
        t.strictSame(cut, whole, `${what}, cut after ${pieces[0]!.length} of ${text.length} bytes in ${pieces.length}`)
    }
  }
  t.end()
})

t.test('what could be read in two ways is refused however it is cut, as soon as it shows', (t) => {
  for (const [what, text] of Object.entries(refused)) {
    const whole = parse([bytesOf(text)])
    t.equal(whole.answer, undefined, what)
    t.type(whole.fault, 'string', `${what} is a fault, not a wait`)
    const pieces =
      text.length > 2000 ? [cutAt(bytesOf(text), [1000, 1001, 1500, text.length - 1])] : cuts(bytesOf(text))
    for (const cut of pieces) {
      const { fault, body } = parse(cut)
      if (fault === undefined || body !== whole.body)
        t.fail(`${what}, cut after ${cut[0]!.length} of ${text.length} bytes: ${fault}`)
    }
  }
  t.end()
})

t.test('an answer that stops early is not whole', (t) => {
  for (const [what, [text]] of Object.entries(accepted)) {
    const { answer } = parse([bytesOf(text)])
    if (what === 'a body up to the end' || what === 'HTTP/1.0') continue
    for (let length = 0; length < text.length; length++) {
      const early = parse([bytesOf(text.slice(0, length))])
      if (early.answer || early.fault) t.fail(`${what} after ${length} bytes: ${JSON.stringify(early)}`)
      if (!answer!.body.startsWith(early.body)) t.fail(`${what} after ${length} bytes: a body that is not there`)
    }
  }
  t.end()
})

t.test('the longest that is allowed is read', (t) => {
  const fill = (head: string, end: string, limit: number): string =>
    head + 'x'.repeat(limit - head.length - end.length) + end
  const head = fill(`${ok}content-length: 2\r\na: `, '\r\n\r\n', maxHeadBytes)
  for (const pieces of [[], [1], [maxHeadBytes - 1], [maxHeadBytes], [maxHeadBytes + 1], [100, 5000, 20_000]]) {
    t.match(
      parse(cutAt(bytesOf(`${head}hi`), pieces)),
      { answer: { status: 200, body: 'hi' } },
      `head cut at ${pieces.join()}`
    )
  }
  t.match(parse(Array.from(bytesOf(`${head}hi`), (byte) => Buffer.from([byte]))), { answer: { body: 'hi' } })
  const trailer = fill('a: ', '\r\n\r\n', maxTrailerBytes)
  for (const pieces of [[], [chunkedHead.length + 20], [chunkedHead.length + 8000]])
    t.match(parse(cutAt(bytesOf(`${chunkedHead}1\r\nx\r\n0\r\n${trailer}`), pieces)), {
      answer: { body: 'x' },
      excess: 0
    })
  t.match(parse([bytesOf(`${chunkedHead}1;${'x'.repeat(maxExtensionBytes)}\r\nx\r\n0\r\n\r\n`)]), {
    answer: { body: 'x' }
  })
  t.match(parse([bytesOf('HTTP/1.1 102 P\r\n\r\n'.repeat(maxInterim) + `${ok}content-length: 0\r\n\r\n`)]), {
    answer: { status: 200 }
  })
  t.end()
})

t.test('what follows an answer is counted and in no body', (t) => {
  for (const [text] of Object.values(accepted).filter(([text]) => /content-length|chunked/i.test(text))) {
    const whole = parse([bytesOf(text)])
    const following = `${ok}content-length: 4\r\n\r\nevil`
    for (const pieces of cuts(bytesOf(text + following))) {
      const { answer, excess } = parse(pieces)
      if (excess !== following.length || JSON.stringify(answer) !== JSON.stringify(whole.answer))
        t.fail(`${JSON.stringify(text)} cut after ${pieces[0]!.length}`)
    }
  }
  t.end()
})

const places = fc.array(fc.nat(2000), { maxLength: 12 })

t.test('any body in any chunks and any pieces comes out as it was', (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 200 }), { maxLength: 12 }),
      fc.array(fc.constantFrom('', ';a', ';b=c;d'), { minLength: 1 }),
      places,
      (chunks, extensions, at) => {
        const framed = chunks.map((chunk, i) =>
          Buffer.concat([
            bytesOf(`${chunk.length.toString(16)}${extensions[i % extensions.length]}\r\n`),
            chunk,
            bytesOf('\r\n')
          ])
        )
        const { answer, excess } = parse(
          cutAt(Buffer.concat([bytesOf(chunkedHead), ...framed, bytesOf('0\r\n\r\n')]), at)
        )
        return answer?.body === Buffer.concat(chunks).toString('latin1') && excess === 0
      }
    )
  )
  t.end()
})

/** Pieces of answers, good and bad, that random ones are put together from. */
const line = fc.constantFrom(
  'Content-Length: 5',
  'content-length: 0',
  'Content-Length: 12',
  'content-length: 5, 5',
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
  'connection: upgrade',
  'upgrade: h2c',
  'Set-Cookie: a=b',
  'set-cookie: c',
  'x: y',
  'x:',
  ': y',
  'x y',
  'x : y',
  ' x: y',
  'x: \xe4\xff',
  'x: a\tb ',
  'Trailer: x'
)
const statusLine = fc.constantFrom(
  'HTTP/1.1 200 OK',
  'HTTP/1.1 200 OK',
  'HTTP/1.1 200',
  'HTTP/1.0 200 OK',
  'HTTP/1.1 204 None',
  'HTTP/1.1 304 Same',
  'HTTP/1.1 500 \xe4',
  'HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 200 OK',
  'HTTP/1.1 103 Hints\r\nlink: x\r\n\r\nHTTP/1.1 429 No',
  'HTTP/1.1 101 X'
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
const damage = fc.option(
  fc.record({
    at: fc.nat(300),
    remove: fc.nat(2),
    insert: fc.constantFrom('', '\r', '\n', '\0', ' ', '\t', ':', ';', '0', '\r\n', '\x7f', '\xff', ',', '=', '"')
  }),
  { nil: undefined }
)
const transcript = fc
  .tuple(statusLine, fc.array(line, { maxLength: 4 }), bodyText, damage)
  .map(([status, lines, body, hurt]) => {
    const text = `${[status, ...lines].join('\r\n')}\r\n\r\n${body}`
    if (!hurt) return text
    const at = hurt.at % (text.length + 1)
    return text.slice(0, at) + hurt.insert + text.slice(at + hurt.remove)
  })

t.test('llhttp reads the same in all that is accepted', async (t) => {
  const met = { accepted: 0, refused: 0 }
  await fc.assert(
    fc.asyncProperty(transcript, places, async (text, at) => {
      const bytes = bytesOf(text)
      const ours = parse(cutAt(bytes, at))
      met[ours.answer ? 'accepted' : 'refused']++
      if (!ours.answer) return
      const theirs = await parseWithNode(bytes.subarray(0, bytes.length - ours.excess))
      if (JSON.stringify(theirs) !== JSON.stringify(ours.answer))
        throw new Error(`ours: ${JSON.stringify(ours)}\nllhttp: ${JSON.stringify(theirs)}`)
    }),
    { numRuns: 4000 }
  )
  t.ok(met.accepted > 400 && met.refused > 400, `${met.accepted} accepted, ${met.refused} refused`)
  for (const [what, [text]] of Object.entries(accepted)) {
    const theirs = await parseWithNode(bytesOf(text))
    t.equal(JSON.stringify(theirs), JSON.stringify(parse([bytesOf(text)]).answer), what)
  }
})

/** Of what is refused here, what llhttp accepts. */
const stricter = [
  'HTTP/2',
  'an empty line before',
  'a status below 100',
  'an escape in the reason',
  'gzip as a transfer coding',
  'identity as a transfer coding',
  'chunked twice',
  'chunked with a parameter',
  'a tab behind the transfer coding',
  'chunks in HTTP/1.0',
  'a chunk size of many zeros',
  'a quoted extension',
  'many extensions',
  'a long trailer section'
]

t.test('what is refused here and read by llhttp is known', async (t) => {
  const read: string[] = []
  for (const [what, text] of Object.entries(refused)) {
    // With several ends: it may only be waiting for more.
    const ends = await Promise.all(
      ['', '0\r\n\r\n', 'content-length: 0\r\n\r\n', '\r\n\r\n'].map((end) => parseWithNode(bytesOf(text + end)))
    )
    if (ends.some((answer) => answer)) read.push(what)
  }
  t.strictSame(read, stricter)
})
