// The framer reads streams as an independent parser does, however the bytes are cut, and loses none of them.
import { createParser } from 'eventsource-parser'
import fc from 'fast-check'
import t from 'tap'
import type { Message } from '../../../../core/contract/message.ts'
import { EventFramer, EventTooLarge, maxEventBytes } from '../../../../core/exchange/answers/sse.ts'
import { leastUsed } from '../../../kit/turns.ts'

function frame(pieces: readonly Buffer[]): { messages: Message[]; framer: EventFramer } {
  const messages: Message[] = []
  const framer = new EventFramer((message) => messages.push(message))
  for (const piece of pieces) framer.push(Buffer.from(piece))
  return { messages, framer }
}

function read(pieces: readonly Buffer[]): [string, string][] {
  return frame(pieces).messages.flatMap(({ kind, event, data }) =>
    kind === 'event' ? [[event, data.toString('utf8')] as [string, string]] : []
  )
}

function oracle(text: string): [string, string][] {
  const events: [string, string][] = []
  const parser = createParser({ onEvent: ({ event, data }) => events.push([event ?? '', data]) })
  parser.feed(new TextDecoder().decode(Buffer.from(text)))
  return events
}

const lineEnd = fc.constantFrom('\n', '\r\n', '\r')
const text = fc.string({ unit: 'grapheme', maxLength: 12 }).map((value) => value.replace(/[\r\n\0]/g, '·'))
const line = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.tuple(fc.constantFrom('data: ', 'data:', 'data:  '), text).map((parts) => parts.join(''))
  },
  fc.tuple(fc.constantFrom(': ', ':'), text).map((parts) => parts.join('')),
  fc.tuple(fc.constantFrom('event: ', 'id: ', 'retry: ', 'other: '), text).map((parts) => parts.join('')),
  fc.constantFrom('data', 'event', '')
)
const stream = fc
  .array(fc.tuple(line, lineEnd), { maxLength: 30 })
  .map((lines) => lines.map(([content, end]) => content + end).join(''))

t.test('any stream of fields, comments and line ends reads as the oracle reads it', async () => {
  fc.assert(
    fc.property(stream, (body) => {
      // A CR at the very end may be half of a CRLF; an event ended by it is ours at once and the oracle's a little
      // later.
      const whole = `${body}data: last\n\n`
      return JSON.stringify(read([Buffer.from(whole)])) === JSON.stringify(oracle(whole))
    }),
    { numRuns: 2000 }
  )
})

t.test('it does not matter where the bytes are cut', async (t) => {
  const bodies = [
    'data: {"a":"é漢😀"}\n\ndata: [DONE]\n\n',
    '\ufeffdata:x\r\n\r\n: comment\r\n\r\nevent: e\r\ndata: 1\r\ndata: 2\r\n\r\n',
    'data: a\r\rdata: b\r\r',
    'data\n\n\n\ndata: \n\nid: 7\n: x\n\nretry: 5\ndata: tail\n\n'
  ]
  for (const body of bodies) {
    const bytes = Buffer.from(body)
    const whole = read([bytes])
    for (let first = 0; first <= bytes.length; first++) {
      for (let second = first; second <= bytes.length; second++) {
        const pieces = [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)]
        if (JSON.stringify(read(pieces)) !== JSON.stringify(whole))
          t.fail(`cut at ${first} and ${second} of ${JSON.stringify(body)}`)
      }
    }
    t.strictSame(read([...bytes].map((byte) => Buffer.from([byte]))), whole, 'byte by byte')
  }
})

t.test('joined together, the messages are the stream, byte for byte, and a blank line when it lacks one', async () => {
  fc.assert(
    fc.property(stream, fc.array(fc.nat({ max: 40 }), { maxLength: 20 }), (body, sizes) => {
      const bytes = Buffer.from(body)
      const pieces: Buffer[] = []
      let at = 0
      for (const size of sizes) pieces.push(bytes.subarray(at, (at += size)))
      pieces.push(bytes.subarray(at))
      const { messages, framer } = frame(pieces)
      framer.close()
      const joined = Buffer.concat(messages.map((message) => message.bytes)).toString()
      // Line ends after the last event belong to no event yet.
      const [longer, shorter] = joined.length > body.length ? [joined, body] : [body, joined]
      return longer.startsWith(shorter) && /^[\r\n]*$/.test(longer.slice(shorter.length))
    }),
    { numRuns: 1000 }
  )
})

t.test('what stands there when the stream is closed is an event, whatever its last line ends with', async (t) => {
  for (const end of ['', '\n', '\r', '\r\n', '\n\n', '\r\r', '\r\n\r\n', '\n\r\n']) {
    const { messages, framer } = frame([Buffer.from(`data: first\n\ndata: last${end}`)])
    framer.close()
    framer.close()
    t.strictSame(
      messages.map(({ kind, data }) => [kind, data.toString()]),
      [
        ['event', 'first'],
        ['event', 'last']
      ],
      JSON.stringify(end)
    )
    t.match(messages[1]!.bytes.toString(), /^data: last(\r\n|\r|\n){2}$/)
  }
  const { messages, framer } = frame([Buffer.from(': almost')])
  framer.close()
  t.strictSame(
    messages.map(({ kind }) => kind),
    ['comment']
  )
})

t.test('an event of 12 MB in small pieces takes no quadratic time', async (t) => {
  const payload = Buffer.from(`data: "${'x'.repeat(12 * 1024 * 1024)}"\n\n`)
  const pieces: Buffer[] = []
  for (let at = 0; at < payload.length; at += 4096) pieces.push(payload.subarray(at, at + 4096))
  const ms = leastUsed(2000, () => t.equal(frame(pieces).messages[0]!.bytes.length, payload.length))
  t.ok(ms < 2000, `${ms} ms`)
})

t.test('an event beyond the limit is refused, not collected', async (t) => {
  const framer = new EventFramer(() => {})
  const piece = Buffer.alloc(1024 * 1024, 'x')
  t.throws(
    () => {
      for (let sent = 0; sent <= maxEventBytes; sent += piece.length) framer.push(piece)
    },
    new EventTooLarge(`an event is larger than ${maxEventBytes} bytes`)
  )
})
