// Messages of the binary event stream: read at every split, checked by both checksums, within bounds.
import fc from 'fast-check'
import t from 'tap'
import { EventStream } from '../../core/protocols/event-stream.ts'
import type { Frame } from '../../core/protocols/event-stream.ts'
import { BrokenStream } from '../../core/protocols/protocol.ts'
import { eventFrame, exceptionFrame, frame, framed } from '../kit/event-stream.ts'

type Read = readonly [kind: string, name: string, said: string, payload: string]

function read(...pieces: readonly Buffer[]): Read[] {
  const frames: Read[] = []
  const stream = new EventStream(({ kind, name, said, payload }: Frame) => {
    frames.push([kind, name, said, payload.toString('latin1')])
  })
  for (const piece of pieces) stream.push(piece)
  stream.close()
  return frames
}

// Written by the vendor's own library (@smithy/eventstream-codec 4.5.2).
const sample = Buffer.from(
  '0000007200000057133fa8910d3a6d6573736167652d747970650700056576656e740b3a6576656e742d74797065070011636f6e74656e74426c6f636b44656c74610d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b2270223a22616263227d459087bc',
  'hex'
)

t.test('the bytes of the vendor are read as they were written', async (t) => {
  t.strictSame(read(sample), [['event', 'contentBlockDelta', '', '{"p":"abc"}']])
  t.ok(eventFrame('contentBlockDelta', { p: 'abc' }).equals(sample), 'and written likewise by the kit')
})

const stream = Buffer.concat([
  eventFrame('messageStart', { role: 'assistant' }),
  eventFrame('contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'Wörter: 漢字' } }),
  eventFrame('contentBlockDelta', { contentBlockIndex: 0, delta: { text: '!' } }),
  exceptionFrame('throttlingException', 'Slow down'),
  frame({ ':message-type': 'error', ':error-code': '500', ':error-message': 'Lost' })
])
const whole = read(stream)

t.test('every split gives the same messages, and so does every byte by itself', async (t) => {
  t.equal(whole.length, 5)
  t.strictSame(whole.slice(3), [
    ['exception', 'throttlingException', '', '{"message":"Slow down"}'],
    ['error', '500', 'Lost', '']
  ])
  for (let at = 0; at <= stream.length; at++)
    if (JSON.stringify(read(stream.subarray(0, at), stream.subarray(at))) !== JSON.stringify(whole))
      t.fail(`cut at ${at}`)
  t.strictSame(read(...Array.from(stream, (byte) => Buffer.from([byte]))), whole)
})

t.test('no byte can be another without being noticed', async (t) => {
  let unnoticed = 0
  for (let at = 0; at < sample.length; at++) {
    const wrong = Buffer.from(sample)
    wrong[at]! ^= 1
    try {
      read(wrong)
      unnoticed++
    } catch (error) {
      if (!(error instanceof BrokenStream)) throw error
    }
  }
  t.equal(unnoticed, 0)
})

t.test('an end within a message is none, wherever it is', async (t) => {
  let clean = 0
  for (let at = 1; at < sample.length; at++) {
    try {
      read(sample, sample.subarray(0, at))
      clean++
    } catch (error) {
      if (!(error instanceof BrokenStream)) throw error
    }
  }
  t.equal(clean, 0)
})

/** A prelude that says this, with its checksum. */
function prelude(total: number, headers: number): Buffer {
  const bytes = framed(Buffer.alloc(0), Buffer.alloc(0)).subarray(0, 12)
  bytes.writeUInt32BE(total, 0)
  bytes.writeUInt32BE(headers, 4)
  return bytes
}

t.test('lengths are not believed, and headers that are cut are no headers', async (t) => {
  const { crc32 } = await import('node:zlib')
  const lying = (total: number, headers: number): Buffer => {
    const bytes = prelude(total, headers)
    bytes.writeUInt32BE(crc32(bytes.subarray(0, 8)), 8)
    return bytes
  }
  for (const [what, bytes] of [
    ['more than 16 MiB', lying(16 * 1024 * 1024 + 1, 0)],
    ['headers of more than 128 KiB', lying(1024 * 1024, 128 * 1024 + 1)],
    ['less than its own frame', lying(15, 0)],
    ['headers longer than the message', lying(100, 90)],
    ['a name that is cut', framed(Buffer.from([200, 97]), Buffer.alloc(0))],
    ['a value that is cut', framed(Buffer.from([1, 97, 7, 0, 9, 98]), Buffer.alloc(0))],
    ['a type that is not known', framed(Buffer.from([1, 97, 10]), Buffer.alloc(0))],
    ['no kind', framed(Buffer.alloc(0), Buffer.alloc(0))],
    ['a kind that is not known', frame({ ':message-type': 'rumour' })]
  ] as const)
    t.throws(() => read(bytes), { message: /^The upstream sent / }, what)
})

t.test('headers of all types are stepped over', async (t) => {
  const others = [
    Buffer.from([1, 97, 0]),
    Buffer.from([1, 98, 1]),
    Buffer.from([1, 99, 2, 1]),
    Buffer.from([1, 100, 3, 1, 2]),
    Buffer.from([1, 101, 4, 1, 2, 3, 4]),
    Buffer.from([1, 102, 5, 1, 2, 3, 4, 5, 6, 7, 8]),
    Buffer.from([1, 103, 6, 0, 2, 9, 9]),
    Buffer.from([1, 104, 8, 1, 2, 3, 4, 5, 6, 7, 8]),
    Buffer.from([1, 105, 9, ...Array.from({ length: 16 }, () => 7)])
  ]
  const own = frame({ ':message-type': 'event', ':event-type': 'x' })
  const head = own.subarray(12, -4)
  t.strictSame(read(framed(Buffer.concat([...others, head]), Buffer.from('{}'))), [['event', 'x', '', '{}']])
})

t.test('messages of any size come through any pieces', async (t) => {
  const property = fc.property(
    fc.array(fc.tuple(fc.constantFrom('a', 'contentBlockDelta'), fc.string({ maxLength: 300 })), { maxLength: 8 }),
    fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 8 }),
    (events, sizes) => {
      const bytes = Buffer.concat(events.map(([type, text]) => eventFrame(type, { text })))
      const pieces: Buffer[] = []
      for (let at = 0, n = 0; at < bytes.length; n++) {
        const size = sizes[n % sizes.length]!
        pieces.push(bytes.subarray(at, at + size))
        at += size
      }
      const said = events.map(([type, text]) => [
        'event',
        type,
        Buffer.from(JSON.stringify({ text })).toString('latin1')
      ])
      return (
        JSON.stringify(read(...pieces).map(([kind, name, , payload]) => [kind, name, payload])) === JSON.stringify(said)
      )
    }
  )
  t.doesNotThrow(() => fc.assert(property, { numRuns: 200 }))
})
