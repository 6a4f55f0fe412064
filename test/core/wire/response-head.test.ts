// Heads of answers: whatever headers are asked for, what is sent has these and no others.
import fc from 'fast-check'
import t from 'tap'
import { HeaderLines, renderHead } from '../../../core/wire/response-head.ts'

const framing = 'Connection: close\r\n'

t.test('a head holds what it was given, or is not made', (t) => {
  const odd = fc.string({ unit: fc.constantFrom('a', 'B', '-', ':', ' ', '\t', '\r', '\n', '\0', 'é', '…', '\x7f') })
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.oneof(fc.constantFrom('x-a', 'Connection', 'content-length', 'Te', 'DATE'), odd), odd), {
        maxLength: 4
      }),
      (headers) => {
        let head: string
        try {
          head = renderHead(200, HeaderLines.of(...headers.flat()), 0, framing)
        } catch (error) {
          return (
            error instanceof TypeError &&
            headers.some(([name, value]) => !/^[a-zA-Z-]+$/.test(name) || /[^\t\x20-\x7e\x80-\xff]/.test(value))
          )
        }
        const [status, length, date, ...rest] = [head.split('\r\n')[0], ...head.split('\r\n').slice(-5)]
        const written = head.split('\r\n').slice(1, -5)
        const expected = headers.filter(
          ([name]) => !['connection', 'content-length', 'te', 'date'].includes(name.toLowerCase())
        )
        return (
          status === 'HTTP/1.1 200 OK' &&
          length === 'Content-Length: 0' &&
          /^Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/.test(date!) &&
          rest.join('|') === 'Connection: close||' &&
          written.join('\n') === expected.map(([name, value]) => `${name}: ${value}`).join('\n')
        )
      }
    ),
    { numRuns: 2000 }
  )
  t.end()
})

t.test('statuses that end no answer are refused', (t) => {
  for (const status of [0, 100, 199, 1000, 200.5, NaN])
    t.throws(() => renderHead(status, HeaderLines.of(), 0, framing), RangeError)
  t.match(
    renderHead(599, HeaderLines.of(), undefined, framing),
    /^HTTP\/1\.1 599 Unknown\r\nDate: [^\r]*\r\nConnection: close\r\n\r\n$/
  )
  t.end()
})

t.test('the pairs are what was added, and a copy is added to for itself', (t) => {
  const lines = HeaderLines.identified('one').add('X-A', 'b: c').add('connection', 'close').add('X-Empty', '')
  lines.copy().add('X-B', 'd')
  lines.join()
  t.same(lines.pairs(), ['x-request-id', 'one', 'request-id', 'one', 'X-A', 'b: c', 'X-Empty', ''])
  t.end()
})

t.test('what was added since may be taken out again', (t) => {
  const lines = HeaderLines.of('a', '1')
  const { length } = lines
  lines.add('b', '2').forgetFrom(length)
  t.equal(lines.text, 'a: 1\r\n')
  lines.forgetFrom(length + 100)
  t.equal(lines.add('c', '3').text, 'a: 1\r\nc: 3\r\n')
  t.end()
})
